//! Traces of runs: what they keep, and that a run with one is the run without.

use tidegate_config::{Diagnostics, Source};
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::trace::{Occurrence, Selection, Trace};
use tidegate_sim::{FlowSpec, Line, Network, Stage, Workload, tcp};

const TEXT: &str = "version = 1
duration = \"20s\"
hosts = [\"a\", \"b\"]
routers = [\"r\"]
[[link]]
from = \"a\"
to = \"r\"
rate = \"100mbit\"
[[link]]
from = \"r\"
to = \"b\"
rate = \"5mbit\"
delay = \"20ms\"
queue = { kind = \"pie\" }
[[flow]]
name = \"bulk\"
from = \"a\"
to = \"b\"
workload = { kind = \"bulk\" }
[[flow]]
name = \"web\"
count = 2
from = \"b\"
to = \"a\"
workload = { kind = \"web\", think = { kind = \"exponential\", mean = \"1s\" } }
";

fn scenario() -> Scenario {
    let (source, mut found) = (Source::new("t.toml", TEXT), Diagnostics::new());
    Scenario::load(&source, None, &mut found).unwrap_or_else(|| panic!("{}", found.render(&source)))
}

fn only(scenario: &Scenario, wanted: &str) -> Trace {
    let selection = scenario.selection(wanted).unwrap_or_else(|error| panic!("{error}"));
    scenario.traced(3, &selection).remove(0).1
}

#[test]
fn a_trace_has_what_was_selected() {
    let scenario = scenario();
    let trace = only(&scenario, "flow=bulk,link=r->b,from=5s,to=10s");
    let within = |time: Instant| (5_000_000_000..=10_000_000_000).contains(&time.as_nanos());
    assert!(trace.packets.len() > 4_000 && trace.full.is_none(), "{}", trace.packets.len());
    assert!(trace.packets.windows(2).all(|pair| pair[0].time <= pair[1].time));
    for event in &trace.packets {
        assert!(within(event.time) && trace.flows[event.packet.group as usize] == "bulk");
        if let Occurrence::At(link, _) = event.what {
            assert_eq!(trace.links[link.index()], "r->b");
        }
    }
    assert!(trace.connections.iter().all(|state| within(state.time) && state.side == 0));
    // The window of the one sender covers what is in the network, and moves.
    let windows: Vec<u64> = trace.connections.iter().map(|state| state.cwnd).collect();
    assert!(windows.iter().max() > windows.iter().min());
    assert!(trace.connections.iter().all(|state| state.srtt.is_some_and(|srtt| srtt > Span::from_millis(40))));
    // More than the window only after it was reduced.
    let largest = windows.iter().max().expect("a state");
    assert!(trace.connections.iter().all(|state| state.pipe <= 2 * largest));
    assert!(trace.connections.iter().any(|state| state.pipe > 10_000));
    // PIE has a probability, and a queue that it holds at a few packets.
    assert!(trace.queues.iter().all(|state| within(state.time) && state.probability.is_some()));
    assert!(trace.queues.iter().any(|state| state.probability > Some(0.0) && state.backlog.packets > 2));
    // Both flows of the section, without the other.
    let pages = only(&scenario, "flow=web");
    let names: std::collections::BTreeSet<_> = pages.packets.iter().map(|event| event.packet.group).collect();
    assert_eq!(names, [1, 2].into());
}

#[test]
fn every_packet_that_arrives_leaves_is_dropped_or_waits() {
    let trace = only(&scenario(), "link=r->b");
    let count = |wanted: fn(&Stage) -> bool| {
        let at = |event: &&tidegate_sim::trace::PacketEvent| match event.what {
            Occurrence::At(_, stage) => wanted(&stage),
            Occurrence::Delivered => false,
        };
        trace.packets.iter().filter(at).count()
    };
    let arrived = count(|stage| *stage == Stage::Arrived);
    let left = count(|stage| *stage == Stage::Transmitting);
    let dropped = count(|stage| matches!(stage, Stage::Dropped(_)));
    let waits = trace.queues.last().expect("a state").backlog.packets as usize;
    assert!(dropped > 10 && left > 5_000, "{dropped} {left}");
    assert_eq!(arrived, left + dropped + waits);
}

#[test]
fn a_run_with_a_trace_is_the_run_without() {
    let run = |traced: bool| {
        let mut net = Network::new(9);
        let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
        net.duplex(a, r, Line::new(Rate::from_mbit(100), Span::from_millis(1)));
        let (out, _) = net.duplex(r, b, Line::new(Rate::from_mbit(5), Span::from_millis(10)));
        let tcp = net.flow(FlowSpec::tcp("tcp", a, b, tcp::Config::sack(), Workload::BULK));
        let rate = Workload::Constant { rate: Rate::from_mbit(1), packet: Bytes::new(500) };
        let udp = net.flow(FlowSpec::udp("udp", a, b, rate));
        if traced {
            net.trace(Selection::default());
        }
        let mut sim = net.build().expect("a network");
        sim.run_until(Instant::from_nanos(10_000_000_000));
        let events = sim.events();
        let trace = sim.take_trace();
        assert_eq!(trace.is_some_and(|trace| trace.packets.len() > 10_000), traced);
        (events, sim.flow(tcp).clone(), sim.flow(udp).clone(), sim.link(out).clone())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_selection_that_cannot_be_is_refused_at_its_key() {
    let scenario = scenario();
    for (wanted, part) in [
        ("flow=nobody", "flow=nobody: no such flow; there are `bulk`, `web`"),
        ("flow=web.3", "no such flow"),
        ("link=a->b", "link=a->b: no such link; there are `a->r`"),
        ("from=soon", "from=soon"),
        ("from=10s,to=5s", "from is later than to"),
        ("from=30s", "later than the end"),
        ("flows=web", "`flows` is not a key"),
        ("web", "not KEY=VALUE"),
    ] {
        let error = scenario.selection(wanted).expect_err(wanted);
        assert!(error.contains(part), "{wanted}: {error}");
    }
}

#[test]
fn headers_are_those_of_the_wire() {
    let trace = only(&scenario(), "flow=bulk,to=1s");
    let [mut data, mut acks] = [0, 0];
    for event in &trace.packets {
        let headers = trace.headers(&event.packet);
        // Version 4, 20 bytes of header, the length, protocol 6; a sum of all words of ones.
        assert_eq!((headers[0], headers[9]), (0x45, 6));
        assert_eq!(u32::from(u16::from_be_bytes([headers[2], headers[3]])), event.packet.size);
        let words = headers[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        let offset = usize::from(headers[32] >> 4) * 4;
        assert_eq!(headers.len(), 20 + offset, "the options are whole words");
        if event.packet.segment.len > 0 {
            data += 1
        } else {
            acks += 1
        }
        assert_eq!(event.packet.size as usize, headers.len() + event.packet.segment.len as usize);
    }
    assert!(data > 100 && acks > 100);
}
