//! The data path in the kernel, where there is a kernel that takes it: Linux from 6.16, as root of the machine.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_config::shaper::DataPath;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::Match;
use tidegate_core::fbq::Terms;
use tidegate_core::{ClassId, Rate, Span};
use tidegate_engine::{ClassCounts, FlowRecord, PromiseError, PromiseTable};
use tidegate_kernel::KernelPrograms;
use tidegate_live::probe::Version;
use tidegate_live::rtnl::{RootQdisc, Rtnl};
use tidegate_live::rules::Difference;
use tidegate_live::shaping::backend::OffloadProvider;
use tidegate_live::shaping::{Options, Shaping, StartError};

use crate::queue::PATIENCE;
use tidegate_testbed::Ended;
use tidegate_testbed::harness::Child;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

const PORT: u16 = 7_000;

fn config(text: &str) -> shaper::Config {
    let source = Source::new("kernel.toml", format!("version = 1\n{text}"));
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// One class at `rate` with a queue of up to 4,000 packets.
fn at_rate(rate: &str) -> shaper::Config {
    config(&format!(
        "[interface]\nname = \"{DEVICE}\"\ndata-path = \"kernel\"\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\ndefault = true\n\
         queue = {{ kind = \"fifo\", limit = \"100MB\", packets = 4000 }}\n"
    ))
}

/// Kinds in a file, with the keys that they need.
const DISCIPLINES: [&str; 9] = [
    "fq-codel\"\nsignal = \"drop",
    MERED,
    "drr",
    "red\"\nmin-th = \"100kB\"\nmax-th = \"300kB\"\nearly = { signal = \"drop\" }\nlimit = \"1MB",
    "sfq",
    "pie\"\nsignal = \"drop",
    "codel\"\nsignal = \"drop",
    "ared\"\nlink = \"1gbit\"\nsignal = \"drop",
    "fifo",
];

const MERED: &str = "mered\"\nlink = \"1gbit\"\nsignal = \"drop\"\nthreshold = \"20kB";

/// No rate: what waits leaves.
fn discipline(kind: &str) -> shaper::Config {
    config(&format!("[interface]\nname = \"{DEVICE}\"\ndata-path = \"kernel\"\n[discipline]\nkind = \"{kind}\"\n"))
}

/// With a program that can have `config`.
fn options(config: &shaper::Config) -> Result<Options, Ended> {
    let programs = KernelPrograms::default();
    match programs.load(config) {
        Ok(()) => Ok(Options { offload: Some(Arc::new(programs)), ..Options::default() }),
        Err(error) => Err(Ended::Skipped(error.to_string())),
    }
}

fn start(pair: &Pair, config: &shaper::Config, options: &Options) -> Shaping {
    pair.left.run(|| Shaping::start(config, options)).unwrap().unwrap()
}

fn root(pair: &Pair) -> Option<RootQdisc> {
    pair.left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            rtnl.root_qdisc(index).unwrap()
        })
        .unwrap()
}

fn counts(shaping: &Shaping) -> ClassCounts {
    shaping.status().unwrap().remove(0).counts
}

/// A socket that sends to the other one.
fn sockets(pair: &Pair) -> (UdpSocket, UdpSocket) {
    let from = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
    let to = pair.right.run(|| UdpSocket::bind((RIGHT[0], PORT)).unwrap()).unwrap();
    from.connect((RIGHT[0], PORT)).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    (from, to)
}

fn numbered(number: u32) -> [u8; 1_400] {
    let mut bytes = [0; 1_400];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn receive(socket: &UdpSocket) -> u32 {
    let mut bytes = [0; 1_500];
    socket.recv(&mut bytes).expect("every packet arrives");
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// To verify the program takes an emulated machine many seconds, and minutes beside other work.
const LONGEST: Duration = Duration::from_secs(600);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// 120 packets, of which 57 fit into the bucket, under changes of the rate, then 90 under each change of the discipline: all
/// arrive, in order, and are counted. Then the interface is as before.
pub fn changes_lose_and_reorder_nothing_and_all_is_counted() -> Ended {
    let options = match options(&discipline(MERED)) {
        Ok(options) => options,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let before = root(&pair).map(|root| root.kind);
    let mut shaping = start(&pair, &at_rate("400kbit"), &options);
    assert!(root(&pair).is_some_and(|root| root.kind == shaping.in_kernel().unwrap()));
    let (from, to) = sockets(&pair);
    // The first packet waits for a neighbour's address, where others could be dropped.
    from.send(&numbered(0)).unwrap();
    assert_eq!(receive(&to), 0);
    let change = |shaping: &mut Shaping, config: &shaper::Config| {
        pair.left.run(|| shaping.reconfigure(config, None)).unwrap().unwrap();
    };
    for number in 1..=120 {
        from.send(&numbered(number)).unwrap();
        if number % 20 == 0 {
            change(&mut shaping, &at_rate(if number % 40 == 0 { "600kbit" } else { "300kbit" }));
        }
    }
    change(&mut shaping, &at_rate("2mbit"));
    for number in 1..=90 {
        assert_eq!(receive(&to), number);
    }
    change(&mut shaping, &discipline("fifo"));
    for number in 91..=120 {
        assert_eq!(receive(&to), number);
    }
    // Each takes over what waits.
    let mut sent = 120;
    for kind in DISCIPLINES {
        change(&mut shaping, &at_rate("30kbit"));
        (sent + 1..=sent + 90).for_each(|number| assert!(from.send(&numbered(number)).is_ok()));
        until(kind, || counts(&shaping).backlog.packets > 20);
        change(&mut shaping, &discipline(kind));
        (sent + 1..=sent + 90).for_each(|number| assert_eq!(receive(&to), number, "{kind}"));
        sent += 90;
    }
    let sent = u64::from(sent) + 1;
    until("all are counted", || counts(&shaping).through.packets >= sent);
    let found = counts(&shaping);
    assert_eq!(found.accounts.enqueued.packets, found.through.packets);
    assert_eq!((found.accounts.dropped_total().packets, found.backlog.packets), (0, 0));
    // From the network header on: 1,400 B of data, 28 of headers; and some neighbour discovery.
    let bytes = found.through.bytes.as_u64() - sent * 1_428;
    assert!(bytes < (found.through.packets - sent) * 200 + 1, "{bytes} B of {found:?}");
    assert_eq!(found.waited.count(), found.through.packets);
    assert!(found.waited.longest().as_nanos() > 100_000_000, "{found:?}");
    until("IPv4 is proven", || shaping.interfaces()[0].has_received(Version::V4));
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    assert_eq!(root(&pair).map(|root| root.kind), before);
    Ended::Passed
}

/// Classes of these names, of which the last is the default, at `rate`.
fn classes(names: &[&str], rate: &str) -> shaper::Config {
    let mut text = format!("[interface]\nname = \"{DEVICE}\"\ndata-path = \"kernel\"\n[shaper]\nrate = \"100mbit\"\n");
    for (number, name) in names.iter().enumerate() {
        let (rate, default) = if number + 1 == names.len() { (rate, "default = true\n") } else { ("1mbit", "") };
        text +=
            &format!("[[class]]\nname = \"{name}\"\nrate = \"{rate}\"\n{default}borrow = false\nlimit = \"10MB\"\n");
    }
    config(&text)
}

/// Packets that wait in a class stay in it, in order, when rates change, where classes come, go and change their order, and where
/// the class itself goes; each class keeps its counts.
pub fn classes_keep_what_waits_and_their_counts() -> Ended {
    let first = classes(&["calls", "rest"], "30kbit");
    let options = match options(&first) {
        Ok(options) => options,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let mut shaping = start(&pair, &first, &options);
    assert!(shaping.in_kernel().is_some());
    let (from, to) = sockets(&pair);
    from.send(&numbered(0)).unwrap();
    assert_eq!(receive(&to), 0);
    let change = |shaping: &mut Shaping, names: &[&str], rate: &str| {
        pair.left.run(|| shaping.reconfigure(&classes(names, rate), None)).unwrap().unwrap();
    };
    let of = |shaping: &Shaping, at: usize| shaping.status().unwrap().remove(at).counts;
    let mut sent = 0;
    let mut before = 1;
    for names in [&["calls", "rest"][..], &["calls", "web", "rest"], &["rest"], &["web", "rest"], &["web", "all"]] {
        (sent + 1..=sent + 90).for_each(|number| assert!(from.send(&numbered(number)).is_ok()));
        until("what waits is counted", || of(&shaping, before).backlog.packets > 20);
        let known = of(&shaping, before).through.packets;
        change(&mut shaping, names, "50mbit");
        (sent + 1..=sent + 90).for_each(|number| assert_eq!(receive(&to), number, "{names:?}"));
        sent += 90;
        before = names.len() - 1;
        if names[before] == "rest" {
            until("the class keeps its counts", || of(&shaping, before).through.packets > known.max(u64::from(sent)));
        } else {
            until("the default class has what waited", || of(&shaping, before).through.packets > 20);
            assert!(of(&shaping, before).through.packets < 100);
        }
        until("all has left", || of(&shaping, before).backlog.packets == 0);
        let found = of(&shaping, before);
        let entered = found.accounts.enqueued.packets + found.moved_in.packets;
        assert_eq!(entered, found.through.packets + found.moved_out.packets, "{names:?}");
        assert_eq!(found.accounts.dropped_total().packets, 0, "{names:?}");
        change(&mut shaping, names, "30kbit");
    }
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    Ended::Passed
}

/// Where rules alone change, what waits moves to the class that matches, what arrives is behind it, and flows are counted
/// with their classes: of 80 packets some 20 wait at 30 kbit/s, for nine seconds.
pub fn flows_that_rules_move_stay_in_order() -> Ended {
    let of = |rule: &str| {
        config(&format!(
            "[interface]\nname = \"{DEVICE}\"\ndata-path = \"kernel\"\n\
             [[class]]\nname = \"calls\"\nrate = \"50mbit\"\nborrow = false\nlimit = \"10MB\"\n\
             [[class]]\nname = \"rest\"\nrate = \"30kbit\"\nborrow = false\nlimit = \"10MB\"\ndefault = true\n{rule}"
        ))
    };
    let rule = |port: u16| of(&format!("[[rule]]\nclass = \"calls\"\ndestination-port = {port}\n"));
    let (first, next) = (rule(PORT + 1), rule(PORT));
    let options = match options(&first) {
        Ok(options) => options,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let mut shaping = start(&pair, &first, &options);
    let (from, to) = sockets(&pair);
    from.send(&numbered(0)).unwrap();
    assert_eq!(receive(&to), 0);
    let counts = |shaping: &Shaping, at: usize| shaping.status().unwrap().remove(at).counts;
    let send = |numbers: std::ops::RangeInclusive<u32>| {
        for number in numbers {
            from.send(&numbered(number)).unwrap();
        }
    };
    send(1..=80);
    until("what waits is counted", || counts(&shaping, 1).backlog.packets > 10);
    pair.left.run(|| shaping.reconfigure(&next, None)).unwrap().unwrap();
    send(81..=90);
    (1..=90).for_each(|number| assert_eq!(receive(&to), number));
    until("all has left", || counts(&shaping, 0).through.packets + counts(&shaping, 1).through.packets > 90);
    let [calls, rest] = [0, 1].map(|at| counts(&shaping, at));
    assert!(calls.moved_in.packets > 5 && calls.moved_in == rest.moved_out, "{calls:?}");
    assert_eq!(calls.accounts.enqueued.packets, 10);
    assert_eq!(calls.through.packets, 10 + calls.moved_in.packets);
    assert_eq!(rest.through.packets + rest.moved_out.packets, rest.accounts.enqueued.packets);
    let flows = || {
        let rows = shaping.with(|engine, now| {
            let mut rows = Vec::new();
            engine.flow_rows(now, 0, 4_096, &mut rows);
            rows.into_iter().map(|row| row.record).filter(|flow| flow.who.destination_port == Some(PORT)).collect()
        });
        let mut flows: Vec<FlowRecord> = rows.unwrap();
        flows.sort_by_key(|flow| flow.class);
        flows
    };
    until("flows are counted", || flows().iter().map(|flow| flow.sent.packets).sum::<u64>() == 91);
    let [calls, rest] = &flows()[..] else { panic!("one in each class: {:?}", flows()) };
    assert_eq!((calls.class, calls.rule, rest.class, rest.rule), (ClassId(0), Some(0), ClassId(1), None));
    assert_eq!(calls.arrived.packets, calls.sent.packets);
    assert!(calls.sent.packets > 15 && calls.longest.as_nanos() > 1_000_000, "{calls:?} {rest:?}");
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    Ended::Passed
}

/// Changes by another program are noticed; a second instance is refused, and so is what the program cannot do.
pub fn what_is_not_in_force_is_noticed() -> Ended {
    let options = match options(&at_rate("4mbit")) {
        Ok(options) => options,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let mut shaping = start(&pair, &at_rate("4mbit"), &options);
    let programs = KernelPrograms::default();
    programs.load(&at_rate("4mbit")).unwrap();
    let second = Options { offload: Some(Arc::new(programs)), ..Options::default() };
    let refused = pair.left.run(|| Shaping::start(&at_rate("4mbit"), &second)).unwrap();
    assert!(matches!(refused, Err(StartError::Rules(_))), "{:?}", refused.err());
    let marks = config("[interface]\ndata-path = \"kernel\"\n[discipline]\nkind = \"codel\"\n");
    pair.left.run(|| shaping.reconfigure(&marks, None)).unwrap().expect("the program that marks comes with the change");
    let refused = pair.left.run(|| shaping.reconfigure(&discipline(MERED), None)).unwrap().unwrap_err().to_string();
    assert!(refused.contains("memory"), "{refused}");
    pair.left
        .run(|| {
            assert!(shaping.inspect().unwrap().is_sound());
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            // Handle 1: is that of the program's.
            rtnl.clear_qdisc(index).unwrap();
            rtnl.set_plain(index, "pfifo").unwrap();
            let differences = shaping.inspect().unwrap().differences;
            assert!(
                matches!(&differences[..], [Difference::Root { found, .. }] if found == "pfifo"),
                "{differences:?}"
            );
            drop(shaping);
            // It is somebody's.
            assert_eq!(rtnl.root_qdisc(index).unwrap().map(|root| root.kind).as_deref(), Some("pfifo"));
            let refused = Shaping::start(&at_rate("4mbit"), &options);
            assert!(matches!(refused, Err(StartError::RootConfigured { .. })), "{:?}", refused.err());
            rtnl.clear_qdisc(index).unwrap();
            // Without a program one that may be in user space is there, and states why.
            let offload: Arc<dyn OffloadProvider> = Arc::new(KernelPrograms::default());
            let auto = Options { data_path: Some(DataPath::Auto), offload: Some(offload), ..Options::default() };
            let mut elsewhere = Shaping::start(&at_rate("4mbit"), &auto).unwrap();
            assert_eq!(elsewhere.in_kernel(), None);
            assert!(elsewhere.warnings().iter().any(|text| text.contains("packets are queued in user space")));
            assert!(elsewhere.inspect().unwrap().is_sound());
        })
        .unwrap();
    Ended::Passed
}

/// A promise is in force with the next packet of its flow, others get what it leaves, and where it ends what it had is free at
/// once; packets that wait meanwhile arrive in order. Whoever listens is notified.
pub fn promises_come_into_force_and_end() -> Ended {
    let of = classes(&["calls", "rest"], "2mbit");
    let options = match options(&of) {
        Ok(options) => options,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let shaping = start(&pair, &of, &options);
    let class = ClassId(1);
    let (from, to) = sockets(&pair);
    from.send(&numbered(0)).unwrap();
    assert_eq!(receive(&to), 0);
    let promise = |number: u64, minimum: u64| {
        let terms = Terms { minimum: Rate::from_kbit(minimum), ..Terms::default() };
        shaping.with(move |engine, now| engine.promises(now).promise(number, terms, class, 1, false).map(drop)).unwrap()
    };
    let matching = Match { destination_ports: vec![PORT..=PORT], ..Match::default() };
    let table = |numbers: &[u64]| {
        let watch = (Span::from_millis(20), std::slice::from_ref(&matching));
        let promises = numbers.iter().map(|number| (*number, std::slice::from_ref(&matching)));
        let table = PromiseTable::new(promises, [watch]).unwrap();
        shaping.check_promises(&table).unwrap();
        shaping.with(move |engine, now| drop(engine.promises(now).set_table(table))).unwrap();
        shaping.with(|engine, now| engine.promises(now).review(0, 4_096)).unwrap();
    };
    let view = |number: u64| shaping.with(move |engine, now| engine.promises(now).view(number)).unwrap();
    assert_eq!(promise(1, 1_500), Ok(()));
    table(&[1]);
    assert_eq!(promise(2, 600), Err(PromiseError::NoRoom(Rate::from_kbit(500))));
    // Of the flow that is there: with its next packet.
    assert_eq!(view(1).map(|view| (view.flows, view.held)), Some((0, 1)));
    let mut sent = 0;
    let mut send = |count: u32| {
        (sent + 1..=sent + count).for_each(|number| assert!(from.send(&numbered(number)).is_ok()));
        sent += count;
        sent
    };
    send(1);
    until("the flow is under the promise", || view(1).is_some_and(|view| (view.flows, view.held) == (1, 0)));
    assert_eq!(view(1).map(|view| (view.waiting, view.rate >= Rate::from_kbit(1_500))), Some((0, true)));
    assert_eq!(promise(2, 600), Err(PromiseError::NoRoom(Rate::from_kbit(500))));
    // It ends, and the next one is made, while packets wait; then none passes in which that could come into force.
    send(90);
    shaping.with(|engine, now| engine.promises(now).end(1)).unwrap();
    table(&[]);
    assert_eq!(promise(3, 2_000), Ok(()));
    table(&[3]);
    send(60);
    until("it is under the other one", || view(3).is_some_and(|view| (view.flows, view.waiting) == (1, 0)));
    let last = send(1);
    (1..=last).for_each(|number| assert_eq!(receive(&to), number));
    shaping.with(|engine, now| engine.promises(now).end(3)).unwrap();
    table(&[]);
    assert_eq!(promise(4, 2_000), Ok(()), "nothing has passed since");
    let granted = shaping.with(|engine, now| {
        let mut found = Vec::new();
        engine.promises(now).find(0, 4_096, |fields| fields.destination_port == Some(PORT), &mut found);
        found.iter().map(|(_, _, state)| (state.granted, state.dropped)).collect::<Vec<_>>()
    });
    assert_eq!(granted.unwrap(), [(false, 0)]);
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    Ended::Passed
}

/// The kernel goes on shaping when the process is killed, and the next one takes over.
pub fn a_killed_one_leaves_the_kernel_shaping() -> Ended {
    if let Err(ended) = options(&at_rate("4mbit")) {
        return ended;
    }
    let pair = Pair::new();
    let killed = Child::fork(|| {
        let Ok(options) = options(&at_rate("4mbit")) else { return 1 };
        let _shaping = start(&pair, &at_rate("4mbit"), &options);
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    until("it shapes", || root(&pair).is_some_and(|root| root.kind.starts_with("tidegate")));
    killed.kill();
    let (from, to) = sockets(&pair);
    from.send(&numbered(0)).unwrap();
    assert_eq!(receive(&to), 0);
    let began = Instant::now();
    // 214 kB, of which the bucket has 82 kB, at 4 Mbit/s.
    (1..=150).for_each(|number| assert!(from.send(&numbered(number)).is_ok()));
    (1..=150).for_each(|number| assert_eq!(receive(&to), number));
    assert!(began.elapsed() > Duration::from_millis(150), "{:?}", began.elapsed());
    let Ok(options) = options(&at_rate("4mbit")) else {
        return Ended::Skipped("the program is not loaded again".into());
    };
    let shaping = start(&pair, &at_rate("4mbit"), &options);
    assert!(shaping.warnings().iter().any(|text| text.contains("has taken over")), "{:?}", shaping.warnings());
    pair.left.run(|| drop(shaping)).unwrap();
    assert!(!root(&pair).is_some_and(|root| root.kind.starts_with("tidegate")));
    Ended::Passed
}
