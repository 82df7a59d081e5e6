//! [`ParamError`]: an invalid parameter of a discipline.

use alloc::string::String;
use core::fmt;

/// An invalid parameter. `Params::validate` of a discipline returns the first that it finds.
///
/// The name of the field is that of the struct and of the configuration language, so that an error in a file can be
/// reported with its line. The problem states the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The name of the field in the struct.
    pub field: &'static str,
    /// The fault and the valid values, for example "must be above 0".
    pub problem: String,
}

impl ParamError {
    /// An error in `field`.
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
