//! `tidegate varlink` as a client of Varlink starts it: one connection, over standard input and output or a socket that is passed.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tidegate_testbed::Ended;

use crate::steer::stage::Stage;

const SHAPER: &str = "version = 1\n\n[[class]]\nname = \"all\"\nrate = \"6mbit\"\ndefault = true\n";
const CONTROL: &str = "invalid.tidegate.Control";

/// A service for one connection.
struct Service {
    child: Child,
    replies: BufReader<std::process::ChildStdout>,
}

impl Service {
    fn new(control: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["varlink", "--control", control]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Self { child, replies }
    }

    fn send(&mut self, call: &Value) {
        let mut bytes = call.to_string().into_bytes();
        bytes.push(0);
        self.child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    fn reply(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.replies.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "a whole reply");
        serde_json::from_slice(&bytes).unwrap()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.send(&json!({ "method": method, "parameters": parameters }));
        self.reply()
    }

    /// Closes the connection. Returns the exit code and the message.
    fn end(mut self) -> (i32, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
    }
}

pub fn a_client_of_varlink_has_the_calls() -> Ended {
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let mut service = Service::new(&control);
    let own = |method: &str| format!("{CONTROL}.{method}");

    let info = service.call("org.varlink.service.GetInfo", json!({}));
    assert_eq!(info["parameters"]["interfaces"], json!(["org.varlink.service", CONTROL]));
    let described = service.call("org.varlink.service.GetInterfaceDescription", json!({ "interface": CONTROL }));
    let description = described["parameters"]["description"].as_str().unwrap();
    assert!(
        description.contains("interface invalid.tidegate.Control\n") && description.contains("method Status () -> (")
    );

    let status = service.call(&own("Status"), json!({}));
    assert_eq!(status["parameters"]["directions"][0]["classes"][0]["name"], "all", "{status}");
    assert!(status["parameters"].get("trouble").is_none(), "what is missing is left out");

    // Clients write null for what they leave out.
    let target = json!({ "port": 7000, "protocol": 17, "uid": null });
    let promised =
        service.call(&own("Promise"), json!({ "target": target, "minimum_bps": 2_000_000, "lease_ns": null }));
    assert_eq!(promised["parameters"]["state"]["minimum_bps"], 2_000_000, "{promised}");
    let promises = || stage.does(&["promise"]);
    assert!(promises().contains("promise 1"), "{}", promises());
    let refused = service.call(&own("Promise"), json!({ "target": { "port": 7001 }, "minimum_bps": 50_000_000 }));
    assert_eq!(
        (refused["error"].as_str(), refused["parameters"]["code"].as_str()),
        (Some(&*own("Refused")), Some("no-room"))
    );

    let refused = service.call(&own("InForce"), json!({ "unknown": 1 }));
    assert_eq!(refused["error"], own("Refused"));
    assert_eq!(refused["parameters"]["code"], "malformed", "{refused}");
    let missing = service.call(&own("Nothing"), json!({}));
    assert_eq!(missing["error"], "org.varlink.service.MethodNotFound");
    let missing = service.call("com.example.Nothing.At", json!({}));
    assert_eq!(missing["error"], "org.varlink.service.InterfaceNotFound");
    // No reply to a call that wants none: the next reply is that of the next call.
    service.send(&json!({ "method": own("Status"), "oneway": true }));
    assert_eq!(service.call("org.varlink.service.GetInfo", json!({}))["parameters"]["product"], "tidegate");

    // Events are further replies, until the client closes the connection.
    service.send(&json!({ "method": own("Events"), "parameters": {}, "more": true }));
    let subscribed = service.reply();
    assert_eq!(subscribed["continues"], true, "{subscribed}");
    stage.does(&["set", "class", "all", "rate", "5mbit"]);
    let event = service.reply();
    assert!(event["continues"] == true && event["parameters"]["event"].is_object(), "{event}");
    assert_eq!(service.end(), (0, String::new()));
    // The promise lasts as long as the connection.
    stage.until("the end of the promise", |stage| !stage.does(&["promise"]).contains("promise 1"));

    // Nothing but calls is taken.
    let mut service = Service::new(&control);
    service.child.stdin.as_mut().unwrap().write_all(b"hello\0").unwrap();
    let (code, said) = service.end();
    assert!(code == 1 && said.contains("no call of Varlink"), "{said}");
    let service = Service::new("/nowhere/control");
    assert_eq!(service.end(), (0, String::new()), "without a call nothing is connected");
    stage.end();
    Ended::Passed
}
