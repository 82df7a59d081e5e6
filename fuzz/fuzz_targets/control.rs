//! No line panics the parser of requests, nor the parameters of any call; what is read is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_control::calls::{Events, Feedback, PromiseCall, Promises, Release, Renew, StatusQuery, Unsubscribe};
use tidegate_control::protocol::{Call, Message, Request};

fn parameters<C: Call>(request: &Request) {
    if let Ok(call) = request.parameters::<C>() {
        let again = Request::new(request.id, &call);
        assert!(again.parameters::<C>().is_ok(), "what was read can be written");
    }
}

fuzz_target!(|line: &[u8]| {
    // What a client reads from a daemon that is not one.
    let _ = serde_json::from_slice::<Message>(line);
    let request = match Request::parse(line) {
        Ok(request) => request,
        Err((id, refusal)) => {
            assert!(Message::Error { id, error: refusal }.to_line().ends_with(b"\n"));
            return;
        }
    };
    let written = serde_json::to_vec(&request).expect("a request can be written");
    // All but the parameters, in which the last digit of a fraction may differ; no call has one.
    let again = Request::parse(&written).expect("and read again");
    assert_eq!((again.id, &again.call), (request.id, &request.call));
    parameters::<StatusQuery>(&request);
    parameters::<Events>(&request);
    parameters::<Unsubscribe>(&request);
    parameters::<PromiseCall>(&request);
    parameters::<Renew>(&request);
    parameters::<Release>(&request);
    parameters::<Promises>(&request);
    parameters::<Feedback>(&request);
});
