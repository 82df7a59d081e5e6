//! Shaper files in the simulator: what rules see of simulated packets, and what is done to a shaper while it runs.

use std::path::Path;

use serde_json::Value;
use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Outcome, Report, Scenario};

fn load(name: &str, text: &str) -> Result<Scenario, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapers");
    let (source, mut diagnostics) = (Source::new(name, text), Diagnostics::new());
    let open = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name))?;
        Ok(Source::new(name, text))
    };
    Scenario::load(&source, Some(&open), &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

fn run(text: &str) -> Outcome {
    load("test.toml", text).unwrap_or_else(|errors| panic!("{errors}")).run(1, |_| ())
}

macro_rules! scenario {
    ($name:literal) => {
        run(include_str!(concat!("shapers/", $name, ".scenario.toml")))
    };
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.subject == subject && value.measure == measure);
    found.unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values)).value
}

/// Bit/s on the wire of what arrived of a section of UDP flows.
fn wire_rate(outcome: &Outcome, section: &str, payload: f64) -> f64 {
    value(outcome, &format!("flow {section}"), "goodput") * (payload + 28.0) / payload
}

fn near(rate: f64, wanted: f64, tolerance: f64) {
    assert!((rate / wanted - 1.0).abs() < tolerance, "{rate:.0} is not {wanted:.0}");
}

fn reports<'a>(outcome: &'a Outcome, kind: &'a str) -> impl Iterator<Item = &'a Report> {
    outcome.reports.iter().filter(move |report| report.kind == kind)
}

/// An element of a list in a report, by its name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let all = list.as_array().expect("a list");
    let of = |value: &Value| value["name"].as_str().or(value["flow"]["name"].as_str()).map(str::to_owned);
    all.iter().find(|value| of(value).as_deref() == Some(name)).unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

// ---------------------------------------------------------------- the files of three live tests

/// Live: `flows::a_minimum_is_held_against_fifty_greedy_flows` of `crates/lab/tests/shaping`.
#[test]
fn a_minimum_is_held_against_fifty_greedy_flows() {
    let outcome = scenario!("minimum");
    let promised = wire_rate(&outcome, "promised", 1_000.0);
    // Without its minimum it would get what the others get, 196 kbit/s.
    near(promised.min(2e6), 2e6, 0.02);
    near(promised + wire_rate(&outcome, "greedy", 700.0), 10e6, 0.02);
}

/// Live: `flows::preference_raises_a_share_at_once`.
#[test]
fn preference_raises_a_share_at_once() {
    let outcome = scenario!("preference");
    let sent = |status: &Report, flow: &str| named(&status.result["flows"], flow)["sent_bytes"].as_f64().unwrap();
    let all: Vec<&Report> = reports(&outcome, "status").collect();
    let rate = |from: usize, to: usize, seconds: f64| {
        (sent(all[to], "flow one") - sent(all[from], "flow one")) * 8.0 / seconds
    };
    // A quarter of 10 Mbit/s; then two steps of 20 % more. At once: measured from the moment of the promise on.
    near(rate(0, 1, 1.0), 2.5e6, 0.01);
    near(rate(1, 2, 1.5), 6.5e6, 0.01);
    near(named(&all[2].result["classes"], "all")["sent_bps"].as_f64().unwrap(), 10e6, 0.01);
    let promise = reports(&outcome, "promise").next().expect("the promise");
    assert!(!promise.refused && promise.result["flows"] == 1, "{:#}", promise.result);
    assert!((promise.result["granted_bps"].as_f64().unwrap() / 10e6 - 0.65).abs() < 0.01, "{:#}", promise.result);
}

/// Live: `flows::a_displaced_flow_keeps_its_order_and_comes_back`.
#[test]
fn a_displaced_flow_goes_and_comes_back() {
    let outcome = scenario!("displacement");
    let moves: Vec<(f64, String, String)> = reports(&outcome, "event")
        .filter(|event| event.result["flow"]["name"] == "flow mover")
        .map(|event| {
            let class = |key: &str| event.result[key].as_str().unwrap().to_owned();
            (event.time.as_nanos() as f64 / 1e9, class("from_class"), class("class"))
        })
        .collect();
    let [(went, gold, silver), (back, from, to)] = moves.as_slice() else { panic!("not two moves: {moves:?}") };
    assert_eq!([gold, silver, from, to].map(String::as_str), ["gold", "silver", "silver", "gold"]);
    // With four others its share of 6 Mbit/s is 1.2, below 2 Mbit/s. It comes back when they are forgotten, after 0.5 s.
    assert!((2.0..2.1).contains(went) && (4.5..4.7).contains(back), "{went} {back}");
    // Alone in the other class it gets all it asks for.
    let all: Vec<&Report> = reports(&outcome, "status").collect();
    near(named(&all[1].result["classes"], "silver")["sent_bps"].as_f64().unwrap(), 5.14e6, 0.01);
    near(wire_rate(&outcome, "mover", 1_000.0), 5.14e6, 0.01);
}
