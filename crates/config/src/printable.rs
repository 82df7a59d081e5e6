//! Makes untrusted text safe for a terminal.

use std::borrow::Cow;

/// Whether a character changes the direction of writing of those around it, so that a text is shown in another order than
/// it is read in (the Bidi_Control property of Unicode).
pub fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a terminal would act on a character instead of displaying it: move the cursor, change colours or the title,
/// or reverse the direction of writing.
pub(crate) fn is_unprintable(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t') || is_bidi_control(character)
}

/// Whether [`printable`] leaves a text as it is.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(is_unprintable)
}

/// Escapes, as in JSON, the control characters of `text` (except line ends and tabs) and the characters that change the
/// direction of writing.
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
