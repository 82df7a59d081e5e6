//! No line panics the parser of requests, nor the parameters of any call; what is read is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_control::calls::CALLS;
use tidegate_control::protocol::{Message, Request};

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
    // As the parameters of every call, and as the reply to it, which a client reads.
    let with = serde_json::to_value(&request).expect("a request is JSON")["with"].take();
    for call in CALLS {
        for read in [call.read_request, call.read_reply] {
            if let Ok(again) = read(&with) {
                assert!(read(&again).is_ok(), "what was read can be written");
            }
        }
    }
});
