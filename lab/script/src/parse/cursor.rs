//! [`Cursor`]: iterates over the tokens of one line.

use tidegate_config::{Place, Scalar};

use super::parser::{Parsed, Parser};
use crate::lex::{Kind, Token};

/// The tokens of a line, and the position of the next one.
pub(super) struct Cursor<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: &'a [Token<'a>]) -> Self {
        Self { tokens, at: 0 }
    }
    /// Returns the next token without consuming it.
    pub(super) fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at)
    }
    /// Returns the next word without consuming it.
    pub(super) fn peek_word(&self) -> Option<&'a str> {
        self.peek().filter(|token| token.kind == Kind::Word).map(|token| token.text)
    }
    /// The word after the next.
    pub(super) fn peek_second(&self) -> Option<&'a str> {
        self.tokens.get(self.at + 1).filter(|token| token.kind == Kind::Word).map(|token| token.text)
    }
    /// The position of the next token, or the end of the line.
    pub(super) fn place(&self) -> Place {
        match (self.peek(), self.tokens.last()) {
            (Some(token), _) => token.place,
            (None, Some(last)) => Place { start: last.place.end, end: last.place.end },
            (None, None) => Place::default(),
        }
    }
    pub(super) fn is_done(&self) -> bool {
        self.peek().is_none()
    }
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }
    pub(super) fn back(&mut self) {
        self.at -= 1;
    }
    pub(super) fn mark(&self) -> usize {
        self.at
    }
    pub(super) fn reset(&mut self, mark: usize) {
        self.at = mark;
    }
    /// Takes the next token if its kind is one of `kinds`.
    pub(super) fn take_kind(&mut self, kinds: &[Kind]) -> Option<Token<'a>> {
        let token = *self.peek().filter(|token| kinds.contains(&token.kind))?;
        self.at += 1;
        Some(token)
    }
    /// Takes the next word if it is `word`.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        self.at += usize::from(found);
        found
    }
    /// Takes the next word; an error if there is none.
    pub(super) fn word(&mut self, parser: &mut Parser<'_>, wanted: &str, example: &str) -> Parsed<Token<'a>> {
        match self.peek() {
            Some(token) if token.kind == Kind::Word => {
                self.at += 1;
                Ok(*token)
            }
            Some(_) => parser.error(self.place(), format!("expected {wanted}"), format!("write for example {example}")),
            None => parser.error(
                self.place(),
                format!("{wanted} is missing at the end of the line"),
                format!("write for example {example}"),
            ),
        }
    }
    /// Takes the next word; an error unless it is `word`.
    pub(super) fn expect_word(&mut self, parser: &mut Parser<'_>, word: &str) -> Parsed<()> {
        if self.take_word(word) {
            return Ok(());
        }
        parser.error(self.place(), format!("expected `{word}`"), format!("write `{word}` here"))
    }
    /// Takes the next word as a quantity with its unit.
    pub(super) fn scalar<T: Scalar>(&mut self, parser: &mut Parser<'_>) -> Parsed<T> {
        let word = self.word(parser, &format!("a {}", T::WANTED), T::EXAMPLE)?;
        match T::from_text(word.text) {
            Ok(value) => Ok(value),
            Err(wrong) => parser.error(word.place, wrong.message, wrong.help),
        }
    }
    /// Takes the next word as an integer of at most `most`.
    pub(super) fn number(&mut self, parser: &mut Parser<'_>, most: u64) -> Parsed<u64> {
        let word = self.word(parser, "a whole number", "3")?;
        let number = match word.text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.text.parse().ok(),
        };
        match number {
            Some(number) if number <= most => Ok(number),
            Some(_) => parser.error(word.place, format!("{} is too large", word.text), format!("at most {most}")),
            None => {
                let message = format!("`{}` is not a whole number", word.text);
                parser.error(word.place, message, format!("write a number from 0 to {most}"))
            }
        }
    }
    /// Checks that the line has no more tokens.
    pub(super) fn end(&self, parser: &mut Parser<'_>) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(token) => parser.error(
                token.place,
                format!("`{}` does not belong here", token.text.trim()),
                "end the line before it; a line is one statement",
            ),
        }
    }
}
