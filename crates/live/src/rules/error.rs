//! [`RulesError`].

use super::{Direction, verb};
use crate::netlink::Error;

/// Why rules could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Another instance shapes this interface.
    #[error(
        "another tidegate is shaping what {} by {interface}; stop it, or change it with `tidegate apply FILE`, or take over with `tidegate \
         run FILE --hand-over`",
        verb(*.direction)
    )]
    Busy {
        /// The name of the interface.
        interface: String,
        /// The direction that it shapes.
        direction: Direction,
    },
    /// The specification is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The kernel accepts no way to install the rules.
    #[error("this kernel takes no rule to a queue: {}", .0.join("; "))]
    Unsupported(Vec<String>),
    /// The kernel refused another request.
    #[error(transparent)]
    Netlink(#[from] Error),
}
