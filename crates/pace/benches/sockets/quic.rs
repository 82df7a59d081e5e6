//! Quinn as a sender at a rate, with its own pacer and over this crate's socket.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, TransportConfig,
};
use quinn_proto::RttEstimator;
use tidegate_pace::udp::Settings;
use tidegate_pace::{Rate, quinn::Socket};

/// The certificate of the servers and its key.
static IDENTITY: std::sync::LazyLock<(CertificateDer<'static>, Vec<u8>)> = std::sync::LazyLock::new(|| {
    let _ = quinn::rustls::crypto::ring::default_provider().install_default();
    let signed = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a name");
    (signed.cert.der().clone(), signed.signing_key.serialize_der())
});

/// Starts a server that reads and discards, in a thread that ends with the process.
pub fn serve() -> SocketAddr {
    let (said, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        crate::runtime().expect("a runtime").block_on(async {
            let (certificate, key) = &*IDENTITY;
            let key = PrivatePkcs8KeyDer::from(key.clone()).into();
            let mut config =
                ServerConfig::with_single_cert(vec![certificate.clone()], key).expect("its own certificate");
            // By default a stream is granted 1.25 MB, with which 400 Mbit/s become 310 on this line.
            if std::env::var_os("DEFAULT_WINDOW").is_none() {
                let mut transport = TransportConfig::default();
                transport.stream_receive_window((16_u32 << 20).into());
                config.transport_config(Arc::new(transport));
            }
            let server = Endpoint::server(config, ([127, 0, 0, 1], 0).into()).expect("loopback");
            said.send(server.local_addr().expect("it is bound")).expect("somebody asks");
            let Ok(connection) = server.accept().await.expect("it stays open").await else { return };
            while let Ok(mut stream) = connection.accept_uni().await {
                while let Ok(Some(_)) = stream.read_chunk(1 << 16, false).await {}
            }
        });
    });
    address.recv().expect("the server starts")
}

/// Sends to `to` for `span`: over a paced socket with these settings, or by quinn's pacer and a window of `rate`.
pub async fn send(to: SocketAddr, rate: Rate, span: Duration, paced: Option<Settings>) -> io::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(IDENTITY.0.clone()).map_err(io::Error::other)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    // The last datagrams wait for the end of the line.
    transport.send_window(64 << 20);
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    // Above a paced socket the window is twice as large, so that it is the socket that limits the rate.
    let window = if paced.is_some() { Rate::from_bps(2 * rate.as_bps()) } else { rate };
    transport.congestion_controller_factory(Arc::new(Window { rate: window, window: 0 }));
    let socket: Arc<dyn AsyncUdpSocket> = match paced {
        Some(settings) => Arc::new(Socket::bind(local, settings)?),
        None => TokioRuntime.wrap_udp_socket(std::net::UdpSocket::bind(local)?)?,
    };
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    let connecting = endpoint.connect_with(config, to, "localhost").map_err(io::Error::other)?;
    let connection = connecting.await.map_err(io::Error::other)?;
    let mut stream = connection.open_uni().await.map_err(io::Error::other)?;
    let (start, data) = (Instant::now(), vec![7; 1 << 16]);
    while start.elapsed() < span {
        stream.write_all(&data).await.map_err(io::Error::other)?;
    }
    connection.close(0_u8.into(), b"");
    Ok(())
}

/// A window of the rate times the round trip, whatever is lost: quinn's pacer spaces it by 5/4 of the rate.
#[derive(Clone)]
struct Window {
    rate: Rate,
    window: u64,
}

impl Window {
    fn of(&self, round_trip: Duration) -> u64 {
        let bytes = self.rate.as_bps() as f64 / 8.0 * round_trip.as_secs_f64();
        (bytes as u64).max(2 * 1452)
    }
}

impl ControllerFactory for Window {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        let window = self.of(Duration::from_millis(20));
        Box::new(Self { window, ..*self })
    }
}

impl Controller for Window {
    fn on_ack(&mut self, _now: Instant, _sent: Instant, _bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        self.window = self.of(rtt.get());
    }
    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, _persistent: bool, _lost: u64) {}
    fn on_mtu_update(&mut self, _mtu: u16) {}
    fn window(&self) -> u64 {
        self.window
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        self.window
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
