//! Every discipline of active queue management from a file: built and run with the least and the most that can be
//! reported, and refused with the place and the remedy.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::{Accounted, Bytes, ClassId, FlowKey, Instant, Packet, Qdisc};

use crate::discipline_file;

#[derive(Clone, Copy, Debug, PartialEq)]
struct P(u64, u64);

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(1_000)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(self.0)
    }
}

fn load(section: &str) -> Result<Box<dyn Qdisc<P>>, String> {
    discipline_file::load(&format!("[discipline]\n{section}"))
        .map(|(discipline, _)| discipline_file::build(&discipline))
}

#[test]
fn each_is_built_and_runs() {
    let all = [
        "kind = \"codel\"",
        "kind = \"codel\"\ntarget = \"8ms\"\ninterval = \"80ms\"\nsignal = \"drop\"\nlimit = \"64kB\"",
        "kind = \"pie\"",
        "kind = \"pie\"\ntarget = \"20ms\"\nburst = \"100ms\"",
        "kind = \"ared\"\nlink = \"20mbit\"",
        "kind = \"drr\"",
        "kind = \"drr\"\nquantum = \"3000B\"",
        "kind = \"drr\"\nl4s-step = \"1ms\"",
        "kind = \"dualpi2\"",
        "kind = \"dualpi2\"\ntarget = \"20ms\"\nl4s-step = \"1ms\"\nl4s-ramp = \"0s\"\nturns = \"time-shifted\"\nshift = \"30ms\"\n\
         nqb = false\nprotection = false\ncoupling = 1\nlimit = \"200kB\"",
        "kind = \"sfq\"",
        "kind = \"sfq\"\nqueues = 128\nperturb = \"5s\"",
        "kind = \"fq-codel\"",
        "kind = \"fq-codel\"\nqueues = 64\nquantum = \"300B\"\ntarget = \"10ms\"\ninterval = \"200ms\"",
        "kind = \"fq-codel\"\nl4s-step = \"2ms\"",
        "kind = \"cake\"",
        "kind = \"cake\"\nl4s-step = \"1ms\"",
        "kind = \"cake\"\nrate = \"20mbit\"\noverhead = 44\nframing = \"atm\"\ntins = \"diffserv4\"\nhosts = \"pair\"\n\
         ack-filter = \"on\"\nleast = \"64B\"\nlimit = \"200kB\"\nmtu = \"9014B\"",
        "kind = \"mered\"\nlink = \"20mbit\"",
        "kind = \"mered\"\nlink = \"20mbit\"\nthreshold = \"50kB\"\nfloor = 0.2\n\
         memory = { flow-by = \"host-pair\", records = 4096, idle = \"30s\", pair-rule = \"off\" }",
        "kind = \"mered\"\nlink = \"20mbit\"\nthreshold = \"12 packets\"",
        "kind = \"meredt\"\nlink = \"20mbit\"",
        "kind = \"meredt\"\nlink = \"20mbit\"\nfairness = 0.5\nelephant-limit = \"100kB\"\n\
         value = [{ length = \"10kB\", value = 0 }, { length = \"1MB\", value = 50 }]\n\
         memory = { pair-threshold = \"200kB\", pair-rate = \"1mbit\" }",
        "kind = \"ingress-filter\"\nlink = \"100mbit\"",
    ];
    for section in all {
        let mut qdisc = Accounted::new(load(section).unwrap_or_else(|error| panic!("{section}\n{error}")));
        let mut out = Vec::new();
        for n in 0..20 {
            qdisc.enqueue(Instant::ZERO, P(n % 3, n), &mut out);
        }
        let mut now = Instant::ZERO;
        let mut left = Vec::new();
        while let Some(at) = qdisc.deadline(now).instant(now) {
            now = at;
            left.extend(qdisc.dequeue(now, &mut out));
        }
        assert!(left.len() > 10 && left.len() + out.len() == 20, "{section}: {} left", left.len());
    }
}

#[test]
fn impossible_parameters_are_refused_with_their_place() {
    for (section, line, message) in [
        ("kind = \"codel\"\ntarget = \"200ms\"", 3, "`target` must be below the interval"),
        ("kind = \"fq-codel\"\nqueues = 0", 3, "`queues` must be 1 to 1048576"),
        ("kind = \"sfq\"\nperturb = \"0s\"", 3, "`perturb` must be above 0"),
        ("kind = \"cake\"\nmtu = \"70kB\"", 3, "`mtu` must be 64B to 65549B"),
        ("kind = \"drr\"\nquantum = \"1B\"", 3, "`quantum` must be 64B to 1MiB"),
        ("kind = \"drr\"\nl4s-step = \"0s\"", 3, "`l4s-step` must be above 0"),
        ("kind = \"cake\"\nl4s-step = \"0s\"", 3, "`l4s-step` must be above 0"),
        ("kind = \"fq-codel\"\nl4s-step = \"0s\"", 3, "`l4s-step` must be above 0"),
        ("kind = \"dualpi2\"\ncoupling = 0", 3, "`coupling` must be 1 to 16"),
        ("kind = \"dualpi2\"\nclassic-parts = 1", 3, "`classic-parts` must be 2 to 1000"),
        ("kind = \"dualpi2\"\nl4s-ramp = \"2ms\"", 3, "`l4s-ramp` must be at most `l4s-step`"),
        ("kind = \"dualpi2\"\nupdate = \"0s\"", 3, "`update` must be above 0"),
        ("kind = \"pie\"\ntarget = \"0s\"", 3, "`target` must be above 0"),
        ("kind = \"ared\"\nlink = \"0bit\"", 3, "`link` must be above 0"),
        ("kind = \"cake\"\nrate = \"1mbit\"\noverhead = 300", 4, "`overhead` must be -64 to 256 bytes"),
        ("kind = \"mered\"\nlink = \"0bit\"", 3, "`link` must be above 0"),
        ("kind = \"mered\"\nlink = \"1mbit\"\nthreshold = \"0 packets\"", 4, "`threshold` must be above 0"),
        ("kind = \"mered\"\nlink = \"1mbit\"\nfloor = 1.0", 4, "`floor` must be below 1"),
        ("kind = \"mered\"\nlink = \"1mbit\"\nmemory = { records = 4 }", 4, "`records` must be 8 to 16777216"),
        (
            "kind = \"meredt\"\nlink = \"1mbit\"\nvalue = [{ length = \"1kB\", value = 5 }]",
            4,
            "`value` must begin with value 0",
        ),
        (
            "kind = \"ingress-filter\"\nlink = \"1mbit\"\nmemory = { pair-threshold = \"1kB\" }",
            4,
            "`pair-threshold` must be a length that the value table calls an elephant",
        ),
    ] {
        let error = load(section).err().unwrap_or_else(|| panic!("{section} was taken"));
        assert!(error.contains(message), "{section}\n{error}");
        assert!(error.contains(&format!("test.toml:{line}:")), "{section}\n{error}");
    }
}

/// The state of DualPI2 is found in the class that has it, whichever discipline has the classes.
#[test]
fn the_coupled_queues_of_a_class_are_found() {
    let queue = "queue = { kind = \"dualpi2\" }";
    let two = |key: &str, rates: &str| {
        format!(
            "[[discipline.{key}]]\nname = \"plain\"\n{rates}\n[[discipline.{key}]]\nname = \"l4s\"\n{rates}\n{queue}\n"
        )
    };
    let rate = "rate = \"5mbit\"";
    let disciplines = [
        format!("kind = \"fbq\"\n{}", two("class", rate)),
        format!("kind = \"htb\"\n{}", two("class", rate)),
        format!("kind = \"hfsc\"\nlink = \"10mbit\"\n{}", two("class", "guarantee = { rate = \"4mbit\" }")),
    ];
    for section in disciplines {
        let discipline = load(&section).unwrap_or_else(|error| panic!("{section}\n{error}"));
        let found = [0, 1, 2].map(|class| discipline.coupled(ClassId(class), Instant::ZERO).is_some());
        assert_eq!(found, [false, true, false], "{section}");
    }
    // The tree of CBQ has the link as its first class.
    let cbq = load(&format!("kind = \"cbq\"\nlink = \"10mbit\"\n{}", two("class", rate))).unwrap();
    assert_eq!((0..4).filter(|class| cbq.coupled(ClassId(*class), Instant::ZERO).is_some()).count(), 1);
    assert!(load("kind = \"dualpi2\"").unwrap().coupled(ClassId(7), Instant::ZERO).is_some());
}

/// As the discipline of an interface DualPI2 has no rate, and queues only what the interface does not take at once.
#[test]
fn dualpi2_without_a_rate_is_warned_of() {
    let told = |text: &str| {
        let (source, mut diagnostics) =
            (Source::new("dualpi2.toml", format!("version = 1\n{text}")), Diagnostics::new());
        let valid = shaper::load(&source, &mut diagnostics).is_some();
        (valid, diagnostics.warnings(), diagnostics.render(&source))
    };
    let queue = "kind = \"dualpi2\"";
    let (valid, warnings, text) = told(&format!("[discipline]\n{queue}\n"));
    assert!(valid && warnings == 1 && text.contains("a little less than the rate of the line"), "{text}");
    let class = format!("[[class]]\nname = \"all\"\nrate = \"19mbit\"\ndefault = true\nqueue = {{ {queue} }}\n");
    assert_eq!((told(&class).0, told(&class).1), (true, 0));
    // A table that is none has the article of its name.
    let (valid, _, text) = told(&format!("interface = 5\n{class}"));
    assert!(!valid && text.contains("the table of an interface"), "{text}");
}
