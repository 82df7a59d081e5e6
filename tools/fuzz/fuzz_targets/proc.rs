//! No text of `/proc` panics its readers: a queue of the kernel, and the privileges of a thread.
#![no_main]

use tidegate_live::nfqueue::QueueCounters;
use tidegate_live::privileges::Privileges;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for line in text.lines() {
        let _ = QueueCounters::parse(line);
    }
    let _ = Privileges::parse(text);
});
