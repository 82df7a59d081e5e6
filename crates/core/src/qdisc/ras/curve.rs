//! F, the minimum shaping rate.
//!
//! *See also*: `kernel/`, where it is translated to C.

use crate::params::ParamError;
use alloc::format;
use tidegate_units::wide::mul_div;
use tidegate_units::{Bytes, Rate};

/// F: the minimum shaping rate as a function of the buffer's occupancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Curve {
    /// For the single rate shaper: CIR below `cir_th`, then linear to MIR at `mir_th`, then MIR.
    Single {
        /// Committed information rate.
        cir: Rate,
        /// Maximum information rate.
        mir: Rate,
        /// Up to this occupancy F is CIR.
        cir_th: Bytes,
        /// From this occupancy on F is MIR.
        mir_th: Bytes,
    },
    /// For the two rate shaper: CIR below `cir_th`, linear to PIR at `pir_th`, linear to MIR at `mir_th`, then MIR.
    Two {
        /// Committed information rate.
        cir: Rate,
        /// Peak information rate.
        pir: Rate,
        /// Maximum information rate.
        mir: Rate,
        /// Up to this occupancy F is CIR.
        cir_th: Bytes,
        /// At this occupancy F is PIR.
        pir_th: Bytes,
        /// From this occupancy on F is MIR.
        mir_th: Bytes,
    },
}

impl Curve {
    /// F at `occupancy`, rounded down to a bit/s.
    pub fn rate(&self, occupancy: Bytes) -> Rate {
        match *self {
            Self::Single { cir, mir, cir_th, mir_th } => {
                if occupancy < cir_th {
                    cir
                } else {
                    between(occupancy, Corner { at: cir_th, rate: cir }, Corner { at: mir_th, rate: mir })
                }
            }
            Self::Two { cir, pir, mir, cir_th, pir_th, mir_th } => {
                if occupancy < cir_th {
                    cir
                } else if occupancy < pir_th {
                    between(occupancy, Corner { at: cir_th, rate: cir }, Corner { at: pir_th, rate: pir })
                } else {
                    between(occupancy, Corner { at: pir_th, rate: pir }, Corner { at: mir_th, rate: mir })
                }
            }
        }
    }
    /// The maximum information rate.
    pub const fn mir(&self) -> Rate {
        match *self {
            Self::Single { mir, .. } => mir,
            Self::Two { mir, .. } => mir,
        }
    }
    /// The committed information rate.
    pub const fn cir(&self) -> Rate {
        match *self {
            Self::Single { cir, .. } | Self::Two { cir, .. } => cir,
        }
    }
    /// Checks the order of the rates and of the thresholds.
    pub(super) fn validate(&self) -> Result<(), ParamError> {
        let rates: &[(&'static str, Rate)];
        let thresholds: &[(&'static str, Bytes)];
        let (two_rates, single_rates, two_thresholds, single_thresholds);
        match *self {
            Self::Single { cir, mir, cir_th, mir_th } => {
                single_rates = [("cir", cir), ("mir", mir)];
                single_thresholds = [("cir_th", cir_th), ("mir_th", mir_th)];
                (rates, thresholds) = (&single_rates, &single_thresholds);
            }
            Self::Two { cir, pir, mir, cir_th, pir_th, mir_th } => {
                two_rates = [("cir", cir), ("pir", pir), ("mir", mir)];
                two_thresholds = [("cir_th", cir_th), ("pir_th", pir_th), ("mir_th", mir_th)];
                (rates, thresholds) = (&two_rates, &two_thresholds);
            }
        }
        if self.cir().is_zero() {
            return Err(ParamError::new("cir", "must be more than 0, or the buffer would never empty"));
        }
        in_order(rates)?;
        in_order(thresholds)
    }
}

/// Checks that each value is at least the one before it; otherwise returns an error of the later field.
fn in_order<T: PartialOrd + core::fmt::Display>(fields: &[(&'static str, T)]) -> Result<(), ParamError> {
    for pair in fields.windows(2) {
        let ((below, low), (field, value)) = (&pair[0], &pair[1]);
        if value < low {
            return Err(ParamError::new(field, format!("must be at least {below}, but {value} < {low}")));
        }
    }
    Ok(())
}

/// A corner of the curve.
#[derive(Clone, Copy)]
struct Corner {
    at: Bytes,
    rate: Rate,
}

/// The line through two corners, at `x` not before the first; flat from the second on.
fn between(x: Bytes, first: Corner, second: Corner) -> Rate {
    if x >= second.at {
        return second.rate;
    }
    let rise = second.rate - first.rate;
    let run = second.at - first.at;
    first.rate + Rate::from_bps(mul_div(rise.as_bps(), (x - first.at).as_u64(), run.as_u64()))
}
