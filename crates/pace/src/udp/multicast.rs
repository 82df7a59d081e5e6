//! [`Multicast`]: how datagrams to a group leave.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use rustix::net::{netdevice, sockopt};

/// How datagrams to a multicast group leave. Other datagrams are not affected.
///
/// ```
/// use tidegate_pace::udp::{Multicast, Settings, UdpSocket};
/// use tidegate_pace::Rate;
///
/// let multicast = Multicast { ttl: Some(4), ..Multicast::by("lo")? };
/// let settings = Settings { multicast, ..Settings::new(Rate::from_mbit(4)) };
/// let socket = UdpSocket::bind("127.0.0.1:0", settings)?;
/// assert_eq!(socket.get_ref().multicast_ttl_v4()?, 4);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Multicast {
    /// The time to live (IPv4) or hop limit (IPv6). Default: that of the system, 1, which no router forwards.
    pub ttl: Option<u8>,
    /// The index of the network interface that they leave by. Default: that of the route.
    pub interface: Option<u32>,
    /// Whether sockets of this machine that joined the group receive them too. Default: that of the system, yes.
    pub loopback: Option<bool>,
}

impl Multicast {
    /// The defaults of the system.
    pub const SYSTEM: Self = Self { ttl: None, interface: None, loopback: None };

    /// Datagrams leave by the network interface of this name.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn by(interface: &str) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let index = netdevice::name_to_index(&socket, interface)
            .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("{interface}: {error}")))?;
        Ok(Self { interface: Some(index), ..Self::SYSTEM })
    }
    /// Sets the options of a socket, before it is connected: the route to a group depends on the interface.
    pub(crate) fn apply(&self, socket: &UdpSocket) -> io::Result<()> {
        let v4 = socket.local_addr()?.is_ipv4();
        if let Some(ttl) = self.ttl.map(u32::from) {
            if v4 {
                sockopt::set_ip_multicast_ttl(socket, ttl)
            } else {
                sockopt::set_ipv6_multicast_hops(socket, ttl)
            }?;
        }
        if let Some(index) = self.interface {
            let any = Ipv4Addr::UNSPECIFIED;
            if v4 {
                sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)
            } else {
                sockopt::set_ipv6_multicast_if(socket, index)
            }?;
        }
        if let Some(back) = self.loopback {
            if v4 {
                sockopt::set_ip_multicast_loop(socket, back)
            } else {
                sockopt::set_ipv6_multicast_loop(socket, back)
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use std::time::Duration;
    use tidegate_units::Rate;

    use crate::udp::{Settings, UdpSocket as Paced};

    fn settings(multicast: Multicast) -> Settings {
        Settings { multicast, ..Settings::new(Rate::from_mbit(8)) }
    }

    #[test]
    fn a_group_is_reached_by_the_interface() {
        let group = Ipv4Addr::new(239, 255, 77, 3);
        let receiver = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let to = (group, receiver.local_addr().unwrap().port()).into();
        let multicast = Multicast { ttl: Some(9), loopback: Some(true), ..Multicast::by("lo").unwrap() };
        let socket = Paced::bind("127.0.0.1:0", settings(multicast)).unwrap();
        let options = socket.get_ref();
        assert_eq!((options.multicast_ttl_v4().unwrap(), options.multicast_loop_v4().unwrap()), (9, true));
        socket.send_to(b"to the group", to).unwrap();
        let mut buffer = [0; 100];
        let (length, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"to the group"[..], options.local_addr().unwrap()));
        // A connected socket has the options before it is connected.
        let quiet = Paced::connect(to, settings(Multicast { loopback: Some(false), ..multicast })).unwrap();
        assert!(!quiet.get_ref().multicast_loop_v4().unwrap());
        assert_eq!(quiet.get_ref().multicast_ttl_v4().unwrap(), 9);
    }

    #[test]
    fn options_of_ipv6_and_interfaces_that_are_not_there() {
        let multicast = Multicast { ttl: Some(3), loopback: Some(false), interface: Some(1) };
        if let Ok(socket) = Paced::bind((Ipv6Addr::LOCALHOST, 0), settings(multicast)) {
            assert_eq!(sockopt::ipv6_multicast_hops(socket.get_ref()).unwrap(), 3);
            assert_eq!(sockopt::ipv6_multicast_if(socket.get_ref()).unwrap(), 1);
            assert!(!socket.get_ref().multicast_loop_v6().unwrap());
        }
        assert!(Multicast::by("not-there").unwrap_err().to_string().starts_with("not-there: "));
        let nowhere = Multicast { interface: Some(1_000_000), ..Multicast::SYSTEM };
        assert!(Paced::bind("127.0.0.1:0", settings(nowhere)).is_err());
    }
}
