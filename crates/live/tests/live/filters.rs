//! The programs at tc beside the discipline in the kernel, without the discipline: any kernel takes these.

use std::net::UdpSocket;
use std::time::Duration;

use tidegate_kernel::bpf::{Filters, LoadError, Mapped, Variables};
use tidegate_kernel::options::counters::{MARKED_PACKETS, REMARKED_PACKETS};
use tidegate_kernel::options::marks;
use tidegate_live::rtnl::{LinkStatistics, OnLink, Rtnl, Taking};
use tidegate_live::shaping::backend::remove_common_device;
use tidegate_sys::net::set_option;
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, Pair};

use crate::queue::udp;
use crate::wire::{Tap, disable_offloads, is_sound, traffic_class};

const OBJECT: &[u8] = include_bytes!("../../../../kernel/generated/chassis.o");
const NAME: &str = "tidegate";

/// The programs, loaded; skips where this kernel or user may not load them.
fn filters() -> Result<Filters, Ended> {
    Filters::load(OBJECT, &["twin_tables"]).map_err(|error| match error {
        LoadError::Unavailable(_) | LoadError::Permission(_) => Ended::Skipped(error.to_string()),
        error => panic!("{error}"),
    })
}

fn at(variables: &Mapped, path: &str, value: u64) {
    let place = Variables::of(OBJECT).unwrap().place(path).unwrap();
    variables.write(&place, 0, value);
}

fn set_class(socket: &UdpSocket, family: usize, class: i32) {
    let (level, option) = [(libc::IPPROTO_IP, libc::IP_TOS), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)][family];
    set_option(socket, level, option, class).unwrap();
}

pub fn code_points_and_marks_are_written_at_tc() -> Ended {
    let filters = match filters() {
        Ok(filters) => filters,
        Err(ended) => return ended,
    };
    let (options, variables) = (filters.map("twin_marks").unwrap(), filters.map(".bss").unwrap());
    let pair = Pair::new();
    let set = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(DEVICE).unwrap();
        rtnl.set_program(index, OnLink::Leaving, NAME, filters.program("twin_leaving").unwrap(), None).unwrap();
        // Again, in the place of the first.
        rtnl.set_program(index, OnLink::Leaving, NAME, filters.program("twin_leaving").unwrap(), None).unwrap();
        assert_eq!(rtnl.takers(index).unwrap(), [(OnLink::Leaving, Taking::Program(Some(NAME.into())))]);
    };
    // The checksums of what arrives are to be seen.
    pair.left.run(|| disable_offloads(DEVICE)).unwrap();
    pair.left.run(set).unwrap();
    let tap = pair.right.run(Tap::open).unwrap();
    at(&variables, "classes.inside.marks", 1);
    // The first queue owes marks to senders of ECT(0), and to scalable ones.
    let marks_owed = Variables::of(OBJECT).unwrap().place("owed.marks").unwrap();
    let (mut remarked, mut marked) = (0, 0);
    for family in [0, 1] {
        let (sender, _receiver) = udp(&pair, family);
        // The class as sent, the code point of the class, marks that are owed; code point, bits, and marks that are left.
        let cases = [
            (0, None, 0, (0, 0), 0),
            (0, Some(46), 0, (46, 0), 0),
            (0b101110 << 2 | 0b10, Some(0), 0, (0, 0b10), 0),
            (0b010101 << 2 | 0b01, Some(0b101010), 2, (0b101010, 3), 1),
            (0b111111 << 2 | 0b10, None, 1, (63, 3), 0),
            // It cannot carry a mark, which stays owed.
            (0b000111 << 2, Some(63), 1, (63, 0), 1),
            (0b000111 << 2 | 0b11, Some(1), 1, (1, 3), 0),
        ];
        for (case, (class, dscp, owed, expected, left)) in cases.into_iter().enumerate() {
            options.set(marks::DSCP, dscp.map_or(0, |dscp: u64| dscp + 1));
            // Marks that are owed to senders of the other kind, scalable or not, are none of its.
            let (own, other) = ((class & 1) as usize, (class & 1 ^ 1) as usize);
            variables.write(&marks_owed, own, owed);
            variables.write(&marks_owed, other, 9);
            let now = tidegate_live::timing::now();
            at(&variables, "owed.at", now.as_nanos());
            set_class(&sender, family, class);
            let text = format!("case {case} {family}");
            sender.send(text.as_bytes()).unwrap();
            let packet = tap.find(|packet| packet.ends_with(text.as_bytes())).expect("it arrives");
            assert_eq!(traffic_class(&packet), expected, "{text}");
            assert!(is_sound(&packet), "{text}: {packet:02x?}");
            assert_eq!([own, other].map(|kind| variables.read(&marks_owed, kind)), [left, 9], "{text}");
            remarked += u64::from(dscp.is_some_and(|dscp| dscp != class as u64 >> 2));
            marked += u64::from(expected.1 == 3 && class & 3 != 3);
        }
        // A mark that has been owed for too long is forgotten.
        variables.write(&marks_owed, 0, 1);
        at(&variables, "owed.at", 1);
        set_class(&sender, family, 2);
        sender.send(b"too late").unwrap();
        let packet = tap.find(|packet| packet.ends_with(b"too late")).expect("it arrives");
        assert_eq!(traffic_class(&packet).1, 2);
        remarked += 1;
    }
    let counters = filters.map("twin_counters").unwrap();
    let counter = |place| counters.get(place);
    // Others than ours are counted too: neighbours are found by packets of the kernel.
    assert!(counter(REMARKED_PACKETS) >= remarked, "{} {remarked}", counter(REMARKED_PACKETS));
    assert_eq!(counter(MARKED_PACKETS), marked);
    pair.left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(DEVICE).unwrap();
            rtnl.remove_clsact(index).unwrap();
            assert!(rtnl.qdiscs(index).unwrap().contains(&"clsact".to_owned()), "it is in use");
            rtnl.remove_program(index, OnLink::Leaving, NAME).unwrap();
            rtnl.remove_program(index, OnLink::Leaving, NAME).unwrap();
            rtnl.remove_clsact(index).unwrap();
            assert_eq!(rtnl.takers(index).unwrap(), []);
            assert!(!rtnl.qdiscs(index).unwrap().contains(&"clsact".to_owned()));
        })
        .unwrap();
    Ended::Passed
}

/// What arrives passes the device that it is led to, and reaches its socket as before.
pub fn what_arrives_passes_another_device() -> Ended {
    let filters = match filters() {
        Ok(filters) => filters,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let options = filters.map("twin_marks").unwrap();
    let made = pair
        .right
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            rtnl.create("tidegate1", "ifb").ok()?;
            let device = rtnl.link("tidegate1").unwrap().unwrap().index;
            rtnl.up(device).unwrap();
            options.set(marks::DEVICE, device.into());
            let line =
                rtnl.links().unwrap().into_iter().find(|link| link.kind.as_deref() == Some("veth")).unwrap().index;
            rtnl.set_program(line, OnLink::Arriving, NAME, filters.program("twin_arriving").unwrap(), None).unwrap();
            Some(device)
        })
        .unwrap();
    if made.is_none() {
        return Ended::Skipped("this kernel has no ifb".into());
    }
    let passed = passed_by_device(&pair);
    assert!(passed.tx_packets >= 200, "{passed:?}");
    Ended::Passed
}

/// Sends a hundred packets of each family, which arrive in order. Returns what the device `tidegate1` of the receiver has passed on.
fn passed_by_device(pair: &Pair) -> LinkStatistics {
    for family in [0, 1] {
        let (sender, receiver) = udp(pair, family);
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for n in 0..100_u8 {
            sender.send(&[n; 1_200]).unwrap();
            let mut bytes = [0; 2_000];
            let length = receiver.recv(&mut bytes).expect("it arrives");
            assert_eq!((length, bytes[0]), (1_200, n));
        }
    }
    pair.right.run(|| Rtnl::open().unwrap().link("tidegate1").unwrap().unwrap().statistics).unwrap()
}

/// Where it gets code points behind the discipline, what arrives passes a device with two ends, once, and what else is sent there goes no
/// further.
pub fn what_arrives_passes_a_device_with_two_ends() -> Ended {
    let filters = match filters() {
        Ok(filters) => filters,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let options = filters.map("twin_marks").unwrap();
    pair.right
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let line =
                rtnl.links().unwrap().into_iter().find(|link| link.kind.as_deref() == Some("veth")).unwrap().index;
            rtnl.create_veth("tidegate1", "tidegate1r").unwrap();
            let [device, other] = ["tidegate1", "tidegate1r"].map(|name| rtnl.index(name).unwrap());
            options.set(marks::DEVICE, device.into());
            options.set(marks::RETURNS, 1);
            for (link, program) in [(other, "twin_returning"), (line, "twin_arriving")] {
                rtnl.set_program(link, OnLink::Arriving, NAME, filters.program(program).unwrap(), None).unwrap();
            }
            rtnl.up(device).unwrap();
            rtnl.up(other).unwrap();
            assert!(rtnl.wait_until_running(device, Duration::from_secs(20)).unwrap());
        })
        .unwrap();
    let passed = passed_by_device(&pair);
    assert!((200..260).contains(&passed.tx_packets), "each once, and some of neighbours: {passed:?}");
    Ended::Passed
}

/// Packets that leave by several interfaces are led to one device, which sends each packet on by its own interface, in order. The program sees
/// each once, and the device can be removed with all that leads there.
pub fn what_leaves_passes_the_device_of_several_interfaces() -> Ended {
    let filters = match filters() {
        Ok(filters) => filters,
        Err(ended) => return ended,
    };
    let pair = Pair::new();
    let (options, variables) = (filters.map("twin_marks").unwrap(), filters.map(".bss").unwrap());
    let made = pair
        .left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            rtnl.create("tidegate1u", "ifb").ok()?;
            let device = rtnl.index("tidegate1u").unwrap();
            rtnl.up(device).unwrap();
            options.set(marks::DEVICE, device.into());
            let line = rtnl.index(DEVICE).unwrap();
            rtnl.create_veth("line0", "line1").unwrap();
            for line in [line, rtnl.index("line0").unwrap()] {
                let program = filters.program("twin_leaving").unwrap();
                rtnl.set_program(line, OnLink::Leaving, NAME, program, Some(device)).unwrap();
                let takers = rtnl.takers(line).unwrap();
                assert!(takers.contains(&(OnLink::Leaving, Taking::Redirects(device))), "{takers:?}");
            }
            Some((line, device))
        })
        .unwrap();
    let Some((line, device)) = made else { return Ended::Skipped("this kernel has no ifb".into()) };
    at(&variables, "classes.inside.marks", 1);
    at(&variables, "owed.marks", 400);
    at(&variables, "owed.at", tidegate_live::timing::now().as_nanos());
    for family in [0, 1] {
        let (sender, receiver) = udp(&pair, family);
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        set_class(&sender, family, 2);
        for n in 0..100_u8 {
            sender.send(&[n; 400]).unwrap();
        }
        for n in 0..100_u8 {
            let mut bytes = [0; 2_000];
            let length = receiver.recv(&mut bytes).expect("it arrives");
            assert_eq!((length, bytes[0]), (400, n));
        }
    }
    let place = Variables::of(OBJECT).unwrap().place("owed.marks").unwrap();
    assert_eq!(variables.read(&place, 0), 200, "each packet takes one mark");
    pair.left
        .run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let passed = rtnl.link("tidegate1u").unwrap().unwrap().statistics;
            assert!(passed.tx_packets >= 200, "{passed:?}");
            assert_eq!(remove_common_device(&mut rtnl, line).unwrap(), Some(0));
            assert_eq!(rtnl.link_by_index(device).unwrap().map(|link| link.index), None);
            assert_eq!(rtnl.takers(line).unwrap(), []);
            let other = rtnl.index("line0").unwrap();
            assert_eq!(rtnl.takers(other).unwrap(), [], "nothing leads there");
            assert_eq!(remove_common_device(&mut rtnl, line).unwrap(), None);
        })
        .unwrap();
    Ended::Passed
}
