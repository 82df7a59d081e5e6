//! Places where a gateway stands: a delegated prefix, a translator between protocols, a card with several queues.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netlink::{CREATE, EXCL, Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::probe::Version;
use tidegate_live::rtnl::{Address, Route, Rtnl, sysctl};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_live::tun;
use tidegate_live::uplink::Uplinks;

use crate::queue::{PATIENCE, PORT};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up, wait_for_carrier};

const RATE: u64 = 10_000_000;

fn shape(interface: &str, direction: &str) -> Shaping {
    let text = format!(
        "version = 1\ninterface = {{ direction = \"{direction}\" }}\n\
         [[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n"
    );
    let config = shaper::load(&Source::new("test.toml", &text), &mut Diagnostics::new()).expect("a file");
    Shaping::start(&config, &Options { interfaces: vec![interface.into()], ..Options::default() }).unwrap()
}

/// Waits until packets of the protocol, other than probes, have come through the queue.
fn until_received(shaping: &Shaping, version: Version, mut send: impl FnMut()) {
    let deadline = Instant::now() + PATIENCE;
    while !shaping.interfaces()[0].has_received(version) {
        assert!(Instant::now() < deadline, "no {version} packet came through");
        send();
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn link_local(namespace: &Namespace, device: &str) -> IpAddr {
    let find = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(device).unwrap();
        let is_ours = |address: &Address| {
            address.index == index && matches!(address.address, IpAddr::V6(own) if own.is_unicast_link_local())
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(own) = rtnl.addresses().unwrap().into_iter().find(is_ours) {
                return own.address;
            }
            assert!(Instant::now() < deadline, "no link-local address");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    namespace.run(find).unwrap()
}

/// host -- router -- provider: the uplink has nothing but its link-local address, the prefix is that of the LAN.
pub fn an_uplink_with_a_delegated_prefix_is_shaped() -> Ended {
    let pair = Pair::new();
    let provider = Namespace::create().unwrap();
    let uplink = || {
        Rtnl::open().unwrap().create_veth_into("wan0", "eth0", provider.as_fd()).unwrap();
        let _ = sysctl::write("ipv6/conf/wan0/accept_dad", "0");
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index("wan0").unwrap();
        rtnl.up(index).unwrap();
        sysctl::enable_forwarding()
    };
    if let Err(error) = pair.left.run(uplink).unwrap() {
        return Ended::Skipped(format!("forwarding cannot be switched on: {error}"));
    }
    let far: [IpAddr; 2] =
        [Ipv4Addr::new(198, 51, 100, 1).into(), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).into()];
    provider.run(|| bring_up("eth0", far)).unwrap();
    pair.left.run(|| wait_for_carrier("wan0")).unwrap();
    let (ours, theirs) = (link_local(&pair.left, "wan0"), link_local(&provider, "eth0"));
    let default = |namespace: &Namespace, device: &'static str, to, via| {
        let add = || {
            let mut rtnl = Rtnl::open().unwrap();
            let index = Some(rtnl.index(device).unwrap());
            rtnl.add_route(Route { to, via: Some(via), index }).unwrap();
        };
        namespace.run(add).unwrap();
    };
    default(&pair.left, "wan0", None, theirs);
    default(&pair.right, "peer0", None, LEFT[1]);
    // The delegated prefix, which is that of the LAN.
    default(&provider, "eth0", Some((Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0).into(), 64)), ours);
    let uplinks = pair.left.run(|| Uplinks::find().unwrap()).unwrap();
    assert_eq!(uplinks.all.iter().map(|uplink| uplink.name.as_str()).collect::<Vec<_>>(), ["wan0"]);
    assert!(uplinks.forwards);

    let up = pair.left.run(|| shape("wan0", "egress")).unwrap();
    let down = pair.left.run(|| shape("wan0", "ingress")).unwrap();
    for shaping in [&up, &down] {
        assert!(shaping.interfaces()[0].proof().has(Version::V6), "{:?}", shaping.interfaces()[0].proof());
    }
    let there = provider.run(|| UdpSocket::bind((far[1], PORT)).unwrap()).unwrap();
    let host = pair.right.run(|| UdpSocket::bind((RIGHT[1], 0)).unwrap()).unwrap();
    there.set_nonblocking(true).unwrap();
    let mut buffer = [0; 16];
    until_received(&up, Version::V6, || drop(host.send_to(b"up", (far[1], PORT))));
    until_received(&down, Version::V6, || {
        let _ = host.send_to(b"up", (far[1], PORT));
        if let Ok((_, from)) = there.recv_from(&mut buffer) {
            assert_eq!(from.ip(), RIGHT[1]);
            there.send_to(b"down", from).unwrap();
        }
    });
    for shaping in [up, down] {
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
    }
    Ended::Passed
}

/// 64:ff9b::/96, the prefix of RFC 6052, and the address of the translator.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
const CLAT: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0xc1a7);

fn mapped(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let [p, q, r, s, t, u] = NAT64;
    Ipv6Addr::new(p, q, r, s, t, u, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// A UDP packet of IPv4 as one of IPv6 (RFC 7915); others are not translated.
fn translate(packet: &[u8]) -> Option<Vec<u8>> {
    let header = usize::from(packet.first()? & 15) * 4;
    if packet[0] >> 4 != 4 || packet[9] != 17 {
        return None;
    }
    let mut datagram = packet[header..].to_vec();
    let to = mapped(Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]));
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((datagram.len() as u16).to_be_bytes());
    out.extend([17, packet[8].saturating_sub(1)]);
    out.extend(CLAT.octets());
    out.extend(to.octets());
    // The checksum over the pseudo header of IPv6.
    datagram[6..8].fill(0);
    let mut sum = datagram.len() as u32 + 17;
    for bytes in [&out[8..40], &datagram] {
        sum += bytes
            .chunks(2)
            .map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |&low| u32::from(low)))
            .sum::<u32>();
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    datagram[6..8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    out.extend(datagram);
    Some(out)
}

/// Translates what is sent by IPv4 until it is stopped.
fn run_translator(device: OwnedFd, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut file = std::fs::File::from(device);
        let mut buffer = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            match file.read(&mut buffer) {
                Ok(length) => {
                    if let Some(packet) = translate(&buffer[..length]) {
                        file.write_all(&packet).unwrap();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => panic!("{error}"),
            }
        }
    })
}

/// 464XLAT (RFC 6877): IPv4 leaves by a translator of this machine, and as IPv6 by the uplink, where it is shaped.
pub fn what_a_translator_sends_is_shaped_at_the_uplink() -> Ended {
    let pair = Pair::new();
    let device = match pair.left.run(|| tun::create("clat")).unwrap() {
        Ok(device) => device,
        Err(error) => return Ended::Skipped(format!("no TUN devices here: {error}")),
    };
    let route = || {
        let mut rtnl = Rtnl::open().unwrap();
        let (index, wan) = (rtnl.index("clat").unwrap(), rtnl.index(DEVICE).unwrap());
        rtnl.up(index).unwrap();
        rtnl.add_address(Address { index, address: Ipv4Addr::new(192, 0, 0, 4).into(), prefix: 32 }).unwrap();
        rtnl.add_route(Route { to: Some((Ipv4Addr::UNSPECIFIED.into(), 0)), via: None, index: Some(index) }).unwrap();
        rtnl.add_route(Route { to: None, via: Some(RIGHT[1]), index: Some(wan) }).unwrap();
        sysctl::enable_forwarding()
    };
    if let Err(error) = pair.left.run(route).unwrap() {
        return Ended::Skipped(format!("forwarding cannot be switched on: {error}"));
    }
    // The default route of IPv4 leads into the translator, which is not the uplink.
    let uplinks = pair.left.run(|| Uplinks::find().unwrap()).unwrap();
    assert_eq!(uplinks.all.iter().map(|uplink| uplink.name.as_str()).collect::<Vec<_>>(), [DEVICE]);
    assert_eq!(uplinks.tunnels, ["clat"]);
    let target = Ipv4Addr::new(203, 0, 113, 9);
    let bind = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index("lo").unwrap();
        rtnl.add_address(Address { index, address: mapped(target).into(), prefix: 128 }).unwrap();
        let socket = UdpSocket::bind((mapped(target), PORT)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let receiver = pair.right.run(bind).unwrap();
    let shaping = pair.left.run(|| shape(DEVICE, "egress")).unwrap();
    assert!(shaping.interfaces()[0].proof().has(Version::V6), "{:?}", shaping.interfaces()[0].proof());
    let stop = Arc::new(AtomicBool::new(false));
    let translator = run_translator(device, Arc::clone(&stop));
    let sender = pair.left.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    // 60 packets of 1,240 B as IPv6 take 59 ms at the rate.
    let began = Instant::now();
    (0..60).for_each(|_| assert_eq!(sender.send_to(&[7; 1_192], (target, PORT)).unwrap(), 1_192));
    let mut buffer = [0; 2_048];
    for _ in 0..60 {
        let (length, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((length, from.ip(), buffer[0]), (1_192, CLAT.into(), 7));
    }
    let took = began.elapsed();
    assert!(shaping.interfaces()[0].has_received(Version::V6));
    // The first burst of a flow passes at once; the most of it waits for the rate, on any machine.
    assert!(took > Duration::from_millis(30), "60 packets in {took:?}");
    stop.store(true, Ordering::Relaxed);
    translator.join().unwrap();
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    Ended::Passed
}

/// A link with four queues each way, and superpackets, as a card of today has.
/// The packets of the program that has a macvtap's character device pass the packet filter by: nothing would be shaped.
pub fn the_interface_of_a_virtual_machine_is_refused() -> Ended {
    let pair = Pair::new();
    let make = || {
        let mut rtnl = Rtnl::open().unwrap();
        let card = rtnl.index(DEVICE).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        socket.request("create a macvtap", libc::RTM_NEWLINK, CREATE | EXCL, |message| {
            message.raw(&[0; 16]).string(libc::IFLA_IFNAME, "tap0").u32(libc::IFLA_LINK, card);
            message.nest(libc::IFLA_LINKINFO, |info| {
                info.string(libc::IFLA_INFO_KIND, "macvtap");
            });
        })
    };
    if let Err(error) = pair.left.run(make).unwrap() {
        return Ended::Skipped(format!("this kernel makes no macvtap: {error}"));
    }
    let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n";
    let config = shaper::load(&Source::new("test.toml", text), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec!["tap0".into()], ..Options::default() };
    let refused = pair.left.run(|| Shaping::start(&config, &options).map(drop).unwrap_err().to_string()).unwrap();
    assert!(refused.contains("macvtap") && refused.contains("shape inside that machine"), "{refused}");
    Ended::Passed
}

pub fn a_card_with_several_queues_is_shaped() -> Ended {
    const NUM_TX_QUEUES: u16 = 31;
    const NUM_RX_QUEUES: u16 = 32;
    const PEER: u16 = 1;
    const BYTES: usize = 500_000;
    let (left, right) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    let make = || {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        socket.request("create a link with several queues", libc::RTM_NEWLINK, CREATE | EXCL, |message| {
            message.raw(&[0; 16]).string(libc::IFLA_IFNAME, DEVICE).u32(NUM_TX_QUEUES, 4).u32(NUM_RX_QUEUES, 4);
            message.nest(libc::IFLA_LINKINFO, |info| {
                info.string(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, |data| {
                    data.nest(PEER, |peer| {
                        peer.raw(&[0; 16]).string(libc::IFLA_IFNAME, "peer0").u32(NUM_TX_QUEUES, 4);
                        peer.u32(NUM_RX_QUEUES, 4);
                    });
                });
            });
        })?;
        let mut rtnl = Rtnl::open()?;
        let peer = rtnl.index("peer0")?;
        rtnl.move_link(peer, right.as_fd())
    };
    left.run(make).unwrap().unwrap();
    left.run(|| bring_up(DEVICE, LEFT)).unwrap();
    right.run(|| bring_up("peer0", RIGHT)).unwrap();
    left.run(|| wait_for_carrier(DEVICE)).unwrap();
    let up = left.run(|| shape(DEVICE, "egress")).unwrap();
    let down = left.run(|| shape(DEVICE, "ingress")).unwrap();
    for shaping in [&up, &down] {
        assert!(
            shaping.interfaces()[0].proof().awaited.is_empty() && shaping.interfaces()[0].proof().has(Version::V4),
            "{:?}",
            shaping.interfaces()[0].proof()
        );
    }
    // Four connections each way at once, by different queues.
    let began = Instant::now();
    let transfers = |from: &Namespace, to: &Namespace, address: IpAddr| -> Vec<_> {
        let listener = to.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let connect = || (0..4).map(|_| TcpStream::connect(at).unwrap()).collect::<Vec<_>>();
        from.run(connect)
            .unwrap()
            .into_iter()
            .map(|mut sender| {
                let (mut receiver, _) = listener.accept().unwrap();
                std::thread::spawn(move || sender.write_all(&[1; BYTES]).unwrap());
                std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    receiver.read_to_end(&mut bytes).unwrap();
                    bytes.len()
                })
            })
            .collect()
    };
    let mut all = transfers(&left, &right, RIGHT[0]);
    all.extend(transfers(&right, &left, LEFT[0]));
    for receiver in all {
        assert_eq!(receiver.join().unwrap(), BYTES);
    }
    let took = began.elapsed();
    // 2 MB each way; the first bursts pass at once.
    let least = Duration::from_secs_f64((4 * BYTES) as f64 * 8.0 / RATE as f64 * 0.8);
    assert!(took > least, "all arrived in {took:?}, before {least:?}: past the queue");
    for shaping in [up, down] {
        left.run(|| shaping.stop()).unwrap().unwrap();
    }
    Ended::Passed
}
