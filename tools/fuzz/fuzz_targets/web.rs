//! No request panics the web page, and no other host is served.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    if let Some(status) = tidegate_daemon::web::answer_text(text) {
        assert!([200, 400, 404, 405, 421].contains(&status), "{status}");
    }
});
