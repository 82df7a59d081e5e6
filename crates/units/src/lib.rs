//! The quantities of Tidegate and their exact arithmetic.
//!
//! *Law*: nothing here rounds without saying so. [`Rate`]` x `[`Span`] is a [`Credit`] in bit·ns/s, which an
//! integer holds exactly; a rounding that cannot be avoided (a credit back into bytes, a credit into a time to
//! wait) is in the name of the method and goes against the sender.
//!
//! None of the types converts from a bare integer by `From`: the unit is in the name of the constructor.
//! Text needs a unit too, see [`text`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod quantity;
pub mod text;

pub use quantity::{Bytes, Credit, Instant, Rate, Span};
pub use text::{UnitError, UnitProblem};
