//! Reports of the commands: complete, consistent, and without external addresses.

use std::path::Path;

use crate::command::tidegate;
use tidegate_testbed::files::{Folder, text};

/// The plots of a page: titles, and for each curve its name and its points. Checks the common properties of pages.
fn plots(path: &Path) -> Vec<(String, Vec<(String, usize)>)> {
    let page = std::fs::read_to_string(path).expect("a report");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("://"), "an address outside of the page");
    let data = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data").1;
    let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").expect("an end").0).expect("JSON");
    let plots = data.as_array().expect("a list");
    assert_eq!(page.matches("<figure class=\"plot\"").count(), plots.len());
    let list = |value: &serde_json::Value| value.as_array().expect("numbers").clone();
    let numbers = |values: Vec<serde_json::Value>| -> Vec<f64> {
        values.iter().map(|number| number.as_f64().expect("a number")).collect()
    };
    plots
        .iter()
        .map(|plot| {
            let title = plot["title"].as_str().expect("a title").to_owned();
            let curves = plot["curves"].as_array().expect("curves").iter().map(|curve| {
                let (x, mut y) = (numbers(list(&curve["x"])), list(&curve["y"]));
                assert_eq!(x.len(), y.len(), "{title}");
                // A null is a gap between two points, and only waits have gaps: without arrivals there is no wait.
                assert!(y.windows(2).all(|two| two.iter().any(|y| !y.is_null())), "{title}");
                assert!(y.first().is_none_or(|y| !y.is_null()) && y.last().is_none_or(|y| !y.is_null()), "{title}");
                let points = y.len();
                y.retain(|y| !y.is_null());
                assert!(y.len() == points || title.to_lowercase().contains("delay"), "{title}");
                let y = numbers(y);
                assert!(x.is_sorted_by(|a, b| a < b), "{title}: x rises");
                if plot["style"] == "cdf" {
                    assert!(y.is_sorted() && y.iter().all(|share| (0.0..=1.0).contains(share)), "{title}");
                }
                (curve["name"].as_str().expect("a name").to_owned(), y.len())
            });
            let curves = curves.collect();
            (title, curves)
        })
        .collect()
}

const SCENARIO: &str = r#"
version = 1
sentence = "Two flows, two queues & <marks>"
duration = "6s"
warm-up = "2s"
runs = 2
hosts = ["a", "b"]
[[link]]
from = "a"
to = "b"
rate = "5mbit"
delay = "10ms"
[[flow]]
name = "bulk"
from = "a"
to = "b"
workload = { kind = "bulk" }
[[flow]]
name = "pages"
from = "a"
to = "b"
workload = { kind = "mice", per-second = 5.0, size = { kind = "bounded-pareto", least = "4kB", most = "40kB" } }
[[variant]]
name = "tail"
from = "a"
to = "b"
queue = { kind = "fifo", limit = "50kB" }
[[variant]]
name = "fair"
from = "a"
to = "b"
queue = { kind = "fq-codel" }
"#;

#[test]
fn a_simulation_has_its_flows_its_variants_and_its_digest() {
    let folder = Folder::new("simulate");
    std::fs::write(folder.path("s.toml"), SCENARIO).expect("written");
    let plain = tidegate(&["simulate", &folder.path("s.toml"), "--hash"]);
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let page = folder.path("s.html");
    let with = tidegate(&["simulate", &folder.path("s.toml"), "--hash", "--report", &page]);
    assert!(with.status.success(), "{}", text(&with.stderr));
    let digest = text(&plain.stdout);
    // Collecting data for the report does not affect the run.
    assert_eq!(digest, text(&with.stdout));

    let found = plots(Path::new(&page));
    let of = |title: &str| {
        let plot = found.iter().find(|(own, _)| own == title);
        plot.map(|(_, curves)| curves.clone()).unwrap_or_else(|| panic!("no plot `{title}` in {found:?}"))
    };
    for variant in ["tail", "fair"] {
        for measure in ["Throughput", "Queue", "Queueing delay"] {
            let curves = of(&format!("{measure} of each flow, link a->b, {variant}"));
            let names: Vec<&str> = curves.iter().map(|curve| curve.0.as_str()).collect();
            assert_eq!(names, ["flow bulk", "flow pages"], "{measure}");
        }
        assert_eq!(of(&format!("Queueing delay of each flow, link a->b, {variant}, distribution")).len(), 2);
        // Tail drops, of the flow that fills the queue.
        let drops = of(&format!("Drops of each flow, link a->b, {variant}"));
        assert!(drops.iter().any(|curve| curve.0 == "flow bulk"), "{drops:?}");
    }
    let queues = of("Queueing delay, link a->b");
    assert_eq!((queues[0].0.as_str(), queues[1].0.as_str()), ("tail", "fair"));
    // From 2 s, the warm-up, to 6 s in bins of 100 ms.
    assert!(queues.iter().all(|curve| (35..=41).contains(&curve.1)), "{queues:?}");
    assert_eq!(of("Completion time, distribution").len(), 2);

    tidegate_testbed::browser::look_at(Path::new(&page), 20);
    let page = std::fs::read_to_string(page).expect("a report");
    for part in
        [digest.trim(), "Two flows, two queues &amp; &lt;marks&gt;", "kind = &quot;fq-codel&quot;", "Seed 2: over time"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn an_experiment_has_its_items_and_its_page() {
    let folder = Folder::new("reproduce");
    let page = folder.path("r.html");
    let run = tidegate(&["reproduce", "pacing", "--only", "fig6", "--report", &page, "--recorded", "--json"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let found = plots(Path::new(&page));
    assert!(found.iter().any(|(title, _)| title == "DT0 with a sleep of 10 ms (figure 6)"), "{found:?}");
    tidegate_testbed::browser::look_at(Path::new(&page), 1);
    let page = std::fs::read_to_string(page).expect("a report");
    // The answer is first, and what is not as in the paper before the list of all.
    let places = ["Verdicts by the part of the paper", "What is not as in the paper</h2>", "All items</h2>"];
    let places = places.map(|part| page.find(part).unwrap_or_else(|| panic!("{part}")));
    assert!(places.is_sorted(), "{places:?}");
    let results: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    for item in results["items"].as_array().expect("items") {
        assert!(page.contains(item["id"].as_str().expect("an id")), "{item}");
    }
    assert!(page.contains("lab/papers/pacing/README.md") && page.contains("tidegate reproduce pacing --only fig6"));
}

/// A capture of datagrams of 1000 bytes, `count` of them, `gap` microseconds apart.
fn capture(count: u32, gap: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(number.to_le_bytes());
    }
    for n in 0..count {
        let micros = n * gap;
        for number in [micros / 1_000_000, micros % 1_000_000, 1_000, 1_000] {
            file.extend(number.to_le_bytes());
        }
        let mut packet = vec![0x45, 0, 0x03, 0xe8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        // From one of two ports; the length of the datagram is 980.
        packet.extend([0x10, (n % 2) as u8, 0x20, 0, 0x03, 0xd4, 0, 0]);
        packet.resize(1_000, 0);
        file.extend(packet);
    }
    file
}

/// A recording contains its configuration, and so does its report.
#[test]
fn the_report_of_a_recording_has_what_was_recorded_with() {
    let folder = Folder::new("recorded");
    let page = folder.path("p.html");
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/fuzz/seeds/recording/small.tgr");
    let run = tidegate(&["replay", recording, "--with", "fifo@4mbit", "--report", &page]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let whole = std::fs::read_to_string(&page).expect("a report");
    for part in ["rate = &quot;5mbit&quot;", "kind = &quot;fifo&quot;"] {
        assert!(whole.contains(part), "{part}");
    }
}

#[test]
fn a_replay_has_its_configurations_side_by_side() {
    let folder = Folder::new("replay");
    // 8 Mbit/s for a second, into 4 Mbit/s.
    std::fs::write(folder.path("c.pcap"), capture(1_000, 1_000)).expect("written");
    let (page, table) = (folder.path("p.html"), folder.path("p.parquet"));
    let run = tidegate(&[
        "replay",
        &folder.path("c.pcap"),
        "--with",
        "fifo@4mbit",
        "fq-codel@4mbit",
        "--report",
        &page,
        "--parquet",
        &table,
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let found = plots(Path::new(&page));
    let delay = found.iter().find(|(title, _)| title.starts_with("Queueing delay, class")).expect("a plot of delays");
    let names: Vec<&str> = delay.1.iter().map(|curve| curve.0.as_str()).collect();
    assert_eq!(names, ["fifo@4mbit", "fq-codel@4mbit"]);
    assert!(delay.1.iter().all(|curve| curve.1 >= 2), "{delay:?}");
    assert!(std::fs::read(&table).expect("a table").starts_with(b"PAR1"));
    tidegate_testbed::browser::look_at(Path::new(&page), 10);
    // The input to repeat the run, also if it is not a file.
    let whole = std::fs::read_to_string(&page).expect("a report");
    for kind in ["fifo", "fq-codel"] {
        assert!(whole.contains(&format!("kind = &quot;{kind}&quot;")), "{kind}");
    }
    // Two senders, each with a curve.
    for measure in ["Throughput", "Queue", "Queueing delay", "Drops"] {
        for configuration in ["fifo@4mbit", "fq-codel@4mbit"] {
            let title = format!("{measure} of each flow, {configuration}");
            let Some(plot) = found.iter().find(|(own, _)| *own == title) else {
                // FIFO with its default limit drops nothing here.
                assert_eq!(measure, "Drops", "no plot `{title}` in {found:?}");
                continue;
            };
            let names: Vec<&str> = plot.1.iter().map(|curve| curve.0.as_str()).collect();
            assert_eq!(names, ["flow udp 10.0.0.1:4096 > 10.0.0.2:8192", "flow udp 10.0.0.1:4097 > 10.0.0.2:8192"]);
        }
    }
}

/// Sends from each of `ports` ports, the n-th n + 1 datagrams of 1000 bytes, in turn.
fn many(ports: u16) -> Vec<u8> {
    let mut file = capture(0, 0);
    let mut micros = 0_u32;
    for round in 0..u32::from(ports) {
        for port in round as u16..ports {
            micros += 100;
            for number in [micros / 1_000_000, micros % 1_000_000, 1_000, 1_000] {
                file.extend(number.to_le_bytes());
            }
            let mut packet = vec![0x45, 0, 0x03, 0xe8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            packet.extend(port.to_be_bytes());
            packet.extend([0x20, 0, 0x03, 0xd4, 0, 0]);
            packet.resize(1_000, 0);
            file.extend(packet);
        }
    }
    file
}

#[test]
fn of_many_flows_the_largest_have_curves_and_the_others_one_together() {
    let folder = Folder::new("many");
    // 100 senders, 5,050 datagrams: more flows than are kept.
    std::fs::write(folder.path("m.pcap"), many(100)).expect("written");
    let (page, csv, json) = (folder.path("m.html"), folder.path("m.csv"), folder.path("m.json"));
    let file = folder.path("m.pcap");
    let replay = |more: &[&str]| {
        let run = tidegate(&[&["replay", &file, "--with", "fifo@100mbit"], more].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
    };
    replay(&["--report", &page, "--table", &csv]);
    replay(&["--table", &json]);
    let found = plots(Path::new(&page));
    tidegate_testbed::browser::look_at(Path::new(&page), 10);
    let rates = found.iter().find(|(title, _)| title == "Throughput of each flow, fifo@100mbit").expect("a plot");
    assert_eq!(rates.1.len(), 16, "{rates:?}");
    assert!(rates.1.iter().any(|curve| curve.0 == "flow udp 10.0.0.1:99 > 10.0.0.2:8192"), "{rates:?}");
    assert_eq!(rates.1.last().map(|curve| curve.0.as_str()), Some("flow (others)"));

    // A row for each point: the bytes of the flows and of the others sum to those of the class.
    let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a table")).expect("JSON");
    let bits = |of: &str| -> f64 {
        let rows = rows.as_array().expect("a list").iter();
        let own = rows.filter(|row| row["subject"].as_str().is_some_and(|subject| subject.starts_with(of)));
        // Half a second is in bins of a millisecond.
        own.filter(|row| row["measure"] == "throughput").map(|row| row["value"].as_f64().expect("a rate") / 1e3).sum()
    };
    let (class, flows) = (bits("class all"), bits("flow "));
    assert!((class - 5_050.0 * 8_000.0).abs() < 1.0, "{class}");
    assert!((class - flows).abs() < 1.0, "{class} {flows}");
    let csv = std::fs::read_to_string(&csv).expect("a table");
    assert_eq!(csv.lines().count(), rows.as_array().expect("a list").len() + 1);
    assert!(csv.starts_with("file,configuration,kind,subject,measure,x,x_unit,value,unit\n"));

    let wrong = tidegate(&["replay", &file, "--with", "fifo@100mbit", "--table", "m.txt"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains(".csv, .json or .parquet"), "{}", text(&wrong.stderr));
}
