//! The flows of one run beside each other: `compare --by subject`, and claims about them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tidegate_testbed::files::Folder;

/// A flow with a short round trip and one with a long one, through a FIFO and through fair queues.
const SCENARIO: &str = r#"
version = 1
duration = "12s"
warm-up = "4s"
runs = 4
hosts = ["n", "f", "b"]
routers = ["r"]
link = [
    { from = "n", to = "r", rate = "100mbit", delay = "1ms", jitter = { delay = { kind = "uniform", low = "0s", high = "1ms" } } },
    { from = "f", to = "r", rate = "100mbit", delay = "40ms", jitter = { delay = { kind = "uniform", low = "0s", high = "1ms" } } },
    { from = "r", to = "b", rate = "10mbit", delay = "5ms" },
]
variant = [
    { name = "fifo", from = "r", to = "b", queue = { kind = "fifo", limit = "40kB" } },
    { name = "fair", from = "r", to = "b", queue = { kind = "fq-codel" } },
]
flow = [
    { name = "near", from = "n", to = "b", jitter = "1s", workload = { kind = "bulk" } },
    { name = "far", from = "f", to = "b", jitter = "1s", workload = { kind = "bulk" } },
]
"#;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(folder).output().expect("tidegate runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned()
}

#[test]
fn the_flows_of_a_run_are_compared_with_each_other() {
    let scratch = Folder::new("flows");
    let folder = &scratch.0;
    fs::write(folder.join("s.toml"), SCENARIO).expect("written");
    assert!(tidegate(folder, &["simulate", "s.toml", "--out", "out"]).status.success());
    let found = tidegate(folder, &["compare", "out", "--by", "subject", "--look", "measure=goodput"]);
    let said = text(&found);
    assert!(
        found.status.success() && said.contains("goodput of flows: flow near has the most at all 2 points"),
        "{said}"
    );
    // Of a sweep at each of its points, which have the variant.
    let vary = ["--vary", "link.r->b.rate=8mbit,10mbit", "--out", "swept"];
    assert!(tidegate(folder, &[&["sweep", "s.toml"], &vary[..]].concat()).status.success());
    let found = tidegate(folder, &["compare", "swept", "--by", "subject", "--only", "measure=goodput", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let differences = json["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 4, "two rates, two variants: {json:#}");
    for one in differences {
        assert_eq!(one["variants"], serde_json::json!(["flow near", "flow far"]), "{one}");
    }
    let subjects: Vec<&str> = differences.iter().filter_map(|one| one["subject"].as_str()).collect();
    assert!(subjects.contains(&"flows at rate=8mbit, variant=fifo"), "{subjects:?}");
    for (arguments, why) in [
        (&["compare", "swept", "--by", "subject", "--by", "rate"][..], "has no other column beside it"),
        (&["compare", "swept", "--by", "subject", "--only", "subject=flow near"], "there are no two flows or links"),
    ] {
        let refused = tidegate(folder, arguments);
        assert!(refused.status.code() == Some(2) && text(&refused).contains(why), "{}", text(&refused));
    }
}

#[test]
fn claims_may_be_about_two_flows_of_a_variant() {
    let scratch = Folder::new("flows-claims");
    let folder = &scratch.0;
    fs::write(folder.join("s.toml"), SCENARIO).expect("written");
    let pack =
        |name: &str, claim: &str| tidegate(folder, &["artifact", name, "--scenario", "s.toml", "--claim", claim]);
    let claim = "A long round trip costs=goodput of flows at variant=fifo: flow far < flow near";
    let made = pack("it", claim);
    assert!(made.status.success(), "{}", text(&made));
    let again = tidegate(folder, &["artifact", "--reproduce", "it"]);
    let said = text(&again);
    assert!(
        again.status.success() && said.contains("claim supported: A long round trip costs (goodput of flows at"),
        "{said}"
    );
    let turned = pack("turned", &claim.replace("flow far < flow near", "flow near < flow far"));
    assert!(turned.status.code() == Some(1) && text(&turned).contains("claim not supported"), "{}", text(&turned));
    let unknown = pack("unknown", &claim.replace("flow far", "flow away"));
    let said = text(&unknown);
    assert!(
        unknown.status.code() == Some(2) && said.contains("no flow `flow away`; there are flow near, flow far"),
        "{said}"
    );
    let no_point = pack("point", &claim.replace(" at variant=fifo", ""));
    let said = text(&no_point);
    assert!(
        no_point.status.code() == Some(2) && said.contains("flows at variant=fifo; flows at variant=fair"),
        "{said}"
    );
}

/// Whoever chooses two of three variants, or one point, of a sweep has planned all of it.
#[test]
fn a_choice_of_runs_leaves_the_plan_of_a_sweep_whole() {
    let scratch = Folder::new("flows-plan");
    let folder = &scratch.0;
    let third = "    { name = \"codel\", from = \"r\", to = \"b\", queue = { kind = \"codel\" } },\n]\nflow";
    let scenario =
        SCENARIO.replace("runs = 4", "runs = 4\nprimary = [\"goodput of flow near\"]").replacen("]\nflow", third, 1);
    fs::write(folder.join("s.toml"), scenario).expect("written");
    let made = tidegate(folder, &["sweep", "s.toml", "--vary", "link.r->b.rate=8mbit,10mbit", "--out", "swept"]);
    assert!(made.status.success(), "{}", text(&made));
    let comparisons = |more: &[&str]| -> Vec<u64> {
        let found = tidegate(folder, &[&["compare", "swept", "--json"], more].concat());
        let json: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
        let all = json["differences"].as_array().expect("a list");
        all.iter().filter_map(|one| one["comparisons"].as_u64()).collect()
    };
    assert_eq!(comparisons(&[]), [6; 6]);
    let two = ["--only", "variant=fifo", "--only", "variant=fair"];
    assert_eq!(comparisons(&two), [6; 2]);
    assert_eq!(comparisons(&["--look", "row=fifo,row=fair"]), [6; 2]);
    assert_eq!(comparisons(&[&two[..], &["--only", "rate=8mbit"]].concat()), [6; 1]);
}
