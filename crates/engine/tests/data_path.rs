//! A data path in forty lines: datagrams that arrive at one UDP socket leave by another, shaped.

use std::io::{Error, ErrorKind};
use std::net::UdpSocket;
use std::ops::ControlFlow;
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
        let _ = self.input.peek(&mut [0]);
        Ok(ControlFlow::Continue(()))
    }
    fn receive(&mut self, now: Instant, driver: &mut Driver<usize>) -> Result<usize, Error> {
        let mut bytes = [0; 1_500];
        self.input.set_nonblocking(true)?;
        let received = self.input.recv(&mut bytes);
        self.input.set_nonblocking(false)?;
        let length = match received {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            received => received?,
        };
        self.datagrams.push(bytes[..length].into());
        let meta = PacketMeta { length: length as u32, ..PacketMeta::default() };
        let offered = driver.offer(now, Arrival::new(self.datagrams.len() - 1, &meta), self);
        assert_eq!(offered, Offered::Consumed, "only superpackets are segmented");
        Ok(1)
    }
    fn sink(&mut self) -> &mut Self {
        self
    }
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn control(&mut self, _: Instant, driver: &mut Driver<usize>) -> Result<ControlFlow<()>, Error> {
        let done = driver.engine().sent().packets + driver.engine().dropped() == DATAGRAMS;
        Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, names: Names::default() };
    let engine = Engine::new(&config, &setup, Instant::ZERO).expect("the configuration is valid");
    let sockets = || UdpSocket::bind("127.0.0.1:0").expect("a port of the loopback");
    let [sender, input, output, receiver] = [sockets(), sockets(), sockets(), sockets()];
    sender.connect(input.local_addr().unwrap()).unwrap();
    output.connect(receiver.local_addr().unwrap()).unwrap();
    for number in 0..DATAGRAMS {
        sender.send(&[number as u8; 1_000]).unwrap();
    }
    let mut relay = Relay { input, output, began: std::time::Instant::now(), datagrams: Vec::new() };
    let mut driver = Driver::new(engine, Params::default(), Instant::ZERO);
    run(&mut driver, &mut relay).expect("nothing fails");
    assert!(relay.began.elapsed() >= Duration::from_millis(57), "{:?}", relay.began.elapsed());
    receiver.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1_500];
    let received: Vec<u8> = std::iter::from_fn(|| receiver.recv(&mut bytes).ok().map(|_| bytes[0])).collect();
    assert_eq!(received, (0..DATAGRAMS as u8).collect::<Vec<_>>(), "all of them, in order");
}
