//! Sweeps in artifacts.

use super::*;

/// A scenario as it is and a sweep of it, in which a trace changes with a delay: each claim is checked at its point, here and elsewhere.
#[test]
fn a_sweep_beside_a_scenario_is_repeated_with_each_of_its_claims() {
    let scratch = Folder::new("swept");
    packed(&scratch);
    let study = scratch.0.join("study");
    // Each rate of the line has a trace of its own, which is packed with it.
    let trace: String = (1..=500).map(|n| format!("{}\n", n * 4)).collect();
    fs::write(study.join("traces/slow.mahimahi"), trace).expect("written");
    let key = "link.a->b.rate-over-time.file,link.a->b.delay";
    let values = r#"[["../traces/line.mahimahi", "10ms"], ["../traces/slow.mahimahi", "20ms"]]"#;
    let vary = format!("rates: {key}={values}");
    let point = "file/delay=../traces/slow.mahimahi/20ms";
    let claim = |at: &str| format!("rates: Also when slow=queueing p50 of link a->b{at}: codel < fifo");
    let pack = |folder: &str, more: &[&str]| {
        let named = ["--scenario", "line=scenarios/line.toml", "--scenario", "rates=scenarios/line.toml"];
        let figure = ["--figure", "line: queueing delay, link=delay", "--figure", "rates"];
        tidegate(&study, &[&["artifact", folder], &named[..], &figure[..], &["--vary", &vary], more].concat())
    };
    // Without a point the claim is refused with those that there are.
    let refused = pack("../no", &["--claim", &claim("")]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("was measured at several points of a sweep"), "{said}");
    assert!(said.contains(&format!("link a->b at {point}")) && !scratch.0.join("no").exists(), "{said}");
    let turned = claim(&format!(" at {point}")).replace("codel < fifo", "fifo < codel");
    let refused = pack("../no", &["--claim", &turned]);
    assert!(refused.status.code() == Some(1) && text(&refused).contains("fifo has"), "{}", text(&refused));
    let unknown = pack("../no", &["--vary", "rates: link.a->c.rate=1mbit"]);
    assert!(
        unknown.status.code() == Some(2) && text(&unknown).contains("no link is called `a->c`"),
        "{}",
        text(&unknown)
    );
    let (one, all) = (claim(&format!(" at {point}")), claim(" at all points").replace("Also when slow", "Everywhere"));
    let claims = ["--claim", &one, "--claim", &all, "--claim", "line: queueing p50 of link a->b: codel < fifo"];
    let made = pack("../pair", &claims);
    assert!(made.status.success(), "{}", text(&made));
    // Values of the sweep are compared, too, at each variant.
    let (keys, by) = (vary.strip_prefix("rates: ").expect("a name"), "link.a->b.delay");
    let by_delay =
        format!("queueing p50 of link a->b at fifo: {} < {point}", point.replace("slow", "line").replace("20", "10"));
    let alone = ["--scenario", "scenarios/line.toml", "--vary", keys, "--by", by, "--runs", "5", "--claim", &by_delay];
    // Figures of the table, too, with the options of `tidegate figure`.
    let lines = "--kind lines --x delay --y 'queueing p50 of link a->b' --by variant";
    for (wrong, why) in [
        ("--kind maps", "`maps` is no kind; there are heat"),
        ("--kind lines --x 'delay", "a quote is not closed"),
        ("--kind lines --x delay --beside /etc/passwd", "--beside reads a file that is not in the artifact"),
        ("--kind lines --x none", "none"),
    ] {
        let figure = format!("{wrong}=lines");
        let refused = tidegate(&study, &[&["artifact", "../no", "--figure", &figure], &alone[..]].concat());
        let said = text(&refused);
        assert!(refused.status.code() == Some(2) && said.contains(why) && !scratch.0.join("no").exists(), "{said}");
    }
    let figure = format!("{lines}=lines");
    let made = tidegate(&study, &[&["artifact", "../by", "--figure", &figure], &alone[..]].concat());
    assert!(made.status.success(), "{}", text(&made));
    let drawn = fs::read_to_string(scratch.0.join("by/expected/lines.svg")).expect("a figure");
    assert!(["fifo", "codel", "20"].iter().all(|part| drawn.contains(part)), "{drawn}");
    fs::remove_dir_all(&study).expect("the machine of the authors is gone");
    let again = reproduce(&scratch.0.join("by"), PROGRAM);
    let said = text(&again);
    assert!(again.status.success() && said.contains(&format!("claim supported: {by_delay}")), "{said}");
    assert!(said.contains("figure lines: as expected"), "{said}");
    let pair = scratch.0.join("pair");
    assert!(pair.join("rates/input/traces/slow.mahimahi").is_file());
    let readme = fs::read_to_string(pair.join("rates/README.md")).expect("a README");
    for part in
        ["2 variants at each of 2 points of a sweep", "--vary 'link.a->b.rate-over-time.file", "results.parquet"]
    {
        assert!(readme.contains(part), "{part} in {readme}");
    }
    for _ in 0..2 {
        let again = reproduce(&pair, PROGRAM);
        let said = text(&again);
        assert!(again.status.code() == Some(0) && said.ends_with("\nreproduced: 2 of 2\n"), "{said}");
        assert!(
            said.contains(&format!("claim supported: Also when slow (queueing p50 of link a->b at {point}: ")),
            "{said}"
        );
        assert!(said.contains("claim supported: queueing p50 of link a->b: codel < fifo"), "{said}");
        // One that is about all points is checked at each.
        assert_eq!(
            said.matches("claim supported: Everywhere (queueing p50 of link a->b at file/delay=").count(),
            2,
            "{said}"
        );
    }
    // The folder answers as that of `sweep` does.
    let compared = tidegate(&pair, &["compare", "rates/reproduced", "--only", "measure=queueing p50"]);
    assert!(compared.status.success() && text(&compared).contains("slow.mahimahi/20ms"), "{}", text(&compared));
    // Each result that somebody changed is found, and named by its point.
    let path = pair.join("rates/artifact.json");
    let json = fs::read_to_string(&path).expect("a manifest");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let digests = parsed["digests"].as_array().expect("a list");
    assert_eq!(digests.len(), 4);
    let last = digests[3].as_str().expect("a digest");
    fs::write(&path, json.replace(last, &"0".repeat(32)).replace("\"less\": \"codel\"", "\"less\": \"fifo\""))
        .expect("written");
    let results = pair.join("rates/expected/results.parquet");
    let bytes = fs::read(&results).expect("a table");
    fs::write(&results, &bytes[..bytes.len() - 1]).expect("written");
    renew(&pair.join("rates"));
    renew(&pair);
    let wrong = reproduce(&pair, PROGRAM);
    let said = text(&wrong);
    assert!(wrong.status.code() == Some(1) && said.ends_with("reproduced: 1 of 2\n"), "{said}");
    for part in [
        "digest of seed 2, link.a->b.rate-over-time.file=../traces/slow.mahimahi, link.a->b.delay=20ms is ",
        "expected/results.parquet: it is not what these results give",
        "claim not supported: ",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
