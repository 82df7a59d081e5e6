use super::*;
use crate::options::{
    ARED, CODEL, DRR, DUALPI2, FIFO, FQ_CODEL, FQ_PIE, INGRESS, MERED, PIE, RAS, RED, RIO, SFQ, WRED,
};
use tidegate_config::discipline::InKernel;
use tidegate_config::discipline::Kind;
use tidegate_config::shaper::DataPath;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::Qdisc;
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::random::Stream;

pub fn config(text: &str) -> Config {
    let source = Source::new("kernel.toml", format!("version = 1\n{text}"));
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}
pub fn plan(text: &str) -> Result<Plan, String> {
    let config = config(text);
    let plan = Plan::new(&config, None, 7);
    let is_auto = config.interface.data_path == DataPath::Auto;
    let plan = plan.and_then(|plan| if is_auto { examine_choice(&config).map(|()| plan) } else { Ok(plan) });
    plan.map_err(|error| error.to_string())
}
/// As [`plan`], for the kernel.
fn planned(text: &str) -> Plan {
    plan(&format!("[interface]\ndata-path = \"kernel\"\n{text}")).unwrap()
}
const FIFO_QUEUE: &str = "queue = { kind = \"fifo\", limit = \"100kB\", packets = 50 }\n";

tidegate_config::record! {
    /// A discipline of another crate.
    struct Own as "own" {
        /// Numbers of its decider, none without one.
        numbers: u64 = 2,
        /// Whether its crate was built where there is a compiler.
        compiled: bool = true,
    }
}

impl Kind for Own {
    const KIND: &'static str = "own";

    fn kernel(&self) -> Option<InKernel> {
        let program: &[u8] = if self.compiled { b"own" } else { b"" };
        let numbers = (0..self.numbers).map(|number| 7 + number).collect();
        Some(InKernel { program, numbers }).filter(|_| self.numbers > 0)
    }
    fn build(&self, _: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        Box::new(Fifo::new(Limit::packets(1)))
    }
}

#[test]
fn a_discipline_of_another_crate_brings_its_decider() {
    tidegate_config::discipline::register::<Own>().unwrap();
    let class = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
    let behind = planned(&format!("{class}queue = {{ kind = \"own\" }}\n")).options;
    assert_eq!(
        (behind.kind, behind.rate, behind.limit_packets, behind.own[..3].to_vec()),
        (OWN, 20_000_000, PACKETS, vec![7, 8, 0])
    );
    let alone = plan("[discipline]\nkind = \"own\"\n").unwrap().options;
    assert_eq!(alone, Options { rate: 0, burst: 0, ..behind });
    for (keys, told) in
        [("numbers = 0", "no decider"), ("numbers = 17", "more than 16"), ("compiled = false", "without clang")]
    {
        let error = plan(&format!("[discipline]\nkind = \"own\"\n{keys}\n")).expect_err(keys);
        assert!(error.contains("kind = \"own\" in [discipline], ") && error.contains(told), "{error}");
    }
}

#[test]
fn a_class_at_a_rate_is_a_token_bucket() {
    let text = format!("[[class]]\nname = \"all\"\nrate = \"20mbit\"\nburst = \"200kB\"\ndefault = true\n{FIFO_QUEUE}");
    let found = planned(&text);
    assert_eq!(found.options.numbers()[..5], [TBF, 50, 100_000, 20_000_000, 81_920]);
    // The total has its own, smaller burst.
    assert!(found.notes[0].contains("superpackets"), "{:?}", found.notes);
    let borrows = planned(&format!("[shaper]\nrate = \"30mbit\"\nburst = \"300kB\"\n{text}"));
    assert_eq!((borrows.options.rate, borrows.options.burst, borrows.notes.len()), (30_000_000, 300_000, 0));
    let keeps = planned(&format!("[shaper]\nrate = \"30mbit\"\n{text}borrow = false\n"));
    assert_eq!(keeps.options.rate, 20_000_000);
}

#[test]
fn a_discipline_is_that_of_the_program() {
    let text = "[interface]\noverhead = \"38B\"\n[discipline]\nkind = \"codel\"\nsignal = \"drop\"\nlongest = \"1s\"\n";
    let found = plan(text).unwrap();
    assert_eq!(
        found.options.numbers()[..10],
        [CODEL, 65_535, 1_000_000, 0, 0, 5_000_000, 100_000_000, 1_514, 1_000_000_000, 0]
    );
    assert_eq!(found.overhead, 38);
    let found = plan("[discipline]\nkind = \"codel\"\n").unwrap();
    assert_eq!((found.options.marks, found.marks()), (1, true));
    let text = "[[class]]\nname = \"all\"\nrate = \"2mbit\"\ndefault = true\ndscp = \"ef\"\n";
    assert_eq!((planned(text).marks(), planned(text).dscp), (true, vec![Some(46)]));
    let found = plan("[discipline]\nkind = \"fifo\"\npackets = 10\n").unwrap();
    assert_eq!((found.options.limit_packets, found.options.limit_bytes, found.notes.is_empty()), (10, 1_000_000, true));
    let found = plan("[discipline]\nkind = \"fq-codel\"\nqueues = 64\nsignal = \"drop\"\n").unwrap().options;
    assert_eq!((found.kind, found.queues, found.quantum, found.target), (FQ_CODEL, 64, 1_514, 5_000_000));
    let found = plan(
        "[discipline]\nkind = \"mered\"\nlink = \"10mbit\"\nsignal = \"drop\"\nthreshold = \"30kB\"\n\
         memory = { pair-rule = \"off\" }\n",
    );
    let found = found.unwrap().options;
    assert_eq!((found.kind, found.longest_mouse, found.records), (MERED, 30_000, 65_536));
    assert_eq!((found.limit_packets, found.elephant_limit, found.counts_packets), (1_000, 750_000, 0));
    assert_eq!((found.points, found.values[..2].to_vec()), (2, vec![30_000, 1 << 48 | 30_001]));
    let found = plan(
        "[discipline]\nkind = \"meredt\"\nlink = \"10mbit\"\nvalue = [{ length = \"50kB\", value = 0 }, { length = \"1MB\", value = 7 }]\n",
    );
    let found = found.unwrap().options;
    assert_eq!((found.kind, found.longest_mouse, found.points, found.fairness), (MERED, 50_000, 2, 1 << 32));
    assert_eq!(found.values[..3], [50_000, 7 << 48 | 1_000_000, 0]);
    assert!(found.pair_threshold > 50_000 && found.pair_rate >= 256_000, "{found:?}");
    let found = plan("[discipline]\nkind = \"ingress-filter\"\nlink = \"20mbit\"\nfloor = 0.2\n").unwrap().options;
    assert_eq!((found.kind, found.rate, found.burst, found.mtu), (INGRESS, 19_000_000, 237_500, 1_500));
    assert_eq!((found.longest_mouse, found.floor, found.floor_credit, found.marks), (100_000, 858_993_459, 15_000, 1));
    let found = plan("[discipline]\nkind = \"dualpi2\"\n").unwrap().options;
    assert_eq!((found.kind, found.target, found.interval, found.marks), (DUALPI2, 15_000_000, 16_000_000, 1));
    assert_eq!((found.alpha, found.beta, found.coupling, found.parts, found.shift), (160, 3_200, 2, 16, 0));
    assert_eq!((found.step_from, found.step_full, found.nqb), (800_000, 1_200_000, 1));
    assert_eq!((found.critical, found.score, found.ageing), (1_200_000, 4_000_000, 1 << 19));
    let found = plan("[discipline]\nkind = \"dualpi2\"\nprotection = false\nnqb = false\nturns = \"time-shifted\"\n");
    let found = found.unwrap().options;
    assert_eq!((found.critical, found.nqb, found.parts, found.shift), (0, 0, 0, 50_000_000));
    let found = plan("[discipline]\nkind = \"fq-pie\"\nqueues = 64\n").unwrap().options;
    assert_eq!((found.kind, found.queues, found.quantum, found.target), (FQ_PIE, 64, 1_514, 15_000_000));
    assert_eq!((found.marks, found.random), (1, Stream::named(7, "root").parts()));
    let found = plan("[discipline]\nkind = \"sfq\"\nqueues = 16\nlimit = \"9kB\"\n").unwrap().options;
    let expected =
        Options { kind: SFQ, queues: 16, quantum: 1_514, perturb: 10_000_000_000, seed: 7, ..Options::default() };
    assert_eq!(found, Options { limit_packets: 65_535, limit_bytes: 9_000, ..expected });
    let found = plan("[discipline]\nkind = \"drr\"\n").unwrap().options;
    assert_eq!((found.kind, found.quantum), (DRR, 1_514));
    let early = "min-th = \"5 packets\"\nmax-th = \"15 packets\"\nearly = { signal = \"drop\" }\n";
    let found = plan(&format!("[discipline]\nkind = \"red\"\n{early}")).unwrap().options;
    assert_eq!((found.kind, found.min, found.max, found.in_bytes, found.above_max), (RED, 5, 15, 0, 1));
    // The core draws the same.
    assert_eq!(found.random, Stream::named(7, "root").parts());
    let found = plan("[discipline]\nkind = \"ared\"\nlink = \"15mbit\"\nsignal = \"drop\"\n").unwrap().options;
    assert_eq!((found.kind, found.min, found.max, found.interval), (ARED, 5, 15, 500_000_000));
    let found = plan("[discipline]\nkind = \"pie\"\nsignal = \"drop\"\n").unwrap().options;
    assert_eq!((found.kind, found.target, found.interval), (PIE, 15_000_000, 15_000_000));
}

const TREE: &str = "[discipline]\nkind = \"cbq\"\nlink = \"100mbit\"\nsharing = \"top-level\"\ndefault = \"b\"\n\
                    class = [{ name = \"agency\", share = \"60%\", borrow = \"from-parent\" }, \
                    { name = \"a\", parent = \"agency\", rate = \"20mbit\", borrow = \"from-parent\", priority = 0, queue = { kind = \"codel\" } }, \
                    { name = \"b\", share = \"20%\" }]\n[[rule]]\nclass = \"a\"\nprotocol = \"udp\"\n";

#[test]
fn cbq_is_a_tree_with_a_discipline_in_each_leaf() {
    use crate::options::cbq_class_options::{BORROWS, LEVEL, PARENT, PRIORITY, RATE, WORDS as CLASS};
    use crate::options::cbq_options::{CATCH_UP as LATE, FALLBACK, INNER, LEAVES, LINK, SHARING, WORDS as HEAD};
    let found = plan(TREE).unwrap();
    assert_eq!((found.options.kind, &found.names[..], found.marks()), (CBQ, &["a".to_owned(), "b".into()][..], true));
    let tree = found.tree.unwrap();
    assert_eq!([LINK, SHARING, LEAVES, INNER, FALLBACK, LATE].map(|at| tree[at]), [100_000_000, 3, 2, 2, 2, 5_000_000]);
    let class = |node: usize| [PARENT, LEVEL, BORROWS, PRIORITY, RATE].map(|at| tree[HEAD + node * CLASS + at]);
    // Inner classes are behind room for 64 leaves, and the root is the last.
    assert_eq!((class(0), class(1)), ([65, 1, 1, 0, 20_000_000], [66, 1, 0, 1, 20_000_000]));
    assert_eq!((class(64), class(65)), ([66, 2, 1, 1, 60_000_000], [0, 3, 0, 1, 100_000_000]));
    let numbers = found.classes.unwrap().numbers(&[0, 1], true, |_| 0);
    let insides = numbers.len() - 64 * Options::NUMBERS;
    assert_eq!((numbers[insides], numbers[insides + Options::NUMBERS]), (CODEL, FIFO));
    // Of the classes much can change while packets wait, of the tree nothing.
    for (from, to, continues) in [
        ("rate = \"20mbit\"", "rate = \"30mbit\"", true),
        ("priority = 0", "priority = 5", true),
        ("\"20%\" }", "\"20%\", borrow = \"from-parent\", min-burst = 7 }", true),
        ("\"top-level\"", "\"formal\"", false),
        ("parent = \"agency\", ", "", false),
        ("default = \"b\"\n", "", false),
    ] {
        let other = plan(&TREE.replace(from, to)).unwrap().tree.unwrap();
        assert!(other != tree && tree::continues(|at| tree[at], &other, &(2..2)) == continues, "{to}");
    }
}

/// The random stream of a leaf's discipline is that of the engine, which names it by its place.
#[test]
fn a_leaf_draws_as_in_the_engine() {
    let found = plan(&TREE.replace("\"codel\"", "\"pie\"")).unwrap();
    let numbers = found.classes.unwrap().numbers(&[0, 1], true, |_| 0);
    let insides = numbers.len() - 64 * Options::NUMBERS;
    let options = Options::of_numbers(std::array::from_fn(|at| numbers[insides + at]));
    assert_eq!((options.kind, options.random), (PIE, Stream::named(7, "root.a").parts()));
}

/// Colours have curves and random streams of their own, and a meter is around the discipline that it stands before or behind.
#[test]
fn colours_and_meters_are_those_of_the_file() {
    let curves = "green = { min-th = \"100kB\", max-th = \"300kB\" }\nyellow = { min-th = \"80kB\", max-th = \"200kB\" }\n\
                  red = { min-th = \"50kB\", max-th = \"100kB\", max-p = 1 }\n";
    let found = plan(&format!("[discipline]\nkind = \"wred\"\n{curves}")).unwrap().options;
    assert_eq!((found.kind, found.in_bytes, found.min, found.max, found.marks), (WRED, 1, 100_000, 300_000, 1));
    assert_eq!((found.yellow_min, found.yellow_max), (80_000, 200_000));
    assert_eq!((found.red_min, found.red_max, found.red_max_p), (50_000, 100_000, 1 << 32));
    let stream = |name: &str| Stream::named(7, name).parts();
    assert_eq!((found.random, &found.more_random[4..]), (stream("root.0"), &stream("root.2")[..]));
    let found = plan(&format!("[discipline]\nkind = \"rio\"\n{curves}coupling = \"uncoupled\"\n")).unwrap().options;
    assert_eq!((found.kind, found.coupled, found.random), (RIO, 0, stream("root.Green")));
    let meter = "kind = \"marker\"\nconditioner = { red = \"drop\", meter = { kind = \"tswtcm\", ctr = \"1mbit\", ptr = \"2mbit\" } }\n";
    let found = plan(&format!(
        "[discipline]\n{meter}at = \"exit\"\ninside = {{ kind = \"red\", min-th = \"9kB\", max-th = \"30kB\" }}\n"
    ));
    let found = found.unwrap().options;
    assert_eq!((found.kind, found.meter, found.meter_exit, found.actions), (RED, 4, 1, [0, 0, 1]));
    assert_eq!((found.meter_rates, found.meter_window), ([1_000_000, 2_000_000], 100_000_000));
    assert_eq!((found.random, found.meter_random), (stream("root.inside"), stream("root.meter")));
    for (inside, named) in [
        ("{ kind = \"codel\" }", "`at = \"exit\"` behind the marks of kind = \"codel\""),
        ("{ kind = \"wfq\", link = \"1mbit\" }", "kind = \"wfq\" in `marker` in [discipline]"),
    ] {
        let error = plan(&format!("[discipline]\n{meter}at = \"exit\"\ninside = {inside}\n")).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
    // A program writes code points behind the discipline.
    let remarking = format!("[discipline]\n{}", meter.replace("\"drop\"", "\"af13\""));
    for direction in ["egress", "ingress"] {
        let found =
            plan(&format!("[interface]\ndirection = \"{direction}\"\ndata-path = \"kernel\"\n{remarking}")).unwrap();
        assert_eq!((found.options.actions, found.remarks, found.marks()), ([0, 0, 2 + 14], true, false));
    }
}

/// A marker before RAS has the only meter of the discipline. Behind it is the meter of RAS itself.
#[test]
fn a_marker_is_before_ras() {
    let file = |at: &str, own: &str| {
        format!(
            "[discipline]\nkind = \"marker\"\nat = \"{at}\"\n\
             conditioner = {{ red = \"drop\", meter = {{ kind = \"srtcm\", cir = \"1mbit\", cbs = \"30kB\", ebs = \"30kB\" }} }}\n\
             inside = {{ kind = \"ras\", cir = \"2mbit\", line-rate = \"9mbit\", cir-th = \"5kB\", mir-th = \"50kB\"{own} }}\n"
        )
    };
    let found = plan(&file("entry", "")).unwrap().options;
    assert_eq!((found.kind, found.meter, found.meter_exit, found.actions), (RAS, 1, 0, [0, 0, 1]));
    assert_eq!(found.shaping_rates, [2_000_000, 0, 9_000_000]);
    let own = ", conditioner = { red = \"drop\", meter = { kind = \"srtcm\", cir = \"1mbit\", cbs = \"30kB\", ebs = \"30kB\" } }";
    for (at, own, named) in [
        (
            "exit",
            "",
            "`at = \"exit\"` behind kind = \"ras\" in [discipline] (its own `conditioner` is a meter behind it)",
        ),
        ("entry", own, "`conditioner` of kind = \"ras\" in `marker` in [discipline]"),
    ] {
        let error = plan(&file(at, own)).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}

/// RAS has its curve, its average and its meter; without the peak rate it is the single rate shaper.
#[test]
fn ras_is_that_of_the_file() {
    let text = "[discipline]\nkind = \"ras\"\ncir = \"10mbit\"\npir = \"20mbit\"\nline-rate = \"34mbit\"\nrelease = \"green\"\n\
                conditioner = { class = 1, meter = { kind = \"trtcm\", cir = \"10mbit\", cbs = \"3kB\", pir = \"20mbit\", pbs = \"6kB\" } }\n";
    let found = plan(text).unwrap();
    assert!(found.remarks);
    let found = found.options;
    assert_eq!((found.kind, found.interval, found.slack, found.green), (RAS, 100_000_000, 1_000_000, 1));
    assert_eq!(found.shaping_rates, [10_000_000, 20_000_000, 34_000_000]);
    // 100 ms of the line in the buffer.
    assert_eq!(
        (found.shaping_bytes, found.limit_bytes, found.limit_packets),
        ([3_000, 6_000, 12_000], 425_000, PACKETS)
    );
    assert_eq!((found.meter, found.meter_exit, found.actions), (2, 2, [2 + 10, 2 + 12, 2 + 14]));
    assert_eq!((found.meter_rates, found.meter_bursts), ([10_000_000, 20_000_000], [3_000, 6_000]));
    let single = text.replace("pir = \"20mbit\"\nline", "line");
    assert_eq!(plan(&single).unwrap().options.shaping_rates, [10_000_000, 0, 34_000_000]);
    let bare = "kind = \"ras\", cir = \"1mbit\", line-rate = \"90mbit\", cir-th = \"5kB\", mir-th = \"50kB\"";
    let found = plan(&format!("[discipline]\n{}\n", bare.replace(", ", "\n"))).unwrap();
    assert_eq!((found.options.meter, found.remarks), (0, false));
    let numbers = plan(&TREE.replace("kind = \"codel\"", bare)).unwrap().classes.unwrap().numbers(&[0, 1], true, |_| 0);
    assert_eq!(numbers[numbers.len() - 64 * Options::NUMBERS], RAS);
}

const CONDITIONER: &str = "conditioner = { red = \"drop\", meter = { kind = \"srtcm\", cir = \"10mbit\", cbs = \"30kB\", ebs = \"30kB\" } }\n";

#[test]
fn cake_is_that_of_the_file() {
    let text = "[discipline]\nkind = \"cake\"\nrate = \"600mbit\"\noverhead = 44\nleast = \"84B\"\nframing = \"ptm\"\n\
                tins = \"diffserv4\"\nack-filter = \"on\"\n";
    let found = plan(text).unwrap();
    // A superpacket takes less than a millisecond, and the line goes into debt for it.
    assert!(found.notes.is_empty() && found.marks(), "{:?}", found.notes);
    let found = found.options;
    // What the rate carries in the lateness of 1 ms.
    assert_eq!((found.kind, found.rate, found.burst, found.limit_packets), (CAKE, 600_000_000, 75_000, 10_240));
    assert_eq!((found.queues, found.quantum, found.target, found.interval), (1_024, 1_514, 5_000_000, 100_000_000));
    assert_eq!((found.overhead, found.least, found.framing, found.hosts, found.ack_filter), (44, 84, 2, 1, 1));
    assert_eq!((found.tins, found.tin), (4, [1, 16, 8 << 32 | 8, 4 << 32 | 4]));
    // CS1 is bulk, EF voice, CS2 video, and 63 best effort.
    assert_eq!([8, 46, 16, 63].map(|point: usize| found.tin_of[point / 32] >> (point % 32 * 2) & 3), [0, 3, 2, 1]);
    assert_eq!(found.random, Stream::named(7, "root").parts());
    let bare = plan("[discipline]\nkind = \"cake\"\nhosts = \"flows\"\nsignal = \"drop\"\n").unwrap().options;
    assert_eq!((bare.rate, bare.burst, bare.hosts, bare.tins, bare.marks), (0, 0, 0, 3, 0));
}

/// The step of queues of flows, which marks packets of ECT(1): the program at tc is needed for it alone.
#[test]
fn a_step_marks_in_each_discipline_with_queues_of_flows() {
    for kind in ["drr\"", "fq-codel\"\nsignal = \"drop\"", "cake\"\nrate = \"1gbit\"\nsignal = \"drop\""] {
        let of = |step: &str| plan(&format!("[discipline]\nkind = \"{kind}\n{step}")).unwrap();
        let (with, without) = (of("l4s-step = \"1ms\"\n"), of(""));
        assert_eq!((with.options.step_full, without.options.step_full), (1_000_000, 0), "{kind}");
        assert!(with.marks() && !without.marks(), "{kind}");
    }
}

/// A program that only some configurations need is found inside a meter as well.
#[test]
fn what_is_inside_a_meter_needs_its_program() {
    let inside =
        |queue: &str| config(&format!("[discipline]\nkind = \"marker\"\n{CONDITIONER}inside = {{ {queue} }}\n"));
    assert!(is_cake(&inside("kind = \"cake\"")) && !is_cake(&inside("kind = \"codel\"")));
    assert!(
        measures(&inside("kind = \"mered\", link = \"20mbit\""))
            && !measures(&inside("kind = \"ared\", link = \"20mbit\""))
    );
    assert!(measures(&inside("kind = \"ingress-filter\", link = \"20mbit\"")));
}

/// [`TREE`] with reservations.
pub fn reserving(keys: &str) -> String {
    TREE.replace("default =", &format!("reservations = {{ class = \"agency\", {keys} }}\ndefault ="))
        .replace("parent = \"agency\", ", "")
}

/// Where delays are not bounded, the rates that reservations get are the same in the kernel.
#[test]
fn reservations_without_bounds_are_taken_unasked() {
    assert_eq!(plan(&reserving("priority = 1, flows = 62")).unwrap().names.len(), 64);
}

/// Each is refused, and the error names it.
#[test]
fn what_the_program_does_not_do_is_named() {
    let class = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
    for (text, named) in [
        (class.to_owned(), "segmentation of superpackets, as one takes more than 10ms at 20mbit"),
        (
            format!("[shaper]\nrate = \"90mbit\"\nfollow = {{ from = \"60mbit\", to = \"100mbit\" }}\n{class}"),
            "round trips of what passes",
        ),
        ("[discipline]\nkind = \"wfq\"\nlink = \"20mbit\"\n".to_owned(), "kind = \"wfq\""),
        (
            "[discipline]\nkind = \"cake\"\nrate = \"500mbit\"\n".to_owned(),
            "segmentation of superpackets, as one takes more than 1ms at 500mbit",
        ),
        (
            "[interface]\ndirection = \"ingress\"\n[discipline]\nkind = \"cake\"\nhosts = \"destination\"\n".to_owned(),
            "addresses of receivers",
        ),
        (TREE.replace("\"codel\"", "\"cake\""), "kind = \"cake\" in a class of cbq"),
        (
            format!(
                "[discipline]\nkind = \"marker\"\nat = \"exit\"\n{CONDITIONER}inside = {{ kind = \"drr\", l4s-step = \"1ms\" }}\n"
            ),
            "`at = \"exit\"` behind the marks of kind = \"drr\"",
        ),
        ("[discipline]\nkind = \"sfq\"\nqueues = 9000\n".to_owned(), "9000 queues of `sfq`"),
        (
            format!("[interface]\ndirection = \"ingress\"\n{class}[[rule]]\nclass = \"all\"\nmark = \"0x10\"\n"),
            "marks of what arrives",
        ),
        (
            format!("[interface]\nname = [\"a\", \"b\"]\n{class}[[rule]]\nclass = \"all\"\nfrom-interface = \"c\"\n"),
            "`from-interface` beside several interfaces",
        ),
        (
            format!(
                "[interface]\ndirection = \"ingress\"\n{}queue = {{ kind = \"mered\", link = \"90mbit\" }}\n",
                class.replace("20mbit", "90mbit")
            ),
            "addresses of receivers",
        ),
        (format!("{class}queue = {{ kind = \"wfq\", link = \"20mbit\" }}\n"), "kind = \"wfq\" in class `all`"),
        (TREE.replace("\"codel\"", "\"wfq\", link = \"1mbit\""), "kind = \"wfq\" in class `a`"),
        (reserving("flows = 63"), "2 classes with queues with 63 reservations (up to 64 are possible)"),
        (reserving("flows = 4"), "bounds on the delay of reservations"),
        (format!("[interface]\ndirection = \"ingress\"\n{}", reserving("priority = 1")), "addresses of receivers"),
        (TREE.replace("100mbit", "50mbit").replace("20mbit", "10mbit"), "as one takes more than 10ms at 50mbit"),
        (
            format!(
                "[discipline]\nkind = \"cbq\"\nlink = \"100mbit\"\nclass = [{}]\n",
                (0..65).map(|n| format!("{{ name = \"c{n}\", rate = \"1mbit\" }},")).collect::<String>()
            ),
            "65 classes with queues (up to 64 are possible)",
        ),
        (
            format!(
                "[interface]\ndirection = \"ingress\"\n[shaper]\nrate = \"60mbit\"\n{class}[[rule]]\nclass = \"all\"\n\
                 mac = \"02:00:5e:00:53:01\"\n"
            ),
            "addresses of receivers",
        ),
    ] {
        let error = plan(&text).expect_err(&text);
        assert!(error.contains(named), "{text}: {error}");
    }
}

/// The kernel takes whatever each queue of the card can do for itself with a part of the rates; a class with one queue has one in each.
#[test]
fn several_threads_have_what_can_be_divided() {
    let class = "[[class]]\nname = \"all\"\nrate = \"80mbit\"\n";
    let of = |shaper: &str, keys: &str| {
        plan(&format!(
            "[interface]\nthreads = 2\n[shaper]\nrate = \"100mbit\"\n{shaper}{class}default = true\n{keys}[[class]]\nname = \"b\"\nrate = \"1mbit\"\n"
        ))
    };
    let divided = of("", "").unwrap().classes.unwrap().granted(&["all".into(), "b".into()]);
    assert_eq!((divided.rates.total, &*divided.rates.classes), (100_000_000, &[80_000_000, 1_000_000][..]));
    assert_eq!((divided.borrows, divided.bursts), (vec![true, true], vec![81_920; 3]));
    for keys in ["borrow = false\n", "flow-at-most = \"5mbit\"\n", "[class.feedback]\n", FIFO_QUEUE] {
        assert!(of("", keys).unwrap().classes.is_some(), "{keys}");
    }
    // One class with `fifo` would be a token bucket otherwise.
    let alone = plan(&format!("[interface]\nthreads = 2\n{class}default = true\n{FIFO_QUEUE}")).unwrap();
    assert_eq!((alone.options.kind, alone.classes.is_some()), (FBQ, true));
    for (shaper, keys, named) in [
        ("fair-by = \"host\"\n", "", "`fair-by`"),
        ("flow-by = \"socket\"\n", "", "`flow-by`"),
        ("", "share = \"strict\"\n", "\"strict\""),
        ("", "dscp = \"ef\"\n", "code points"),
        ("", "l4s-step = \"1ms\"\n", "code points, marks"),
        ("", "[class.feedback]\necn = true\n", "code points, marks"),
        ("", "queue = { kind = \"codel\" }\n", "a discipline in a class that marks"),
        ("", "[[rule]]\nclass = \"all\"\nprotocol = \"udp\"\nminimum = \"1mbit\"\n", "a minimum"),
        (
            "",
            "[[rule]]\nclass = \"all\"\nprotocol = \"udp\"\ndisplace = { below = \"1mbit\", to = \"b\" }\n",
            "`displace`",
        ),
    ] {
        let error = of(shaper, keys).expect_err(keys);
        assert!(error.contains("several threads") && error.contains(named), "{keys}: {error}");
    }
    for interface in ["name = [\"a\", \"b\"]\n", "direction = \"ingress\"\n"] {
        let text = format!("[interface]\nthreads = 2\n{interface}{class}default = true\n");
        assert!(plan(&text).expect_err(interface).contains("several threads for"), "{interface}");
    }
}
