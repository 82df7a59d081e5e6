//! Reservations of an engine whose packets are queued elsewhere.

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source, edit};
use tidegate_core::reservation::{Request, Service, TSpec};
use tidegate_core::{Bytes, ClassId, DropReason, Instant, Rate, Span};
use tidegate_engine::advice::OffloadedAdvice;
use tidegate_engine::{
    Change, Engine, Names, Offload, OffloadedFlows, OffloadedReservation, PromiseTable, Promised, Setup, Sink, Totals,
};

/// The class of packets of the first place, and all that were handed over: places and their numbers.
#[derive(Default)]
struct Scheduler {
    sent: u64,
    made: Vec<Vec<(u32, u64)>>,
    is_full: bool,
}

impl Offload for Scheduler {
    fn totals(&mut self, _: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
        let mut totals = Totals::default();
        (totals.sent.packets, totals.sent.bytes) = (self.sent, Bytes::new(self.sent * 100));
        (vec![(ClassId(32_768), totals.clone())], totals)
    }
    fn flows(&mut self) -> OffloadedFlows {
        OffloadedFlows::default()
    }
    fn set_promises(&mut self, _: &[Promised], _: &PromiseTable) -> Result<(), String> {
        Ok(())
    }
    fn set_reservations(&mut self, reservations: Vec<OffloadedReservation>) -> Result<(), String> {
        self.made.push(reservations.iter().map(|one| (one.place, one.serial)).collect());
        if self.is_full { Err("no room".into()) } else { Ok(()) }
    }
    fn set_advice(&mut self, _: &OffloadedAdvice) {}
}

struct Nobody;

impl Sink<u32> for Nobody {
    fn transmit(&mut self, _: u32, _: Change) {}
    fn drop_packet(&mut self, _: u32, _: DropReason) {}
}

const FILE: &str = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"20mbit\"\n\
                    class = [{ name = \"rest\", rate = \"10mbit\" }, { name = \"reserved\", rate = \"10mbit\" }]\n\
                    reservations = { class = \"reserved\", flows = 2, lifetime = \"10s\" }\n";

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Span::from_secs(seconds)
}

fn config(text: &str) -> Config {
    shaper::load(&Source::new("reserve.toml", text), &mut Diagnostics::new()).expect("valid")
}

fn setup() -> Setup {
    Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() }
}

fn engine() -> Engine<u32> {
    Engine::new(&config(FILE), &setup(), Instant::ZERO).expect("valid")
}

fn reserve(engine: &mut Engine<u32>, now: Instant, port: &str, delay: Option<Span>) -> Result<Option<Span>, String> {
    let tspec = TSpec {
        rate: Rate::from_mbit(2),
        bucket: Bytes::new(3_000),
        peak: Rate::from_mbit(20),
        min_unit: Bytes::new(64),
        max_packet: Bytes::new(1_400),
    };
    let service = delay.map_or(Service::ControlledLoad, |_| Service::Guaranteed { rate: None, delay });
    let matches = edit::matching(&[("port".into(), port.into())]).expect("a port");
    let lease = engine.reserve(now, port, &Request { tspec, service }, matches, &mut Nobody);
    lease.map(|lease| lease.grant.bound).map_err(|error| error.to_string())
}

/// Each change is handed over once: making, ending, and expiring; one in the place of another has another number.
#[test]
fn an_offload_gets_what_has_changed() {
    let (mut engine, mut offload) = (engine(), Scheduler::default());
    let mut hand = |engine: &mut Engine<u32>, seconds| {
        let changed = engine.offload_reservations(at(seconds), &mut offload, &mut Nobody).expect("room");
        changed.then(|| offload.made.last().cloned().expect("a list"))
    };
    assert_eq!(hand(&mut engine, 0), None);
    reserve(&mut engine, at(1), "5004", None).unwrap();
    reserve(&mut engine, at(2), "5005", None).unwrap();
    assert_eq!(hand(&mut engine, 2), Some(vec![(0, 0), (1, 1)]));
    assert_eq!(hand(&mut engine, 3), None);
    engine.release(at(3), ClassId(32_768), &mut Nobody).unwrap();
    reserve(&mut engine, at(4), "5006", None).unwrap();
    assert_eq!(hand(&mut engine, 4), Some(vec![(1, 1), (0, 2)]));
    assert_eq!(hand(&mut engine, 11), None);
    assert_eq!(hand(&mut engine, 12), Some(vec![(0, 2)]), "that of the second second has expired");
    let full = engine.reconfigure(&config(&FILE.replace("10s", "20s")), &setup(), at(13), &mut Nobody);
    full.expect("a change");
    assert_eq!(hand(&mut engine, 13), Some(vec![(0, 2)]), "in a tree that was built anew");
}

/// The counts of the offload are those of the reservation.
#[test]
fn a_reservation_has_the_counters_of_the_offload() {
    let (mut engine, mut offload) = (engine(), Scheduler { sent: 7, ..Scheduler::default() });
    reserve(&mut engine, at(1), "5004", None).unwrap();
    engine.mirror(at(2), &mut offload, &mut Nobody);
    let status = engine.status();
    let one = status.iter().find(|class| class.name == "5004").expect("a class");
    assert_eq!((one.counts.through.packets, one.counts.through.bytes), (7, Bytes::new(700)));
}

/// A scheduler has room for what was checked. If it has none after all, it is told of no reservation twice.
#[test]
fn a_refusal_of_the_offload_is_reported_once() {
    let (mut engine, mut offload) = (engine(), Scheduler { is_full: true, ..Scheduler::default() });
    reserve(&mut engine, at(1), "5004", None).unwrap();
    assert_eq!(engine.offload_reservations(at(1), &mut offload, &mut Nobody), Err("no room".into()));
    assert_eq!(engine.offload_reservations(at(1), &mut offload, &mut Nobody), Ok(false));
}

/// Two reservations may each send 65,536 B where 1,514 B were assumed: 400 ns for a byte at 20 Mbit/s.
#[test]
fn delays_are_not_promised_that_superpackets_break() {
    let (mut segmented, mut whole) = (engine(), engine());
    whole.expect_packets_of(Bytes::new(65_536));
    let short = reserve(&mut segmented, at(1), "5004", None).unwrap().expect("a bound");
    let long = reserve(&mut whole, at(1), "5004", None).unwrap().expect("a bound");
    assert_eq!(long.as_nanos() - short.as_nanos(), (65_536 - 1_514) * 2 * 400);
    let asked = Some(Span::from_millis(50));
    assert!(reserve(&mut segmented, at(1), "5005", asked).is_ok());
    let refused = reserve(&mut whole, at(1), "5005", asked).unwrap_err();
    assert!(refused.contains("cannot be kept"), "{refused}");
}
