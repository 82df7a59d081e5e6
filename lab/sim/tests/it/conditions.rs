//! Lines as scenario files describe them, and their changes at times.

use std::fmt::Write;

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Outcome, Scenario};

/// A scenario of a line of 10 Mbit/s with `link`, and what else is in the file.
fn run(link: &str, rest: &str) -> Outcome {
    outcome_of(format!(
        "version = 1\nduration = \"40s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10mbit\"\nwatch = true\n{link}\n{rest}"
    ))
}

fn outcome_of(text: String) -> Outcome {
    let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
    let open = |name: &str| match name {
        "lte.trace" => Ok(Source::new(name, "1\n1\n2\n9\n10\n")),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let scenario = Scenario::load(&source, Some(&open), &mut found);
    scenario.unwrap_or_else(|| panic!("{}", found.render(&source))).run(1, |_| ())
}

fn refused(link: &str, rest: &str) -> String {
    refused_text(format!(
        "version = 1\nduration = \"40s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10mbit\"\n{link}\n{rest}"
    ))
}

fn refused_text(text: String) -> String {
    let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
    assert!(Scenario::load(&source, None, &mut found).is_none(), "{}", source.text());
    found.render(&source)
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.subject == subject && value.measure == measure);
    found.unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values)).value
}

/// Datagrams of 1250 bytes, 1000 a second at 10 Mbit/s.
fn datagrams(name: &str, from: &str, to: &str, rate: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nworkload = {{ kind = \"constant\", rate = \"{rate}\", packet = \"1250B\" }}\n"
    )
}

const BULK: &str = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }\n";

#[test]
fn gilbert_and_elliott_lose_what_they_should() {
    let flow = datagrams("f", "a", "b", "10mbit");
    let loss = "loss = { kind = \"gilbert-elliott\", begin = \"2%\", end = \"18%\", bad = \"50%\" }";
    let outcome = run(loss, &flow);
    // A tenth of the packets meets the bad state, half of those are lost. 40,000 packets in 1,600 bursts of the bad
    // state: an error of 5 % of it, five times.
    let share = value(&outcome, "link a->b", "lost") / value(&outcome, "flow f", "sent");
    assert!((share - 0.05).abs() < 0.007, "{share}");
    let outcome = run("loss = { kind = \"list\", packets = [1, 2, 30] }", &flow);
    assert_eq!(value(&outcome, "link a->b", "lost"), 3.0);
    let outcome = run("duplication = \"10%\"", &flow);
    let twice = value(&outcome, "link a->b", "duplicated") / 40_000.0;
    assert!((twice - 0.1).abs() < 0.0075, "{twice}");
    let goodput = value(&outcome, "flow f", "goodput");
    assert!((goodput / (1.1 * 10e6 * 1222.0 / 1250.0) - 1.0).abs() < 0.01, "{goodput}");
}

#[test]
fn tcp_copes_with_reordering_and_duplicates() {
    let jitter = "delay = \"20ms\"\njitter = { delay = { kind = \"exponential\", mean = \"2ms\" }, correlation = 0.5, reorder = true }\nduplication = \"1%\"";
    let outcome = run(jitter, BULK);
    assert!(value(&outcome, "flow f", "goodput") > 1e6, "every byte once, in order");
    assert!(value(&outcome, "flow f", "retransmitted") > 0.0, "some look lost");
    let outcome = run(&jitter.replace("reorder = true", "reorder = false"), BULK);
    let (goodput, again) = (value(&outcome, "flow f", "goodput"), value(&outcome, "flow f", "retransmitted"));
    assert!(goodput > 9e6 && again < 10.0, "{goodput} {again}");
}

#[test]
fn the_two_directions_of_a_shared_line_have_halves() {
    let both = datagrams("there", "a", "b", "10mbit") + &datagrams("back", "b", "a", "10mbit");
    let outcome = run("half-duplex = true\nlimit = 50", &both);
    for flow in ["flow there", "flow back"] {
        let goodput = value(&outcome, flow, "goodput");
        assert!((goodput / (5e6 * 1222.0 / 1250.0) - 1.0).abs() < 0.02, "{flow}: {goodput}");
    }
    let outcome = run("half-duplex = true", BULK);
    // Acknowledgements of 40 bytes for every second packet take their part: 3000 of 3040 bytes.
    let goodput = value(&outcome, "flow f", "goodput");
    assert!((9.3e6..9.65e6).contains(&goodput), "{goodput}");
}

#[test]
fn directions_differ_and_delays_are_drawn() {
    let both = datagrams("there", "a", "b", "1mbit") + &datagrams("back", "b", "a", "1mbit");
    let outcome = run("rate-back = \"2mbit\"\ndelay = \"10ms\"\ndelay-back = \"30ms\"\nloss-back = \"10%\"", &both);
    // 1 ms and 5 ms of transmission.
    assert_eq!(value(&outcome, "flow there", "delay mean"), 11e6);
    assert_eq!(value(&outcome, "flow back", "delay mean"), 35e6);
    assert_eq!(value(&outcome, "flow there", "dropped"), 0.0);
    assert!(value(&outcome, "flow back", "dropped") > 300.0);
    let mut text = "version = 1\nduration = \"2s\"\nhosts = [\"s{1..200}\", \"d\"]\nrouters = [\"r\"]\nmeasure = [\"delay\"]\n\
        [[link]]\nfrom = \"s{1..200}\"\nto = \"r\"\nrate = \"1gbit\"\ndelay = { kind = \"uniform\", low = \"10ms\", high = \"90ms\" }\n\
        [[link]]\nfrom = \"r\"\nto = \"d\"\nrate = \"1gbit\"\n"
        .to_owned();
    write!(text, "{}", datagrams("f", "s{1..200}", "d", "100kbit")).unwrap();
    let scenario = Scenario::load(&Source::new("t", text), None, &mut Diagnostics::new()).unwrap();
    let outcome = scenario.run(1, |_| ());
    // 51 ms in the mean, of 200 draws with a deviation of 23 ms: an error of 1.6 ms.
    let mean = value(&outcome, "flow f", "delay mean") / 1e6;
    assert!((mean - 51.0).abs() < 8.0 && mean != 51.0, "{mean}");
    assert_ne!(outcome.digest, scenario.run(2, |_| ()).digest);
    assert_eq!(outcome.digest, scenario.run(1, |_| ()).digest);
}

#[test]
fn sizes_are_drawn_for_each_flow() {
    let flow = BULK.replace("kind = \"bulk\"", "kind = \"bulk\", bytes = { kind = \"exponential\", mean = \"50kB\" }");
    let outcome = run("", &flow.replace("workload", "count = 400\nworkload"));
    assert_eq!(value(&outcome, "flow f", "completed"), 400.0);
    // 20 MB in the mean, with a deviation of a twentieth.
    let bytes = value(&outcome, "flow f", "goodput") * 40.0 / 8.0;
    assert!((bytes / 20e6 - 1.0).abs() < 0.25, "{bytes}");
}

#[test]
fn a_trace_is_the_bottleneck_that_it_says() {
    let outcome = run("rate-over-time = { kind = \"mahimahi\", file = \"lte.trace\" }\nlimit = 20", BULK);
    // Five packets in 10 ms are 6 Mbit/s, of which 1460 of 1500 bytes are data.
    let goodput = value(&outcome, "flow f", "goodput");
    assert!((5.5e6..5.85e6).contains(&goodput), "{goodput}");
    // Of the other direction, too, unless that has a rate or a trace of its own.
    let back = BULK.replace("from = \"a\"\nto = \"b\"", "from = \"b\"\nto = \"a\"");
    let at = |more: &str| {
        let link = format!("rate-over-time = {{ kind = \"mahimahi\", file = \"lte.trace\" }}\n{more}");
        let outcome = run(&link, &back);
        value(&outcome, "flow f", "goodput")
    };
    assert!((5.5e6..5.85e6).contains(&at("")), "{}", at(""));
    assert!((7.5e6..7.9e6).contains(&at("rate-back = \"8mbit\"")), "{}", at("rate-back = \"8mbit\""));
    // The rate is that of the trace where none is written.
    let lines =
        "version = 1\nduration = \"40s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nlimit = 20\n";
    let trace = "rate-over-time = { kind = \"mahimahi\", file = \"lte.trace\" }\n";
    let without = outcome_of(format!("{lines}watch = true\n{trace}{BULK}"));
    assert_eq!(without.digest, outcome.digest);
    assert!(refused_text(format!("{lines}{BULK}")).contains("a link without a rate"));
    let steps = "rate-over-time-back = { kind = \"steps\", steps = [{ at = \"0s\", rate = \"4mbit\" }] }";
    assert!((3.7e6..3.95e6).contains(&at(steps)), "{}", at(steps));
}

#[test]
fn lines_and_workloads_change_at_their_times() {
    let rate_at = |outcome: &Outcome, from: f64, to: f64| {
        let curve = outcome.curves.iter().find(|c| c.subject == "link a->b" && c.measure == "throughput").unwrap();
        let points: Vec<f64> = curve.points.iter().filter(|p| (from..to).contains(&p.0)).map(|p| p.1).collect();
        points.iter().sum::<f64>() / points.len() as f64
    };
    let at = |time: u64, action: &str| {
        format!("[[at]]\ntime = \"{time}s\"\nfrom = \"a\"\nto = \"b\"\naction = {{ {action} }}\n")
    };
    let line =
        at(10, "kind = \"line\", rate = \"2mbit\"") + &at(20, "kind = \"line\", rate = \"8mbit\", loss = \"50%\"");
    let outcome = run("", &(datagrams("f", "a", "b", "10mbit") + &line));
    for (from, to, rate) in [(1.0, 9.0, 10e6), (11.0, 19.0, 2e6), (21.0, 39.0, 8e6)] {
        let found = rate_at(&outcome, from, to);
        assert!((found / rate - 1.0).abs() < 0.02, "{from}: {found}");
    }
    let lost = value(&outcome, "link a->b", "lost");
    // Half of 800 packets a second for 20 s and of the 1000 that are queued at the end, whose departures are known: 8,500,
    // with a deviation of 65.
    assert!((lost - 8_500.0).abs() < 325.0, "{lost}");
    let kinds: Vec<&str> = outcome.reports.iter().map(|report| report.kind).collect();
    assert_eq!(kinds, ["line", "line"]);
    let workload = at(10, "kind = \"workload\", flow = \"f\", workload = { kind = \"constant\", rate = \"3mbit\" }")
        .replace("from = \"a\"\nto = \"b\"\n", "");
    let outcome = run("", &(datagrams("f", "a", "b", "8mbit") + &workload));
    let rates = [rate_at(&outcome, 1.0, 9.0), rate_at(&outcome, 11.0, 39.0)];
    assert!((rates[0] / 8e6 - 1.0).abs() < 0.02 && (rates[1] / 3e6 - 1.0).abs() < 0.02, "{rates:?}");
    // A transfer without end stops where requests take its place.
    let requests = "kind = \"workload\", flow = \"f\", workload = { kind = \"requests\", request = { kind = \"constant\", value = \"200B\" }, response = { kind = \"constant\", value = \"1kB\" }, think = { kind = \"constant\", value = \"500ms\" } }";
    let outcome = run("limit = 100", &(BULK.to_owned() + &at(10, requests).replace("from = \"a\"\nto = \"b\"\n", "")));
    assert!(rate_at(&outcome, 11.0, 39.0) < 100e3 && value(&outcome, "flow f", "completed") > 50.0);
}

#[test]
fn failures_keep_the_queue() {
    let outage = "[[link.outage]]\nfrom = \"10s\"\nto = \"15s\"\n";
    let outcome = run(outage, &datagrams("f", "a", "b", "1mbit"));
    // 500 packets come in the meantime and wait; of the 1 ms transmission and 1 ms of delay at most one packet is there.
    let lost = outcome.values.iter().find(|value| value.measure == "lost").map_or(0.0, |value| value.value);
    let delay = value(&outcome, "link a->b", "queueing p99");
    assert!(lost <= 1.0 && delay > 4e9, "{lost} {delay}");
    assert_eq!(value(&outcome, "link a->b", "dropped"), 0.0);
}

#[test]
fn impossible_lines_are_refused_with_their_place() {
    for (link, rest, parts) in [
        (
            "loss = { kind = \"gilbert-elliott\", begin = \"1%\", end = \"0%\" }",
            BULK,
            ["test.toml:8:56", "bad state for ever"],
        ),
        ("loss = { kind = \"list\", packets = [3, 2] }", BULK, ["test.toml:8:", "must rise from 1"]),
        ("rate-over-time = { kind = \"steps\", steps = [] }", BULK, ["test.toml:8:", "needs a step"]),
        ("half-duplex = true\nboth-ways = false", BULK, ["test.toml:4:", "needs both directions"]),
        (
            "",
            "[[at]]\ntime = \"1s\"\naction = { kind = \"line\", rate = \"1mbit\" }\n",
            ["test.toml:9:", "the line that changes"],
        ),
    ] {
        let rest = if rest == BULK { BULK.to_owned() } else { format!("{rest}{BULK}") };
        let errors = refused(link, &rest);
        assert!(parts.iter().all(|part| errors.contains(part)), "{parts:?}:\n{errors}");
    }
}
