//! Shaping of what arrives: the same engine at the other end of the link.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::thread::{self, sleep};
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::DropReason;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft;
use tidegate_live::probe::Version;
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::{Direction, Family, FlowSpec, Mice, MiceSpec, Mouse, Pair, Senders, Sink, Sizes, Stamp};
use tidegate_units::{Bytes, Rate};

use crate::flows::{all, at_most, near, udp, until, wire_rate};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// Shapes what arrives by the receiver's interface of `pair` by the shaper file `text`, whose section `[interface]`
/// is written here.
fn shape_arrivals(pair: &Pair, text: &str) -> Shaping {
    let text = format!("version = 1\ninterface = {{ direction = \"ingress\" }}\n{text}");
    let source = Source::new("test.toml", &text);
    let mut diagnostics = Diagnostics::new();
    let Some(config) = shaper::load(&source, &mut diagnostics) else { panic!("{}", diagnostics.render(&source)) };
    let options = Options { interfaces: vec![pair.receiver.interface.into()], ..Options::default() };
    match pair.receiver.namespace.run(|| Shaping::start(&config, &options)).expect("a thread") {
        Ok(shaping) => shaping,
        Err(error) => panic!("{error}"),
    }
}

fn tables(pair: &Pair) -> usize {
    let count = || nft::tables(&mut Socket::open(Protocol::Netfilter).expect("netlink")).expect("tables").len();
    pair.receiver.namespace.run(count).expect("a thread")
}

const TWO_CLASSES: &str = "[[class]]\nname = \"video\"\nrate = \"3mbit\"\ndscp = \"af31\"\nborrow = false\n\
     [[class]]\nname = \"rest\"\nrate = \"2mbit\"\nborrow = false\ndefault = true\n\
     [[rule]]\nclass = \"video\"\ndestination-port = \"5000-5001\"\n";
const AF31: usize = 26;

pub fn classes_of_both_protocols_get_their_rates() -> Ended {
    patiently(|| {
        let pair = Pair::create().expect("a pair of hosts");
        let shaping = shape_arrivals(&pair, TWO_CLASSES);
        // Each class was proven with a packet of each protocol that arrived.
        let both = vec![Version::V4, Version::V6];
        assert_eq!(shaping.interfaces()[0].proof().proven, [("video".into(), both.clone()), ("rest".into(), both)]);
        // The other direction of the same interface is free for another, in the same process.
        let options = Options { interfaces: vec![pair.receiver.interface.into()], ..Options::default() };
        let text = "version = 1\n[[class]]\nname = \"up\"\nrate = \"50mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("up.toml", text), &mut Diagnostics::new()).expect("a file");
        let up = pair.receiver.namespace.run(|| Shaping::start(&config, &options)).expect("a thread").expect("shaping");
        let again = pair.receiver.namespace.run(|| Shaping::start(&config, &options)).expect("a thread");
        assert!(again.is_err_and(|error| error.to_string().contains("what leaves by tg1")));

        let v6 = |flow: FlowSpec| FlowSpec { family: Family::V6, ..flow };
        let flows = [udp(0, 4_000, 1_000), v6(udp(1, 4_000, 1_000)), udp(2, 3_000, 1_000), v6(udp(3, 3_000, 1_000))];
        let sink = Sink::start_with(&pair.receiver, &flows, Stamp::Socket).expect("a sink");
        let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
        until("every flow arrives", || (0..flows.len()).all(|n| sink.report(n).packets > 50));
        sleep(Duration::from_millis(300));
        let (reports, elapsed) = sink.measure(Duration::from_secs(2));
        let rates: Vec<f64> = reports.iter().map(|report| wire_rate(report, elapsed)).collect();
        if let Some(flow) = reports.iter().position(|report| report.reordered > 0) {
            return Err(format!("of flow {flow} {} were overtaken", reports[flow].reordered));
        }
        senders.stop();
        let (video, rest) = (sink.report(0), sink.report(2));
        assert_eq!(video.dscps[AF31], video.packets, "the class writes its code point on what arrives");
        assert_eq!(rest.dscps[0], rest.packets, "and the other none");
        assert!(shaping.interfaces()[0].has_received(Version::V4) && shaping.interfaces()[0].has_received(Version::V6));
        up.stop().expect("an orderly end");
        assert!(tables(&pair) > 0);
        shaping.stop().expect("an orderly end");
        assert_eq!(tables(&pair), 0, "nothing is left");
        println!("  {:?} Mbit/s", rates.iter().map(|rate| rate / 1e6).collect::<Vec<_>>());
        // The headers of IPv6 are 20 bytes longer than those that `measure` counts.
        let wire = |n: usize| if n % 2 == 1 { rates[n] * 1_048.0 / 1_028.0 } else { rates[n] };
        near(wire(0) + wire(1), 3e6, 0.03)?;
        near(wire(2) + wire(3), 2e6, 0.03)
    })
}

pub fn loopback_arrivals_are_shaped() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let text = "version = 1\n[interface]\nname = \"lo\"\ndirection = \"ingress\"\nmtu = \"65535B\"\n\
         [[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
    let config = shaper::load(&Source::new("lo.toml", text), &mut Diagnostics::new()).expect("a file");
    let shaping = pair
        .receiver
        .namespace
        .run(|| Shaping::start(&config, &Options::default()))
        .expect("a thread")
        .expect("shaping of lo");
    assert_eq!(shaping.interfaces()[0].proof().proven, [("all".into(), vec![Version::V4, Version::V6])]);
    shaping.stop().expect("an orderly end");
    Ended::Passed
}

/// The result of a run with mice beside elephants.
struct Outcome {
    /// Mice that began, and those of them that ended.
    mice: (usize, usize),
    /// The times that the mice took in ms; an unfinished one counts as the longest.
    median_ms: f64,
    elephant_mbit: f64,
    /// The part of the call's datagrams that is missing, and the median of the time that the others took in ms.
    call: (f64, f64),
    /// Packets dropped although there was room for them.
    early: u64,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (began, ended) = self.mice;
        write!(
            f,
            "{ended} of {began} mice, {:.1} ms; elephants {:.2} Mbit/s; {:.1} % of the call lost, {:.1} ms; {} early drops",
            self.median_ms,
            self.elephant_mbit,
            self.call.0 * 100.0,
            self.call.1,
            self.early
        )
    }
}

const LINE: Rate = Rate::from_mbit(10);
/// Enough of them to keep a FIFO full.
const ELEPHANTS: u16 = 4;
/// How long a mouse that began is waited for.
const MOUSE_PATIENCE: Duration = Duration::from_secs(2);

/// Elephants, a call over UDP, and mice of 4 kB every 60 ms, through `discipline` on what arrives. No more than
/// `rate` gets through.
fn crowd(discipline: &str, rate: Option<Rate>, family: Family, time: Duration) -> Outcome {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape_arrivals(&pair, discipline);
    let bulk = |n: u16| FlowSpec { family, ..FlowSpec::tcp("elephant", 5_001 + n, 0) };
    let call = FlowSpec { family, ..FlowSpec::udp("call", 5_000, 0, Rate::from_kbit(200), Bytes::new(250)) };
    let flows: Vec<_> = std::iter::once(call).chain((0..ELEPHANTS).map(bulk)).collect();
    let sink = Sink::start_with(&pair.receiver, &flows, Stamp::Socket).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(600));
    let mice = MiceSpec {
        from: pair.sender.address(family),
        to: SocketAddr::new(pair.receiver.address(family), 6_000),
        interval: Duration::from_millis(60),
        sizes: Sizes::Uniform(2_000, 6_000),
        direction: Direction::Upload,
        most_open: 200,
        seed: 1,
    };
    let mice = Mice::start(&pair.sender, &pair.receiver, mice).expect("mice");
    let early = || {
        let dropped = |class: &tidegate_engine::ClassStatus| {
            let of = |reason: DropReason| class.counts.accounts.dropped[reason as usize].packets;
            of(DropReason::Early) + of(DropReason::Forced)
        };
        shaping.status().expect("the classes").iter().map(dropped).sum()
    };
    let measure = || sink.measure(time);
    let (reports, elapsed) = rate.map_or_else(measure, |rate| at_most(rate, &shaping, measure));
    let mice = mice.finish(MOUSE_PATIENCE);
    senders.stop();
    let early = early();
    shaping.stop().expect("an orderly end");
    let time_of = |mouse: &Mouse| mouse.completion.unwrap_or(MOUSE_PATIENCE).as_secs_f64() * 1e3;
    let mut times: Vec<f64> = mice.iter().map(time_of).collect();
    times.sort_by(f64::total_cmp);
    let call = &reports[0];
    let outcome = Outcome {
        mice: (mice.len(), mice.iter().filter(|mouse| mouse.completion.is_some()).count()),
        median_ms: times.get(times.len() / 2).copied().unwrap_or(0.0),
        elephant_mbit: reports[1..].iter().map(|report| report.bytes).sum::<u64>() as f64 * 8e3 / elapsed as f64,
        call: (
            call.missing as f64 / (call.missing + call.packets).max(1) as f64,
            call.delays.value_at_quantile(0.5) as f64 / 1e6,
        ),
        early,
    };
    println!("  {family:?}, {discipline:?}: {outcome}");
    outcome
}

fn queue(kind: &str) -> String {
    format!("[[class]]\nname = \"all\"\nrate = \"{LINE}\"\ndefault = true\nqueue = {{ {kind} }}\n")
}

/// Says of the outcome of a FIFO and that of another discipline in the same seconds what is not as it should be.
type Judge<'a> = &'a dyn Fn(&Outcome, &Outcome) -> Result<(), &'static str>;

/// Two disciplines beside a FIFO, all in the same seconds, each between hosts of its own: whatever else the machine
/// does, it does to all.
fn beside_a_fifo(cases: [(&str, Judge<'_>); 2], family: Family) -> Ended {
    patiently(|| {
        let run = |kind: &str| crowd(&queue(kind), Some(LINE), family, Duration::from_millis(1_200));
        let (fifo, others) = thread::scope(|scope| {
            let others = cases.map(|(kind, _)| scope.spawn(move || run(kind)));
            (run("kind = \"fifo\", limit = \"250kB\""), others.map(|other| other.join().expect("no panic")))
        });
        assert_eq!(fifo.early, 0, "a FIFO drops when it is full");
        // 250 kB are 200 ms, and a mouse needs them twice. Much less proves that the elephants did not send.
        if fifo.call.1 < 70.0 || fifo.median_ms < 140.0 {
            return Err(format!("the FIFO was not full: {fifo}"));
        }
        let judged = cases.iter().zip(&others).map(|((kind, judge), other)| {
            judge(&fifo, other).map_err(|what| format!("{kind}: {what}: {other}; beside the FIFO's {fifo}"))
        });
        judged.collect()
    })
}

/// Every discipline must keep this: data get through, short and long ones, at no more than the rate.
fn carries(other: &Outcome) -> Result<(), &'static str> {
    let (began, ended) = other.mice;
    if other.elephant_mbit < 1.0 {
        return Err("the elephants hardly get through");
    }
    if began < 10 || ended * 2 < began {
        return Err("the mice hardly get through");
    }
    if other.call.0 > 0.8 { Err("the call hardly gets through") } else { Ok(()) }
}

/// RED, ARED and PIE keep the queue short, CoDel begins to, by dropping before it is full: CoDel, which drops one and
/// waits for what comes of it, needs longer than this test for four elephants. They drop from short flows as well,
/// which at a round trip of nothing costs those a timeout each, and so nothing is said of how long mice take.
pub fn active_queues_are_short_for_what_arrives() -> Ended {
    let drops = |_: &Outcome, other: &Outcome| {
        carries(other)?;
        if other.early < 5 { Err("nothing is dropped before the queue is full") } else { Ok(()) }
    };
    let short = |fifo: &Outcome, other: &Outcome| {
        drops(fifo, other)?;
        if other.call.1 < fifo.call.1 * 0.5 { Ok(()) } else { Err("the queue is long") }
    };
    let (red, ared) = ("kind = \"red\", min-th = \"10kB\", max-th = \"30kB\"", "kind = \"ared\", link = \"10mbit\"");
    all([
        beside_a_fifo([(red, &short), (ared, &short)], Family::V6),
        beside_a_fifo([("kind = \"codel\"", &drops), ("kind = \"pie\"", &short)], Family::V4),
    ])
}

/// Where flows are kept apart, a mouse waits for its own packets and no elephant's, and a call loses nothing.
pub fn flows_that_arrive_are_kept_apart() -> Ended {
    let apart = |fifo: &Outcome, other: &Outcome| {
        carries(other)?;
        if other.elephant_mbit < 5.0 {
            return Err("the elephants leave the line idle");
        }
        if other.mice.1 < other.mice.0 || other.median_ms > fifo.median_ms * 0.3 {
            return Err("the mice wait for the elephants");
        }
        if other.call.0 > 0.02 || other.call.1 > fifo.call.1 * 0.3 {
            Err("the call pays for the elephants")
        } else {
            Ok(())
        }
    };
    all([
        beside_a_fifo([("kind = \"drr\"", &apart), ("kind = \"sfq\"", &apart)], Family::V6),
        beside_a_fifo([("kind = \"fq-codel\"", &apart), ("kind = \"cake\"", &apart)], Family::V4),
    ])
}

/// MERED and MEREDT drop from elephants only, and keep the queue short for the mice.
pub fn mice_that_arrive_go_before_elephants() -> Ended {
    let before = |fifo: &Outcome, other: &Outcome| {
        carries(other)?;
        if other.mice.1 < other.mice.0 || other.median_ms > fifo.median_ms * 0.3 {
            return Err("the mice wait for the elephants");
        }
        if other.call.0 > 0.02 { Err("the call pays for the elephants") } else { Ok(()) }
    };
    let (mered, meredt) = ("kind = \"mered\", link = \"10mbit\"", "kind = \"meredt\", link = \"10mbit\"");
    beside_a_fifo([(mered, &before), (meredt, &before)], Family::V6)
}

/// The filter of the paper: nothing waits; the elephants are kept below the line, mice pass.
pub fn the_ingress_filter_keeps_elephants_below_the_line() -> Ended {
    let filter = "[discipline]\nkind = \"ingress-filter\"\nlink = \"20mbit\"\nsignal = \"drop\"\n";
    all([Family::V4, Family::V6].map(|family| {
        patiently(|| {
            let got = crowd(filter, None, family, Duration::from_millis(1_500));
            // Of 95 % of 20 Mbit/s; without the filter the elephants have gigabits.
            let elephants = (2.0..21.0).contains(&got.elephant_mbit);
            let (began, ended) = got.mice;
            let mice = began > 10 && ended == began && got.median_ms < 60.0;
            if elephants && mice { Ok(()) } else { Err(got.to_string()) }
        })
    }))
}

/// Arriving superpackets are cut where one would last too long, as departing ones are.
pub fn arriving_superpackets_are_cut() -> Ended {
    patiently(|| {
        let pair = Pair::create().expect("a pair of hosts");
        let shaping = shape_arrivals(&pair, &queue("kind = \"fifo\", limit = \"250kB\""));
        let flows = [FlowSpec::tcp("bulk", 5_000, 0)];
        let sink = Sink::start_with(&pair.receiver, &flows, Stamp::Socket).expect("a sink");
        let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
        until("superpackets are cut", || shaping.counts().expect("the data path answers").cut > 10);
        let (reports, elapsed) = sink.measure(Duration::from_secs(2));
        senders.stop();
        let counts = shaping.stop().expect("an orderly end");
        let rate = reports[0].bytes as f64 * 8e9 / elapsed as f64;
        println!("  {:.2} Mbit/s, {counts:?}", rate / 1e6);
        if (8e6..10.3e6).contains(&rate) { Ok(()) } else { Err(format!("{rate} bit/s")) }
    })
}
