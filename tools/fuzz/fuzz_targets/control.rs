//! No line panics the parser of requests or of any call's parameters, and a request that was read is written back
//! unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_control::calls::CALLS;
use tidegate_control::protocol::{Message, Request};

fuzz_target!(|line: &[u8]| {
    // A client reads this from a process that is no daemon.
    let _ = serde_json::from_slice::<Message>(line);
    let request = match Request::parse(line) {
        Ok(request) => request,
        Err((id, refusal)) => {
            assert!(Message::Error { id, error: refusal }.to_line().ends_with(b"\n"));
            return;
        }
    };
    let written = serde_json::to_vec(&request).expect("a request can be written");
    // Everything but the parameters, where the last digit of a fraction may differ; no call has fractions.
    let again = Request::parse(&written).expect("and read again");
    assert_eq!((again.id, &again.call), (request.id, &request.call));
    // Reads the line as the parameters of every call, and as its reply.
    let with = serde_json::to_value(&request).expect("a request is JSON")["with"].take();
    for call in CALLS {
        for read in [call.read_request, call.read_reply] {
            if let Ok(again) = read(&with) {
                assert!(read(&again).is_ok(), "what was read can be written");
            }
        }
    }
});
