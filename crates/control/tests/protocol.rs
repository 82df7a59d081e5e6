//! The protocol as it is written down: every example of the page is a message of the protocol and comes back the same.

use serde_json::Value;
use tidegate_control::calls::{
    Applied, Apply, Classes, Confirm, Confirmed, Events, Explain, Explained, Feedback, Flows, InForce, PromiseCall,
    PromiseList, PromiseState, Promised, Promises, Refresh, Refreshed, Release, Released, Renew, ReservationList,
    ReservationsQuery, Reserve, Reserved, Rollback, Seen, Status, StatusQuery, Subscribed, Text, Unreserve, Unreserved,
    Unsubscribe, Unsubscribed, Watching,
};
use tidegate_control::protocol::{Call, Code, Message, Request};
use tidegate_control::{Event, EventKind};

const PAGE: &str = include_str!("../../../book/src/reference/control-protocol.md");

/// The lines of the blocks of the page, `> ` for requests and `< ` for what is answered.
fn lines(mark: &str) -> Vec<&'static str> {
    let blocks = PAGE.split("```").skip(1).step_by(2).filter(|block| block.starts_with("text\n"));
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix(mark)).collect()
}

fn same<T: serde::Serialize + serde::de::DeserializeOwned>(value: &Value) {
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value:#}"));
    let written = serde_json::to_value(read).unwrap();
    // What is left out is what has its default.
    let (Some(written), Some(value)) = (written.as_object(), value.as_object()) else { panic!("objects") };
    for (key, value) in value {
        assert_eq!(written.get(key), Some(value), "{key}");
    }
}

#[test]
fn every_request_of_the_page_is_understood() {
    let requests: Vec<Request> =
        lines("> ").into_iter().map(|line| Request::parse(line.as_bytes()).expect(line)).collect();
    for name in [
        StatusQuery::NAME,
        Events::NAME,
        Unsubscribe::NAME,
        PromiseCall::NAME,
        Renew::NAME,
        Release::NAME,
        Promises::NAME,
        Feedback::NAME,
        Explain::NAME,
        Classes::NAME,
        Flows::NAME,
        Apply::NAME,
        Confirm::NAME,
        Rollback::NAME,
        InForce::NAME,
        Reserve::NAME,
        Refresh::NAME,
        Unreserve::NAME,
        ReservationsQuery::NAME,
    ] {
        assert!(requests.iter().any(|request| request.call == name), "the page has an example of `{name}`");
    }
    for request in requests {
        match request.call.as_str() {
            StatusQuery::NAME => drop(request.parameters::<StatusQuery>().unwrap()),
            Events::NAME => same::<Events>(&request.with),
            Unsubscribe::NAME => same::<Unsubscribe>(&request.with),
            PromiseCall::NAME => same::<PromiseCall>(&request.with),
            Renew::NAME => same::<Renew>(&request.with),
            Release::NAME => same::<Release>(&request.with),
            Promises::NAME => drop(request.parameters::<Promises>().unwrap()),
            Feedback::NAME => same::<Feedback>(&request.with),
            Explain::NAME => same::<Explain>(&request.with),
            Classes::NAME => drop(request.parameters::<Classes>().unwrap()),
            Flows::NAME => same::<Flows>(&request.with),
            Apply::NAME => same::<Apply>(&request.with),
            Confirm::NAME => drop(request.parameters::<Confirm>().unwrap()),
            Rollback::NAME => drop(request.parameters::<Rollback>().unwrap()),
            InForce::NAME => same::<InForce>(&request.with),
            Reserve::NAME => same::<Reserve>(&request.with),
            Refresh::NAME => same::<Refresh>(&request.with),
            Unreserve::NAME => same::<Unreserve>(&request.with),
            ReservationsQuery::NAME => drop(request.parameters::<ReservationsQuery>().unwrap()),
            // The one that shows what is said to a typing error.
            other => assert_eq!(other, "stauts"),
        }
    }
}

#[test]
fn every_answer_and_push_of_the_page_is_understood() {
    let mut kinds = Vec::new();
    for line in lines("< ") {
        match serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Message::Push { event, .. } => {
                assert_ne!(event.kind, EventKind::Other, "{line}");
                kinds.push(event.kind);
            }
            Message::Error { error, .. } => assert_ne!(error.code, Code::Other, "{line}"),
            Message::Ok { ok, .. } => {
                // As it is written, with nothing left over.
                fn whole<T: serde::Serialize + serde::de::DeserializeOwned>(ok: &Value) -> bool {
                    serde_json::from_value::<T>(ok.clone())
                        .is_ok_and(|read| serde_json::to_value(read).is_ok_and(|written| written == *ok))
                }
                let seen = whole::<Seen>(&ok)
                    || whole::<Applied>(&ok)
                    || whole::<Confirmed>(&ok)
                    || whole::<Text>(&ok)
                    || whole::<Reserved>(&ok)
                    || whole::<Refreshed>(&ok)
                    || whole::<ReservationList>(&ok)
                    || whole::<Unreserved>(&ok);
                let one = seen
                    || serde_json::from_value::<Status>(ok.clone()).is_ok()
                    || serde_json::from_value::<Promised>(ok.clone()).is_ok()
                    || serde_json::from_value::<PromiseState>(ok.clone()).is_ok()
                    || serde_json::from_value::<PromiseList>(ok.clone()).is_ok()
                    || serde_json::from_value::<Watching>(ok.clone()).is_ok()
                    || serde_json::from_value::<Explained>(ok.clone()).is_ok()
                    || serde_json::from_value::<Subscribed>(ok.clone()).is_ok();
                let nothing = serde_json::from_value::<Released>(ok.clone()).is_ok()
                    && serde_json::from_value::<Unsubscribed>(ok.clone()).is_ok();
                assert!(one || nothing && ok == serde_json::json!({}), "{line}");
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
    // A client that is older than the daemon goes on.
    let event: Event = serde_json::from_str(r#"{"kind":"new-kind","time_ns":1,"new_key":2}"#).unwrap();
    assert_eq!(event.kind, EventKind::Other);
}
