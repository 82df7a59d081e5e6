//! The paced sockets on loopback. No lower bound on speed is asserted: that they never send too early holds on any
//! machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_pace::tokio::UdpSocket;
use tidegate_pace::udp::{self, Attempt, Backend, Paced, Settings};
use tidegate_pace::{Bytes, Rate, Span};
use tokio::time::timeout;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// 1000 bytes in a millisecond.
const MEGABYTE: Rate = Rate::from_mbit(8);

fn receiver() -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Asserts that `bytes` at `rate`, the last `size` of them free, have taken at least their time.
fn not_too_early(start: Instant, rate: Rate, bytes: u64, size: u64) {
    let least = rate.time_for_ceil(Bytes::new(bytes - size)).unwrap();
    assert!(start.elapsed().as_nanos() >= u128::from(least.as_nanos()), "{:?} instead of {least}", start.elapsed());
}

#[tokio::test]
async fn tasks_take_turns_on_one_socket() {
    let (receiver, address) = receiver();
    let start = Instant::now();
    let socket = Arc::new(UdpSocket::connect(address, MEGABYTE).unwrap());
    let tasks: Vec<_> = (0..3_u8)
        .map(|task| {
            let socket = Arc::clone(&socket);
            tokio::spawn(async move {
                for _ in 0..10 {
                    assert_eq!(socket.send(&[task; 1000]).await.unwrap(), 1000);
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(PATIENCE, task).await.unwrap().unwrap();
    }
    not_too_early(start, MEGABYTE, 30_000, 1000);
    let mut buffer = [0; 2000];
    let order: Vec<u8> = (0..30).map(|_| receiver.recv(&mut buffer).map(|_| buffer[0]).unwrap()).collect();
    // From the second round on each task has asked before it waits.
    let turns: Vec<&[u8]> = order[3..27].chunks(3).collect();
    assert!(turns.iter().all(|turn| *turn == turns[0]), "{order:?}");
    assert_eq!(socket.status().packets, 30);
}

#[tokio::test]
async fn a_cancelled_send_has_sent_and_charged_nothing() {
    let (receiver, address) = receiver();
    // 1000 bytes in 200 ms.
    let rate = Rate::from_kbit(40);
    let start = Instant::now();
    let socket = UdpSocket::connect(address, rate).unwrap();
    socket.send(&[0; 1000]).await.unwrap();
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(5), socket.send(&[1; 1000])).await.is_err());
    }
    assert_eq!((socket.status().packets, socket.status().bytes.as_u64()), (1, 1000));
    timeout(PATIENCE, socket.send(&[2; 1000])).await.unwrap().unwrap();
    not_too_early(start, rate, 2000, 1000);
    let mut buffer = [0; 2000];
    let received = [(); 2].map(|()| receiver.recv(&mut buffer).map(|_| buffer[0]).unwrap());
    assert_eq!(received, [0, 2]);
    assert_eq!(socket.status().packets, 2);
}

#[tokio::test]
async fn a_change_wakes_the_task_that_waits() {
    let (_receiver, address) = receiver();
    // 1000 bytes in 800 s, longer than the patience.
    let socket = Arc::new(UdpSocket::connect(address, Rate::from_bps(10)).unwrap());
    socket.send(&[0; 1000]).await.unwrap();
    let sender = Arc::clone(&socket);
    let waiting = tokio::spawn(async move { sender.send(&[1; 1000]).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    socket.set_rate(MEGABYTE).unwrap();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();

    socket.pause();
    assert_eq!(socket.get_ref().try_send(&[2; 1000]).unwrap(), Attempt::Paused);
    let sender = Arc::clone(&socket);
    let waiting = tokio::spawn(async move { sender.send(&[3; 1000]).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    socket.resume();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(socket.set_rate(Rate::ZERO).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn many_sockets_keep_their_own_rates() {
    let (receiver, address) = receiver();
    let sent: Vec<_> = (0..40_u64)
        .map(|index| {
            tokio::spawn(async move {
                // From 1 to 40 ms between datagrams, with and without the right to spin.
                let rate = Rate::from_bps(8_000_000 / (index + 1));
                let mut settings = Settings::new(rate);
                if index % 8 == 0 {
                    settings.params.spin = tidegate_pace::SpinBudget::DEFAULT;
                }
                let start = Instant::now();
                let socket = UdpSocket::connect(address, settings).unwrap();
                for _ in 0..6 {
                    socket.send(&[7; 1000]).await.unwrap();
                }
                not_too_early(start, rate, 6000, 1000);
            })
        })
        .collect();
    for task in sent {
        timeout(PATIENCE, task).await.unwrap().unwrap();
    }
    assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1000);
}

#[tokio::test]
async fn destinations_share_the_rate_of_an_unconnected_socket() {
    let ((first, one), (second, other)) = (receiver(), receiver());
    let start = Instant::now();
    let socket = UdpSocket::bind("127.0.0.1:0", MEGABYTE).unwrap();
    assert_eq!(socket.backend(), Backend::Timers);
    for index in 0..20 {
        socket.send_to(&[index; 1000], if index % 2 == 0 { one } else { other }).await.unwrap();
    }
    not_too_early(start, MEGABYTE, 20_000, 1000);
    let mut buffer = [0; 2000];
    for (index, socket) in [&first, &second].into_iter().cycle().take(20).enumerate() {
        assert_eq!((socket.recv(&mut buffer).unwrap(), usize::from(buffer[0])), (1000, index));
    }
    first.send_to(b"answer", socket.get_ref().get_ref().local_addr().unwrap()).unwrap();
    let (length, from) = timeout(PATIENCE, socket.recv_from(&mut buffer)).await.unwrap().unwrap();
    assert_eq!((&buffer[..length], from), (&b"answer"[..], one));
}

#[tokio::test]
async fn batches_have_time_between_them() {
    let (receiver, address) = receiver();
    // 2500 bytes in 500 us: two datagrams of 1000 bytes.
    let rate = Rate::from_mbit(40);
    let settings = Settings { burst: Span::from_micros(500), ..Settings::new(rate) };
    let start = Instant::now();
    let socket = UdpSocket::connect(address, settings).unwrap();
    assert_eq!(timeout(PATIENCE, socket.send_segments(&[1; 50_000], 1000)).await.unwrap().unwrap(), 50_000);
    not_too_early(start, rate, 50_000, 2000);
    for _ in 0..50 {
        assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1000);
    }
}

#[test]
fn a_thread_that_waits_is_woken_by_a_change() {
    let (_receiver, address) = receiver();
    let socket = Arc::new(udp::UdpSocket::connect(address, Rate::from_bps(10)).unwrap());
    socket.send(&[0; 1000]).unwrap();
    assert!(matches!(socket.try_send(&[1; 1000]).unwrap(), Attempt::NotBefore(_)));
    let (done, ended) = std::sync::mpsc::channel();
    let sender = Arc::clone(&socket);
    let thread = std::thread::spawn(move || {
        sender.send(&[1; 1000]).unwrap();
        done.send(()).unwrap();
    });
    assert!(ended.recv_timeout(Duration::from_millis(20)).is_err());
    socket.set_rate(MEGABYTE).unwrap();
    ended.recv_timeout(PATIENCE).expect("the new rate lets it be sent");
    thread.join().unwrap();
}

mod quinn {
    use super::*;
    use ::quinn::rustls::pki_types::PrivatePkcs8KeyDer;
    use ::quinn::rustls::{self, RootCertStore};
    use ::quinn::{AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
    use tidegate_pace::quinn::Socket;
    use tidegate_pace::udp::Choice;

    /// A server that reads streams to their ends and answers with their lengths, and the configuration of its clients.
    fn server() -> (Endpoint, ClientConfig) {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let certificate = signed.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let _ = provider.as_ref().clone().install_default();
        let config = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
        let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        (server, ClientConfig::with_root_certificates(Arc::new(roots)).unwrap())
    }

    async fn serve(server: Endpoint, connections: usize) {
        for _ in 0..connections {
            let connection = server.accept().await.unwrap().await.unwrap();
            tokio::spawn(async move {
                while let Ok((mut answer, mut stream)) = connection.accept_bi().await {
                    let length = stream.read_to_end(1 << 24).await.unwrap().len() as u64;
                    answer.write_all(&length.to_be_bytes()).await.unwrap();
                    answer.finish().unwrap();
                }
            });
        }
        server.wait_idle().await;
    }

    async fn transfer(connection: &::quinn::Connection, length: usize) {
        let (mut stream, mut answer) = connection.open_bi().await.unwrap();
        stream.write_all(&vec![5; length]).await.unwrap();
        stream.finish().unwrap();
        assert_eq!(answer.read_to_end(8).await.unwrap(), (length as u64).to_be_bytes());
    }

    #[tokio::test]
    async fn connections_of_an_endpoint_share_its_rate() {
        let (server, config) = server();
        let address = server.local_addr().unwrap();
        let serving = tokio::spawn(serve(server, 2));
        let rate = Rate::from_mbit(16);
        let start = Instant::now();
        let socket = Arc::new(Socket::bind("127.0.0.1:0", rate).unwrap());
        let mut endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            Arc::clone(&socket) as Arc<dyn AsyncUdpSocket>,
            Arc::new(TokioRuntime),
        )
        .unwrap();
        endpoint.set_default_client_config(config);
        let first = timeout(PATIENCE, endpoint.connect(address, "localhost").unwrap()).await.unwrap().unwrap();
        let second = timeout(PATIENCE, endpoint.connect(address, "localhost").unwrap()).await.unwrap().unwrap();
        let both = async { tokio::join!(transfer(&first, 200_000), transfer(&second, 200_000)) };
        timeout(PATIENCE, both).await.unwrap();
        let sent = socket.status().bytes.as_u64();
        assert!(sent >= 400_000, "{sent}");
        not_too_early(start, rate, sent, 1500);
        // At 64 kbit/s this takes longer than the patience. A change while it is under way lets it end.
        socket.set_rate(Rate::from_kbit(64)).unwrap();
        let slow = async {
            tokio::join!(transfer(&first, 1_000_000), async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                socket.set_rate(Rate::from_mbit(4000)).unwrap();
            })
        };
        timeout(PATIENCE, slow).await.unwrap();
        first.close(0_u8.into(), b"");
        second.close(0_u8.into(), b"");
        timeout(PATIENCE, endpoint.wait_idle()).await.unwrap();
        timeout(PATIENCE, serving).await.unwrap().unwrap();
    }

    /// Sends as a connection's driver does: wait, try, and wait again where it would block.
    async fn drive(socket: Arc<Socket>, to: SocketAddr, times: usize) {
        let mut poller = Arc::clone(&socket).create_io_poller();
        let contents = [9; 1000];
        let transmit = ::quinn::udp::Transmit {
            destination: to,
            ecn: None,
            contents: &contents,
            segment_size: None,
            src_ip: None,
        };
        let mut sent = 0;
        while sent < times {
            std::future::poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.unwrap();
            match socket.try_send(&transmit) {
                Ok(()) => sent += 1,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }

    #[tokio::test]
    async fn drivers_of_connections_wait_for_the_schedule_and_its_changes() {
        let (receiver, address) = receiver();
        let start = Instant::now();
        let socket = Arc::new(Socket::bind("127.0.0.1:0", MEGABYTE).unwrap());
        let drivers = [(); 3].map(|()| tokio::spawn(drive(Arc::clone(&socket), address, 10)));
        for driver in drivers {
            timeout(PATIENCE, driver).await.unwrap().unwrap();
        }
        not_too_early(start, MEGABYTE, 30_000, 1000);
        for _ in 0..30 {
            assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1000);
        }
        // 800 s for the next, and for nobody in a pause.
        socket.set_rate(Rate::from_bps(10)).unwrap();
        let mut waiting = tokio::spawn(drive(Arc::clone(&socket), address, 2));
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err());
        socket.pause();
        socket.set_rate(MEGABYTE).unwrap();
        assert!(timeout(Duration::from_millis(70), &mut waiting).await.is_err());
        socket.resume();
        timeout(PATIENCE, waiting).await.unwrap().unwrap();
        assert_eq!(socket.status().packets, 32);
    }

    #[tokio::test]
    async fn batches_are_bounded_and_back_ends_told() {
        let socket = Socket::bind("127.0.0.1:0", Rate::from_mbit(20)).unwrap();
        assert_eq!((socket.max_transmit_segments(), socket.backend()), (1, Backend::Timers));
        // 12,500 bytes in 250 us: eight datagrams of 1452 bytes, if the kernel cuts batches at all.
        socket.set_rate(Rate::from_mbit(400)).unwrap();
        assert!([1, 8].contains(&socket.max_transmit_segments()));
        for (choice, option) in [(Choice::TransmitTime, "SO_TXTIME"), (Choice::MaxRate, "SO_MAX_PACING_RATE")] {
            let settings = Settings { backend: choice, ..Settings::new(Rate::from_mbit(20)) };
            let error = Socket::bind("127.0.0.1:0", settings).unwrap_err();
            assert!(error.to_string().starts_with(option), "{error}");
        }
    }
}
