//! The inner process. It creates a namespace, a device, addresses and routes, and then executes the program.
//!
//! The program sees the host's files, processes and user ids. Its network has one device with an address that is used
//! for nothing else (RFC 7600's dummy address in IPv4), through which all traffic leaves.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use tidegate_live::rtnl::{Address, Route, Rtnl, sysctl};
use tidegate_live::{netns, tun};
use tidegate_sys::process::take_stdin;

/// The name of the device inside.
pub const DEVICE: &str = "tidegate0";
/// The program's IPv4 address: 192.0.0.8, which RFC 7600 reserves for hosts without an IPv4 address.
pub const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The program's IPv6 address, from the documentation prefix. Programs prefer IPv6 with it as they do with any global
/// address, and no other host has it.
pub const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x7469, 0x6465, 0, 0, 0, 1);

/// Selects the services that the program reaches at 127.0.0.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loopback {
    /// The host's services. The program reaches them on all of 127.0.0.0/8, and this traffic is shaped; a name server
    /// of the host works on any of these addresses. The program cannot reach services of its own there. The IPv6
    /// address ::1 always belongs to the program.
    #[default]
    Host,
    /// The program's own services. It reaches none of the host's on loopback except name servers at addresses other
    /// than 127.0.0.1, such as 127.0.0.53.
    Own,
}

/// Replaces this process, which must be single-threaded, by the program `command` in a namespace of its own. Returns an
/// exit code only on failure. On entry standard input is a socket to the parent: the parent sends the program's
/// standard input through it, and reports the errors that this function writes to it.
pub fn run(loopback: Loopback, command: &[OsString]) -> u8 {
    let Ok(mut socket) = take_stdin().map(UnixStream::from) else { return 125 };
    if !receive(&socket).is_ok_and(|input| rustix::stdio::dup2_stdin(input).is_ok()) {
        return 125;
    }
    match prepare(loopback) {
        Ok(tun) => {
            if send(&socket, tun.as_fd()).is_err() {
                return 125;
            }
        }
        Err(text) => {
            // A message without a descriptor is the reason of the failure. If the parent has exited, nobody reads it.
            let _ = socket.write_all(text.as_bytes());
            return 125;
        }
    }
    let mut go = [0];
    if socket.read_exact(&mut go).is_err() {
        return 125;
    }
    let Some((program, arguments)) = command.split_first() else { return 125 };
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let _ = write!(socket, "{code} cannot run `{}`: {error}", program.display());
    code
}

/// Notifies the child that the relay is ready.
pub(crate) fn signal_ready(mut socket: &UnixStream) -> io::Result<()> {
    socket.write_all(&[1])
}

fn prepare(loopback: Loopback) -> Result<OwnedFd, String> {
    // These describe the host, so they are read before this process leaves the host's namespace.
    let v6 = has_v6();
    let servers = name_servers();
    netns::isolate().map_err(|error| error.to_string())?;
    let device = tun::create(DEVICE).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "; load it with `modprobe tun` as root (in a container: give it /dev/net/tun)",
            io::ErrorKind::PermissionDenied => "; make /dev/net/tun readable and writable for everybody (mode 0666)",
            _ => "",
        };
        format!("cannot make a TUN device: {error}{advice}")
    })?;
    configure(loopback, v6, &servers).map_err(|error| format!("cannot set up the network inside: {error}"))?;
    Ok(device)
}

fn configure(loopback: Loopback, v6: bool, servers: &[IpAddr]) -> Result<(), Box<dyn std::error::Error>> {
    let mut rtnl = Rtnl::open()?;
    let (lo, device) = (rtnl.index("lo")?, rtnl.index(DEVICE)?);
    // With the maximum MTU no datagram is fragmented here. TCP uses the segment size that the relay announces.
    rtnl.set_mtu(device, tun::MAX_MTU)?;
    rtnl.up(lo)?;
    rtnl.up(device)?;
    // Packets to 127.0.0.0/8 leave through the device, and the replies arrive through it.
    for (setting, value) in [("route_localnet", "1"), ("accept_local", "1"), ("rp_filter", "0")] {
        sysctl::write(&format!("ipv4/conf/{DEVICE}/{setting}"), value)?;
    }
    // Every user inside may ping; whether the relay may is up to the host. A user namespace has only one group.
    let own = rustix::process::getegid().as_raw();
    let _ = sysctl::write("ipv4/ping_group_range", "0 2147483647")
        .or_else(|_| sysctl::write("ipv4/ping_group_range", &format!("{own} {own}")));
    rtnl.add_address(Address { index: device, address: V4.into(), prefix: 32 })?;
    let everywhere = |any: IpAddr| Route { to: Some((any, 0)), via: None, index: Some(device) };
    rtnl.add_route(everywhere(Ipv4Addr::UNSPECIFIED.into()))?;
    if v6 {
        rtnl.add_address(Address { index: device, address: V6.into(), prefix: 128 })?;
        rtnl.add_route(everywhere(Ipv6Addr::UNSPECIFIED.into()))?;
    }
    match loopback {
        Loopback::Host => {
            let own = Address { index: lo, address: Ipv4Addr::LOCALHOST.into(), prefix: 8 };
            rtnl.delete_address(own)?;
            // Programs that bind to the host's addresses must not fail.
            sysctl::write("ipv4/ip_nonlocal_bind", "1")?;
        }
        Loopback::Own => {
            let elsewhere = |server: &&IpAddr| matches!(server, IpAddr::V4(v4) if *v4 != Ipv4Addr::LOCALHOST);
            for server in servers.iter().filter(|server| server.is_loopback()).filter(elsewhere) {
                rtnl.divert(*server, device)?;
            }
        }
    }
    Ok(())
}

/// Whether the host has an IPv6 address other than loopback and link-local.
fn has_v6() -> bool {
    const LINK_LOCAL: u16 = 0xfe80;
    let Ok(mut rtnl) = Rtnl::open() else { return false };
    let Ok(addresses) = rtnl.addresses() else { return false };
    addresses.iter().any(|a| match a.address {
        IpAddr::V6(v6) => !v6.is_loopback() && v6.segments()[0] & 0xffc0 != LINK_LOCAL,
        IpAddr::V4(_) => false,
    })
}

fn name_servers() -> Vec<IpAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse().ok())
        .collect()
}

/// Sends a file descriptor.
pub(crate) fn send(socket: &UnixStream, descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a file descriptor from the other side, or the reason why it sent none.
pub(crate) fn receive(socket: &UnixStream) -> Result<OwnedFd, String> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 1024];
    let message =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| format!("cannot receive from inside the namespace: {error}"))?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| match message.bytes {
        0 => "the process inside the namespace ended without a word".into(),
        n => String::from_utf8_lossy(&bytes[..n]).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_has_name_servers_or_none() {
        // The file may have any content; only lines with addresses count.
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        assert_eq!(super::name_servers().is_empty(), !text.lines().any(|line| line.starts_with("nameserver ")));
    }
}
