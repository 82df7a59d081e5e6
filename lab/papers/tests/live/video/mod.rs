//! A video over QUIC that follows the rate which its class advises, and the same without advice, each beside a download, a call and a
//! game in a class of 5 Mbit/s: the live form of `lab/papers/scenarios/advised-video.toml`, with quinn in place of a model.
//!
//! `TIDEGATE_TESTS=nightly cargo test -p tidegate-papers --test live -- video::` prints the rows of the book.

mod asking;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::rustls::{self, RootCertStore};
use quinn::{AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};
use tidegate_config::shaper::{Config, Direction};
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_sim::Video;
use tidegate_sim::applications::{Playback, Player};
use tidegate_testbed::sink::Sink;
use tidegate_testbed::traffic::{FlowSpec, Senders};
use tidegate_testbed::{Chain, Ended};
use tidegate_units::{Bytes, Rate, Span};

use self::asking::Asking;
use crate::load::Load;

/// How long each video lasts.
const TIME: Duration = Duration::from_secs(90);
const PATIENCE: Duration = Duration::from_secs(20);
const PORT: u16 = 443;

/// The results of one run.
#[derive(Debug)]
struct Row {
    video: Playback,
    lost_percent: f64,
    download: f64,
    /// The one-way delay of the call and of the game that 99 % have at most, in ms.
    delays: [f64; 2],
    advised: u64,
}

fn config(class: &str, rule: &str) -> Config {
    let file = format!(
        "version = 1\n[[class]]\nname = \"home\"\nrate = \"5mbit\"\nborrow = false\ndefault = true\n{class}\n{rule}"
    );
    let (source, mut diagnostics) = (Source::new("video.toml", file), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// The ladder and the buffer of the scenario: 60 s, and the thresholds in the published proportion.
fn video() -> Video {
    Video {
        ladder: [300, 750, 1_200, 1_750, 2_350, 3_000, 4_300].map(Rate::from_kbit).to_vec(),
        buffer: Span::from_secs(60),
        reservoir: Span::from_millis(22_500),
        cushion: Span::from_millis(31_500),
        ..Video::default()
    }
}

/// An endpoint of quinn above a socket of the calling thread's namespace.
fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> io::Result<(Endpoint, Arc<Asking>)> {
    let socket = Arc::new(Asking::new(TokioRuntime.wrap_udp_socket(UdpSocket::bind(address)?)?));
    let below = Arc::clone(&socket) as Arc<dyn AsyncUdpSocket>;
    let endpoint =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, below, Arc::new(TokioRuntime))?;
    Ok((endpoint, socket))
}

/// Configurations that trust each other.
fn configurations() -> (ServerConfig, ClientConfig) {
    let signed = rcgen::generate_simple_self_signed(["video.example".to_string()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let certificate = signed.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("its own root");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ServerConfig::with_single_cert(vec![certificate], key.into()).expect("a key");
    (server, ClientConfig::with_root_certificates(Arc::new(roots)).expect("a root"))
}

/// Answers each request, a number of bytes, with so many. Returns the packets that were lost, in per cent.
async fn serve(server: Endpoint) -> f64 {
    let connection = server.accept().await.expect("a client").await.expect("a connection");
    while let Ok((mut answer, mut request)) = connection.accept_bi().await {
        let size = request.read_to_end(8).await.expect("a request");
        let size = u64::from_be_bytes(size.try_into().expect("eight bytes"));
        // The client may end in the middle of a segment.
        let _ = answer.write_all(&vec![7; size as usize]).await;
        let _ = answer.finish();
    }
    let path = connection.stats().path;
    100.0 * path.lost_packets as f64 / path.sent_packets.max(1) as f64
}

/// Watches a video of [`TIME`].
async fn watch(connection: &Connection, socket: &Asking) -> Playback {
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as u64;
    let mut player = Player::new(&video(), 0, 0);
    let watched = async {
        loop {
            for rate in socket.told() {
                player.told(now(), rate);
            }
            let size = player.request(now());
            let (mut request, mut answer) = connection.open_bi().await.expect("a stream");
            request.write_all(&size.to_be_bytes()).await.expect("a request");
            request.finish().expect("its end");
            let mut left = size;
            while left > 0 {
                let piece = answer.read_chunk(1 << 16, true).await.expect("a piece").expect("the whole segment");
                left -= piece.bytes.len() as u64;
            }
            tokio::time::sleep(Duration::from_nanos(player.take(now()))).await;
        }
    };
    let _: Result<(), _> = tokio::time::timeout(TIME, watched).await;
    player.result(now())
}

fn run(class: &str, rule: &str) -> Row {
    let chain = Chain::create_delayed(Duration::from_millis(15)).expect("three hosts and a line");
    let options = Options { interfaces: vec!["tgr1".into()], ..Options::default() };
    let config = config(class, rule);
    let shaping = chain.router.namespace.run(|| Shaping::start(&config, &options)).expect("a thread");
    let shaping = shaping.unwrap_or_else(|error| panic!("{error}"));
    let load = Load::start(&chain, Direction::Egress, "cubic", [1, 0]);
    let others = [
        FlowSpec::udp("call", 5_060, 0, Rate::from_kbit(64), Bytes::new(160)),
        FlowSpec::udp("game", 27_015, 0, Rate::from_kbit(60), Bytes::new(120)),
    ];
    let sink = Sink::start(&chain.client, &others).expect("a sink");
    let senders = Senders::start(&chain.server, &chain.client, &others).expect("senders");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let (server_config, client_config) = configurations();
    let at = |host: &tidegate_testbed::Host, port, server| {
        let made = host.namespace.run(|| {
            let _in_runtime = runtime.enter();
            endpoint((host.v4, port).into(), server).expect("an endpoint")
        });
        made.expect("a thread")
    };
    let (server, _) = at(&chain.server, PORT, Some(server_config));
    let (mut client, socket) = at(&chain.client, 0, None);
    client.set_default_client_config(client_config);
    let serving = runtime.spawn(serve(server));
    let to = SocketAddr::from((chain.server.v4, PORT));
    let video = runtime.block_on(async {
        let connecting = client.connect(to, "video.example").expect("an address");
        let connection = tokio::time::timeout(PATIENCE, connecting).await.expect("an answer").expect("a connection");
        sink.restart();
        let video = watch(&connection, &socket).await;
        connection.close(0_u8.into(), b"");
        video
    });
    let delays = [0, 1].map(|n| sink.report(n).delays.value_at_quantile(0.99) as f64 / 1e6);
    let download = load.rate_so_far();
    let lost_percent =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, serving).await.expect("an end").expect("no panic") });
    let advised = shaping.status().expect("it runs")[0].counts.advised;
    senders.stop();
    sink.stop();
    drop((load, client));
    runtime.shutdown_timeout(PATIENCE);
    shaping.stop().expect("an orderly end");
    Row { video, lost_percent, download, delays, advised }
}

/// Runs variants, each with the keys of its class and its rules, and prints a line for each.
fn rows<const N: usize>(variants: [(&str, &str, &str); N]) -> [Row; N] {
    variants.map(|(name, class, rule)| {
        let row = run(class, rule);
        let Row { video, lost_percent, download, delays: [call, game], advised } = &row;
        println!(
            "  {name}: {} stalls, {:.1} s of {:.1}; {} changes; {:.2} Mbit/s; {lost_percent:.2} % lost; download \
             {download:.2} Mbit/s; call {call:.1} ms, game {game:.1} ms; {advised} told",
            video.stalls,
            video.stalled_ns as f64 / 1e9,
            (video.stalled_ns + video.played_ns) as f64 / 1e9,
            video.switches,
            video.mean_rate() / 1e6,
        );
        row
    })
}

const MINIMUM: &str = "[[rule]]\nclass = \"home\"\nsource-port = 443\nminimum = \"2600kbit\"\n";

/// The quality of a video that is told its promise is higher and does not swing. A first segment that is requested at the promised rate
/// may leave less than a segment in the buffer once, which the player answers with one of the lowest rate.
pub fn a_video_that_follows_its_promise_keeps_its_quality() -> Ended {
    let [without, promised] = rows([("no advice", "", MINIMUM), ("promise", "advice = \"promise\"", MINIMUM)]);
    assert_eq!(without.advised, 0);
    assert!(promised.advised > 0 && promised.video.stalls == 0 && promised.video.switches <= 2, "{promised:?}");
    assert!(promised.video.mean_rate() > without.video.mean_rate(), "{without:?}, {promised:?}");
    // Each flow has its queue: whether the video is told anything makes no difference to the others.
    let waits = |row: &Row| row.delays.into_iter().fold(0.0, f64::max);
    assert!(waits(&promised) < 2.0 * waits(&without).max(20.0), "{without:?}, {promised:?}");
    Ended::Passed
}

/// A ceiling is more than a share of a class that others use: a video that follows it stalls.
pub fn a_video_that_follows_a_ceiling_stalls_and_one_of_its_share_does_not() -> Ended {
    let [share, ceiling] =
        rows([("fair share", "advice = \"fair-share\"", ""), ("ceiling", "advice = \"ceiling\"", "")]);
    assert!(share.advised > 0 && ceiling.advised > 0, "{share:?}, {ceiling:?}");
    assert!(ceiling.video.stalled_ns > 2 * share.video.stalled_ns.max(1_000_000_000), "{share:?}, {ceiling:?}");
    Ended::Passed
}
