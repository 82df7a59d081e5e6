//! Tests of the script language.

mod any_text;
mod kinds;
mod language;
