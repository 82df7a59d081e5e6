//! TCP in superpackets: cut where one would last too long, whole where it is short; the data arrive as they were sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use tidegate_live::shaping::WorkerCounts;
use tidegate_testbed::{Family, Pair};
use tidegate_units::Rate;

use crate::flows::near;
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// Returns the byte at `offset` of the stream: no shift, swap or loss of a part keeps the sequence.
fn byte(offset: u64) -> u8 {
    (offset / 4).to_be_bytes()[4 + (offset % 4) as usize]
}

/// Sends through a class of `rate` for `time` after a warm-up; the goodput in bit/s, all bytes that came, and what the
/// data path counted.
fn bulk(rate: Rate, send_buffer: usize, time: Duration) -> (f64, u64, WorkerCounts) {
    let pair = Pair::create().expect("a pair of hosts");
    let text = format!("version = 1\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\nlimit = \"1MB\"\ndefault = true\n");
    let shaping = shape(&pair, &text);
    let target = SocketAddr::new(pair.receiver.address(Family::V4), 5_000);
    let listener = pair.receiver.namespace.run(|| TcpListener::bind(target)).expect("a thread").expect("a port");
    let mut out = pair.sender.namespace.run(|| TcpStream::connect(target)).expect("a thread").expect("a connection");
    // Less on the way than the class may hold: a loss would hold data back that has arrived.
    setsockopt(&out, sockopt::SndBuf, &send_buffer).expect("a buffer");
    let (mut from, _) = listener.accept().expect("a connection");
    let pattern: Vec<u8> = (0..1 << 20).map(byte).collect();
    let sender = thread::spawn(move || {
        // Again and again, until the other end closes.
        while out.write_all(&pattern).is_ok() {}
    });
    let mut buffer = vec![0; 1 << 18];
    let mut read = |received: u64| {
        let n = from.read(&mut buffer).expect("data");
        let right = (received..).zip(&buffer[..n]).all(|(at, &b)| b == byte(at % (1 << 20)));
        assert!(right, "corrupted after {received}");
        received + n as u64
    };
    let mut received = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(800) {
        received = read(received);
    }
    let (start, first) = (Instant::now(), received);
    while start.elapsed() < time {
        received = read(received);
    }
    let goodput = (received - first) as f64 * 8.0 / start.elapsed().as_secs_f64();
    drop(from);
    sleep(Duration::from_millis(50));
    let counts = shaping.stop().expect("an orderly end");
    sender.join().expect("a sender");
    println!("  {rate}: {:.3} Mbit/s, {counts:?}", goodput / 1e6);
    (goodput, received, counts)
}

pub fn are_cut_where_they_would_last_too_long() -> Ended {
    patiently(|| {
        let (goodput, _, counts) = bulk(Rate::from_mbit(5), 100_000, Duration::from_secs(3));
        assert!(counts.cut > 0, "{counts:?}");
        // 1448 bytes of 1500 are data.
        near(goodput, 5e6 * 1_448.0 / 1_500.0, 0.05)
    })
}

pub fn stay_whole_where_they_are_short() -> Ended {
    let (_, received, counts) = bulk(Rate::from_mbit(2_000), 1_000_000, Duration::from_secs(1));
    assert_eq!(counts.cut, 0, "{counts:?}");
    let segments = received / 1_448;
    assert!(counts.passed < segments, "whole ones are fewer: {counts:?}, {segments}");
    Ended::Passed
}
