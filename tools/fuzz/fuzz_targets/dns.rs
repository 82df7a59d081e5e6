//! Reads any bytes as a message of the Domain Name System: nothing panics, what is found is bounded, and a name is one that a
//! host may have.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_capture::dns::{MOST_RECORDS, Message, read};

fuzz_target!(|bytes: &[u8]| {
    let Some(message) = read(bytes) else { return };
    let (Message::Question(question) | Message::Answer(question, _)) = &message;
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    assert!(!question.name.is_empty() && question.name.len() <= 253 && question.name.chars().all(allowed));
    if let Message::Answer(_, addresses) = &message {
        // A circle of aliases repeats the records of a name at most as often as aliases are followed.
        assert!(addresses.len() <= MOST_RECORDS * 17);
        assert!(addresses.iter().all(|(_, seconds)| *seconds < 1 << 31));
    }
});
