//! No edit of a shaper file panics, whatever the file, the key and the value; and one that is refused changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::edit::{Document, matching};

/// The file and the parts of the edits, separated by a character that none of them contains.
const APART: char = '\u{1}';

fuzz_target!(|text: &str| {
    let mut parts = text.split(APART);
    let file = parts.next().unwrap_or_default();
    let Ok(mut document) = Document::parse(file) else { return };
    let parts: Vec<&str> = parts.collect();
    for edit in parts.chunks(4) {
        let [section, name, key, value] = edit else { continue };
        let before = document.text().to_owned();
        let pairs = [((*key).to_owned(), (*value).to_owned())];
        let outcomes = [
            document.set(section, (!name.is_empty()).then_some(*name), key, value),
            document.add(section, &pairs),
            document.remove(section, name),
        ];
        if outcomes.iter().all(Result::is_err) {
            assert_eq!(document.text(), before);
        }
        assert!(Document::parse(document.text()).is_ok(), "what is written can be read");
        let _ = matching(&pairs);
    }
});
