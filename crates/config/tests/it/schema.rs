//! The schema and the reader agree: what the reader takes the schema takes, and what is structurally wrong neither
//! does.

use serde_json::Value;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_testbed::evaluator::misfit;

fn fits(text: &str) -> Result<(), String> {
    let schema = shaper::schema();
    let value: Value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    misfit(&value, &schema, &schema, "$").map_or(Ok(()), Err)
}

fn reads(text: &str) -> bool {
    shaper::load_all(&Source::new("test", text), &mut Diagnostics::new()).is_some()
}

#[test]
fn every_example_fits_the_schema_and_the_reader() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut examples_seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // Scenarios of the simulator have a schema of their own.
        if path.extension().is_some_and(|ending| ending == "toml") && !text.contains("[[flow]]") {
            assert_eq!(fits(&text), Ok(()), "{}", path.display());
            assert!(reads(&text), "{}", path.display());
            examples_seen += 1;
        }
    }
    assert!(examples_seen >= 4, "only {examples_seen} examples");
}

#[test]
fn every_key_with_its_example_fits_the_schema_and_the_reader() {
    let text = r#"
        version = 1
        [interface]
        name = "eth0"
        mtu = "9000B"
        overhead = "38B"
        [shaper]
        rate = "1gbit"
        burst = "125kB"
        flow-by = "uid"
        idle-timeout = "30s"
        flows = 1000
        [[class]]
        name = "a"
        rate = "100mbit"
        burst = "20kB"
        flow-burst = "20kB"
        priority = 0
        dscp = 46
        share = "strict"
        borrow = false
        limit = "1MB"
        flow-limit = "100kB"
        increment = "5%"
        feedback = { above = "80%", below = "20%", ecn = true }
        [[class]]
        name = "b"
        rate = "100mbit"
        at-most = "300mbit"
        bursts = "loose"
        queue = { kind = "fifo", limit = "100kB", packets = 100 }
        default = true
        [[rule]]
        class = "a"
        dscp = ["ef", 12]
        protocol = "udp"
        source = "10.0.0.0/8"
        destination = ["192.0.2.1", "192.0.2.2"]
        source-port = 5000
        destination-port = ["5000-5100", 80]
        mark = "0x1/0xf"
        uid = ["alice", 1000]
        cgroup = "/system.slice/backup.service"
        weight = 3
        minimum = "1mbit"
        flows = 10
        displace = { below = "2mbit", to = "b" }
        [[rule]]
        class = "b"
        host = ["10.0.0.0/8", "2001:db8::1"]
        port = [53, "5000-5100"]
        source-port = 53
        both-ways = true
        [[rule]]
        class = "b"
        protocol = "tcp"
        length = ["0-200", "1400-", 1000]
        tcp-flags = ["syn !ack", "rst"]
        [[rule]]
        class = "b"
        pure-ack = true
        [[rule]]
        class = "b"
        icmp-type = ["echo-request", 3]
    "#;
    assert_eq!(fits(text), Ok(()));
    let source = Source::new("test", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
}

#[test]
fn a_discipline_instead_of_a_shaper() {
    let text = "version = 1\n[discipline]\nkind = \"fifo\"\nlimit = \"100kB\"\npackets = 100\n";
    assert_eq!(fits(text), Ok(()));
    assert!(reads(text));
    for (from, to) in [("fifo", "fifi"), ("packets", "pakets"), ("kind = \"fifo\"\n", ""), ("100\n", "\"100\"\n")] {
        let text = text.replace(from, to);
        assert!(fits(&text).is_err(), "the schema takes {text}");
        assert!(!reads(&text), "the reader takes {text}");
    }
}

#[test]
fn neither_takes_what_is_structurally_wrong() {
    let good = "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n";
    assert_eq!(fits(good), Ok(()));
    assert!(reads(good));
    for (from, to) in [
        ("version = 1", ""),
        ("version = 1", "version = \"1\""),
        ("rate = \"1mbit\"", "rate = 1"),
        ("name = \"a\"\n", ""),
        ("name = \"a\"", "name = \"a\"\nnmae = \"b\""),
        ("default = true", "default = true\nshare = \"never\""),
        ("default = true", "default = true\nqueue = { kind = \"fifi\" }"),
        ("default = true", "default = true\nqueue = { kind = \"fifo\", x = 1 }"),
        ("default = true", "default = true\n[[rule]]\nclass = \"a\"\ndscp = []"),
        ("default = true", "default = true\n[[rule]]\nclass = \"a\"\nweight = -1"),
    ] {
        let text = good.replace(from, to);
        assert!(fits(&text).is_err(), "the schema takes {text}");
        assert!(!reads(&text), "the reader takes {text}");
    }
}

/// Words come out as they go in: the schema lists exactly what the reader takes.
#[test]
fn the_words_of_the_schema_are_those_of_the_reader() {
    let schema = shaper::schema();
    let flow_by = schema.pointer("/$defs/shaper/properties/flow-by/oneOf").unwrap().as_array().unwrap();
    let words: Vec<&str> = flow_by.iter().map(|one| one["const"].as_str().unwrap()).collect();
    assert_eq!(words, shaper::FlowBy::ALL.iter().map(|one| one.word()).collect::<Vec<_>>());
}
