//! The protocol as it is documented: every example is a message of the protocol and is written again as it was read, and
//! the page of the calls is the one that their declarations generate.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidegate_control::calls::{CALLS, Declaration, Events, PromiseCall};
use tidegate_control::protocol::{Code, Message, Request};
use tidegate_control::{Event, EventKind};

/// How the protocol works, with dialogues as examples.
pub const PAGE: &str = include_str!("../../../../book/src/reference/control-protocol.md");
/// The section of each call.
const CALLS_PAGE: &str = include_str!("../../../../book/src/reference/control-calls.md");
/// Set to have that page written.
pub const WRITE: &str = "TIDEGATE_WRITE_PAGES";

/// The lines of the blocks of both pages that begin with `mark`: `> ` for requests and `< ` for what the daemon sends.
fn lines(mark: &str) -> Vec<&'static str> {
    let blocks = [PAGE, CALLS_PAGE].into_iter().flat_map(|page| page.split("```").skip(1).step_by(2));
    let blocks = blocks.filter(|block| block.starts_with("text\n"));
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix(mark)).collect()
}

fn declaration(name: &str) -> Option<&'static Declaration> {
    CALLS.iter().find(|call| call.name == name)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A request that is read keeps every key that it had. What it left out has its default.
fn keeps(call: &Declaration, parameters: &Value) {
    let written = (call.read_request)(parameters).unwrap_or_else(|error| panic!("{}: {error}", call.name));
    let (Some(written), Some(given)) = (written.as_object(), parameters.as_object()) else { panic!("objects") };
    for (key, value) in given {
        assert_eq!(written.get(key), Some(value), "{}: {key}", call.name);
    }
}

/// The page of the calls: a table, and a section for each with its documentation and example.
fn page() -> String {
    let mut page = String::from(
        "# The control calls\n\nThis page is generated from the declarations in `crates/control/src/calls/declaration.rs`. \
         [The control protocol](control-protocol.md)\nspecifies the form of the messages, and permissions, limits and events.\n\n\
         | call | who may make it | what it does |\n| --- | --- | --- |\n",
    );
    for call in CALLS {
        let first = call.documentation.split("\n\n").next().unwrap_or_default().trim().replace('\n', " ");
        let sentence = first.split_once(". ").map_or(first.as_str(), |(sentence, _)| sentence).trim_end_matches('.');
        writeln!(page, "| [`{0}`](#{0}) | {1} | {2}. |", call.name, call.permission, sentence.replace(" .", "."))
            .expect("a string");
    }
    for call in CALLS {
        let text: Vec<&str> = call.documentation.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        writeln!(page, "\n## {}\n\n{}\n\nWho may: {}.\n", call.name, text.join("\n").trim(), call.permission)
            .expect("a string");
        let with = if call.request == "{}" { String::new() } else { format!(",\"with\":{}", call.request) };
        writeln!(page, "```text\n> {{\"id\":1,\"version\":1,\"call\":\"{}\"{with}}}", call.name).expect("a string");
        writeln!(page, "< {{\"id\":1,\"ok\":{}}}\n```", call.reply).expect("a string");
    }
    page
}

#[test]
fn the_page_of_the_calls_is_that_of_their_declarations() {
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/reference/control-calls.md");
        std::fs::write(path, &page).expect("written");
        return;
    }
    assert!(page == CALLS_PAGE, "a declaration has changed: run this test with {WRITE}=1, then again");
}

#[test]
fn the_example_of_each_call_is_a_request_and_its_reply() {
    for call in CALLS {
        keeps(call, &parsed(call.request));
        let reply = parsed(call.reply);
        assert_eq!((call.read_reply)(&reply).expect(call.name), reply, "{}", call.name);
        assert!(!call.documentation.trim().is_empty(), "{}", call.name);
    }
    let names: std::collections::BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
    assert_eq!(names.len(), CALLS.len(), "names are unique");
}

#[test]
fn every_request_of_the_pages_is_understood() {
    let requests: Vec<Request> =
        lines("> ").into_iter().map(|line| Request::parse(line.as_bytes()).expect(line)).collect();
    for call in CALLS {
        assert!(requests.iter().any(|request| request.call == call.name), "an example of `{}`", call.name);
    }
    for request in requests {
        match declaration(&request.call) {
            Some(call) if request.with.is_null() => keeps(call, &json!({})),
            Some(call) => keeps(call, &request.with),
            // The example of an unknown call.
            None => assert_eq!(request.call, "stauts"),
        }
    }
}

#[test]
fn every_reply_and_notification_of_the_pages_is_understood() {
    let mut kinds = Vec::new();
    for line in lines("< ") {
        match serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Message::Push { event, .. } => {
                assert_ne!(event.kind, EventKind::Other, "{line}");
                kinds.push(event.kind);
            }
            Message::Error { error, .. } => assert_ne!(error.code, Code::Other, "{line}"),
            // As it is written, with nothing left over.
            Message::Ok { ok, .. } => {
                let fits = |call: &&Declaration| (call.read_reply)(&ok).is_ok_and(|written| written == ok);
                assert!(CALLS.iter().any(|call| fits(&call)), "{line}");
            }
            Message::Lost { lost, .. } => assert!(lost > 0),
        }
    }
    assert!(kinds.len() >= 3, "{kinds:?}");
}

#[test]
fn every_kind_of_event_is_on_the_page_and_has_its_name() {
    for kind in EventKind::ALL {
        assert!(PAGE.contains(&format!("| `{}` |", kind.name())), "{} is not on the page", kind.name());
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    for code in [
        Code::Malformed,
        Code::Version,
        Code::UnknownCall,
        Code::TooLong,
        Code::TooMany,
        Code::NotAllowed,
        Code::NotFound,
        Code::NoRoom,
        Code::Unsupported,
        Code::Invalid,
        Code::Failed,
    ] {
        let name = serde_json::to_value(code).unwrap();
        assert!(PAGE.contains(&format!("| `{}` |", name.as_str().unwrap())), "{name} is not on the page");
    }
}

#[test]
fn what_is_wrong_is_named_with_the_number_of_the_request() {
    let refusal = |line: &str| Request::parse(line.as_bytes()).unwrap_err();
    let (id, wrong) = refusal(r#"{"id":7,"version":1,"cal":"status"}"#);
    assert_eq!((id, wrong.code), (7, Code::Malformed));
    assert!(wrong.message.contains("cal"), "{wrong}");
    assert_eq!(refusal(r#"{"id":8,"version":2,"call":"status"}"#).1.code, Code::Version);
    assert_eq!(refusal("hello").0, 0);
    let request = Request::parse(br#"{"id":1,"version":1,"call":"promise","with":{"minimum":1}}"#).unwrap();
    let wrong = request.parameters::<PromiseCall>().unwrap_err();
    assert!(wrong.message.contains("minimum") && wrong.message.contains("minimum_bps"), "{wrong}");
    let request = Request::parse(br#"{"id":1,"version":1,"call":"events","with":{"kinds":["log","logs"]}}"#).unwrap();
    let wrong = request.parameters::<Events>().unwrap_err();
    assert!(wrong.message.contains("no events called `logs`") && wrong.message.contains("flow-started"), "{wrong}");
    // A client that is older than the daemon goes on.
    let event: Event = serde_json::from_str(r#"{"kind":"new-kind","time_ns":1,"new_key":2}"#).unwrap();
    assert_eq!(event.kind, EventKind::Other);
}
