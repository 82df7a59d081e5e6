//! CBQ from a file: built and run, and refused with the place and the way out.

use tidegate_core::qdisc::Discard;
use tidegate_core::{Bytes, ClassId, FlowKey, Instant, Packet, Qdisc};

use crate::discipline_file;

struct P(u32);

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(1_000)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(u64::from(self.0))
    }
    fn class(&self) -> ClassId {
        ClassId(self.0)
    }
}

/// The names of the classes, and the discipline.
type Built = (Vec<String>, Box<dyn Qdisc<P>>);

fn load(text: &str) -> Result<Built, String> {
    let (discipline, _) = discipline_file::load(text)?;
    let names = discipline.classes().into_iter().map(str::to_owned).collect();
    Ok((names, discipline_file::build(&discipline)))
}

const AGENCIES: &str = r#"
    [discipline]
    kind = "cbq"
    link = "10mbit"
    default = "b data"
    class = [
      { name = "a video", parent = "a", share = "30%", priority = 0, borrow = "from-parent" },
      { name = "a", share = "70%", borrow = "from-parent" },
      { name = "a data", parent = "a", share = "40%", queue = { kind = "red", limit = "100kB", min-th = "10kB", max-th = "30kB", link = "10mbit" } },
      { name = "b data", rate = "3mbit" },
    ]
"#;

#[test]
fn a_tree_is_built_and_runs() {
    let text = AGENCIES.replace(", link = \"10mbit\" }", " }");
    let (names, mut tree) = load(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(names, ["a video", "a data", "b data"]);
    // Class 7 does not exist, and goes to the default.
    for class in [2, 1, 0, 7] {
        tree.enqueue(Instant::ZERO, P(class), &mut Discard);
    }
    let mut left = Vec::new();
    let mut now = Instant::ZERO;
    while let Some(at) = tree.deadline(now).instant(now) {
        now = at;
        left.extend(tree.dequeue(now, &mut Discard).map(|packet| packet.0));
    }
    assert_eq!(left, [0, 1, 2, 7], "priority 0 first, then in the order of the file");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let without_red =
        AGENCIES.split(", queue").next().expect("text").to_owned() + " }, { name = \"b data\", rate = \"3mbit\" }]";
    for (old, new, line, problem) in [
        ("share = \"40%\"", "share = \"50%\"", "30%", "class `a` has 2mbit left, and this class requires 3mbit"),
        ("rate = \"3mbit\"", "rate = \"4mbit\"", "4mbit", "the link has 3mbit left, and this class requires 4mbit"),
        ("parent = \"a\", share = \"40%\"", "parent = \"aa\", share = \"40%\"", "aa", "no class is called `aa`"),
        ("name = \"a data\"", "name = \"a\"", "name", "two classes are called `a`"),
        ("default = \"b data\"", "default = \"a\"", "default", "no class with a queue is called `a`"),
        ("priority = 0", "priority = 8", "priority", "priorities are 0"),
        ("rate = \"3mbit\"", "", "b data", "neither `rate` nor `share`"),
        ("{ name = \"a\", share", "{ name = \"a\", parent = \"a video\", share", "parent", "form a circle"),
    ] {
        let text = without_red.replacen(old, new, 1);
        assert_ne!(text, without_red, "{old}");
        let error = load(&text).map(|_| ()).expect_err(new);
        assert!(error.contains(problem) && error.contains(line), "{problem}:\n{error}");
    }
}

#[test]
fn all_errors_of_a_tree_are_reported_at_once() {
    let text = r#"
        [discipline]
        kind = "cbq"
        link = "10mbit"
        default = "nobody"
        class = [
          { name = "a", share = "70%" },
          { name = "video", parent = "a", share = "30%", priority = 9 },
          { name = "data", parent = "a", share = "80%" },
          { name = "b", share = "40%" },
          { name = "b data", parent = "b", rate = "1mbit", max-burst = 0 },
          { name = "c", rate = "1mbit", parent = "d" },
          { name = "d", rate = "1mbit", parent = "c" },
        ]
    "#;
    let error = load(text).map(|_| ()).expect_err("wrong");
    for problem in [
        "no class with a queue is called `nobody`",
        "priorities are 0",
        "class `a` has 7mbit left, and this class requires 8mbit",
        "the link has 3mbit left, and this class requires 4mbit",
        "form a circle",
    ] {
        assert!(error.contains(problem), "{problem}:\n{error}");
    }
    // A class under one that could not be made is not spoken of: what it may have is not known.
    assert!(!error.contains("a burst has"), "{error}");
    let ring =
        "[discipline]\nkind = \"cbq\"\nlink = \"1mbit\"\nclass = [{ name = \"x\", parent = \"x\", share = \"1%\" }]\n";
    let error = load(ring).map(|_| ()).expect_err("a ring");
    assert!(error.contains("form a circle"), "{error}");
}

#[test]
fn reservations_have_a_class_of_their_own() {
    let text = |class: &str, more: &str| {
        format!(
            "[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\nfinish = \"expected\"\nlink-clock = \"reset\"\n\
             clock-lead = \"20ms\"\nsharing = \"top-level\"\nheuristic = \"floyd\"\naccounting = \"idle-time\"\n\
             class = [{{ name = \"rest\", rate = \"5mbit\" }}, {{ name = \"reserved\", rate = \"3mbit\" }}]\n\
             reservations = {{ class = \"{class}\"{more} }}\n"
        )
    };
    // The class for reservations has no queue of its own, and rules cannot name it.
    assert_eq!(load(&text("reserved", "")).ok().map(|built| built.0), Some(vec!["rest".to_owned()]));
    let wrong = load(&text("reserve", "")).err().unwrap();
    assert!(wrong.contains("no class is called `reserve`") && wrong.contains("reserved"), "{wrong}");
    let wrong = load(&text("reserved", ", flows = 0")).err().unwrap();
    assert!(wrong.contains("most reservations"), "{wrong}");
    let wrong = load(&text("reserved", ", max-packet = \"9kB\"")).err().unwrap();
    assert!(wrong.contains("do not fit the link"), "{wrong}");
    let parent = text("reserved", "").replace("name = \"rest\", ", "name = \"rest\", parent = \"reserved\", ");
    let wrong = load(&parent.replace("5mbit", "1mbit")).err().unwrap();
    assert!(wrong.contains("has classes of its own"), "{wrong}");
}

/// Packets of `urgent` (priority 0, 10 % of 8 Mbit/s) and of `data` (`priority`, 90 %) in 10 s, both with something to
/// send at all times, and the warnings that the file has. `data` arrives at once, `urgent` at the rate of the link.
fn ten_seconds(sharing: &str, priority: u8) -> ([u64; 2], String) {
    let text = format!(
        "[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\nmtu = \"1000B\"\n{sharing}\nclass = [\n\
         {{ name = \"urgent\", share = \"10%\", priority = 0, borrow = \"from-parent\" }},\n\
         {{ name = \"data\", share = \"90%\", priority = {priority}, queue = {{ kind = \"fifo\", limit = \"20MB\" }} }},\n]\n"
    );
    let (discipline, warnings) = discipline_file::load(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut cbq = discipline_file::build::<P>(&discipline);
    for _ in 0..10_000 {
        cbq.enqueue(Instant::ZERO, P(1), &mut Discard);
    }
    let mut sent = [0; 2];
    for slot in 0..10_000 {
        // A packet takes a millisecond.
        let now = Instant::from_nanos(slot * 1_000_000);
        cbq.enqueue(now, P(0), &mut Discard);
        if let Some(packet) = cbq.dequeue(now, &mut Discard) {
            sent[packet.0 as usize] += 1;
        }
    }
    (sent, warnings)
}

#[test]
fn a_guideline_that_does_not_keep_the_rates_is_warned_of() {
    let keeps = ["sharing = \"formal\"", "sharing = \"top-level\""];
    let breaks = ["sharing = \"ancestor-only\"", "sharing = \"top-level\"\nheuristic = \"floyd\""];
    for sharing in keeps {
        let ([_, data], warnings) = ten_seconds(sharing, 1);
        assert!(data > 8_900 && warnings.is_empty(), "{sharing}: {data}\n{warnings}");
    }
    for sharing in breaks {
        let ([urgent, data], warnings) = ten_seconds(sharing, 1);
        assert!(data < 100, "{sharing}: {urgent} {data}");
        assert!(warnings.contains("`data` can get less than its rate while `urgent` borrows"), "{warnings}");
        assert!(warnings.contains("test.toml:8:") || warnings.contains("test.toml:9:"), "{warnings}");
        // Classes of one priority take turns in proportion to their rates.
        let ([urgent, data], warnings) = ten_seconds(sharing, 0);
        assert!(data > 8_900 && warnings.is_empty(), "{sharing}: {urgent} {data}\n{warnings}");
    }
}

/// The findings of `check` for a tree with a class for reservations that has the keys `reservations`.
fn warnings_of_reservations(sharing: &str, reservations: &str, data: u8) -> String {
    let text = format!(
        "[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\n{sharing}\n\
         reservations = {{ class = \"reserved\"{reservations} }}\nclass = [\n\
         {{ name = \"reserved\", share = \"20%\", borrow = \"from-parent\" }},\n\
         {{ name = \"data\", share = \"70%\", priority = {data}, borrow = \"from-parent\" }},\n]\n"
    );
    discipline_file::load(&text).unwrap_or_else(|errors| panic!("{errors}")).1
}

#[test]
fn reservations_with_a_priority_of_their_own_are_warned_of() {
    let ancestor = "sharing = \"ancestor-only\"";
    // By default they go first and may borrow: under a guideline that does not keep rates they starve the rest.
    let warnings = warnings_of_reservations(ancestor, "", 1);
    assert!(warnings.contains("`data` can get less than its rate while reservations borrow"), "{warnings}");
    assert!(warnings.contains("go first, with priority 0"), "{warnings}");
    // And the other way round.
    let warnings = warnings_of_reservations(ancestor, ", priority = 2", 0);
    assert!(warnings.contains("reservations can get less than their rates while `data` borrows"), "{warnings}");
    for (sharing, reservations, data) in
        [("", "", 1), (ancestor, ", borrow = \"never\"", 1), (ancestor, "", 0), ("sharing = \"top-level\"", "", 1)]
    {
        let warnings = warnings_of_reservations(sharing, reservations, data);
        assert!(warnings.is_empty(), "{sharing}{reservations} {data}: {warnings}");
    }
    // Delays are bounded at priority 0 alone.
    let warnings = warnings_of_reservations("", ", priority = 1", 1);
    assert!(warnings.contains("no delay is bounded for reservations of priority 1"), "{warnings}");
}

#[test]
fn the_estimator_is_set_as_papers_set_it() {
    // The root has 99 %, and the classes under it 100 % together.
    let text = r#"
        [discipline]
        kind = "cbq"
        link = "10mbit"
        root = "99%"
        derivation = "ns-2"
        accounting = "idle-time"
        gain = 4
        class = [
          { name = "a", share = "70%", borrow = "from-parent" },
          { name = "b", rate = "3mbit", maxidle = "5ms", minidle = "1ms", extradelay = "20ms" },
        ]
    "#;
    assert!(load(text).is_ok(), "{:?}", load(text).err());
    let refused = |from: &str, to: &str, what: &str| {
        let problem = load(&text.replace(from, to)).err().unwrap_or_default();
        assert!(problem.contains(what), "{problem}");
    };
    refused("gain = 4", "gain = 13", "a gain of 1 to 12");
    refused("root = \"99%\"", "root = \"0%\"", "rate of the root");
    refused("accounting = \"idle-time\"", "", "`gain` applies to the average idle time");
    // More than the link has is still refused.
    refused("rate = \"3mbit\"", "rate = \"3100kbit\"", "has 3mbit left");
}
