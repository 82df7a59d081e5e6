//! TUN devices: an interface whose other end is a file descriptor of ours.
//!
//! *Units*: one IP packet for each read and write, without a header in front.
//! *Notes*: the device goes away with its descriptor, also after `kill -9`; without root it needs a network namespace
//! of the process's own (see [`crate::netns`]) and a `/dev/net/tun` that every user may open, which is the default of
//! Debian and others.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

/// The largest MTU a TUN device takes.
pub const MAX_MTU: u32 = 65_535;

/// Makes a TUN device called `name` in the network namespace of the calling thread; reads and writes of the descriptor
/// do not block.
///
/// # Errors
/// `ENOENT` without the `tun` module or its device file, `EPERM` without `CAP_NET_ADMIN` in the namespace, `EBUSY`
/// when there is one of that name.
pub fn create(name: &str) -> io::Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: all zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of an interface has 1 to 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which is live for the call; the descriptor is.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// Takes ownership of a connected Unix socket that the parent process left open under this descriptor number.
///
/// # Errors
/// `EBADF` or `ENOTSOCK` when there is no such socket, or its ownership was taken already.
pub fn inherited_socket(number: RawFd) -> io::Result<UnixStream> {
    static TAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    if number <= libc::STDERR_FILENO || TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let (mut domain, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `domain` and `length` are live for the call and of the given sizes.
    let asked =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &mut length) };
    if asked < 0 {
        return Err(io::Error::last_os_error());
    }
    if domain != libc::AF_UNIX {
        return Err(io::Error::from_raw_os_error(libc::ENOTSOCK));
    }
    // SAFETY: it is an open socket, which the parent opened for this process and which is taken once only; no other
    // code in this process knows its number.
    let socket = unsafe { UnixStream::from_raw_fd(number) };
    // SAFETY: the descriptor is live; no pointers.
    if unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
