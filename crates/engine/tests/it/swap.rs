//! The laws across a change of configuration: nothing that waited is lost, nothing is reordered, no burst is gained.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Credit, DropReason, Dscp, Ecn, Instant, Qdisc, Rate, Span};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Sink, swap::SwapKind};
use tidegate_testbed::share;

fn config(text: &str) -> Config {
    let source = Source::new("swap.toml", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn setup() -> Setup {
    Setup { seed: 7, secret: [3, 4], catch_up: Span::ZERO, most_queued: None, names: Names::default() }
}

/// A packet of flow `flow` and code point `dscp`, of `length` bytes.
fn meta(flow: u64, length: u32) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, (flow % 3) as u8 + 2].into() };
    let fields = Fields {
        hosts,
        dscp: Dscp::new((flow % 4 * 8) as u8).unwrap(),
        protocol: Some(17),
        source_port: Some(1_000),
        destination_port: Some(5_000 + flow as u16),
        ..Fields::default()
    };
    PacketMeta {
        fields,
        ecn: if flow.is_multiple_of(2) { Ecn::NotEct } else { Ecn::Ect0 },
        length,
        network_header: 20,
        headers: 28,
        ..PacketMeta::default()
    }
}

/// Every kind of discipline that a file can have at its root, with limits from a packet or two upwards.
fn kinds() -> Vec<String> {
    let shaper = |classes: &[(&str, u32, &str)], rules: &str| {
        let mut text = "version = 1\n".to_owned();
        for (n, (name, mbit, more)) in classes.iter().enumerate() {
            text += &format!("[[class]]\nname = \"{name}\"\nrate = \"{mbit}mbit\"\n{more}\n");
            if n == 0 {
                text += "default = true\n";
            }
        }
        text + rules
    };
    let discipline = |text: &str, rules: &str| format!("version = 1\n{rules}\n[discipline]\n{text}\n");
    let rule = |class: &str, what: &str| format!("[[rule]]\nclass = \"{class}\"\n{what}\n");
    let cbq = |one: u32, two: u32, limit: &str| {
        format!(
            "kind = \"cbq\"\nlink = \"12mbit\"\nclass = [\n\
             {{ name = \"a\", rate = \"{one}mbit\", borrow = \"from-parent\", queue = {{ kind = \"fifo\", limit = \"{limit}\" }} }},\n\
             {{ name = \"b\", rate = \"{two}mbit\", borrow = \"from-parent\" }},\n]\n"
        )
    };
    vec![
        shaper(&[("a", 6, ""), ("b", 6, "")], &rule("b", "destination-port = \"5003-5005\"")),
        // The same classes with other rates and tiny limits, which is done in place.
        shaper(
            &[("a", 9, "limit = \"1500B\""), ("b", 3, "limit = \"3000B\"\nshare = \"strict\"")],
            &rule("b", "destination-port = \"5001-5004\"\nminimum = \"500kbit\""),
        ),
        shaper(
            &[("b", 4, ""), ("c", 4, "queue = { kind = \"fifo\", limit = \"3000B\" }"), ("a", 4, "")],
            &rule("c", "dscp = 8"),
        ),
        format!("{}\n[shaper]\nflow-by = \"host-pair\"\n", shaper(&[("a", 12, "")], "")),
        discipline(&cbq(6, 6, "1MB"), &rule("b", "destination-port = \"5003-5005\"")),
        discipline(&cbq(2, 9, "1500B"), &rule("b", "destination-port = \"5000-5002\"")),
        discipline(&cbq(2, 9, "1500B"), &rule("a", "destination-port = \"5000-5002\"")),
        discipline("kind = \"fifo\"\nlimit = \"1000B\"", ""),
        discipline("kind = \"fifo\"\nlimit = \"64kB\"", ""),
        discipline("kind = \"fq-codel\"\nlimit = \"3000B\"", ""),
        discipline("kind = \"codel\"\nlimit = \"4000B\"", ""),
        discipline("kind = \"pie\"", ""),
        discipline("kind = \"red\"\nlimit = \"20kB\"\nmin-th = \"2kB\"\nmax-th = \"5kB\"", ""),
        discipline("kind = \"sfq\"", ""),
        discipline("kind = \"drr\"", ""),
        discipline("kind = \"cake\"\nrate = \"10mbit\"", ""),
    ]
}

/// The packets that came out, by their numbers.
#[derive(Default)]
struct Out {
    events: Vec<(u64, Option<DropReason>)>,
}

impl Sink<u64> for Out {
    fn transmit(&mut self, handle: u64, _change: Change) {
        self.events.push((handle, None));
    }
    fn drop_packet(&mut self, handle: u64, reason: DropReason) {
        self.events.push((handle, Some(reason)));
    }
}

/// The observations of a run.
#[derive(Default, PartialEq, Eq, Debug)]
struct Report {
    steps: u64,
    passed: u64,
    dropped: u64,
    replaced: u64,
    in_place: u64,
    rehomed: u64,
    most_lines: usize,
    /// A digest of all that came out, in order.
    digest: u64,
}

struct Run {
    engine: Engine<u64>,
    out: Out,
    now: Instant,
    next: u64,
    flow_of: HashMap<u64, u64>,
    inside: BTreeMap<u64, ()>,
    /// Packets that waited at a change: none of them may be dropped.
    adopted: HashSet<u64>,
    last: HashMap<u64, u64>,
    report: Report,
}

impl Run {
    fn new(first: &Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            engine: Engine::new(first, &setup(), now).unwrap(),
            out: Out::default(),
            now,
            next: 0,
            flow_of: HashMap::new(),
            inside: BTreeMap::new(),
            adopted: HashSet::new(),
            last: HashMap::new(),
            report: Report::default(),
        }
    }

    fn arrive(&mut self, flow: u64, length: u32) {
        let id = self.next;
        self.next += 1;
        self.flow_of.insert(id, flow);
        self.inside.insert(id, ());
        self.engine.enqueue(self.now, id, &meta(flow, length), &mut self.out);
        self.settle();
    }

    fn depart(&mut self) -> bool {
        let left = self.engine.dequeue(self.now, &mut self.out);
        self.settle();
        left
    }

    fn change(&mut self, to: &Config) {
        let waiting: Vec<u64> = self.inside.keys().copied().collect();
        let swapped = self.engine.reconfigure(to, &setup(), self.now, &mut self.out).unwrap();
        match swapped.how {
            SwapKind::InPlace => self.report.in_place += 1,
            SwapKind::Replaced => {
                self.report.replaced += 1;
                // What stays in a tree that goes on is still its to drop, as CoDel does at a departure.
                self.adopted.extend(waiting);
            }
        }
        self.report.rehomed += swapped.rehomed as u64;
        assert!(self.out.events.iter().all(|(_, dropped)| dropped.is_none()), "a change dropped {:?}", self.out.events);
        self.report.most_lines = self.report.most_lines.max(self.engine.held_flows());
        self.settle();
    }

    /// Another engine takes the place of this one, as that of another process does.
    fn succeed(&mut self, by: &Config) {
        let held = self.engine.hand_over(self.now);
        let handed: Vec<u64> = held.iter().map(|packet| packet.handle).collect();
        assert_eq!(handed, self.inside.keys().copied().collect::<Vec<_>>(), "all that waits, in the order of arrival");
        self.engine = Engine::new(by, &setup(), self.now).unwrap();
        self.engine.adopt(self.now, &held, &mut self.out);
        self.adopted.extend(handed);
        self.report.replaced += 1;
        self.report.rehomed += held.len() as u64;
        self.settle();
    }

    fn settle(&mut self) {
        for (id, dropped) in self.out.events.drain(..) {
            assert!(self.inside.remove(&id).is_some(), "packet {id} came out, but was not inside");
            self.report.digest =
                (self.report.digest ^ id ^ self.now.as_nanos()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            match dropped {
                Some(reason) => {
                    assert!(!self.adopted.contains(&id), "packet {id} waited at a change and was dropped: {reason:?}");
                    self.report.dropped += 1;
                }
                None => {
                    let flow = self.flow_of[&id];
                    if let Some(last) = self.last.insert(flow, id) {
                        assert!(last < id, "packet {id} of flow {flow} left after {last}");
                    }
                    self.report.passed += 1;
                }
            }
        }
        assert_eq!(self.engine.queued(), self.inside.len());
        let counts = self.engine.status();
        let backlog: u64 = counts.iter().map(|class| class.counts.backlog.packets).sum();
        assert_eq!(backlog, self.inside.len() as u64, "the classes count another backlog");
        for class in counts {
            let c = &class.counts;
            let out = c.accounts.dequeued.packets
                + c.accounts.dropped.iter().map(|account| account.packets).sum::<u64>()
                + c.moved_out.packets;
            assert_eq!(c.accounts.enqueued.packets + c.moved_in.packets, out + c.backlog.packets, "{}", class.name);
        }
    }

    /// Everything that can leave does so at its time; what is left over is a law broken.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.inside.is_empty() {
                return;
            }
            let deadline = self.engine.deadline(self.now).instant(self.now);
            self.now = deadline.unwrap_or_else(|| {
                panic!(
                    "idle with {} packets inside, {:?} in {:?}, lines {}",
                    self.inside.len(),
                    self.engine.tree().backlog(),
                    self.engine.config().class_names(),
                    self.engine.held_flows()
                )
            });
            self.depart();
        }
        panic!("{} packets never leave", self.inside.len());
    }
}

fn play(seed: u64, steps: u64, pool: &[Config], changes: u64, successors: u64) -> Report {
    let mut random = Stream::named(seed, "swap");
    let mut run = Run::new(&pool[random.below(pool.len() as u64) as usize]);
    for _ in 0..steps {
        run.report.steps += 1;
        match random.below(256) {
            n if n < changes => run.change(&pool[random.below(pool.len() as u64) as usize]),
            n if n < 120 => run.arrive(random.below(9), 60 + random.below(1_400) as u32),
            n if n < 190 => drop(run.depart()),
            n if n < 245 => {
                if let Some(time) = run.engine.deadline(run.now).instant(run.now) {
                    run.now = time;
                    run.depart();
                }
            }
            n if n < 245 + successors => run.succeed(&pool[random.below(pool.len() as u64) as usize]),
            _ => run.now += Span::from_nanos(1 << random.below(28)),
        }
    }
    run.drain();
    run.report
}

#[test]
fn nothing_that_waits_is_lost_or_reordered_whatever_takes_its_place() {
    let pool: Vec<Config> = kinds().iter().map(|text| config(text)).collect();
    let mut all = Report::default();
    for seed in 0..45 {
        // Few changes with long queues, and changes upon changes.
        let report = play(seed, 4_000, &pool, [2, 12, 60][seed as usize % 3], 0);
        all.steps += report.steps;
        all.passed += report.passed;
        all.dropped += report.dropped;
        all.replaced += report.replaced;
        all.in_place += report.in_place;
        all.rehomed += report.rehomed;
        all.most_lines = all.most_lines.max(report.most_lines);
    }
    println!("{all:?}");
    assert!(all.replaced > 9_000 && all.in_place > 800 && all.rehomed > 30_000 && all.most_lines > 6, "{all:?}");
    assert!(all.dropped > 1_000, "the scripts must fill queues: {all:?}");
}

#[test]
fn nothing_that_waits_is_lost_or_reordered_when_another_engine_takes_over() {
    let pool: Vec<Config> = kinds().iter().map(|text| config(text)).collect();
    let mut all = Report::default();
    for seed in 200..220 {
        let report = play(seed, 4_000, &pool, 2, [1, 6][seed as usize % 2]);
        all.dropped += report.dropped;
        all.replaced += report.replaced;
        all.rehomed += report.rehomed;
    }
    assert!(all.replaced > 900 && all.rehomed > 9_000 && all.dropped > 300, "{all:?}");
}

#[test]
fn equal_changes_have_equal_departures() {
    let pool: Vec<Config> = kinds().iter().map(|text| config(text)).collect();
    for seed in 100..106 {
        assert_eq!(play(seed, 2_000, &pool, 10, 2), play(seed, 2_000, &pool, 10, 2));
    }
}

/// 12 Mbit/s as two classes, as three, as CBQ: under load, changed every few packets, what leaves in any time t is never
/// more than 12 Mbit/s times t and the largest of the bursts.
#[test]
fn no_burst_is_gained_by_changing() {
    let two = "version = 1\n[shaper]\nrate = \"12mbit\"\nburst = \"6kB\"\n[[class]]\nname = \"a\"\nrate = \"6mbit\"\n\
        default = true\n[[class]]\nname = \"b\"\nrate = \"2mbit\"\n[[rule]]\nclass = \"b\"\ndestination-port = 5001\n";
    let three =
        format!("{two}[[class]]\nname = \"c\"\nrate = \"3mbit\"\n[[rule]]\nclass = \"c\"\ndestination-port = 5002\n");
    let other = two.replace("\"6mbit\"", "\"9mbit\"");
    let cbq = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"12mbit\"\nmtu = \"1500B\"\nlead = \"2ms\"\n\
        class = [{ name = \"a\", rate = \"6mbit\", borrow = \"from-parent\" }, \
        { name = \"b\", rate = \"6mbit\", borrow = \"from-parent\" }]\n";
    let turned = cbq.replace("name = \"b\"", "name = \"d\"");
    let pool: Vec<Config> = [two, &three, &other, cbq, &turned].iter().map(|text| config(text)).collect();
    let rate = Rate::from_mbit(12);
    // The bucket of 6 kB and a packet that may overdraw it; a lead of 2 ms is 3 kB, and a packet.
    let depth = Credit::of(Bytes::new(6_000 + 1_500));
    for seed in 0..share(40) {
        let mut random = Stream::named(seed, "burst");
        let mut run = Run::new(&pool[0]);
        let (mut level, mut at) = (depth, run.now);
        let mut sent = 0_u64;
        let start = run.now;
        let sizes = |id: u64| 100 + (id * 7_919 % 1_400) as u32;
        for step in 0..3_000_u64 {
            while run.inside.len() < 20 {
                let (id, flow) = (run.next, random.below(5));
                run.arrive(flow, sizes(id));
            }
            if step % [1, 3, 17][seed as usize % 3] == 0 {
                run.change(&pool[random.below(pool.len() as u64) as usize]);
            }
            // Silence now and then, so that bursts are saved up.
            if random.below(40) == 0 {
                run.now += Span::from_micros(random.below(9_000));
            }
            let before = run.report.passed;
            run.now = run.engine.deadline(run.now).instant(run.now).expect("something waits");
            let inside: HashSet<u64> = run.inside.keys().copied().collect();
            run.depart();
            assert!(run.report.passed - before <= 1);
            for id in inside.iter().filter(|id| !run.inside.contains_key(id)) {
                level =
                    (level + rate.credit_in(run.now.since(at))).min(depth) - Credit::of(Bytes::new(sizes(*id).into()));
                (at, sent) = (run.now, sent + u64::from(sizes(*id)));
                assert!(level >= Credit::ZERO, "seed {seed}, step {step}: {level:?}");
            }
        }
        let used = sent as f64 * 8.0 / 12e6 / (run.now.since(start).as_nanos() as f64 / 1e9);
        assert!(used > 0.8, "seed {seed}: only {used} of the rate, so that the bound shows nothing");
    }
}

/// A packet that waited at a change and does not fit into the new queue passes by the tree, but only after a second: until
/// then another change may help it.
#[test]
fn a_packet_that_an_empty_tree_refuses_passes_by_it_after_a_second() {
    let fifo = |limit: &str| config(&format!("version = 1\n[discipline]\nkind = \"fifo\"\nlimit = \"{limit}\"\n"));
    let mut run = Run::new(&fifo("64kB"));
    run.arrive(1, 1_400);
    run.change(&fifo("1000B"));
    assert_eq!(run.report.passed, 0);
    run.now += Span::from_millis(999);
    assert!(!run.depart());
    assert_eq!(run.report.passed, 0);
    run.now += Span::from_millis(1);
    run.depart();
    assert_eq!(run.report.passed, 1);
}
