//! Measurements of a line with a peer of the user's choosing that serves HTTP/1.1: its rates, and its responsiveness under load.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`peer`] | how the peer is named, and an address of it |
//! | [`wire`] | connections, plain or by TLS |
//! | [`rate`] | the rates of the line |
//! | [`responsiveness`] | round trips a minute under load |
//! | [`load`] | load-generating connections to a `tidegate measure --serve` |
//! | [`serve`] | that peer |

use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_engine::guard::lock;

pub mod load;
pub mod peer;
pub mod rate;
pub mod responsiveness;
pub mod serve;
pub mod wire;

#[cfg(test)]
mod tests;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection waits before it looks whether the measurement has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a peer may send nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// Why a line was not measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The peer is not written as a URL or as host and port.
    #[error("`{0}` names no peer: write http://HOST[:PORT]/FILE, https://HOST[:PORT]/FILE, or HOST:PORT")]
    Peer(String),
    /// The authorities that a server with TLS is checked by cannot be read.
    #[error("the authorities for https cannot be read: {0}")]
    Authorities(String),
    /// The name of the peer has no address.
    #[error("the address of {host} is not known: {source}")]
    Name {
        /// The host that was named.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Packets to the peer do not leave by the interface.
    #[error("the way to {peer} leaves by {by} and not by {interface}: name a peer beyond {interface}")]
    Elsewhere {
        /// The address of the peer.
        peer: IpAddr,
        /// The interface that is to be measured.
        interface: String,
        /// The interface by which packets to the peer leave.
        by: String,
    },
    /// The peer did not do what was asked for.
    #[error("{0}")]
    Refused(String),
    /// The kernel did not answer.
    #[error(transparent)]
    Netlink(#[from] tidegate_live::netlink::Error),
}

/// State that the connections of a measurement share.
#[derive(Default)]
pub struct Shared {
    bytes: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    fn fail(&self, why: String) {
        lock(&self.error).get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
    }
    fn outcome(&self) -> Result<(), MeasureError> {
        lock(&self.error).take().map_or(Ok(()), |why| Err(MeasureError::Refused(why)))
    }
}

/// Bytes that a link on the way cannot compress, unlike zeros.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
