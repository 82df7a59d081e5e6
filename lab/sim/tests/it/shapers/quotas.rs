//! Rules that match until their quota is used up, by the calendar of the scenario.

use super::{flow, load, named, reports, run};

/// Ten seconds from five before midnight, with a flow of 1 Mbit/s in packets of 1250 B, and this rule for it.
fn scenario(rule: &str, threads: u32) -> String {
    let flow = flow("one", "");
    format!(
        "version = 1\nduration = \"10s\"\nstarts = \"2026-11-30T23:59:55\"\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1gbit\"\nqueue = {{ shaper = {{ interface = {{ threads = {threads} }}, \
         class = [{{ name = \"yes\", rate = \"10mbit\" }}, {{ name = \"no\", rate = \"10mbit\", default = true }}], \
         rule = [{{ class = \"yes\", {rule} }}] }} }}\n{flow}"
    )
}

/// The packets of both classes.
fn packets(rule: &str, threads: u32) -> (u64, u64) {
    let outcome = run(&scenario(rule, threads));
    let status = reports(&outcome, "status").last().expect("the last snapshot");
    let count = |name: &str| named(&status.result["classes"], name)["enqueued_packets"].as_u64().expect("a count");
    (count("yes"), count("no"))
}

/// 250,000 B are 200 packets, which arrive in two seconds: those from 0 s until 2 s, and from midnight at 5 s until 7 s.
#[test]
fn a_quota_is_used_up_and_begins_anew_at_midnight() {
    assert_eq!(packets("quota = \"250kB/day\"", 1), (400, 601));
    assert_eq!(packets("quota = \"250kB/day\"", 2), (400, 601), "the threads count together");
    // 1 December 2026 is a Tuesday.
    assert_eq!(packets("quota = \"250kB/month\"", 1), (400, 601));
    assert_eq!(packets("quota = \"250kB/week\"", 1), (200, 801));
    assert_eq!(packets("quota = \"1GB/week\"", 1), (1_001, 0));
}

#[test]
fn a_quota_within_hours_needs_both() {
    assert_eq!(packets("quota = \"250kB/day\", when = \"00:00-12:00\"", 1), (200, 801));
}

#[test]
fn an_error_shows_the_place_and_an_example() {
    let Err(errors) = load("quota.toml", &scenario("quota = \"250kB/hour\"", 1)) else { panic!("no such period") };
    assert!(errors.contains("`hour` is not a period of a quota") && errors.contains("`month`"), "{errors}");
}
