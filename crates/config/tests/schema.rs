//! The schema and the reader agree: what the reader takes the schema takes, and what is structurally wrong neither
//! does. Checked with an evaluator of the part of JSON Schema that our schemas use, and an error for any other.

use serde_json::{Map, Value, json};
use tidegate_config::{Diagnostics, Source, shaper};

/// Why `value` does not fit `schema`, or `None`.
fn misfit(value: &Value, schema: &Value, root: &Value, path: &str) -> Option<String> {
    let schema = schema.as_object().unwrap_or_else(|| panic!("{path}: a schema that is no object: {schema}"));
    schema.iter().find_map(|(keyword, rule)| misfit_of(value, keyword, rule, schema, root, path))
}

fn misfit_of(
    value: &Value,
    keyword: &str,
    rule: &Value,
    schema: &Map<String, Value>,
    root: &Value,
    path: &str,
) -> Option<String> {
    let fits = |schema: &Value| misfit(value, schema, root, path).is_none();
    match keyword {
        "$defs" | "$schema" | "title" | "description" | "examples" | "default" | "pattern" => None,
        "$ref" => {
            let pointer = rule.as_str().unwrap().trim_start_matches('#');
            let target = root.pointer(pointer).unwrap_or_else(|| panic!("{path}: {rule} leads nowhere"));
            misfit(value, target, root, path)
        }
        "type" => {
            let is = |name: &Value| match name.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                other => panic!("{path}: type {other}"),
            };
            let fits = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
            (!fits).then(|| format!("{path}: {value} is not {rule}"))
        }
        "const" => (value != rule).then(|| format!("{path}: {value} is not {rule}")),
        "minimum" => (value.as_f64() < rule.as_f64()).then(|| format!("{path}: below {rule}")),
        "minItems" => {
            let short = value.as_array().is_some_and(|list| (list.len() as u64) < rule.as_u64().unwrap());
            short.then(|| format!("{path}: too short"))
        }
        "oneOf" => {
            let n = rule.as_array().unwrap().iter().filter(|one| fits(one)).count();
            (n != 1).then(|| format!("{path}: fits {n} of oneOf"))
        }
        "anyOf" => (!rule.as_array().unwrap().iter().any(fits)).then(|| format!("{path}: fits none of anyOf")),
        "items" => value.as_array()?.iter().find_map(|one| misfit(one, rule, root, &format!("{path}[]"))),
        "properties" => {
            let rule = rule.as_object().unwrap();
            value
                .as_object()?
                .iter()
                .find_map(|(key, value)| misfit(value, rule.get(key)?, root, &format!("{path}.{key}")))
        }
        "required" => {
            let object = value.as_object()?;
            let missing = rule.as_array().unwrap().iter().find(|key| !object.contains_key(key.as_str().unwrap()));
            missing.map(|key| format!("{path}: lacks {key}"))
        }
        "additionalProperties" => {
            assert_eq!(rule, &json!(false), "{path}");
            let known = schema["properties"].as_object().unwrap();
            let unknown = value.as_object()?.keys().find(|key| !known.contains_key(*key));
            unknown.map(|key| format!("{path}: unknown {key}"))
        }
        other => panic!("{path}: keyword {other}"),
    }
}

fn fits(text: &str) -> Result<(), String> {
    let schema = shaper::schema();
    let value: Value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    misfit(&value, &schema, &schema, "$").map_or(Ok(()), Err)
}

fn reads(text: &str) -> bool {
    shaper::load(&Source::new("test", text), &mut Diagnostics::new()).is_some()
}

#[test]
fn every_example_fits_the_schema_and_the_reader() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // Scenarios of the simulator have a schema of their own.
        if path.extension().is_some_and(|ending| ending == "toml") && text.contains("[[rule]]") {
            assert_eq!(fits(&text), Ok(()), "{}", path.display());
            assert!(reads(&text), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} examples");
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
        ("rate = \"1mbit\"", ""),
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
