//! Worked examples and refusals.

use super::*;
use crate::cbq::Params;
use crate::fifo::Fifo;
use crate::packet::FlowKey;
use crate::qdisc::Discard;
use alloc::string::ToString;

struct P;
impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(100)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::default()
    }
    fn class(&self) -> ClassId {
        ClassId(32_768)
    }
}

const ROOT: ClassId = ClassId(1);
const RESERVED: ClassId = ClassId(2);

fn tree() -> Cbq<P, Fifo<P>> {
    let mut cbq = Cbq::new(Params::new(Rate::from_mbit(8), Bytes::new(1000), ROOT)).unwrap();
    cbq.add_inner(Instant::ZERO, RESERVED, ROOT, Class::new(Rate::from_mbit(4))).unwrap();
    cbq
}

fn voice() -> TSpec {
    TSpec {
        rate: Rate::from_mbit(1),
        bucket: Bytes::new(3000),
        peak: Rate::from_mbit(4),
        min_unit: Bytes::new(500),
        max_packet: Bytes::new(1000),
    }
}

#[test]
fn the_bound_by_hand() {
    // b - M = 2000 B = 16,000 bit; p - R = 2, p - r = 3 Mbit/s: 10,666.67 bit, up to 10,667, at R = 2 Mbit/s less
    // 3 bit/s (a millionth and one): 5,333,508.0003 ns up to 5,333,509. M + C = 3000 B = 24,000 bit:
    // 12,000,018.00003 ns up to 12,000,019. D = 7 ns.
    let errors = ErrorTerms { bytes: Bytes::new(2000), time: Span::from_nanos(7) };
    let bound = delay_bound(&voice(), Rate::from_mbit(2), errors);
    assert_eq!(bound, Span::from_nanos(5_333_509 + 12_000_019 + 7));
}

#[test]
fn the_error_terms_by_hand() {
    // 4 leaves, mtu 1000: a round of 4000 B; 1 of 4 Mbit/s has 1000 of it. X = 4000 + 2 x 3000 + 500 B
    // = 84,000 bit at 8 Mbit/s: 10.5 ms. C = 2 x 300 B.
    let mbit = Rate::from_mbit;
    let errors = ErrorTerms::of(mbit(8), Bytes::new(1000), Bytes::new(500), 4, mbit(4), mbit(1), Bytes::new(300));
    assert_eq!(errors, ErrorTerms { bytes: Bytes::new(600), time: Span::from_micros(10_500) });
}

#[test]
fn refusals_have_what_is_free() {
    let mut cbq = tree();
    let policy = Policy { flows: 3, buffer: Bytes::new(40_000), ..Policy::new(RESERVED) };
    let mut reservations = Reservations::new(policy).unwrap();
    let mut ask = |cbq: &mut Cbq<P, Fifo<P>>, service| {
        reservations.reserve(Instant::ZERO, cbq, &Request { tspec: voice(), service }, Fifo::new)
    };
    let fast = Service::Guaranteed { rate: Some(Rate::from_mbit(3)), delay: None };
    let grant = ask(&mut cbq, fast).unwrap();
    assert_eq!((grant.id, grant.rate), (ClassId(32_768), Rate::from_mbit(3)));
    let refused = ask(&mut cbq, fast).unwrap_err();
    assert_eq!(refused, Refusal::Rate { free: Rate::from_mbit(1), asked: Rate::from_mbit(3) });
    assert_eq!(refused.to_string(), "needs 3mbit, 1mbit is free");
    let soon = Service::Guaranteed { rate: None, delay: Some(Span::from_millis(1)) };
    let refused = ask(&mut cbq, soon).unwrap_err();
    let Refusal::Delay { least, .. } = refused else { panic!("1 ms cannot be kept") };
    // 2 packets of lead are 2 ms. With 3 flows in a round of 3000 B, 1 of 4 Mbit/s has 750 of it, X = 3000 + 4500
    // B = 7.5 ms. 2000 B of burst, as the peak is 4 Mbit/s, and M + C = 3000 B, at 1 Mbit/s less 2 bit/s.
    assert_eq!(least, Span::from_nanos(2_000_000 + 7_500_000 + 16_000_033 + 24_000_049));
    assert_eq!(refused.to_string(), "a delay of 1ms cannot be kept; the least is 49.501ms");
    // A request for exactly the least gets all that is free.
    let kept = Service::Guaranteed { rate: None, delay: Some(least) };
    assert_eq!(ask(&mut cbq, kept).unwrap().bound, Some(least));
    assert_eq!(cbq.class(ClassId(32_769)).unwrap().packet_size, Some(Bytes::new(500)));
    assert_eq!(cbq.free_rate(RESERVED), Some(Rate::ZERO));
}

#[test]
fn a_delay_takes_no_more_than_one_may_reserve() {
    let mut cbq = tree();
    let most = Rate::from_mbit(2);
    let mut reservations = Reservations::new(Policy { max_rate: Some(most), ..Policy::new(RESERVED) }).unwrap();
    let mut ask = |delay| {
        let service = Service::Guaranteed { rate: None, delay: Some(delay) };
        reservations.reserve(Instant::ZERO, &mut cbq, &Request { tspec: voice(), service }, Fifo::new)
    };
    let Err(Refusal::Delay { least, .. }) = ask(Span::from_millis(1)) else { panic!("1 ms cannot be kept") };
    // 4 Mbit/s are free, and the least is the delay with half of them.
    assert_eq!(ask(least).map(|grant| (grant.rate, grant.bound)), Ok((most, Some(least))));
}

#[test]
fn what_is_not_refreshed_ends() {
    let mut cbq = tree();
    let mut reservations =
        Reservations::new(Policy { lifetime: Span::from_secs(10), ..Policy::new(RESERVED) }).unwrap();
    let request = Request { tspec: voice(), service: Service::ControlledLoad };
    let at = |s| Instant::ZERO + Span::from_secs(s);
    let first = reservations.reserve(at(0), &mut cbq, &request, Fifo::new).unwrap();
    let second = reservations.reserve(at(0), &mut cbq, &request, Fifo::new).unwrap();
    cbq.enqueue(at(1), P, &mut Discard);
    assert_eq!(reservations.refresh(at(8), second.id), Ok(at(18)));
    assert_eq!(reservations.next_expiry(), Some(at(10)));
    let mut dropped = Vec::new();
    assert_eq!(reservations.expire(at(9), &mut cbq, Removal::Flush, &mut dropped), Ok(Vec::new()));
    assert_eq!(reservations.expire(at(10), &mut cbq, Removal::Flush, &mut dropped), Ok(alloc::vec![first.id]));
    assert_eq!(dropped.len(), 1, "the queued packet is dropped");
    assert_eq!(reservations.refresh(at(10), first.id), Err(Refusal::Unknown(first.id)));
    assert_eq!(cbq.free_rate(RESERVED), Some(Rate::from_mbit(3)));
    reservations.release(at(11), &mut cbq, second.id, Removal::Flush, &mut dropped).unwrap();
    assert_eq!(reservations.grants().count(), 0);
    assert_eq!(reservations.buffer, Bytes::ZERO);
}

#[test]
fn reservations_of_another_priority_are_not_taken_for_those_of_this_one() {
    let mut cbq = tree();
    let request = Request { tspec: voice(), service: Service::ControlledLoad };
    let mut reservations = Reservations::new(Policy { priority: 1, ..Policy::new(RESERVED) }).unwrap();
    reservations.reserve(Instant::ZERO, &mut cbq, &request, Fifo::new).unwrap();
    reservations.reserve(Instant::ZERO, &mut cbq, &request, Fifo::new).unwrap();
    // The file changes to priority 0. Existing reservations keep their priority.
    let mut next = tree();
    reservations.replant(Instant::ZERO, &mut next, Policy::new(RESERVED), Fifo::new).unwrap();
    assert_eq!((next.load(0).0, next.load(1).0), (0, 2));
    let third = reservations.reserve(Instant::ZERO, &mut next, &request, Fifo::new).unwrap();
    // As the first reservation of a policy with priority 0 that shares its class with the two: 64 at most, and 4
    // Mbit/s.
    let fresh =
        Reservations::new(Policy::new(RESERVED)).unwrap().reserve(Instant::ZERO, &mut tree(), &request, Fifo::new);
    assert_eq!(fresh.map(|grant| (grant.bound, grant.buffer)), Ok((third.bound, third.buffer)));
}

#[test]
fn no_delay_is_promised_where_none_is_kept() {
    let promised = |params| {
        let mut cbq = Cbq::<P, Fifo<P>>::new(params).unwrap();
        cbq.add_inner(Instant::ZERO, RESERVED, ROOT, Class::new(Rate::from_mbit(4))).unwrap();
        let mut reservations = Reservations::new(Policy::new(RESERVED)).unwrap();
        let mut ask = |service| {
            reservations
                .reserve(Instant::ZERO, &mut cbq, &Request { tspec: voice(), service }, Fifo::new)
                .map(|grant| grant.bound.is_some())
        };
        let guaranteed = ask(Service::Guaranteed { rate: Some(Rate::from_mbit(2)), delay: None });
        let load = ask(Service::ControlledLoad);
        assert!(matches!((&guaranteed, &load), (Ok(true), Ok(true)) | (Err(Refusal::NoBounds), Ok(false))));
        guaranteed.is_ok()
    };
    let params = Params::new(Rate::from_mbit(8), Bytes::new(1000), ROOT);
    assert!(promised(params));
    // By packets, 100 B of one leaf for 1000 B of another, whatever the rates.
    assert!(!promised(Params { general: General::PacketRoundRobin, ..params }));
    // A lead of 2 ms and a packet of 1 ms: a clock that is set back earlier never uses up the lead.
    let lead = Lead::Within(Span::from_millis(2));
    let back = |us| Params { lead, link_clock: LinkClock::Reset(Span::from_micros(us)), ..params };
    assert!(promised(back(3_000)) && !promised(back(2_999)));
    assert!(promised(Params { lead, link_clock: LinkClock::Clamp(Span::ZERO), ..params }));
    // Without a lead the policy specifies what the driver holds.
    assert!(promised(Params { lead: Lead::Unbounded, ..back(0) }));
}
