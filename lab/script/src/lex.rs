//! Splits the lines of a script into tokens with places.

use tidegate_config::{Diagnostics, Place};

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A word: name, number, quantity, address.
    Word,
    /// The colon after the name of a flow that is defined where it is used.
    Colon,
    /// The text between quotation marks.
    Text,
    /// A TOML table on one line, with its braces.
    Inline,
    /// TOML on the lines between `{` and a line that is `}`, without the braces.
    Block,
}

/// A token of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// The kind of token.
    pub kind: Kind,
    /// The text of the token.
    pub text: &'a str,
    /// The position in the script.
    pub place: Place,
}

/// Returns the lines that have tokens, without comments.
pub fn lines<'a>(text: &'a str, diagnostics: &mut Diagnostics) -> Vec<Vec<Token<'a>>> {
    let mut lines = Vec::new();
    // Some editors begin a file with a byte order mark.
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
        let mut tokens = Vec::new();
        let next = line(text, at, end, &mut tokens, diagnostics);
        if !tokens.is_empty() {
            lines.push(tokens);
        }
        at = next + 1;
    }
    lines
}

/// Adds the tokens of the line from `at` to `end`. Returns the position of the newline after it.
fn line<'a>(
    text: &'a str,
    mut at: usize,
    end: usize,
    tokens: &mut Vec<Token<'a>>,
    diagnostics: &mut Diagnostics,
) -> usize {
    loop {
        at += text[at..end].find(|c: char| !c.is_whitespace() && c != ',').unwrap_or(end - at);
        let rest = &text[at..end];
        let Some(first) = rest.chars().next().filter(|c| *c != '#') else { return end };
        let mut push = |kind, start: usize, stop: usize| {
            tokens.push(Token { kind, text: &text[start..stop], place: (start..stop).into() });
        };
        match first {
            '"' => {
                let Some(length) = rest[1..].find('"') else {
                    diagnostics
                        .error((at..end).into(), "this text has no end")
                        .label("begins here")
                        .help("close it with \" on the same line");
                    return end;
                };
                push(Kind::Text, at + 1, at + 1 + length);
                at += length + 2;
            }
            '{' => {
                let inside = rest[1..].trim_start();
                if !inside.is_empty() && !inside.starts_with('#') {
                    push(Kind::Inline, at, end);
                    return end;
                }
                let (start, mut from) = (end.min(text.len()), end + 1);
                while from <= text.len() {
                    let stop = text[from..].find('\n').map_or(text.len(), |n| from + n);
                    if text[from..stop].trim() == "}" {
                        push(Kind::Block, start, from);
                        return stop;
                    }
                    from = stop + 1;
                }
                diagnostics
                    .error((at..at + 1).into(), "this block has no end")
                    .label("begins here")
                    .help("end it with a line that has } and nothing else");
                return text.len();
            }
            _ => {
                let length = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
                let word = &rest[..length];
                // `a:` names a flow; `2001:db8::` is an address.
                if word.len() > 1 && word.ends_with(':') && !word.ends_with("::") {
                    push(Kind::Word, at, at + length - 1);
                    push(Kind::Colon, at + length - 1, at + length);
                } else {
                    push(Kind::Word, at, at + length);
                }
                at += length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<(Kind, &str)>> {
        let mut diagnostics = Diagnostics::new();
        let lines = lines(text, &mut diagnostics);
        assert!(diagnostics.is_empty());
        lines.into_iter().map(|line| line.into_iter().map(|token| (token.kind, token.text)).collect()).collect()
    }

    #[test]
    fn lines_become_tokens() {
        use Kind::{Block, Colon, Inline, Text, Word};
        assert_eq!(
            words("# nothing\n\nat 0ms send a, a#3 # the third\nb: 10.0.0.1:5 2001:db8::\nconfig \"x y\""),
            [
                vec![(Word, "at"), (Word, "0ms"), (Word, "send"), (Word, "a"), (Word, "a#3")],
                vec![(Word, "b"), (Colon, ":"), (Word, "10.0.0.1:5"), (Word, "2001:db8::")],
                vec![(Word, "config"), (Text, "x y")],
            ]
        );
        assert_eq!(
            words("config {\n  version = 1\n}\ndiscipline { kind = \"fifo\" } # one\nend"),
            [
                vec![(Word, "config"), (Block, "\n  version = 1\n")],
                vec![(Word, "discipline"), (Inline, "{ kind = \"fifo\" } # one")],
                vec![(Word, "end")],
            ]
        );
    }

    #[test]
    fn what_has_no_end_is_reported() {
        for text in ["config \"x", "config {", "config {\nversion = 1", "config { \n } x\n"] {
            let mut diagnostics = Diagnostics::new();
            lines(text, &mut diagnostics);
            assert_eq!(diagnostics.errors(), 1, "{text}");
        }
    }
}
