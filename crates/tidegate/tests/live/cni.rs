//! `tidegate cni` as a container runtime calls it: the command in the environment, the configuration on standard input.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::LEFT;

use crate::steer::stage::Stage;

const SHAPER: &str = r#"version = 1

[shaper]
rate = "6mbit"

[[class]]
name = "media"
rate = "3mbit"

[[class]]
name = "rest"
rate = "1mbit"
default = true
"#;

/// The result of the plugin that made the interface of the container.
fn previous() -> Value {
    json!({ "cniVersion": "1.0.0", "ips": [{ "address": format!("{}/24", LEFT[0]), "interface": 0 }], "dns": {} })
}

fn start(control: &str, command: &str, container: &str, more: &Value) -> Child {
    let mut network = json!({
        "cniVersion": "1.0.0", "name": "pods", "type": "tidegate-cni", "control": control, "prevResult": previous(),
    });
    network.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    plugin.arg("cni").env("CNI_COMMAND", command).env("CNI_CONTAINERID", container).env("CNI_IFNAME", "eth0");
    let mut child = plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(network.to_string().as_bytes()).unwrap();
    child
}

/// The exit code, and what is printed.
fn end(child: Child) -> (i32, Value) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
    (output.status.code().unwrap(), value)
}

pub fn a_container_has_its_terms_while_it_lives() -> Ended {
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let call = |command: &str, container: &str, more: Value| end(start(&control, command, container, &more));
    let file = || stage.does(&["status", "--file"]);
    assert_eq!(call("VERSION", "x", json!({})).1["supportedVersions"][3], "1.0.0");

    // Everybody may open the directory of the socket, and lock it.
    let theirs = std::fs::File::open(std::path::Path::new(&control).parent().unwrap()).unwrap();
    theirs.try_lock().expect("nobody else locks it");
    // A minimum and a ceiling: a class of its own, in which what it sends is.
    let terms = json!({ "minimum": "1mbit", "at-most": "2mbit" });
    assert_eq!(call("ADD", "abc", terms.clone()), (0, previous()));
    assert_eq!(stage.rate("cni-abc-eth0"), Some(1_000_000));
    assert!(file().contains("at-most = \"2mbit\""), "{}", file());
    let traffic = stage.traffic(6_000, 200);
    stage.until("traffic in the class of the container", |stage| {
        let status = stage.status();
        let classes = status["directions"][0]["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["name"] == "cni-abc-eth0").unwrap();
        class["through_packets"].as_u64().unwrap() > 50
    });
    traffic.stop();
    assert_eq!(call("CHECK", "abc", terms.clone()), (0, Value::Null));
    // The same again replaces it.
    assert_eq!(call("ADD", "abc", terms.clone()).0, 0);
    assert_eq!(file().matches("cni-abc-eth0").count(), 3, "{}", file());

    // What does not fit is refused, with the reason, and leaves nothing.
    let before = file();
    let (code, said) = call("ADD", "greedy", json!({ "minimum": "2mbit" }));
    assert_eq!((code, &said["code"], &said["cniVersion"]), (1, &100.into(), &"1.0.0".into()), "{said}");
    assert!(said["msg"].as_str().is_some_and(|text| text.contains("7mbit")), "{said}");
    for (more, code, text) in [
        (json!({ "minimum": "1mbit", "class": "media" }), 7, "a class of its own"),
        (json!({ "at-most": "1mbit" }), 7, "without `class`"),
        (json!({ "class": "media", "at-most": "fast" }), 7, "at-most"),
        (json!({ "class": "nosuch" }), 100, "nosuch"),
        (json!({ "clas": "media" }), 7, "would be given nothing"),
        (json!({ "class": "media", "prevResult": null }), 7, "after the one that makes the interface"),
        (json!({ "class": "media", "cniVersion": "0.1.0" }), 1, "0.1.0"),
        (json!({ "class": "media", "control": "/nonexistent/socket" }), 11, "is it running?"),
    ] {
        let (status, said) = call("ADD", "wrong", more.clone());
        assert_eq!((status, &said["code"]), (1, &code.into()), "{more}: {said}");
        assert!(said["msg"].as_str().is_some_and(|said| said.contains(text)), "{more}: {said}");
    }
    assert_eq!(call("ADD", "../abc", terms.clone()).1["code"], 4);
    assert_eq!(file(), before);

    assert_eq!(call("DEL", "abc", terms.clone()), (0, Value::Null));
    assert_eq!(file(), SHAPER);
    assert_eq!(call("DEL", "abc", terms.clone()), (0, Value::Null), "also where nothing is left");
    assert_eq!(call("DEL", "abc", json!({ "control": "/nonexistent/socket" })), (0, Value::Null));
    assert_eq!(call("CHECK", "abc", terms).1["code"], 100);
    stage.end();
    Ended::Passed
}

pub fn annotations_set_what_the_network_permits() -> Ended {
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let file = || stage.does(&["status", "--file"]);
    let annotated = |permitted: Value| {
        json!({
            "class": "rest", "annotations": permitted,
            "runtimeConfig": { "io.kubernetes.cri.pod-annotations": {
                "tidegate/class": "media", "tidegate/at-most": "1mbit", "tidegate/minimum": "2mbit",
            } },
        })
    };
    let rule = |permitted: Value| {
        assert_eq!(end(start(&control, "ADD", "abc", &annotated(permitted))).0, 0);
        let file: toml::Table = file().parse().unwrap();
        let rule = &file["rule"][0];
        (rule["class"].as_str().unwrap().to_owned(), rule.get("at-most").is_some())
    };
    assert_eq!(rule(json!([])), ("rest".into(), false));
    assert_eq!(rule(json!(["class"])), ("media".into(), false));
    assert_eq!(rule(json!(["class", "at-most"])), ("media".into(), true));
    assert_eq!(end(start(&control, "ADD", "abc", &annotated(json!(["rate"])))).1["code"], 7);
    // Many that come and go at once do not remove each other's rules.
    let all = ["a", "b", "c", "d", "e"];
    let at_once = |command: &str| {
        let children: Vec<Child> =
            all.iter().map(|id| start(&control, command, id, &json!({ "class": "media" }))).collect();
        children.into_iter().for_each(|child| assert_eq!(end(child).0, 0));
    };
    at_once("ADD");
    for id in all {
        assert!(file().contains(&format!("cni-{id}-eth0")), "{}", file());
    }
    at_once("DEL");
    assert!(file().contains("cni-abc-eth0") && file().matches("[[rule]]").count() == 1, "{}", file());
    assert_eq!(end(start(&control, "DEL", "abc", &json!({}))).0, 0);
    assert_eq!(file(), SHAPER);
    stage.end();
    Ended::Passed
}
