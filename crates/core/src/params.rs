//! [`ParamError`]: what is wrong with the parameters of a discipline, and in which field.

use alloc::string::String;
use core::fmt;

/// A parameter that cannot work. Every discipline's `Params::validate` gives the first it finds.
///
/// The field's name is the one of the struct and of the configuration language, so that a configuration file's
/// error can point at the line; the problem says in words what was wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The field, as it is called in the struct.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl ParamError {
    /// `field` has `problem`.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for ParamError {}
