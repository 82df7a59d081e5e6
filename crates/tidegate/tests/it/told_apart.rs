//! Which variants the runs of a simulation tell apart, as a shell sees it.

use std::process::Output;

use crate::command::tidegate;
use crate::simulate::{SCENARIO, simulate};
use tidegate_testbed::files::{Folder, text};

pub(crate) const DUEL: &str = "version = 1\nduration = \"10s\"\nhosts = [\"a\", \"b\"]\n\
    [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"4mbit\"\ndelay = \"10ms\"\nqueue = { kind = \"fifo\" }\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\njitter = \"1s\"\nworkload = { kind = \"bulk\" }\n\
    [[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"mice\", per-second = 3, \
    size = { kind = \"exponential\", mean = \"15kB\" } }\n\
    [[variant]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\nqueue = { kind = \"fifo\", limit = \"100kB\" }\n\
    [[variant]]\nname = \"same\"\nfrom = \"a\"\nto = \"b\"\nqueue = { kind = \"fifo\", limit = \"100kB\" }\n\
    [[variant]]\nname = \"fair\"\nfrom = \"a\"\nto = \"b\"\nqueue = { kind = \"fq-codel\" }\n";

/// Equal variants are not told apart, others are, by pairs of seeds; in text, JSON and files.
#[test]
fn variants_are_told_apart_by_pairs_of_seeds() {
    let folder = Folder::new("pairs");
    let file = folder.with("duel.toml", DUEL);
    let out = folder.0.join("out");
    let found = simulate(&[&file, "--runs", "4", "--out", &out.display().to_string()]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    let said = text(&found.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("completion p50 of flow mice: fair has the least"), "{said}");
    // Where a 99th percentile was not reached nothing is tested, and the pair counts nevertheless; what the seeds do not change does not.
    let method = "Decided at 5 % by paired differences over 4 seeds (Student's t), of times and rates by their logarithms, since these vary by factors, \
                  corrected for all 28 differences (Holm).";
    assert!(said.contains(method), "{said}");
    // The conclusions come first, then the values. Some of the last transfers were not completed.
    let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("no {text} in {said}"));
    assert!(place("has the least") < place("flow bulk goodput") && place(method) < place("digest"), "{said}");
    assert!(said.contains("Not completed, in the mean of a run: flow mice: one "), "{said}");
    let json = std::fs::read_to_string(out.join("results.json")).expect("results");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let differences = json["differences"].as_array().expect("a list");
    let of = |pair: [&str; 2]| {
        let is_it = |found: &&serde_json::Value| {
            found["variants"] == serde_json::json!(pair) && found["measure"] == "completion p50"
        };
        differences.iter().find(is_it).expect("the pair")
    };
    let (equal, apart) = (of(["one", "same"]), of(["one", "fair"]));
    // A difference that the seeds do not change is stated without a test.
    assert!(equal["decided"] == false && equal["mean"] == 0.0 && equal["more_runs"].is_null(), "{equal}");
    assert!(equal["test"] == "none" && equal["p"].is_null() && equal["p_holm"].is_null(), "{equal}");
    assert!(equal["equal_within_2"] == true && apart["equal_within_2"] == false, "{equal} {apart}");
    assert!(said.contains("one and same have the same in each run"), "{said}");
    assert!(apart["decided"] == true && apart["pairs"] == 4 && apart["comparisons"] == 28, "{apart}");
    let rows = std::fs::read_to_string(out.join("differences.csv")).expect("differences");
    assert!(
        rows.starts_with(
            "subject,measure,unit,first,second,mean_first,mean_second,counted_as,difference,half_width_95,"
        ),
        "{rows}"
    );
    // The file corrects what text and JSON state as they do, and each measure for its own pairs besides.
    let head: Vec<&str> = rows.lines().next().unwrap_or_default().split(',').collect();
    let cell = |measure: &str, name: &str| -> Option<String> {
        let row =
            rows.lines().find(|row| row.starts_with(&format!("flow mice,{measure},")) && row.contains(",one,fair,"));
        let place = head.iter().position(|known| *known == name)?;
        row?.split(',').nth(place).map(str::to_owned)
    };
    let number = |measure: &str, name: &str| cell(measure, name).and_then(|text| text.parse::<f64>().ok());
    assert_eq!(number("completion p50", "p_holm"), apart["p_holm"].as_f64());
    assert_eq!(cell("completion p50", "comparisons").as_deref(), Some("28"));
    assert_eq!(number("completion p50", "p_holm_measure"), apart["p_holm_measure"].as_f64());
    assert_eq!(cell("completion p50", "comparisons_measure").as_deref(), Some("2"));
    // What is not stated has the correction for its own pairs alone.
    assert_eq!(cell("delay mean", "p_holm").as_deref(), Some(""));
    assert!(number("delay mean", "p_holm_measure").is_some(), "{rows}");
    // Nothing is tested by the mean of those that were completed alone.
    assert!(!rows.contains("completion mean"), "{rows}");
    // Each transfer has its size and its time.
    let transfers = std::fs::read_to_string(out.join("transfers.csv")).expect("transfers");
    assert!(
        transfers.starts_with(
            "seed,variant,flow,begun_ns,size_bytes,completion_ns,finished,aborted,ideal_ns,slowdown,connection\n"
        ),
        "{transfers}"
    );
    assert!(transfers.lines().filter(|line| line.starts_with("2,fair,mice,")).count() > 10, "{transfers}");
    assert!(transfers.lines().any(|line| line.contains(",false,false,")), "{transfers}");
    assert!(out.join("transfers.parquet").exists());
    // A distribution of their times says how many have not ended, though the median of the runs does.
    let figure = folder.0.join("times.svg").display().to_string();
    let drawn = simulate(&[
        &file,
        "--runs",
        "4",
        "--look",
        "text",
        "--figure",
        &format!("completion time, distribution={figure}"),
    ]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let svg = std::fs::read_to_string(figure).expect("a figure");
    assert!(svg.replace("</text>", " ").contains("Not completed, in the mean of a run"), "{svg}");
}

/// Runs that the seeds do not change are one run: it has no interval in any file, and the file of differences says that there are none.
#[test]
fn runs_that_are_one_have_no_interval_in_files() {
    let folder = Folder::new("same");
    let bulk = DUEL.split("[[flow]]\nname = \"mice\"").next().expect("a beginning").replace("jitter = \"1s\"\n", "");
    let variants = &DUEL[DUEL.find("[[variant]]").expect("variants")..];
    let file = folder.with("same.toml", format!("{bulk}{variants}"));
    let out = folder.0.join("out");
    let found = simulate(&[&file, "--runs", "3", "--out", &out.display().to_string()]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    let said = text(&found.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The seeds change nothing: all 3 runs have measured the same"), "{said}");
    assert!(said.contains("one and same have the") || said.contains("one, same"), "{said}");
    let summary = std::fs::read_to_string(out.join("summary.csv")).expect("a summary");
    assert!(summary.lines().skip(1).all(|line| line.ends_with(',')), "{summary}");
    let differences = std::fs::read_to_string(out.join("differences.csv")).expect("differences");
    assert_eq!(differences.lines().count(), 1, "{differences}");
    let results = std::fs::read_to_string(out.join("results.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let items = results["items"].as_array().expect("items");
    assert!(items.len() > 3 && items.iter().all(|item| item["half_width_95"].is_null()), "{results:#}");
    assert!(results["no_interval"].as_str().is_some_and(|why| why.starts_with("The seeds change nothing: all 3 runs")));
    // Without variants the reason is below the table.
    let alone = folder.with("alone.toml", &bulk);
    let said = text(&simulate(&[&alone, "--runs", "3"]).stdout);
    assert!(said.contains("goodput") && said.contains("The seeds change nothing: all 3 runs"), "{said}");
}

/// A look chooses what is stated, and p is corrected for that alone, in the text, JSON, the file and of a stored result.
#[test]
fn what_a_look_chooses_is_corrected_alone() {
    let folder = Folder::new("chosen");
    let file = folder.with("duel.toml", DUEL);
    let out = folder.0.join("out").display().to_string();
    let look = ["--look", "subject=flow mice,measure=completion p50"];
    let found = simulate(&[&[&file, "--runs", "4", "--out", &out][..], &look].concat());
    let words = |output: &Output| text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(&found);
    assert!(said.contains("completion p50 of flow mice: fair has the least"), "{said}{}", text(&found.stderr));
    assert!(said.contains("corrected for all 2 differences") && !said.contains("of link a->b: "), "{said}");
    let json = std::fs::read_to_string(format!("{out}/results.json")).expect("results");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let differences = json["differences"].as_array().expect("a list");
    assert!(
        differences.len() == 3 && differences.iter().all(|one| one["comparisons"] == 2 || one["test"] == "none"),
        "{differences:?}"
    );
    let rows = std::fs::read_to_string(format!("{out}/differences.csv")).expect("differences");
    assert!(rows.lines().any(|row| row.starts_with("flow mice,completion p50,") && row.contains(",2,true,")), "{rows}");
    let stored = format!("{out}/results.json");
    let compared = tidegate(&[&["compare", stored.as_str()][..], &look].concat());
    assert!(words(&compared).contains("corrected for all 2 differences"), "{}", words(&compared));
    let wrong = simulate(&[&file, "--runs", "2", "--look", "measure=speed"]);
    assert!(
        wrong.status.code() == Some(2) && text(&wrong.stderr).contains("no measure is meant by `speed`"),
        "{wrong:?}"
    );
}

/// One run is no evidence of a difference, and says so.
#[test]
fn one_run_tells_nothing_apart() {
    let folder = Folder::new("one-run");
    let file = folder.with("duel.toml", DUEL);
    let found = simulate(&[&file, "--runs", "1"]);
    let said = text(&found.stdout);
    assert!(said.contains("One run tells nothing apart"), "{said}");
    assert!(!said.contains("tells variants apart") && !said.contains('±'), "{said}");
}

#[test]
fn rules_choose_the_runs_and_the_warm_up() {
    let folder = Folder::new("rules");
    let rules = |until: &str| {
        let keys = format!("warm-up = \"mser-5\"\nuntil = \"{until}\"\nmost-runs = 8");
        folder.with("rules.toml", SCENARIO.replace("warm-up = \"1s\"", &keys))
    };
    let run = |until: &str, more: &[&str]| simulate(&[&[rules(until).as_str(), "--json"], more].concat());
    let read = |found: Output| -> serde_json::Value {
        assert!(found.status.success(), "{}", text(&found.stderr));
        serde_json::from_slice(&found.stdout).expect("JSON")
    };
    let runs = |json: &serde_json::Value| json["runs"].as_array().expect("a list").len();
    let wide = read(run("goodput +- 90 %", &[]));
    assert_eq!(runs(&wide), 5);
    let notes = wide["notes"].to_string();
    assert!(
        notes.contains("MSER-5 finds no steady state within the first half")
            && notes.contains("5 runs suffice: the widest interval"),
        "{notes}"
    );
    assert!(notes.contains("slightly optimistic: for a test, choose the number"), "{notes}");
    // The same runs in another number at a time are the same results.
    let one = read(run("goodput +- 90 %", &["--jobs", "1"]));
    assert_eq!(one["digest"], wide["digest"]);
    let few = read(run("goodput +- 90 %", &["--runs", "2"]));
    assert_eq!(runs(&few), 2);
    let unknown = run("speed +- 2 %", &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("until: no measure is meant by `speed`; there are goodput"),
        "{}",
        text(&unknown.stderr)
    );
    let wrong = run("goodput", &[]);
    assert!(text(&wrong.stderr).contains("write for example \"goodput +- 2 %\""), "{}", text(&wrong.stderr));
}

/// A single run has intervals by batch means.
#[test]
fn a_single_run_has_batch_means() {
    let folder = Folder::new("steady");
    let file = folder.with("duel.toml", DUEL.replace("10s", "60s"));
    let found = simulate(&[&file, "--runs", "1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let steady = json["steady"].as_array().expect("a list");
    let of_link =
        steady.iter().find(|one| one["measure"] == "throughput" && one["variant"] == "fair").expect("the link");
    assert!(of_link["batches"] == 20 && of_link["half_width_95"].as_f64().is_some_and(|half| half > 0.0), "{of_link}");
    assert!(of_link["mean"].as_f64().is_some_and(|mean| (3.6e6..4.0e6).contains(&mean)), "{of_link}");
    // The quantiles of a wait are in their intervals, and those of the values that runs have.
    let queueing =
        steady.iter().find(|one| one["measure"] == "queueing" && one["variant"] == "fair").expect("the queue");
    let quantiles = queueing["quantiles"].as_array().expect("a list");
    assert_eq!(quantiles.len(), 2, "{queueing}");
    for (quantile, measure) in quantiles.iter().zip(["queueing p50", "queueing p99"]) {
        let [low, value, high] = ["low_95", "value", "high_95"].map(|key| quantile[key].as_f64().expect("a number"));
        assert!(low <= value && value <= high && low < high, "{quantile}");
        let of_runs = json["items"].as_array().expect("a list").iter();
        let found = of_runs.clone().find(|item| item["measure"] == measure && item["variant"] == "fair").expect("it");
        assert_eq!(found["mean"], quantile["value"], "{measure}");
    }
}

/// A folder has the runs of one simulation: those of an earlier one are replaced, and those of nobody knows which are named.
#[test]
fn a_folder_of_results_has_those_of_one_simulation() {
    let folder = Folder::new("replaced");
    let file = folder.with("duel.toml", DUEL.replace("10s", "2s"));
    let out = folder.0.join("out");
    let made = |seed: &str, runs: &str| {
        simulate(&[&file, "--seed", seed, "--runs", runs, "--out", &out.display().to_string()])
    };
    let there = || {
        let entries = std::fs::read_dir(&out).expect("the folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    assert!(made("1", "2").status.success());
    assert!(there().contains(&"run-1".to_owned()) && there().contains(&"differences.csv".to_owned()), "{:?}", there());
    std::fs::write(out.join("notes.txt"), "mine").expect("written");
    assert!(made("7", "1").status.success());
    let names = there();
    assert!(names.contains(&"run-7".to_owned()) && names.contains(&"notes.txt".to_owned()), "{names:?}");
    // One run has no differences, and those of the earlier ones would be taken for its.
    assert!(!names.iter().any(|name| ["run-1", "run-2", "differences.csv"].contains(&name.as_str())), "{names:?}");
    std::fs::create_dir(out.join("run-3")).expect("a folder");
    let refused = made("7", "1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("run-3 is of another simulation"), "{}", text(&refused.stderr));
}

/// Files are compared under the names that are given.
#[test]
fn compared_files_may_have_names() {
    let folder = Folder::new("named");
    let out = |name: &str, rate: &str| {
        let alone = &SCENARIO.replace("rate = \"", &format!("rate = \"{rate}"));
        let file = folder.with(&format!("{name}.toml"), alone);
        let out = folder.0.join(name).display().to_string();
        let made = simulate(&[&file, "--runs", "2", "--out", &out]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        format!("{out}/results.json")
    };
    let (one, two) = (out("a", ""), out("b", "2"));
    let found = tidegate(&["compare", &format!("slow={one}"), &format!("fast={two}"), "--markdown"]);
    let said = text(&found.stdout);
    assert!(said.contains("| slow |") && said.contains("| fast |"), "{said}{}", text(&found.stderr));
    let wrong = tidegate(&["compare", "=x"]);
    assert!(text(&wrong.stderr).contains("write NAME=FILE"), "{}", text(&wrong.stderr));
}

/// A trace of a second in a run of four: nobody is to take it for four seconds of the line.
#[test]
fn a_trace_that_repeats_within_a_run_is_told() {
    let folder = Folder::new("repeats");
    folder.with("line.mahimahi", (1..=250).map(|n| format!("{}\n", n * 4)).collect::<String>());
    let trace = "rate-over-time = { kind = \"mahimahi\", file = \"line.mahimahi\" }\ndelay = ";
    let file = folder.with("line.toml", SCENARIO.replace("delay = ", trace));
    let said = |more: &[&str]| {
        let found = text(&simulate(&[&[file.as_str(), "--runs", "2"], more].concat()).stdout);
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = "The rate of link a->b repeats after 1 s: a run of 4 s has the same 1 s 4.0 times";
    assert_eq!([said(&[]).matches(told).count(), said(&["--json"]).matches(told).count()], [1, 1], "{}", said(&[]));
    let short = folder.with(
        "short.toml",
        SCENARIO.replace("delay = ", trace).replace("\"4s\"", "\"1s\"").replace("warm-up = \"1s\"\n", ""),
    );
    assert!(!text(&simulate(&[&short, "--runs", "2"]).stdout).contains("repeats"));
}
