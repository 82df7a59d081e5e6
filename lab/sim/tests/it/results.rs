//! Results: their names, what is counted in them, and warnings about scenarios that hardly mean what they say.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Outcome, Scenario};

const HEAD: &str = "version = 1\nduration = \"10s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
    [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"100mbit\"\n";

/// A scenario whose second link has `link`, with `flow` from `a` to `b`; and its warnings.
fn load(link: &str, flow: &str) -> (Scenario, String) {
    let text = format!(
        "{HEAD}[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\n{link}\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    );
    let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut found);
    let text = found.render(&source);
    (scenario.unwrap_or_else(|| panic!("{text}")), text)
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.label() == subject && value.measure == measure);
    found.unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values)).value
}

const BULK: &str = "workload = { kind = \"bulk\" }";

#[test]
fn packets_at_a_rate_are_datagrams_unless_tcp_is_asked_for() {
    let retransmitted = |extra: &str| {
        let flow = format!("{extra}workload = {{ kind = \"constant\", rate = \"20mbit\" }}");
        let (scenario, _) = load("limit = 20", &flow);
        let outcome = scenario.run(1, |_| ());
        (value(&outcome, "flow f", "dropped"), value(&outcome, "flow f", "retransmitted"))
    };
    // Half of 20 Mbit/s for 10 s is 8,333 packets of 1,500 bytes.
    let (dropped, again) = retransmitted("");
    assert!((8_300.0..8_360.0).contains(&dropped) && again == 0.0, "{dropped} {again}");
    for asked in ["transport = \"tcp\"\n", "tcp = { recovery = \"sack\" }\n"] {
        let (dropped, again) = retransmitted(asked);
        assert!(again > 0.0 && dropped < 1_000.0, "{asked}{dropped} {again}");
    }
}

#[test]
fn what_began_in_the_warm_up_is_not_completed_after_it() {
    let warm = |flow: &str| load("", flow).0.run(1, |_| ());
    // Nine transfers of 1 MB at once take 7.4 s of a line of 10 Mbit/s: all begin in the warm-up.
    let text = "count = 9\nworkload = { kind = \"bulk\", bytes = \"1MB\" }";
    let text = HEAD.replace("\"10s\"", "\"10s\"\nwarm-up = \"2s\"")
        + "[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n"
        + text;
    let scenario = Scenario::load(&Source::new("t", text), None, &mut Diagnostics::new()).unwrap();
    let outcome = scenario.run(1, |_| ());
    assert!(value(&outcome, "flow f", "goodput") > 5e6);
    assert!(outcome.values.iter().all(|value| value.measure != "completed" || value.value == 0.0));
    let outcome = warm(
        "workload = { kind = \"requests\", request = { kind = \"constant\", value = \"200B\" }, \
         response = { kind = \"constant\", value = \"20kB\" }, think = { kind = \"constant\", value = \"20ms\" } }",
    );
    let (opened, completed) = (value(&outcome, "flow f", "opened"), value(&outcome, "flow f", "completed"));
    assert!(completed > 100.0 && completed <= opened && opened <= completed + 1.0, "{opened} {completed}");
}

#[test]
fn classes_go_by_their_names_and_values_by_their_variant() {
    let cbq = "queue = { kind = \"cbq\", link = \"10mbit\", class = [{ name = \"gold\", share = \"60%\" }, \
               { name = \"rest\", share = \"40%\" }] }";
    let second = "[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nclass = \"rest\"\n";
    let other = "[[variant]]\nname = \"plain\"\nfrom = \"r\"\nto = \"b\"\nqueue = { kind = \"fifo\" }\n\
                 [[variant]]\nname = \"shared\"\nfrom = \"r\"\nto = \"b\"\n";
    let (scenario, warnings) = load(cbq, &format!("class = \"gold\"\n{BULK}\n{second}{BULK}\n{other}{cbq}"));
    let outcome = scenario.run(1, |_| ());
    let gold = value(&outcome, "shared: link r->b", "throughput class gold");
    assert!((5.0e6..7.5e6).contains(&gold), "{gold}\n{warnings}");
    assert!(outcome.values.iter().all(|value| ["plain", "shared"].contains(&value.variant.as_str())));
    let of_curves: Vec<&str> = outcome.curves.iter().map(|curve| curve.variant.as_str()).collect();
    assert!(of_curves.contains(&"plain") && of_curves.contains(&"shared"));
}

#[test]
fn a_change_that_breaks_a_promise_of_rates_has_a_warning() {
    let file = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"10mbit\"\ndefault = \"data\"\n\
                [[discipline.class]]\nname = \"urgent\"\nshare = \"50%\"\npriority = 0\nborrow = \"from-parent\"\n\
                [[discipline.class]]\nname = \"data\"\nshare = \"50%\"\npriority = 1\n";
    let warnings = |sharing: &str, heuristic: &str| {
        let text = format!(
            "{HEAD}[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\nqueue = {{ shaper = \"cbq.toml\" }}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{BULK}\n\
             [[at]]\ntime = \"5s\"\naction = {{ kind = \"set\", section = \"discipline\", \
             values = {{ sharing = \"{sharing}\", heuristic = \"{heuristic}\" }} }}\n"
        );
        let (source, mut found) = (Source::new("t", text), Diagnostics::new());
        let open = |name: &str| Ok(Source::new(name, file));
        let scenario = Scenario::load(&source, Some(&open), &mut found);
        assert!(scenario.is_some(), "{}", found.render(&source));
        found.render(&source)
    };
    for (sharing, heuristic) in [("ancestor-only", "altq"), ("top-level", "floyd")] {
        let found = warnings(sharing, heuristic);
        assert!(found.contains("`data` can get less than its rate while `urgent` borrows"), "{found}");
        assert!(found.contains("from 5s on") && found.contains("help: `sharing = \"formal\"`"), "{found}");
    }
    assert_eq!(warnings("top-level", "altq"), "");
}

/// The ends of a variant's link are the other way round: its queue is on the way back, and is compared on a link where it is not.
#[test]
fn a_variant_on_another_link_than_the_others_has_a_warning() {
    let warnings = |ends: &str| {
        let text = format!(
            "{HEAD}[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\nqueue = {{ kind = \"fifo\" }}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{BULK}\n\
             [[variant]]\nname = \"fifo\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ kind = \"fifo\" }}\n\
             [[variant]]\nname = \"cake\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ kind = \"cake\" }}\n\
             [[variant]]\nname = \"codel\"\n{ends}\nqueue = {{ kind = \"codel\" }}\n"
        );
        let (source, mut found) = (Source::new("t", text), Diagnostics::new());
        assert!(Scenario::load(&source, None, &mut found).is_some(), "{}", found.render(&source));
        found.render(&source)
    };
    let found = warnings("from = \"b\"\nto = \"r\"");
    assert!(found.contains("variant codel has another queue on b->r, and the others have theirs on r->b"), "{found}");
    assert!(!found.contains("variant fifo") && !found.contains("variant cake"), "{found}");
    assert!(!warnings("from = \"r\"\nto = \"b\"").contains("another queue"));
}

/// A queue that packets reach no faster than they leave it, and classes that get less than the link has.
#[test]
fn a_bottleneck_that_is_elsewhere_has_a_warning() {
    let warnings = |access: &str, link: &str| {
        let text = format!(
            "version = 1\nduration = \"10s\"\nhosts = [\"a{{1..2}}\", \"b\"]\nrouters = [\"r\"]\n\
             [[link]]\nfrom = \"{access}\"\nto = \"r\"\nrate = \"6mbit\"\n\
             [[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\n{link}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a1\"\nto = \"b\"\n{BULK}\n\
             [[flow]]\nname = \"g\"\nfrom = \"a2\"\nto = \"b\"\n{BULK}\n"
        );
        let text = if access == "a1" { text.replace("\"a2\"", "\"a1\"").replace("a{1..2}", "a1") } else { text };
        let (source, mut found) = (Source::new("t", text), Diagnostics::new());
        assert!(Scenario::load(&source, None, &mut found).is_some(), "{}", found.render(&source));
        found.render(&source)
    };
    let codel = "queue = { kind = \"codel\" }";
    let said = warnings("a1", codel);
    let expected =
        "the queue of the link r->b stays empty: packets arrive with at most 6mbit, by a1->r, and leave with 10mbit";
    assert!(said.contains(expected) && said.contains("the bottleneck is elsewhere"), "{said}");
    // Also where the slow link is behind it, for flows that wait for acknowledgements.
    let text = "version = 1\nduration = \"10s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"s\"]\n\
                [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"100mbit\"\n\
                [[link]]\nfrom = \"r\"\nto = \"s\"\nrate = \"10mbit\"\nqueue = { kind = \"codel\" }\n\
                [[link]]\nfrom = \"s\"\nto = \"b\"\nrate = \"6mbit\"\n\
                [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nWORKLOAD\n";
    let behind = |workload: &str| {
        let (source, mut found) = (Source::new("t", text.replace("WORKLOAD", workload)), Diagnostics::new());
        assert!(Scenario::load(&source, None, &mut found).is_some(), "{}", found.render(&source));
        found.render(&source)
    };
    let said = behind(BULK);
    assert!(
        said.contains("the queue of the link r->s stays empty: packets arrive with at most 6mbit, by s->b"),
        "{said}"
    );
    assert!(!behind("workload = { kind = \"constant\", rate = \"9mbit\" }").contains("stays empty"));
    // Two links of 6 Mbit/s are more than 10 together, and a shaper is slower than one of them.
    assert_eq!(warnings("a{1..2}", codel), "");
    let shaper = |class: &str| {
        format!("queue = {{ shaper = {{ class = [{{ name = \"all\", rate = \"5mbit\", default = true{class} }}] }} }}")
    };
    assert_eq!(warnings("a1", &shaper("")), "");
    // The flows can have 5 of the 10 Mbit/s that the shaper has.
    let two = |class: &str| {
        shaper(class).replace(
            "}] }",
            "}, { name = \"rest\", rate = \"5mbit\" }], rule = [{ class = \"rest\", dscp = [\"ef\"] }] }",
        )
    };
    let said = warnings("a{1..2}", &two(", borrow = false"));
    assert!(said.contains("in classes that get at most 5mbit, and its queue gives away 10mbit"), "{said}");
    assert!(!warnings("a{1..2}", &two("")).contains("at most 5mbit"), "they borrow the rest");
}

/// CAKE at a rate that is not that of its line: once for each rate, however many variants have it, and not for the base that they replace.
#[test]
fn cake_far_from_the_rate_of_its_line_has_one_warning() {
    let cake = |rate: &str| format!("queue = {{ kind = \"cake\", rate = \"{rate}\" }}");
    let variant =
        |name: &str, queue: &str| format!("[[variant]]\nname = \"{name}\"\nfrom = \"r\"\nto = \"b\"\n{queue}\n");
    let all = ["12mbit", "12mbit", "4mbit", "4mbit"].iter().enumerate();
    let all: String = all.map(|(n, rate)| variant(&format!("v{n}"), &cake(rate))).collect();
    let said = load(&cake("12mbit"), &format!("{BULK}\n{all}")).1;
    let above = "the queue of the link r->b is configured for 12mbit, but its line carries 10mbit";
    let below = "CAKE shapes the link r->b to 4mbit, and its line carries 10mbit: the line is never full";
    assert_eq!((said.matches(above).count(), said.matches(below).count()), (1, 1), "{said}");
    assert_eq!(said.matches("warning: ").count(), 2, "{said}");
    // The base runs where a variant leaves it.
    assert!(load(&cake("4mbit"), BULK).1.contains(below));
    assert_eq!(load(&cake("9mbit"), BULK).1, "");
    // A line that changes carries more than its mean at times, and needs no rate beside that.
    let over_time = "rate-over-time = { kind = \"sine\", mean = \"10mbit\", amplitude = \"5mbit\", period = \"1s\" }";
    assert_eq!(load(&format!("{}\n{over_time}", cake("12mbit")), BULK).1, "");
    // It shapes for a slower line behind this one.
    assert_eq!(load(&cake("4mbit").replace("\" }", "\", line-rate = \"5mbit\" }"), BULK).1, "");
}

/// Two flows in a FIFO with nothing random on their way have phase effects; jitter before it, other queues and random traffic have none.
#[test]
fn a_fifo_without_anything_random_has_a_warning() {
    let warnings = |jitter: &str, queue: &str, more: &str| {
        let text = format!(
            "version = 1\nduration = \"10s\"\nhosts = [\"a{{1..2}}\", \"b\"]\nrouters = [\"r\"]\n\
             [[link]]\nfrom = \"a{{1..2}}\"\nto = \"r\"\nrate = \"100mbit\"\n{jitter}\n\
             [[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\nqueue = {{ kind = \"{queue}\" }}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a1\"\nto = \"b\"\n{BULK}\n\
             [[flow]]\nname = \"g\"\nfrom = \"a2\"\nto = \"b\"\n{BULK}\n{more}"
        );
        let (source, mut found) = (Source::new("t", text), Diagnostics::new());
        assert!(Scenario::load(&source, None, &mut found).is_some(), "{}", found.render(&source));
        found.render(&source)
    };
    let said = warnings("", "fifo", "");
    assert!(said.contains("2 flows meet in a FIFO at the link r->b, and nothing on their way is random"), "{said}");
    // About the time of a packet of 1,500 B.
    assert!(said.contains("high = \"1.2ms\"") && said.matches("warning").count() == 1, "{said}");
    assert_eq!(
        warnings("jitter = { delay = { kind = \"uniform\", low = \"0s\", high = \"1200us\" } }", "fifo", ""),
        ""
    );
    assert_eq!(warnings("", "codel", ""), "");
    let poisson =
        "[[flow]]\nname = \"p\"\nfrom = \"a1\"\nto = \"b\"\nworkload = { kind = \"poisson\", rate = \"1mbit\" }\n";
    assert_eq!(warnings("", "fifo", poisson), "");
    // A variant that replaces every FIFO has none; one that has it does.
    let variant = |queue: &str| {
        format!("[[variant]]\nname = \"v\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ kind = \"{queue}\" }}\n")
    };
    assert_eq!(warnings("", "fifo", &variant("codel")), "");
    assert!(warnings("", "codel", &variant("fifo")).contains("meet in a FIFO"));
}

/// Windows that are smaller together than what the line holds in a round trip leave it empty; not where another flow fills it.
#[test]
fn windows_that_cannot_fill_a_line_have_a_warning() {
    let warnings = |window: &str, more: &str| {
        let flow = format!("{BULK}\ntcp = {{ window = \"{window}\" }}\n{more}");
        load("delay = \"50ms\"\nqueue = { kind = \"codel\" }", &flow).1
    };
    let said = warnings("64KiB", "");
    assert!(said.contains("the windows of the flows through the link r->b allow"), "{said}");
    assert!(said.contains("and it carries 10mbit: it is never full") && said.contains("window = \"4MiB\""), "{said}");
    assert_eq!(warnings("256KiB", ""), "");
    let other =
        "[[flow]]\nname = \"p\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"constant\", rate = \"5mbit\" }\n";
    assert_eq!(warnings("64KiB", other), "");
}

/// A queue that marks flows of L4S and others by one law starves the others; not one with two laws, or one that drops.
#[test]
fn one_queue_for_l4s_and_others_has_a_warning() {
    let warnings = |queue: &str| {
        let other = "[[flow]]\nname = \"c\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }\ntcp = { congestion = \"cubic\" }\n";
        load(&format!("queue = {{ {queue} }}"), &format!("{BULK}\ntcp = {{ congestion = \"prague\" }}\n{other}")).1
    };
    for queue in ["kind = \"codel\"", "kind = \"pie\""] {
        let said = warnings(queue);
        assert!(said.contains("flows of L4S and others share the one queue of the link r->b"), "{said}");
        assert!(!warnings(&format!("{queue}, signal = \"drop\"")).contains("share the one queue"), "{queue}");
    }
    assert!(!warnings("kind = \"dualpi2\"").contains("share the one queue"));
}

/// A limit below the target of a control has it never act.
#[test]
fn a_queue_that_is_full_before_its_control_acts_has_a_warning() {
    let warnings = |queue: &str, flow: &str| load(&format!("queue = {{ {queue} }}"), flow).1;
    let below = "the queue of the link r->b is full after 8ms, and its target is 15ms";
    for kind in ["pie", "fq-pie", "dualpi2"] {
        // 10 kB at 10 Mbit/s.
        let said = warnings(&format!("kind = \"{kind}\", limit = \"10kB\""), BULK);
        assert!(said.contains(below) && said.contains("a target of 15ms is 18.75kB"), "{said}");
        assert_eq!(warnings(&format!("kind = \"{kind}\", limit = \"20kB\""), BULK), "");
    }
    assert!(warnings("kind = \"fq-codel\", limit = \"6kB\"", BULK).contains("its target is 5ms"));
}

#[test]
fn what_hardly_means_what_it_says_has_a_warning() {
    let constant = |rate: &str| format!("workload = {{ kind = \"constant\", rate = \"{rate}\" }}");
    let cases = [
        ("queue = { kind = \"ared\", link = \"20mbit\" }", BULK.to_owned(), "faster than the line"),
        (
            "queue = { shaper = { class = [{ name = \"all\", rate = \"11mbit\", default = true }] } }",
            BULK.to_owned(),
            "faster than the line",
        ),
        (
            "queue = { kind = \"fifo\", limit = \"1499B\" }",
            BULK.to_owned(),
            "too small for one packet of flow f, 1500 B",
        ),
        ("limit = 0", BULK.to_owned(), "no room for one packet"),
        ("", constant("11mbit"), "overloaded on average"),
        ("", format!("start = \"10s\"\n{BULK}"), "never used"),
        ("", "workload = { kind = \"bulk\", bytes = \"13MB\" }".to_owned(), "never completed"),
        (
            "",
            "workload = { kind = \"video\", ladder = [\"11mbit\", \"20mbit\"] }".to_owned(),
            "lowest rate of flow f, 11mbit, is more than its slowest link carries, 10mbit",
        ),
        (
            "queue = { kind = \"cbq\", link = \"10mbit\", class = [{ name = \"gold\", share = \"60%\" }, \
             { name = \"rest\", share = \"40%\" }] }",
            format!("class = \"gold\"\n{BULK}"),
            "no flow is in class `rest` of the link r->b",
        ),
        (
            "queue = { shaper = { class = [{ name = \"calls\", rate = \"1mbit\" }, \
             { name = \"all\", rate = \"9mbit\", default = true }], rule = [{ class = \"calls\", dscp = [\"ef\"] }] } }",
            BULK.to_owned(),
            "no flow is in class `calls` of the link r->b",
        ),
        ("", format!("{BULK}\n[[link]]\nfrom = \"r\"\nto = \"s\"\nrate = \"1mbit\""), "no flow crosses `s`"),
        ("queue-back = { kind = \"fifo\" }", constant("1mbit"), "its queue is never used"),
        ("", format!("{BULK}\n[[link]]\nfrom = \"b\"\nto = \"c\"\nrate = \"1mbit\""), "no flow begins or ends at `c`"),
    ];
    for (link, flow, expected) in cases {
        let link_text = link;
        let (_, warnings) = if expected.contains("`c`") {
            let text = format!("{HEAD}[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"10mbit\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n")
                .replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]");
            let (source, mut found) = (Source::new("t", text), Diagnostics::new());
            let scenario = Scenario::load(&source, None, &mut found).unwrap();
            (scenario, found.render(&source))
        } else if expected.contains("`s`") {
            let (text, routers) = (HEAD.replace("[\"r\"]", "[\"r\", \"s\"]"), "[[link]]\nfrom = \"r\"\nto = \"b\"\n");
            let text =
                format!("{text}{routers}rate = \"10mbit\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n");
            let (source, mut found) = (Source::new("t", text), Diagnostics::new());
            let scenario = Scenario::load(&source, None, &mut found).unwrap();
            (scenario, found.render(&source))
        } else {
            load(link_text, &flow)
        };
        assert!(warnings.contains(expected), "{link} {flow}:\n{warnings}");
    }
    for (link, flow) in [
        ("queue = { kind = \"ared\", link = \"10mbit\" }", BULK.to_owned()),
        ("queue = { kind = \"fifo\", limit = \"1500B\" }", BULK.to_owned()),
        ("", constant("10mbit")),
    ] {
        let (_, warnings) = load(link, &flow);
        assert_eq!(warnings, "", "{link} {flow}");
    }
}

/// Short transfers have a congestion control, and are too many for a line nevertheless; the rate of a line with a rate over time is a
/// placeholder.
#[test]
fn what_is_offered_says_by_whom_and_to_what_the_line_carries() {
    let mice = |rate: &str| {
        format!(
            "workload = {{ kind = \"mice\", per-second = {rate}, size = {{ kind = \"constant\", value = \"1MB\" }} }}"
        )
    };
    let (_, said) = load("", &mice("2"));
    assert!(said.contains("the transfers that begin offer 16mbit to the link r->b, which carries 10mbit\n"), "{said}");
    let halves = "rate-over-time = { kind = \"steps\", repeat = \"2s\", steps = [{ at = \"0s\", rate = \"2mbit\" }, \
                  { at = \"1s\", rate = \"4mbit\" }] }";
    let (scenario, said) = load(&format!("{halves}\nqueue = {{ kind = \"codel\" }}"), &mice("1"));
    assert!(said.contains("offer 8mbit to the link r->b, which carries 3mbit on average"), "{said}");
    assert_eq!(scenario.outline().queues[0].rate.as_bps(), 3_000_000);
    let (_, said) = load("", "workload = { kind = \"constant\", rate = \"20mbit\" }");
    assert!(said.contains("flows without congestion control offer 20mbit"), "{said}");
}
