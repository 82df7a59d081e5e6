//! QUIC in scenarios of the simulator: both ends of a connection are quinn-proto, in virtual time.
//!
//! *Source*: quinn-proto 0.11; RFC 9000, 9002. The contents of packets are those that quinn writes, so that a shaper meets the
//! sizes, the order and the pacing of an application's transport before the application ships.
//! *Units*: sizes are those of IPv4 packets: a datagram and 28 bytes.
//! *Example*: [`register`], then `transport = "quic"` in a flow of a scenario, or
//! `transport = { kind = "quic", congestion = "prague" }`.
//! *Cost*: ten to twenty times the processor time of a segment of TCP, because frames are written and read. A packet in flight
//! takes some fifty bytes of memory: zeros at its end are not kept.
//! *Notes*: a connection has one bidirectional stream, like a connection of TCP. A queue on the path sees datagrams, no
//! acknowledgements and no flags. There are no keys, but authentication tags have their place in packets.
//! The order of all events follows from the seed. quinn's CUBIC calls `cbrt` of the platform's mathematical library: its last
//! digit, and with it a digest, may differ between platforms. With the controls of the simulator, digests do not.
//! *Departures from the source*: the largest datagram is that of the scenario, and its discovery is off: lines carry packets of
//! any size. A connection does not end because nobody speaks. Both ends forget a connection when all data was acknowledged,
//! without CONNECTION_CLOSE. There are no tokens, no retry, no migration, no stateless reset. quinn's BBR is missing: it draws
//! its phases from the entropy of the machine, and no run could be repeated.
//! *See also*: [`tidegate_sim::tcp`], whose congestion controls serve here, too.

mod control;
mod end;
mod frames;
mod session;
mod settings;
mod wire;

use std::sync::OnceLock;
use std::time::Duration;

use tidegate_core::Instant;
use tidegate_sim::scenario::transport;

pub use settings::{Control, Quic};

/// The instant of the machine that stands for the start of each run. quinn computes with differences alone.
static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();

/// Makes `transport = "quic"` available in all scenarios that this process reads from now on. quinn's type of an instant can
/// only be had from the clock of the machine: `epoch` is any, and results do not depend on it.
pub fn register(epoch: std::time::Instant) {
    EPOCH.get_or_init(|| epoch);
    transport::register::<Quic>();
}

/// The two clocks of a connection.
#[derive(Clone, Copy)]
struct Clock(std::time::Instant);

impl Clock {
    /// # Panics
    /// Before [`register`], without which no file can name the transport.
    fn new() -> Self {
        Self(*EPOCH.get().expect("register has been called"))
    }
    fn there(self, now: Instant) -> std::time::Instant {
        self.0 + Duration::from_nanos(now.as_nanos())
    }
    fn back(self, then: std::time::Instant) -> Instant {
        Instant::from_nanos(then.saturating_duration_since(self.0).as_nanos() as u64)
    }
}
