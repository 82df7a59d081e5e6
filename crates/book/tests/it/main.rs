//! Tests of the pages and of the code in the book.

mod browser;
mod code;
