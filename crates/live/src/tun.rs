//! TUN devices: an interface whose other end is a file descriptor of ours.
//!
//! *Units*: one IP packet for each read and write, without a header in front.
//! *Notes*: the device goes away with its descriptor, also after `kill -9`; without root it needs a network namespace
//! of the process's own (see [`crate::netns`]) and a `/dev/net/tun` that every user may open, which is the default of
//! Debian and others.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

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
    tidegate_sys::net::create_tun(&file, name)?;
    Ok(file.into())
}
