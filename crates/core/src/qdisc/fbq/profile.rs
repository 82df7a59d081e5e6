//! The settings of a flow: its profile, which the configuration specifies, and the terms that are granted to it at run
//! time.

use tidegate_units::Rate;

use super::ceiling::Ceiling;
use super::shares::WEIGHT_ONE;

/// The threshold below which a flow is displaced to another class, and this class (paper, section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Displace {
    /// thres(f): the flow is displaced when its nominal rate is below.
    pub below: Rate,
    /// The index of the class that it is displaced to.
    pub to: u32,
}

/// The settings of a flow from the configuration or its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The weight relative to other flows; [`WEIGHT_ONE`] is 1.
    pub weight: u64,
    /// dmin(f); zero for none.
    pub minimum: Rate,
    /// Displacement, if any.
    pub displace: Option<Displace>,
    /// The ceiling of all flows with this profile in a class together, borrowed rate included.
    pub at_most: Option<Ceiling>,
}

impl Default for Profile {
    fn default() -> Self {
        Self { weight: WEIGHT_ONE, minimum: Rate::ZERO, displace: None, at_most: None }
    }
}

/// Settings that were granted to a single flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// dmin(f); the larger of this and the profile's applies. Zero for none.
    pub minimum: Rate,
    /// Steps of preference.
    pub steps: u32,
    /// Replaces the displacement of the profile. It never takes effect if its threshold is not above the minimum, and
    /// is ignored if its class does not exist.
    pub displace: Option<Displace>,
}

impl Terms {
    /// Combines the profile of the rule with these terms.
    pub(super) fn over(self, profile: Profile, classes: u32) -> Profile {
        Profile {
            minimum: profile.minimum.max(self.minimum),
            displace: self.displace.filter(|displace| displace.to < classes).or(profile.displace),
            ..profile
        }
    }
}
