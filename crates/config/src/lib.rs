//! The one configuration language of Tidegate: live, simulation and replay read the same TOML with the same units,
//! and every error names the file, the line, the column, the text, and the remedy.
//!
//! Three layers, each usable alone:
//!
//! 1. [`Source`], [`Diagnostics`]: a text, and what is wrong with it, rendered as text.
//! 2. [`Decode`] and the macros [`record!`], [`choices!`] and [`choice!`]: a section of a file is declared once, as a
//!    Rust struct with documentation and defaults; reading it, all errors of a file in one go, "did you mean" and
//!    the JSON Schema follow from the declaration.
//! 3. [`shaper`]: the shaper file of `tidegate run`; [`discipline`]: a node of any discipline, for programs that build
//!    trees.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source, record, read};
//! use tidegate_core::{Rate, Span};
//!
//! record! {
//!     /// A link of a topology.
//!     pub struct Link as "link" {
//!         /// The capacity of the link.
//!         pub rate: Rate,
//!         /// One way. Default 1 ms, a metropolitan link.
//!         pub delay: Span = "1ms",
//!     }
//! }
//!
//! let mut diagnostics = Diagnostics::new();
//! let source = Source::new("link.toml", "rate = \"10mbit\"");
//! let link: Link = read(&source, &mut diagnostics).unwrap();
//! assert_eq!(link.delay, Span::from_millis(1));
//!
//! let source = Source::new("link.toml", "rate = 10\ndealy = \"5ms\"");
//! assert!(read::<Link>(&source, &mut diagnostics).is_none());
//! let text = diagnostics.render(&source);
//! assert!(text.contains("link.toml:1:8") && text.contains("no unit"), "{text}");
//! assert!(text.contains("link.toml:2:1") && text.contains("did you mean `delay`?"), "{text}");
//! ```
#![deny(missing_docs)]

mod classes;
pub mod decode;
pub mod diagnostic;
pub mod discipline;
pub mod edit;
pub mod import;
pub mod node;
pub mod preset;
mod printable;
pub mod schema;
pub mod shaper;
pub mod suggest;
pub mod values;

pub use decode::{Decode, Many, Record, Scalar, Spanned, read};
pub use diagnostic::{Diagnostic, Diagnostics, Place, Severity, Source};
pub use schema::Schemas;

#[doc(hidden)]
pub use serde_json;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
