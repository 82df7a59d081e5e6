//! Texts that others wrote, for a terminal.

use std::borrow::Cow;

/// Whether a character changes the direction of writing of those around it, so that a text is shown in another order than
/// it is read in (the Bidi_Control property of Unicode).
pub fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a terminal would not show a character, but do something: move, colour, rename, write in another direction.
pub(crate) fn is_unprintable(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t') || is_bidi_control(character)
}

/// Whether [`printable`] leaves a text as it is.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(is_unprintable)
}

/// `text` for a terminal, whoever wrote it: control characters except the ends of lines and tabs, and those that change the
/// direction of writing, are escaped as in JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    if is_printable(text) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unprintable(c) { shown += &format!("\\u{:04x}", u32::from(c)) } else { shown.push(c) }
    }
    shown.into()
}
