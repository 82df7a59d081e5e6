//! The sending side of a sender: destinations, and the algorithm that sets the times.

use tidegate_pace::sender::Destination;
use tidegate_pace::{Algorithm, At1, BurstCap, Cap, Capped, Dt2, Kind, Pacer, ParamError, Params};
use tidegate_units::{Instant, Rate};

use super::Args;

/// A destination and its state.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) destination: Destination,
    pub(super) failed: Option<String>,
    pub(super) reader_left: bool,
    pub(super) datagrams: u64,
}

impl Outlet {
    pub(super) fn new(destination: Destination) -> Self {
        Self { destination, failed: None, reader_left: false, datagrams: 0 }
    }
    pub(super) fn is_alive(&self) -> bool {
        self.failed.is_none() && !self.reader_left
    }
    /// The exact amount that it received, as text.
    pub(super) fn account(&self) -> String {
        let accepted = self.destination.accepted().as_u64();
        // Data in a pipe is lost only if its reader has closed it.
        let certain = self.destination.outlives_us() && !self.reader_left;
        let delivered = if certain { accepted } else { self.destination.delivered().as_u64() };
        if self.destination.is_datagram() {
            return format!("{accepted} B in {} datagrams handed to the network", self.datagrams);
        }
        let mut text = format!("{delivered} B delivered");
        if accepted > delivered {
            text += &format!(", {} B more were accepted by the kernel and did not arrive", accepted - delivered);
        }
        text
    }
}

/// The algorithm, with the additional interface of the pacer.
#[derive(Debug)]
pub(super) enum Engine {
    Pacer(Box<Pacer>),
    Paper(Box<dyn Algorithm + Send>),
    Capped(Capped<Box<dyn Algorithm + Send>>),
}

impl Engine {
    pub(super) fn new(args: &Args, params: &Params, now: Instant) -> Result<Self, ParamError> {
        if args.algorithm == Kind::Pacer {
            return Pacer::new(*params, now).map(|pacer| Self::Pacer(Box::new(pacer)));
        }
        let inner: Box<dyn Algorithm + Send> = match (args.algorithm, args.gap_time) {
            (Kind::At1, Some(threshold)) => Box::new(At1::new(params.rate, threshold, now)?),
            (Kind::Dt2, threshold) if args.live => {
                Box::new(Dt2::live(params.rate, threshold.unwrap_or(At1::THRESHOLD), now)?)
            }
            (kind, _) => kind.build(params.rate, now)?,
        };
        Ok(match params.cap() {
            Some((rate, allowance)) => Self::Capped(Capped::new(inner, BurstCap::new(rate, allowance, now)?)),
            None => Self::Paper(inner),
        })
    }
    pub(super) fn algorithm(&mut self) -> &mut dyn Algorithm {
        match self {
            Self::Pacer(pacer) => &mut **pacer,
            Self::Paper(algorithm) => algorithm,
            Self::Capped(capped) => capped,
        }
    }
    /// Sets the rate. An explicit burst rate is raised with it: below the rate, the rate would never be reached.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate, burst: Option<Rate>) -> Result<Instant, ParamError> {
        let burst = rate.max(burst.unwrap_or(rate));
        match self {
            Self::Pacer(pacer) => {
                let mut params = Params { rate, ..*pacer.params() };
                if let Cap::Fixed { rate, .. } = &mut params.cap {
                    *rate = burst;
                }
                pacer.set_params(now, params)?;
                Ok(pacer.due())
            }
            Self::Paper(algorithm) => algorithm.set_rate(now, rate),
            Self::Capped(capped) => {
                capped.set_cap(now, burst, capped.cap().allowance())?;
                capped.set_rate(now, rate)
            }
        }
    }
}
