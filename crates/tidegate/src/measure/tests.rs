//! The client against a server with TLS and a certificate of the test's own, and [`serve`](super::serve) against hostile
//! clients, on loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant as Clock};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::peer::Peer;
use super::serve::{Bounds, serve};
use super::wire::{Connection, Trust};
use super::{MeasureError, Shared, rate};

/// A server with TLS for `localhost`, whose certificate is in the file; it ends with the process.
fn secure_server(name: &str) -> (SocketAddr, PathBuf) {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = std::env::temp_dir().join(format!("tidegate-{name}-{}.pem", std::process::id()));
    std::fs::write(&file, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, config) = (listener.local_addr().unwrap(), Arc::new(config));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = ServerConnection::new(Arc::clone(&config)).unwrap();
            thread::spawn(move || drop(answer(StreamOwned::new(server, stream))));
        }
    });
    (address, file)
}

fn answer(mut stream: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4_096]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    if head.starts_with(b"GET ") {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
        return stream.write_all(&vec![7; 1_000_000]);
    }
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

fn open(peer: &Peer, address: SocketAddr, authority: &Path) -> Result<Duration, String> {
    let trust = Trust::of(peer, Some(authority)).map_err(|error| error.to_string())?;
    Connection::open(peer, address, trust.as_ref()).map(|opened| opened.tls.expect("a handshake"))
}

#[test]
fn a_server_with_tls_is_believed_by_its_authority_and_its_name_alone() {
    let (address, file) = secure_server("own");
    let (_, other) = secure_server("other");
    let peer = Peer::parse(&format!("https://localhost:{}/large", address.port())).unwrap();
    assert!(open(&peer, address, &file).unwrap() > Duration::ZERO);
    // Another authority, and another name.
    let why = open(&peer, address, &other).unwrap_err();
    assert!(why.contains("TLS: ") && why.contains("--ca"), "{why}");
    let named = Peer::parse(&format!("https://127.0.0.1:{}/large", address.port())).unwrap();
    assert!(open(&named, address, &file).unwrap_err().contains("TLS: "));
    // A file without a certificate, and none.
    std::fs::write(&other, "nothing").unwrap();
    for wrong in [other.as_path(), Path::new("/nonexistent.pem")] {
        let refused = Trust::of(&peer, Some(wrong));
        assert!(matches!(&refused, Err(MeasureError::Authorities(why)) if why.contains("pem")), "{refused:?}");
    }
    let plain = Peer::parse("127.0.0.1:80").unwrap();
    assert!(Trust::of(&plain, Some(&other)).unwrap().is_none(), "without TLS nothing is read");
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&other).unwrap();
}

#[test]
fn both_directions_pass_a_server_with_tls() {
    let (address, file) = secure_server("both");
    let peer = Peer::parse(&format!("https://localhost:{}/large", address.port())).unwrap();
    let trust = Trust::of(&peer, Some(&file)).unwrap();
    for (direction, work) in [("down", rate::download as fn(&_, _, _, &_) -> _), ("up", rate::upload)] {
        let shared = Shared::default();
        thread::scope(|scope| {
            let working = scope.spawn(|| work(&peer, address, trust.as_ref(), &shared));
            let began = Clock::now();
            // More than one response of the server has.
            while shared.bytes.load(super::Ordering::Relaxed) < 3_000_000 && began.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(5));
            }
            shared.stop.store(true, super::Ordering::Relaxed);
            assert_eq!(working.join().unwrap(), Ok(()), "{direction}");
        });
        assert!(shared.bytes.load(super::Ordering::Relaxed) >= 3_000_000, "{direction}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// A server with these bounds, and its address.
fn server(bounds: Bounds) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (address, thread::spawn(move || serve(&listener, bounds).unwrap()))
}

/// The bytes that come back for `request` until the server closes.
fn reply(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request);
    let mut all = Vec::new();
    let mut buffer = [0; 64 << 10];
    // A connection that is reset has ended, too.
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        all.extend_from_slice(&buffer[..length]);
    }
    all
}

#[test]
fn a_peer_serves_little_to_hostile_clients() {
    let bounds = Bounds {
        connections: 4,
        per_client: 2,
        connection_time: Duration::from_millis(1_500),
        bytes: 50_000_000,
        time: Duration::from_secs(15),
    };
    let (address, ended) = server(bounds);
    let small = |method: &str| {
        String::from_utf8(reply(address, format!("{method} /small HTTP/1.1\r\n\r\n").as_bytes())).unwrap()
    };
    assert!(small("GET").starts_with("HTTP/1.1 200 OK\r\n") && small("GET").ends_with("\r\n\r\n1"));
    assert!(small("DELETE").starts_with("HTTP/1.1 405 "));
    let upgrade = b"GET /etc HTTP/1.1\r\nUpgrade: tidegate-load/1\r\n\r\n";
    assert!(reply(address, upgrade).starts_with(b"HTTP/1.1 404 "));
    let upload = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345";
    assert!(reply(address, upload).starts_with(b"HTTP/1.1 200 OK\r\n"));
    // A head without end, bytes that are no text, and a client that promises more than it sends.
    assert!(reply(address, &[b'a'; 10_000]).is_empty());
    assert!(reply(address, b"\xff\xfe\0\r\n\r\n").starts_with(b"HTTP/1.1 405 "));
    let began = Clock::now();
    assert!(reply(address, b"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n").is_empty());
    assert!(began.elapsed() < Duration::from_secs(10), "the time of a connection is bounded");
    // One client has two connections, and a third is closed at once.
    let idle: Vec<_> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    thread::sleep(Duration::from_millis(300));
    assert!(reply(address, b"GET /small HTTP/1.1\r\n\r\n").is_empty());
    drop(idle);
    // The bytes of all together end it, before its time is over.
    let began = Clock::now();
    while !ended.is_finished() && began.elapsed() < Duration::from_secs(30) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    }
    ended.join().unwrap();
}
