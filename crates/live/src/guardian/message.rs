//! The messages between a shaper, its guardian and its successor. They have at most [`LONGEST`] bytes and carry descriptors, over a
//! socket that keeps their boundaries.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The shaper: watch from now on; where it carries the connection of an earlier guardian, once that one has ended.
pub(super) const GO: u8 = b'G';
/// The shaper: the turn has changed.
pub(super) const TURN: u8 = b'P';
/// The shaper: another guardian replaces you; end without touching a packet.
pub(super) const REPLACED: u8 = b'X';
/// The guardian: it is prepared.
pub(super) const READY: u8 = b'R';
/// The guardian: a successor waits until the shaper ends.
pub(super) const SUCCESSOR: u8 = b'H';
/// A successor: it takes over what has been left, and nothing of a shaper that runs.
pub(super) const TAKE_LEFT: u8 = b'L';
/// A successor: it takes over, also from a shaper that runs.
pub(super) const TAKE: u8 = b'T';
/// Another data path of this network namespace: it adds or removes a chain of the packet filter, so let packets pass until this
/// connection ends. It is answered with [`READY`] once what waits has been accepted.
pub(super) const ASIDE: u8 = b'A';

/// The longest message.
pub(super) const LONGEST: usize = 8_192;
/// The descriptors of [`Held`]: queue, rules, page, state.
pub(super) const HELD: usize = 4;
/// The most descriptors of a message: those of [`Held`] and a listening socket.
const DESCRIPTORS: usize = HELD + 1;
/// The longest path of a socket, with the byte that ends it.
pub(super) const PATH: usize = 108;

/// The numbers that a guardian keeps, beside its descriptors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    /// Both queues.
    pub queues: [u16; 2],
    /// How long it waits for a successor of a shaper that ended without announcing it.
    pub linger_millis: u32,
    /// How flows are divided over threads, of which each has a guardian; 0 where there is one thread. A successor that divides
    /// them in another way has no use for what is held.
    pub division: u8,
    /// The path of the listening socket, which is removed at the end.
    path: [u8; PATH],
}

impl Kept {
    /// Fails when the path is too long.
    pub fn new(queues: [u16; 2], division: u8, linger_millis: u32, path: &[u8]) -> Option<Self> {
        let mut kept = Self { queues, linger_millis, division, path: [0; PATH] };
        kept.path[..PATH - 1].get_mut(..path.len())?.copy_from_slice(path);
        Some(kept)
    }
    /// The path; empty if there is no listening socket.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or_default()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LONGEST);
        self.queues.iter().for_each(|queue| bytes.extend(queue.to_ne_bytes()));
        bytes.extend(self.linger_millis.to_ne_bytes());
        bytes.extend(self.path);
        bytes.push(self.division);
        bytes
    }
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (queues, rest) = bytes.split_at_checked(4)?;
        let (linger, rest) = rest.split_first_chunk()?;
        let path = rest.first_chunk::<PATH>()?;
        let end = path.iter().position(|&byte| byte == 0)?;
        let queue = |at: usize| u16::from_ne_bytes([queues[at], queues[at + 1]]);
        // Earlier versions had one thread, and send no more.
        let division = rest.get(PATH).copied().unwrap_or(0);
        Self::new([queue(0), queue(2)], division, u32::from_ne_bytes(*linger), &path[..end])
    }
}

/// A pair of connected sockets that keep the boundaries of messages.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Room for the descriptors of a message.
const ROOM: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS));

/// Sends a message with descriptors. Never waits.
pub(super) fn send(to: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)), "at most the room for them");
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Receives a message into `buffer`; returns its length, 0 at the end of the connection, and puts its descriptors into
/// `descriptors`. Waits as long as the socket does.
pub(super) fn receive(
    from: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut [Option<OwnedFd>],
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let length = recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let received = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    // Those that have no place are closed.
    descriptors.iter_mut().zip(received.flatten()).for_each(|(place, descriptor)| *place = Some(descriptor));
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (a, b) = pair().unwrap();
        let kept = Kept::new([7_400, 7_401], 2, 10_000, b"/run/x").unwrap();
        assert_eq!(Kept::decode(&kept.encode()), Some(kept.clone()));
        send(a.as_fd(), &kept.encode(), &[a.as_fd(), b.as_fd()]).unwrap();
        send(a.as_fd(), &[GO], &[]).unwrap();
        drop(a);
        let (mut buffer, mut found) = ([0; LONGEST], [None, None, None, None, None]);
        let length = receive(b.as_fd(), &mut buffer, &mut found).unwrap();
        assert_eq!(Kept::decode(&buffer[..length]), Some(kept));
        assert_eq!(found.iter().flatten().count(), 2);
        assert_eq!(receive(b.as_fd(), &mut buffer, &mut []).unwrap(), 1);
        drop(found);
        assert_eq!(receive(b.as_fd(), &mut buffer, &mut []).unwrap(), 0, "the end");
    }

    #[test]
    fn what_is_too_long_or_too_short_is_refused() {
        assert_eq!(Kept::new([0; 2], 0, 0, &[b'x'; PATH]), None);
        assert_eq!(Kept::decode(&[0; 20]), None);
        assert_eq!(Kept::decode(&[1; 150]), None);
    }
}
