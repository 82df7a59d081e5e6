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
    /// The user who logged in, where that is another one than the user of the process, as with `sudo`: the process must still be
    /// running. `None` for a service.
    pub fn login(self) -> Option<u32> {
        let text = std::fs::read_to_string(format!("/proc/{}/loginuid", self.pid)).ok()?;
        login(&text).filter(|login| *login != self.uid)
    }
    /// Whether this is root, or the user that runs the daemon.
    pub fn is_operator(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The user in a file `loginuid`; the largest number stands for none.
fn login(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|login| *login != u32::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_nobody_logged_in_for_has_no_login() {
        assert_eq!(login("4294967295"), None);
        assert_eq!(login("1000\n"), Some(1000));
    }
}
