//! Links that appear, change and vanish, and whether addresses or routes have changed.

use std::os::fd::{AsFd, BorrowedFd};

use super::{DELLINK, Link, NEWLINK};
use crate::netlink::{Messages, Protocol, Result, Socket};

/// A change of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// It appeared or changed; this is its new state.
    Changed(Link),
    /// It is gone.
    Gone {
        /// The index of the link.
        index: u32,
        /// The name of the link.
        name: String,
        /// Whether it has gone to another network namespace, where it goes on to work.
        is_elsewhere: bool,
    },
    /// Notifications were lost: list the links again.
    Missed,
}

/// A subscription to the links of a network namespace. Poll its descriptor for reading, then call
/// [`event`](Self::event) until it returns `None`.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
    waiting: std::collections::VecDeque<LinkEvent>,
}

impl LinkMonitor {
    /// Subscribes in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let socket = Socket::with_groups(Protocol::Route, libc::RTMGRP_LINK as u32)?;
        Ok(Self { socket, waiting: std::collections::VecDeque::new() })
    }

    /// The next event, if there is one. Never blocks.
    pub fn event(&mut self) -> Result<Option<LinkEvent>> {
        if let Some(event) = self.waiting.pop_front() {
            return Ok(Some(event));
        }
        loop {
            let bytes = match self.socket.try_receive("watch the links") {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(None),
                Err(error) if error.errno() == Some(libc::ENOBUFS) => return Ok(Some(LinkEvent::Missed)),
                Err(error) => return Err(error),
            };
            for message in Messages::new(bytes) {
                let Some(link) = Link::parse(message.body) else { continue };
                match message.kind {
                    NEWLINK => self.waiting.push_back(LinkEvent::Changed(link)),
                    // A bridge port that leaves its bridge is reported with the family of bridges; the link remains.
                    DELLINK if message.body.first() == Some(&(libc::AF_UNSPEC as u8)) => {
                        self.waiting.push_back(LinkEvent::Gone {
                            index: link.index,
                            name: link.name,
                            is_elsewhere: link.is_leaving,
                        });
                    }
                    _ => {}
                }
            }
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
        }
    }
}

/// A subscription to everything that may change what an interface can send: links, addresses, routes.
#[derive(Debug)]
pub struct ChangeMonitor(Socket);

impl ChangeMonitor {
    /// Subscribes in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE;
        Ok(Self(Socket::with_groups(Protocol::Route, groups as u32)?))
    }

    /// Whether anything has changed since the last call. Never blocks.
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        loop {
            match self.0.try_receive("watch addresses and routes") {
                Ok(Some(_)) => changed = true,
                Ok(None) => return changed,
                // The socket's buffer has overflowed.
                Err(error) if error.errno() == Some(libc::ENOBUFS) => changed = true,
                Err(_) => return changed,
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
