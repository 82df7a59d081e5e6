//! A data path in forty lines: datagrams that arrive at one UDP socket leave by another, shaped. An empty one ends it.

use std::io::Error;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::{DropReason, Instant, Span};
use tidegate_engine::driver::{Arrival, DataPath, Driver, Offered, Params, Wait, run};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Sink};

struct Relay {
    input: UdpSocket,
    output: UdpSocket,
    began: std::time::Instant,
    datagrams: Vec<Vec<u8>>,
    offered: usize,
}

impl Sink<usize> for Relay {
    fn transmit(&mut self, handle: usize, _: Change) {
        self.output.send(&self.datagrams[handle]).expect("the other end is open");
    }
    fn drop_packet(&mut self, _: usize, _: DropReason) {}
}

impl DataPath for Relay {
    type Handle = usize;
    type Sink = Self;
    type Error = Error;
    fn now(&mut self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }
    fn wait(&mut self, wait: Wait) -> Result<ControlFlow<()>, Error> {
        let time = wait.until.map(|until| Duration::from_nanos(until.since(self.now()).as_nanos().max(1)));
        self.input.set_read_timeout(time)?;
        let mut bytes = [0; 1_500];
        let received = self.input.recv(&mut bytes).ok();
        self.datagrams.extend(received.map(|length| bytes[..length].to_vec()));
        Ok(if received == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
    fn receive(&mut self, now: Instant, driver: &mut Driver<usize>) -> Result<usize, Error> {
        let Some(datagram) = self.datagrams.get(self.offered) else { return Ok(0) };
        let meta = PacketMeta { length: datagram.len() as u32, ..PacketMeta::default() };
        assert_eq!(driver.offer(now, Arrival::new(self.offered, &meta), self), Offered::Consumed);
        self.offered += 1;
        Ok(1)
    }
    fn sink(&mut self) -> &mut Self {
        self
    }
}

const DATAGRAMS: u64 = 60;

/// 60 datagrams of 1,000 bytes at 8 Mbit/s, 1 ms each. The bucket holds 3 of them, so that the last leaves after
/// 57 ms at the earliest.
#[test]
fn a_new_data_path_shapes() {
    let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\nburst = \"3kB\"\ndefault = true\n\
                flow-limit = \"200kB\"\n";
    let source = Source::new("relay.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    let engine = Engine::new(&config, &setup, Instant::ZERO).expect("the configuration is valid");
    let sockets = || UdpSocket::bind("127.0.0.1:0").expect("a port of the loopback");
    let [sender, input, output, receiver] = [sockets(), sockets(), sockets(), sockets()];
    sender.connect(input.local_addr().unwrap()).unwrap();
    output.connect(receiver.local_addr().unwrap()).unwrap();
    for number in 0..DATAGRAMS {
        sender.send(&[number as u8; 1_000]).unwrap();
    }
    let began = std::time::Instant::now();
    let mut relay = Relay { input, output, began, datagrams: Vec::new(), offered: 0 };
    let path = thread::spawn(move || {
        let mut driver = Driver::new(engine, Params::default(), Instant::ZERO);
        run(&mut driver, &mut relay).expect("nothing fails");
    });
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = [0; 1_500];
    for number in 0..DATAGRAMS {
        assert_eq!(receiver.recv(&mut bytes).expect("it is sent"), 1_000);
        assert_eq!(bytes[0], number as u8, "all of them, in order");
    }
    assert!(began.elapsed() >= Duration::from_millis(57), "{:?}", began.elapsed());
    sender.send(&[]).unwrap();
    path.join().expect("the loop ends");
}

#[test]
fn the_data_path_has_forty_lines() {
    let source = include_str!("data_path.rs");
    let lines = source.lines().skip_while(|line| !line.starts_with("struct Relay"));
    let lines = lines.take_while(|line| !line.starts_with("const DATAGRAMS")).filter(|line| !line.is_empty());
    assert!(lines.count() <= 40);
}
