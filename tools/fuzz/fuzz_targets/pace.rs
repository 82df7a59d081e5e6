//! No line panics the control socket of a sender, and a rate that is read is the one that is written.
#![no_main]

use tidegate_pace::control::Request;

libfuzzer_sys::fuzz_target!(|line: &[u8]| match Request::parse(&String::from_utf8_lossy(line)) {
    Ok(Request::Rate(rate)) => {
        assert!(!rate.is_zero());
        assert_eq!(Request::parse(&format!("rate {rate}\n")), Ok(Request::Rate(rate)));
    }
    Ok(Request::Pause | Request::Resume | Request::Status) => {}
    Err(why) => assert!(!why.chars().any(char::is_control), "{why:?}"),
});
