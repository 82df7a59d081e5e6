//! How tables and numbers look, on a terminal and on a page: what the command, the web page of the daemon and the reports of
//! the laboratory have in common.
//!
//! ```
//! use tidegate_display::{Table, human};
//!
//! let mut table = Table::new("", ["class", ">rate"]).shorten("class", 8);
//! table.row(["calls".into(), human(1_500_000.0, "bit/s").into()]);
//! assert_eq!(table.text(None), "class        rate\ncalls  1.5 Mbit/s\n");
//! ```

pub mod assets;
mod escape;
mod number;
mod table;
mod text;

pub use escape::escape;
pub use number::{
    Alike, NOT_REACHED, bytes, count, digits, exact_rate, human, human_columns, human_in, human_interval, human_known,
    known, part, rate, unit_of, unit_of_all, wait, with_unit,
};
pub use table::{Align, Cell, Column, Mood, Table};
pub use text::{middle, wrapped};
