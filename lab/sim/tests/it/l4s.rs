//! TCP Prague beside CUBIC in a class whose flows are marked by the step; `coexistence` has both over DualPI2.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Scenario, Value};

/// Goodputs in Mbit/s of the scalable flow and of CUBIC, and the 99th percentile of the time in the queue in ms of each.
struct Row {
    goodput: [f64; 2],
    waited: [f64; 2],
}

/// One flow of each on a line of `mbit` with a round trip of `milliseconds`, the second half of 40 s.
fn run(queue: &str, mbit: u64, milliseconds: u64, seed: u64) -> Row {
    let mut text = format!(
        "version = 1\nduration = \"40s\"\nwarm-up = \"20s\"\nmeasure = [\"goodput\", \"queueing\"]\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\nqueue = {queue}\n",
        milliseconds * 500
    );
    for (profile, name, congestion) in [("one", "scalable", "prague"), ("two", "cubic", "cubic")] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nprofile = \"{profile}\"\njitter = \"100ms\"\n\
             workload = {{ kind = \"bulk\" }}\n\
             tcp = {{ congestion = \"{congestion}\", window = \"16MiB\", min-rto = \"200ms\" }}\n"
        );
    }
    let (source, mut diagnostics) = (Source::new("l4s.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(seed, |_| ());
    let value = |flow: &str, measure: &str| {
        let of = |value: &&Value| value.subject == format!("flow {flow}") && value.measure == measure;
        outcome.values.iter().find(of).map_or(f64::NAN, |value| value.value)
    };
    Row {
        goodput: ["scalable", "cubic"].map(|flow| value(flow, "goodput") / 1e6),
        waited: ["scalable", "cubic"].map(|flow| value(flow, "queueing p99") / 1e6),
    }
}

/// Shares of 1 to 2 stay what they are when the step marks the scalable flow, and its delay falls.
#[test]
fn the_step_changes_no_share() {
    let queue = |step: &str| {
        format!(
            "{{ kind = \"fbq\", class = [{{ name = \"all\", rate = \"20mbit\"{step} }}], \
             profile = [{{ name = \"one\", weight = 1 }}, {{ name = \"two\", weight = 2 }}] }}"
        )
    };
    let without = run(&queue(""), 20, 20, 1);
    let with = run(&queue(", l4s-step = \"1ms\""), 20, 20, 1);
    for row in [&without, &with] {
        println!("{:?} Mbit/s, {:?} ms", row.goodput, row.waited);
        let ratio = row.goodput[1] / row.goodput[0];
        assert!((1.9..2.15).contains(&ratio), "{ratio}");
    }
    // A third of 20 Mbit/s takes 1.8 ms a packet: two packets' time is 3.6 ms.
    assert!(
        with.waited[0] < 12.0 && with.waited[0] < without.waited[0] / 4.0,
        "{:?} {:?}",
        with.waited,
        without.waited
    );
}

/// Prague through DualPI2 on a line of 20 Mbit/s, and then over a line with `faults` in the direction of data or of acknowledgements.
/// Returns the marks of the queue, those that arrived, and those that were reported to the sender, from 2 to 12 s.
fn over_impaired(faults: &str) -> [f64; 3] {
    let text = format!(
        "version = 1\nduration = \"12s\"\nwarm-up = \"2s\"\nmeasure = [\"goodput\", \"feedback\", \"links\"]\n\
         hosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"20mbit\"\ndelay = \"5ms\"\nqueue = {{ kind = \"dualpi2\" }}\n\
         [[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"1gbit\"\ndelay = \"5ms\"\n{faults}\n\
         [[flow]]\nname = \"scalable\"\nfrom = \"a\"\nto = \"b\"\nworkload = {{ kind = \"bulk\" }}\n\
         tcp = {{ congestion = \"prague\", window = \"4MiB\", min-rto = \"200ms\" }}\n"
    );
    let (source, mut diagnostics) = (Source::new("impaired.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(1, |_| ());
    let value = |subject: &str, measure: &str| {
        let of = |value: &&Value| value.subject == subject && value.measure == measure;
        outcome.values.iter().find(of).unwrap_or_else(|| panic!("no {measure} of {subject}")).value
    };
    assert!(value("flow scalable", "goodput") > 17e6, "{faults}");
    [("link a->r", "marked"), ("flow scalable", "marks arrived"), ("flow scalable", "marks reported")]
        .map(|(subject, measure)| value(subject, measure))
}

/// The fallbacks of RFC 9768 by a scenario.
#[test]
fn accurate_feedback_falls_back_on_an_impaired_path() {
    let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * a.max(b) + 4.0;
    let [marked, arrived, reported] = over_impaired("");
    println!("none: {marked} marked, {arrived} arrived, {reported} reported");
    assert!(marked > 300.0 && near(marked, arrived) && near(arrived, reported), "{marked} {arrived} {reported}");
    // Without options the ACE field alone counts the marks (3.2.3.2.3, 3.2.3.2.4).
    for fault in ["strip-option", "zero-option"] {
        let [marked, arrived, reported] = over_impaired(&format!("ecn-impairment = [\"{fault}\"]"));
        println!("{fault}: {marked} marked, {arrived} arrived, {reported} reported");
        assert!(marked > 300.0 && near(marked, arrived) && near(arrived, reported), "{fault}: {arrived} {reported}");
    }
    // A path that clears the field, or the feedback: the sender stops to set it (A.4, 3.2.2.4), so that nothing is marked.
    for fault in ["bleach", "zero-ace"] {
        let [marked, arrived, reported] = over_impaired(&format!("ecn-impairment = [\"{fault}\"]"));
        println!("{fault}: {marked} marked, {arrived} arrived, {reported} reported");
        assert_eq!([marked, arrived, reported], [0.0; 3], "{fault}");
    }
    // Marks that are cleared on the way to the receiver are never known; those that acknowledgements would have are no matter.
    let [marked, arrived, reported] = over_impaired("ecn-impairment = [\"clear-ce\"]\necn-impairment-back = []");
    println!("clear-ce: {marked} marked, {arrived} arrived, {reported} reported");
    assert!(marked > 300.0 && [arrived, reported] == [0.0; 2], "{marked} {arrived} {reported}");
    let [marked, arrived, reported] = over_impaired("ecn-impairment = []\necn-impairment-back = [\"bleach\"]");
    assert!(marked > 300.0 && near(marked, arrived) && near(arrived, reported), "back: {arrived} {reported}");
}

/// The time in queues is exact where the line is long, of which the bins of one-way delays are wider than the queue; shares and ratios
/// are of goodputs.
#[test]
fn queueing_and_shares_are_measured_for_each_flow() {
    // 8 Mbit/s: a packet of 1,000 B takes 1 ms. Ten at once wait for 0 to 9 ms, each second, and 400 ms of line follow.
    let text = "version = 1\nduration = \"10s\"\nmeasure = [\"goodput\", \"queueing\", \"share\", \"delay\"]\nhosts = [\"a\", \"b\"]\n\
        primary = [\"queueing p50 of flow one\"]\n\
        [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"8mbit\"\ndelay = \"400ms\"\n\
        [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\ncount = 10\nworkload = { kind = \"constant\", rate = \"8kbit\", packet = \"1000B\" }\n\
        [[flow]]\nname = \"two\"\nfrom = \"a\"\nto = \"b\"\nstart = \"500ms\"\nworkload = { kind = \"constant\", rate = \"20kbit\", packet = \"1000B\" }\n";
    let (source, mut diagnostics) = (Source::new("shares.toml", text), Diagnostics::new());
    let scenario =
        Scenario::load(&source, None, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let outcome = scenario.run(1, |_| ());
    let find = |subject: &str, measure: &str| {
        outcome
            .values
            .iter()
            .find(|value| value.subject == subject && value.measure == measure)
            .map(|value| value.value)
    };
    let value =
        |subject: &str, measure: &str| find(subject, measure).unwrap_or_else(|| panic!("{measure} of {subject}"));
    let p50 = value("flow one", "queueing p50") / 1e6;
    assert!((4.0..=4.0 * 65.0 / 64.0).contains(&p50), "{p50}");
    // The one-way delay has a bin of 6 ms here.
    let delay = value("flow one", "delay p50") / 1e6 - 401.0;
    assert!(delay > 4.5, "{delay}");
    assert_eq!(value("flow two", "queueing p99"), 0.0);
    let [one, two] = ["flow one", "flow two"].map(|flow| value(flow, "goodput"));
    assert!((value("flow one", "share") - one / (one + two) * 100.0).abs() < 0.01);
    assert!((value("flow one", "ratio to two") - one / two).abs() < 0.001);
    // One flow of each: the first are ten.
    let each = one / 10.0;
    let jain = (each + two).powi(2) / (2.0 * (each * each + two * two));
    assert!((value("flow one", "fairness with two") - jain).abs() < 0.001);
    assert_eq!(find("flow two", "ratio to one"), None, "the same again");
}

/// How often a scalable sender that is alone comes under sanction between two times.
fn sanctions_of_a_lone_sender(mbit: u64, milliseconds: u64, [from, to]: [u64; 2]) -> f64 {
    let text = format!(
        "version = 1\nduration = \"{to}s\"\nwarm-up = \"{from}s\"\nmeasure = [\"links\"]\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\nqueue = {{ kind = \"dualpi2\" }}\n\
         [[flow]]\nname = \"scalable\"\nfrom = \"a\"\nto = \"b\"\nworkload = {{ kind = \"bulk\" }}\n\
         tcp = {{ congestion = \"prague\", window = \"16MiB\", min-rto = \"200ms\" }}\n",
        milliseconds * 500
    );
    let (source, mut diagnostics) = (Source::new("alone.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(1, |_| ());
    let all = outcome.values.iter().find(|value| value.subject == "link a->b" && value.measure == "sanctions");
    all.map_or(0.0, |value| value.value)
}

/// On lines of 40 Mbit/s and more a lone sender comes under sanction by its slow start, and seldom later. On slower ones it does several
/// times a second: RFC 9957 raises the delay from which packets are judged by the time of two frames, and this queue knows no rate.
#[test]
fn a_lone_scalable_sender_is_seldom_sanctioned_on_fast_lines() {
    for (mbit, milliseconds, most) in [(40, 10, 25.0), (120, 50, 25.0)] {
        let begin = sanctions_of_a_lone_sender(mbit, milliseconds, [0, 10]);
        let later = sanctions_of_a_lone_sender(mbit, milliseconds, [10, 60]);
        println!("{mbit} Mbit/s, {milliseconds} ms: {begin} sanctions in 10 s, {later} in the 50 s after them");
        assert!(begin > 0.0 && later <= most, "{mbit} Mbit/s: {begin}, {later}");
    }
}
