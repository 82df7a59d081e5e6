//! `simulate --qlog`: JSON text sequences with the fields that qvis reads, and the numbers of the run.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tidegate_testbed::files::Folder;

const SCENARIO: &str = r#"
version = 1
duration = "5s"
hosts = ["a", "b"]
link = [{ from = "a", to = "b", rate = "10mbit", delay = "10ms", queue = { kind = "fifo", limit = "25kB" } }]
flow = [
  { name = "quic", from = "a", to = "b", transport = "quic", workload = { kind = "bulk" } },
  { name = "tcp", from = "a", to = "b", workload = { kind = "bulk" } },
  { name = "udp", from = "a", to = "b", workload = { kind = "constant", rate = "100kbit" } },
]
"#;

/// The records of a file; each begins with a record separator and ends with a line feed (RFC 7464).
fn records(text: &str) -> Vec<Value> {
    let parts = text.strip_prefix('\u{1e}').expect("a record separator").split('\u{1e}');
    parts.map(|part| serde_json::from_str(part.strip_suffix('\n').expect("a line feed")).expect("JSON")).collect()
}

fn named<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
    events.iter().filter(move |event| event["name"] == name).map(|event| &event["data"])
}

/// The numbers of packets of the application's data.
fn numbers<'a>(events: impl Iterator<Item = &'a Value>) -> BTreeSet<u64> {
    let data = events.filter(|data| data["header"]["packet_type"] == "1RTT");
    data.map(|data| data["header"]["packet_number"].as_u64().expect("a number")).collect()
}

#[test]
fn connections_are_written_for_viewers() {
    let folder = Folder::new("qlog");
    fs::write(folder.0.join("s.toml"), SCENARIO).expect("written");
    let made = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["simulate", "s.toml", "--no-cache", "--json", "--qlog", "q"])
        .current_dir(&folder.0)
        .output()
        .expect("it starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let results: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let mut files: Vec<String> = fs::read_dir(folder.0.join("q"))
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let expected = ["quic-1-client.sqlog", "quic-1-server.sqlog", "tcp-2-client.sqlog", "tcp-2-server.sqlog"];
    assert_eq!(files, expected, "datagrams have no connection");
    for flow in ["quic-1", "tcp-2"] {
        let [client, server] = ["client", "server"].map(|end| {
            let records = records(&fs::read_to_string(folder.0.join(format!("q/{flow}-{end}.sqlog"))).expect("text"));
            let head = &records[0];
            assert_eq!((&head["qlog_version"], &head["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
            assert_eq!(head["trace"]["vantage_point"]["type"], end);
            assert_eq!(head["trace"]["common_fields"]["time_format"], "relative");
            let events = records[1..].to_vec();
            let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().expect("a time")).collect();
            assert!(times.is_sorted() && times[times.len() - 1] <= 5_000.0, "milliseconds, in order");
            events
        });
        let sent: Vec<&Value> = named(&client, "transport:packet_sent").collect();
        assert!(sent.iter().all(|data| data["raw"]["length"].as_u64() > Some(0)));
        let all = numbers(sent.iter().copied());
        assert_eq!(
            all.len(),
            sent.iter().filter(|data| data["header"]["packet_type"] == "1RTT").count(),
            "no number twice"
        );
        // A packet that arrives was sent, and one that is acknowledged has arrived.
        let arrived = numbers(named(&server, "transport:packet_received"));
        assert!(arrived.is_subset(&all) && arrived.len() > 1_000);
        let mut acknowledged = BTreeSet::new();
        for data in named(&client, "transport:packet_received").filter(|data| data["header"]["packet_type"] == "1RTT") {
            for range in data["frames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|frame| frame["acked_ranges"].as_array())
                .flatten()
            {
                acknowledged.extend(range[0].as_u64().expect("low")..=range[1].as_u64().expect("high"));
            }
        }
        assert!(acknowledged.len() > 1_000 && acknowledged.is_subset(&arrived), "{flow}");
        // The queue drops; each packet whose data was sent again is lost.
        let lost = numbers(named(&client, "recovery:packet_lost"));
        assert!(!lost.is_empty() && lost.is_subset(&all), "{flow}: {}", lost.len());
        let items = results["items"].as_array().expect("items");
        let name = format!("flow {}", flow.split('-').next().expect("a name"));
        let dropped =
            items.iter().find(|item| item["subject"] == *name && item["measure"] == "dropped").expect("a value");
        let unseen = all.difference(&arrived).count() as f64;
        let dropped = dropped["mean"].as_f64().expect("a number");
        // Packets that are under way at the end have not arrived either.
        assert!(unseen >= dropped && unseen <= dropped + 60.0, "{flow}: {unseen}, {dropped}");
        let metrics: Vec<&Value> = named(&client, "recovery:metrics_updated").collect();
        assert!(metrics.iter().any(|data| data["congestion_window"].as_u64() > Some(10_000)));
        assert!(metrics.iter().any(|data| data["smoothed_rtt"].as_f64() > Some(20.0)));
    }
}
