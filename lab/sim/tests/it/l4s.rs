//! TCP Prague beside CUBIC in a class whose flows are marked by the step; `coexistence` has both over DualPI2.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Scenario, Value};

/// Goodputs in Mbit/s of the scalable flow and of CUBIC, and the queueing delays in ms beyond the line's, p99 of each.
struct Row {
    goodput: [f64; 2],
    waited: [f64; 2],
}

/// One flow of each on a line of `mbit` with a round trip of `milliseconds`, the second half of 40 s.
fn run(queue: &str, mbit: u64, milliseconds: u64, seed: u64) -> Row {
    let mut text = format!(
        "version = 1\nduration = \"40s\"\nwarm-up = \"20s\"\nmeasure = [\"goodput\", \"delay\"]\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\nqueue = {queue}\n",
        milliseconds * 500
    );
    for (profile, name, congestion) in [(1, "scalable", "prague"), (2, "cubic", "cubic")] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nprofile = {profile}\njitter = \"100ms\"\n\
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
    let line = milliseconds as f64 / 2.0 + 1_500.0 * 8.0 / (mbit as f64 * 1e3);
    Row {
        goodput: ["scalable", "cubic"].map(|flow| value(flow, "goodput") / 1e6),
        waited: ["scalable", "cubic"].map(|flow| value(flow, "delay p99") / 1e6 - line),
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
