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

/// The frames of draft-ietf-quic-qlog-quic-events-05, section 5.13, with the fields that each must have. Viewers with typed events (those that
/// stand on the crate `qlog`) leave out an event in which one is missing.
const FRAMES: [(&str, &[&str]); 21] = [
    ("padding", &["payload_length"]),
    ("ping", &[]),
    ("ack", &[]),
    ("reset_stream", &["stream_id", "error_code", "final_size"]),
    ("stop_sending", &["stream_id", "error_code"]),
    ("crypto", &["offset", "length"]),
    ("stream", &["stream_id", "offset", "length"]),
    ("max_data", &["maximum"]),
    ("max_stream_data", &["stream_id", "maximum"]),
    ("max_streams", &["stream_type", "maximum"]),
    ("data_blocked", &["limit"]),
    ("stream_data_blocked", &["stream_id", "limit"]),
    ("streams_blocked", &["stream_type", "limit"]),
    ("new_connection_id", &["sequence_number", "retire_prior_to", "connection_id"]),
    ("retire_connection_id", &["sequence_number"]),
    ("path_challenge", &[]),
    ("path_response", &[]),
    ("connection_close", &[]),
    ("handshake_done", &[]),
    ("datagram", &["length"]),
    ("unknown", &["raw_frame_type"]),
];

/// The numbers that an event of the schema may have, by its name.
const EVENTS: [(&str, &[&str]); 4] = [
    ("transport:packet_sent", &[]),
    ("transport:packet_received", &[]),
    ("recovery:packet_lost", &[]),
    (
        "recovery:metrics_updated",
        &["congestion_window", "bytes_in_flight", "ssthresh", "smoothed_rtt", "pacing_rate", "min_rtt", "latest_rtt"],
    ),
];

/// Checks an event against the schema; returns the names of its frames.
fn check_event(event: &Value) -> BTreeSet<String> {
    let (name, data) = (event["name"].as_str().expect("a name"), event["data"].as_object().expect("an object"));
    let (_, numbers) = EVENTS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{event}"));
    if name == "recovery:metrics_updated" {
        let known = |key: &String| numbers.contains(&key.as_str());
        assert!(data.iter().all(|(key, value)| known(key) && value.is_number()), "{event}");
        return BTreeSet::new();
    }
    let header = &data["header"];
    let kind = header["packet_type"].as_str();
    assert!(["initial", "handshake", "1RTT"].map(Some).contains(&kind) && header["packet_number"].is_u64(), "{event}");
    let frames = data.get("frames").and_then(Value::as_array).into_iter().flatten();
    frames
        .map(|frame| {
            let kind = frame["frame_type"].as_str().expect("a type");
            let (_, fields) = FRAMES.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{frame}"));
            for field in *fields {
                let is_right = match *field {
                    "stream_type" => ["unidirectional", "bidirectional"].map(Some).contains(&frame[field].as_str()),
                    "connection_id" => frame[field].is_string(),
                    _ => frame[field].is_u64(),
                };
                assert!(is_right, "{field} of {frame}");
            }
            let ranges = frame["acked_ranges"].as_array().into_iter().flatten();
            assert!(ranges.into_iter().all(|range| range[0].as_u64() <= range[1].as_u64()), "{frame}");
            kind.to_owned()
        })
        .collect()
}

/// Checks what one end knows: no packet arrives twice, and all that it acknowledges have arrived.
fn check_acknowledgements(events: &[Value]) {
    let key = |data: &Value| (data["header"]["packet_type"].to_string(), data["header"]["packet_number"].as_u64());
    let mut arrived = BTreeSet::new();
    for data in named(events, "transport:packet_received") {
        assert!(arrived.insert(key(data)), "twice: {data}");
    }
    for data in named(events, "transport:packet_sent") {
        let (kind, _) = key(data);
        let frames = data["frames"].as_array().into_iter().flatten();
        for range in frames.filter_map(|frame| frame["acked_ranges"].as_array()).flatten() {
            for number in range[0].as_u64().expect("low")..=range[1].as_u64().expect("high") {
                assert!(arrived.contains(&(kind.clone(), Some(number))), "{number} has not arrived: {data}");
            }
        }
    }
}

/// The numbers of packets of the application's data that are sent, neither acknowledged nor lost at the end of a log, and the bytes in
/// flight that its last metrics state.
fn in_flight(events: &[Value]) -> (BTreeSet<u64>, u64) {
    let (mut flight, mut stated) = (BTreeSet::new(), 0);
    for event in events {
        let data = &event["data"];
        stated = data["bytes_in_flight"].as_u64().unwrap_or(stated);
        let frames = || data["frames"].as_array().into_iter().flatten();
        if data["header"]["packet_type"] != "1RTT" {
            continue;
        }
        let number = data["header"]["packet_number"].as_u64().expect("a number");
        match event["name"].as_str().expect("a name") {
            "transport:packet_sent" if frames().any(|frame| frame["frame_type"] != "ack") => {
                flight.insert(number);
            }
            "recovery:packet_lost" => assert!(flight.remove(&number), "{number} was lost and not in flight"),
            "transport:packet_received" => {
                for range in frames().filter_map(|frame| frame["acked_ranges"].as_array()).flatten() {
                    let (low, high) = (range[0].as_u64().expect("low"), range[1].as_u64().expect("high"));
                    flight.retain(|number| !(low..=high).contains(number));
                }
            }
            _ => {}
        }
    }
    (flight, stated)
}

/// All packets that do not arrive are declared lost by quinn: when the data has arrived, nothing is in flight. A probe for losses and data
/// that is sent again in other pieces are no reason to miss one.
#[test]
fn every_loss_of_quic_is_logged() {
    let folder = Folder::new("qlog-losses");
    let flows = |controls: [&str; 2]| {
        let flow = |control: &str| {
            let name = control.replace('-', "");
            format!(
                "  {{ name = \"{name}\", from = \"a\", to = \"b\", transport = {{ kind = \"quic\", congestion = \"{control}\" }}, \
                 workload = {{ kind = \"bulk\", bytes = \"2MB\" }} }},\n"
            )
        };
        controls.map(flow).concat()
    };
    let scenario = SCENARIO
        .split("flow = [")
        .next()
        .expect("a part")
        .replace("delay =", "loss = \"3%\", delay =")
        .replace("5s", "30s");
    fs::write(folder.0.join("s.toml"), format!("{scenario}flow = [\n{}]\n", flows(["quinn-cubic", "reno"])))
        .expect("written");
    let made = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["simulate", "s.toml", "--no-cache", "--runs", "1", "--qlog", "q"])
        .current_dir(&folder.0)
        .output()
        .expect("it starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for flow in ["quinncubic-1", "reno-2"] {
        let [client, server] = ["client", "server"].map(|end| {
            records(&fs::read_to_string(folder.0.join(format!("q/{flow}-{end}.sqlog"))).expect("text"))[1..].to_vec()
        });
        let sent = numbers(named(&client, "transport:packet_sent"));
        let arrived = numbers(named(&server, "transport:packet_received"));
        let lost = numbers(named(&client, "recovery:packet_lost"));
        let never: Vec<&u64> = sent.difference(&arrived).collect();
        assert!(never.len() > 20 && lost.len() > 20, "{flow}: {} of {} were dropped", never.len(), sent.len());
        let (flight, stated) = in_flight(&client);
        assert!(flight.len() <= 2 && stated < 4_000, "{flow}: {flight:?} and {stated} bytes of {never:?}, {lost:?}");
    }
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
            let frames: BTreeSet<String> = events.iter().flat_map(check_event).collect();
            if flow == "quic-1" {
                let rare = ["max_stream_data", "new_connection_id", "handshake_done", "ack", "stream"];
                assert!(rare.iter().all(|frame| frames.contains(*frame)), "{frames:?}");
            }
            events
        });
        check_acknowledgements(&client);
        check_acknowledgements(&server);
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

/// Acknowledgements of TCP count what has arrived with each ECN field, and the sender has its least round trip.
#[test]
fn acknowledgements_of_tcp_count_marks() {
    let folder = Folder::new("qlog-ecn");
    let text = "version = 1\nduration = \"5s\"\nhosts = [\"a\", \"b\"]\n\
        link = [{ from = \"a\", to = \"b\", rate = \"10mbit\", delay = \"10ms\", queue = { kind = \"dualpi2\" } }]\n\
        flow = [{ name = \"prague\", from = \"a\", to = \"b\", workload = { kind = \"bulk\" }, tcp = { congestion = \"prague\" } }]\n";
    let file = folder.with("prague.toml", text);
    let out = folder.0.join("q");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let done = command.args(["simulate", &file, "--no-cache", "--qlog"]).arg(&out).output().expect("tidegate runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let of = |end: &str| {
        let files = fs::read_dir(&out).unwrap().map(|file| file.unwrap().path());
        let path = files.into_iter().find(|path| path.to_string_lossy().contains(end)).expect("a file of each end");
        records(&fs::read_to_string(path).unwrap()).split_off(1)
    };
    let server = of("server");
    let arrived =
        |ecn: &str| named(&server, "transport:packet_received").filter(|data| data["ecn"] == ecn).count() as u64;
    let frames = |data: &Value| data["frames"].as_array().cloned().unwrap_or_default();
    let acks = named(&server, "transport:packet_sent").flat_map(frames);
    let last = acks.filter(|frame| frame["ce"].is_u64()).last().expect("an acknowledgement with counters");
    let counted = ["ce", "ect1"].map(|key| last[key].as_u64().unwrap());
    let found = ["CE", "ECT(1)"].map(arrived);
    assert!(found[0] > 20 && found[1] > 1_000, "{found:?}");
    // One or two packets may arrive after the last acknowledgement.
    assert!(
        counted.iter().zip(found).all(|(counted, found)| (found - 2..=found).contains(counted)),
        "{counted:?} {found:?}"
    );
    let client = of("client");
    let least = named(&client, "recovery:metrics_updated").filter_map(|data| data["min_rtt"].as_f64()).last();
    assert!(least.is_some_and(|rtt| (20.0..25.0).contains(&rtt)), "{least:?}");
}
