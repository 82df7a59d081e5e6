//! [`Caller`]: the origin of a request.

use tidegate_control::calls::Authority;

/// The process at the other end of a connection, by the credentials of the socket (`SO_PEERCRED`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The uid of the process.
    pub uid: u32,
    /// Its process number when it connected.
    pub pid: i32,
}

impl Peer {
    /// Whether this is root, or the user that runs the daemon.
    pub fn is_operator(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The origin of a request.
#[derive(Debug)]
pub struct Caller {
    /// The connection. What was requested over it ends with it.
    pub client: u64,
    /// The process at its other end.
    pub peer: Peer,
}

impl Authority for Caller {
    fn uid(&self) -> u32 {
        self.peer.uid
    }
    fn is_operator(&self) -> bool {
        self.peer.is_operator()
    }
}
