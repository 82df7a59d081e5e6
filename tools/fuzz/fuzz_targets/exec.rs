//! No packet of a program panics the relay of `tidegate exec`. It runs in a network namespace of its own, in which one port
//! of TCP is open.
#![no_main]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use tidegate_live::{netns, rtnl::Rtnl};

/// The port that the seeds name.
const PORT: u16 = 7_777;

fn prepare() {
    if let Err(error) = netns::isolate() {
        // Packets are really sent, so they need a network of their own.
        eprintln!("SKIP: exec: {error}");
        std::process::exit(0);
    }
    Rtnl::open().and_then(|mut rtnl| rtnl.up(1)).expect("a loopback");
    let listener = TcpListener::bind(("127.0.0.1", PORT)).expect("a free port");
    std::thread::spawn(move || {
        // Echoes the first data of each connection.
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
            let mut bytes = [0; 2_048];
            if let Ok(length) = stream.read(&mut bytes) {
                let _ = stream.write_all(&bytes[..length]);
            }
        }
    });
}

libfuzzer_sys::fuzz_target!(
    init: prepare(),
    |packets: &[u8]| tidegate_exec::relay_packets(packets).expect("descriptors")
);
