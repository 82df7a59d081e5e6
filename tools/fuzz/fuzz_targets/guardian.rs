//! No message of another process, of another version perhaps, panics a guardian or its successor.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_live::guardian::read_messages(bytes));
