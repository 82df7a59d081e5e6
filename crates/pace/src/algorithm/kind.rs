//! [`Kind`]: the algorithms by name.

use core::fmt;
use core::str::FromStr;

use tidegate_units::{Instant, Rate};

use super::absolute::{At0, At1};
use super::differential::{Dt0, Dt1, Dt2};
use super::{Algorithm, ParamError};
use crate::pacer::{Cap, Pacer, Params};

/// The names of the algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Kind {
    /// [`Pacer`].
    #[default]
    Pacer,
    /// [`Dt0`].
    Dt0,
    /// [`Dt1`].
    Dt1,
    /// [`Dt2`].
    Dt2,
    /// [`At0`].
    At0,
    /// [`At1`].
    At1,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Pacer, Self::Dt0, Self::Dt1, Self::Dt2, Self::At0, Self::At1];

    /// The name, as [`FromStr`] reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pacer => "pacer",
            Self::Dt0 => "dt0",
            Self::Dt1 => "dt1",
            Self::Dt2 => "dt2",
            Self::At0 => "at0",
            Self::At1 => "at1",
        }
    }
    /// Builds one of this kind with its defaults, without a burst cap, starting at `start`.
    ///
    /// # Errors
    /// When `rate` is zero.
    pub fn build(self, rate: Rate, start: Instant) -> Result<Box<dyn Algorithm + Send>, ParamError> {
        Ok(match self {
            Self::Pacer => Box::new(Pacer::new(Params { cap: Cap::Off, ..Params::new(rate) }, start)?),
            Self::Dt0 => Box::new(Dt0::new(rate, start)?),
            Self::Dt1 => Box::new(Dt1::new(rate, start)?),
            Self::Dt2 => Box::new(Dt2::new(rate, start)?),
            Self::At0 => Box::new(At0::new(rate, start)?),
            Self::At1 => Box::new(At1::new(rate, At1::THRESHOLD, start)?),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = ParamError;
    fn from_str(text: &str) -> Result<Self, ParamError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or(ParamError { field: "algorithm", problem: "must be one of pacer, dt0, dt1, dt2, at0, at1" })
    }
}
