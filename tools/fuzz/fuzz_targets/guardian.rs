//! No message of another process, possibly of another version, panics a guardian or its successor.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_live::guardian::read_messages(bytes));
