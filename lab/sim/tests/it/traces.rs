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
    let windows: Vec<u64> = trace.connections.iter().map(|state| state.sender.cwnd).collect();
    assert!(windows.iter().max() > windows.iter().min());
    assert!(trace.connections.iter().all(|state| state.sender.srtt.is_some_and(|srtt| srtt > Span::from_millis(40))));
    // More than the window only after it was reduced.
    let largest = windows.iter().max().expect("a state");
    assert!(trace.connections.iter().all(|state| state.sender.pipe <= 2 * largest));
    assert!(trace.connections.iter().any(|state| state.sender.pipe > 10_000));
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
        ("variant=red", "variant=red: no such variant; there are none"),
    ] {
        let error = scenario.selection(wanted).expect_err(wanted);
        assert!(error.contains(part), "{wanted}: {error}");
    }
}

#[test]
fn a_selection_chooses_variants() {
    let variant = |name: &str| {
        format!("[[variant]]\nname = \"{name}\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ kind = \"{name}\" }}\n")
    };
    let text = format!("{TEXT}\n{}{}{}", variant("fifo"), variant("codel"), variant("pie"));
    let (source, mut found) = (Source::new("t", text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut found).unwrap_or_else(|| panic!("{}", found.render(&source)));
    let traced = |wanted: &str| {
        let selection = scenario.selection(wanted).unwrap_or_else(|error| panic!("{error}"));
        scenario.traced(1, &selection).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(traced("variant=pie,variant=fifo,flow=bulk,to=1s"), "fifo pie");
    assert_eq!(traced("flow=bulk,to=1s"), "fifo codel pie");
    assert!(scenario.selection("variant=red").unwrap_err().contains("there are `fifo`, `codel`, `pie`"));
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

/// `examples/lte.mahimahi` is what a cellular line of the model delivers of 1500-byte packets in four seconds, in the form of
/// Mahimahi: with TIDEGATE_WRITE_EXAMPLES it is written. A line with this trace delivers the same.
#[test]
fn the_example_of_a_mahimahi_trace_is_of_the_model() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lte.mahimahi");
    let beside = |name: &str| Source::open(&path.with_file_name(name));
    let delivered = |rate: &str| -> Vec<u64> {
        let text = format!(
            "version = 1\nduration = \"4s\"\nseed = 8\nhosts = [\"a\", \"b\"]\n\
             [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"12mbit\"\nrate-over-time = {rate}\n\
             queue = {{ kind = \"fifo\", limit = \"10MB\" }}\n\
             [[flow]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n\
             workload = {{ kind = \"constant\", rate = \"12mbit\", packet = \"1500B\" }}\n"
        );
        let (source, mut found) = (Source::new("lte.toml", text), Diagnostics::new());
        let scenario =
            Scenario::load(&source, Some(&beside), &mut found).unwrap_or_else(|| panic!("{}", found.render(&source)));
        let events = &scenario.traced(8, &Selection::default())[0].1.packets;
        let arrived = events.iter().filter(|event| event.what == Occurrence::Delivered);
        // An opportunity ends its millisecond.
        arrived.map(|event| event.time.as_nanos().div_ceil(1_000_000)).collect()
    };
    let model = delivered("{ kind = \"cellular\" }");
    let text: String = model.iter().map(|at| format!("{at}\n")).collect();
    if std::env::var_os("TIDEGATE_WRITE_EXAMPLES").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "see TIDEGATE_WRITE_EXAMPLES here");
    let again = delivered("{ kind = \"mahimahi\", file = \"lte.mahimahi\" }");
    // What was transmitted over several milliseconds is now within those of its opportunities.
    assert!(model.len() > 500 && again.len().abs_diff(model.len()) < 10, "{} and {}", model.len(), again.len());
    let apart = model.iter().zip(&again).map(|(one, other)| one.abs_diff(*other)).max();
    assert!(apart <= Some(25), "{apart:?} ms");
}

/// A paced sender sends its first data apart from the acknowledgement that ends the handshake, at the same time and with the same
/// sequence number.
#[test]
fn packets_that_are_sent_together_have_numbers_of_their_own() {
    let mut net = Network::new(9);
    let (a, b) = (net.host("a"), net.host("b"));
    net.duplex(a, b, Line::new(Rate::from_mbit(5), Span::from_millis(10)));
    net.flow(FlowSpec::tcp("tcp", a, b, tcp::Config::prague(), Workload::BULK));
    net.trace(Selection::default());
    let mut sim = net.build().expect("a network");
    sim.run_until(Instant::from_nanos(2_000_000_000));
    let trace = sim.take_trace().expect("a trace");
    let delivered = trace.packets.iter().filter(|event| event.what == Occurrence::Delivered);
    let numbers: Vec<u32> = delivered.map(|event| event.number).collect();
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert!(numbers.len() > 500);
    assert_eq!(distinct.len(), numbers.len(), "the network copies no packet");
}
