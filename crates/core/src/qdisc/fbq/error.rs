//! [`ParamError`]: why parameters contradict each other.

use core::fmt;

use tidegate_units::Rate;

/// Why parameters are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParamError {
    /// There is no class.
    NoClass,
    /// The classes add up to more than the total.
    SumExceedsTotal {
        /// The sum of the classes.
        sum: Rate,
        /// The rate of the shaper, [`FbcParams::rate`](super::FbcParams::rate).
        total: Rate,
    },
    /// A class has a burst of zero, so that nothing could leave.
    ZeroBurst {
        /// The number of the class.
        class: u32,
    },
    /// A class with [`Spare::Idle`](super::Spare::Idle) shares by flows only.
    StrictHosts {
        /// The number of the class.
        class: u32,
    },
    /// A class guarantees more than its ceiling.
    CeilingBelowRate {
        /// The number of the class.
        class: u32,
    },
    /// A class has a ceiling of hosts, but flows share it.
    NoHosts {
        /// The number of the class.
        class: u32,
    },
    /// A class with [`Spare::Idle`](super::Spare::Idle) has ceilings of flows, which its shares bound already.
    StrictCeiling {
        /// The number of the class.
        class: u32,
    },
    /// A class that borrows with [`Spare::Idle`](super::Spare::Idle) has a ceiling. Such a class counts its time by the rate
    /// that it has, and a ceiling is a rate in real time.
    StrictBorrowerCeiling {
        /// The number of the class.
        class: u32,
    },
    /// [`FbcParams::fair_by`](super::FbcParams::fair_by) cannot be changed.
    FairBy,
    /// The number of classes of a shaper cannot be changed.
    NumberOfClasses {
        /// The number of classes now.
        now: usize,
        /// The number of classes requested.
        asked: usize,
    },
    /// A profile displaces to a class that does not exist.
    NoSuchTarget {
        /// The number of the profile.
        profile: u32,
    },
    /// A profile's displacement threshold is not above its minimum.
    ThresholdBelowMinimum {
        /// The number of the profile.
        profile: u32,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass => write!(f, "there is no class"),
            Self::SumExceedsTotal { sum, total } => {
                write!(f, "the classes add up to {sum}, more than the total of {total}")
            }
            Self::ZeroBurst { class } => write!(f, "class {class} has a burst of zero"),
            Self::StrictHosts { class } => {
                write!(f, "class {class} limits flows to their share, so hosts cannot share it")
            }
            Self::CeilingBelowRate { class } => write!(f, "class {class} guarantees more than its ceiling"),
            Self::NoHosts { class } => write!(f, "class {class} has a ceiling of hosts, but flows share it"),
            Self::StrictCeiling { class } => {
                write!(f, "class {class} limits flows to their share, so they cannot have ceilings")
            }
            Self::StrictBorrowerCeiling { class } => {
                write!(f, "class {class} borrows and limits flows to their share, so it cannot have a ceiling")
            }
            Self::FairBy => write!(f, "what shares a class equally cannot be changed"),
            Self::NumberOfClasses { now, asked } => write!(f, "there are {now} classes, and {asked} were specified"),
            Self::NoSuchTarget { profile } => write!(f, "profile {profile} displaces to a class that does not exist"),
            Self::ThresholdBelowMinimum { profile } => {
                write!(f, "profile {profile} displaces at a threshold that is not above its minimum")
            }
        }
    }
}

impl core::error::Error for ParamError {}
