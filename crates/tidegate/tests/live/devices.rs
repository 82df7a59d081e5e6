//! Rules about devices by hardware address, whose addresses come from the table of neighbours, and about the interface by which
//! forwarded packets came in.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::at_pair::{command, succeeds};
use crate::running::{PATIENCE, Running, Traffic};
use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::{Route, Rtnl, sysctl};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up, wait_for_carrier};

const MAC: &str = "02:00:5e:00:53:01";

fn file() -> String {
    format!(
        "version = 1\n\
         [[class]]\nname = \"device\"\nrate = \"4mbit\"\n\
         [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"device\"\nmac = \"{MAC}\"\n"
    )
}

/// The device is this host itself, which nobody asks for its hardware address: its entry is the test's own.
pub fn a_device_is_known_by_its_hardware_address_while_it_is_a_neighbour() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("devices"));
    let file = scratch.write("devices.toml", file());
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let own = LEFT[0].to_string();
    let neighbour = |words: &[&str]| {
        let mut command = pair.left.command("ip").unwrap();
        command.args(["neighbour", words[0], &own, "dev", DEVICE]).args(&words[1..]);
        assert!(command.status().expect("iproute2").success(), "{words:?}");
    };
    assert!(succeeds(&pair, &["check", path]).contains("is not in the table of neighbours now"));
    let mut running = Running::start(command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let packets = |class: &str| packets(&pair, &at, class);
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    assert_eq!(packets("device"), 0);

    neighbour(&["replace", "lladdr", MAC, "nud", "permanent"]);
    let deadline = Instant::now() + PATIENCE;
    while packets("device") == 0 {
        assert!(Instant::now() < deadline, "the device is not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (rest, device) = (packets("rest"), packets("device"));
    std::thread::sleep(Duration::from_millis(1_500));
    let (rest, device) = (packets("rest") - rest, packets("device") - device);
    assert!(device > 50 && rest < 20, "{rest} and {device}");
    assert!(succeeds(&pair, &["check", path]).contains(&format!("rule 1 {MAC} has {own} now")));
    let explained = succeeds(&pair, &["explain", "--with", path, "--source", &own, "--destination", "198.51.100.1"]);
    let compared = format!("yes mac is {MAC}, by its address {own}; wanted: {MAC} (now {own})");
    assert!(explained.contains(&compared) && explained.contains("class device"), "{explained}");
    let others =
        succeeds(&pair, &["explain", "--with", path, "--source", "192.0.2.99", "--destination", "198.51.100.1"]);
    assert!(others.contains("no  mac is another one (192.0.2.99 and 198.51.100.1); wanted: "), "{others}");

    neighbour(&["del"]);
    let before = packets("rest");
    while packets("rest") < before + 100 {
        assert!(Instant::now() < deadline + PATIENCE, "the device is not forgotten");
        std::thread::sleep(Duration::from_millis(100));
    }
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.stops();
    Ended::Passed
}

/// What the gateway forwards from the LAN is told from what it sends itself, also after a change of the rules.
pub fn forwarded_packets_are_known_by_the_interface_they_came_from() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("incoming"));
    let (lan, own_of_lan) = lan_behind(&pair);
    let text = |interface: &str| {
        format!(
            "version = 1\n\
             [[class]]\nname = \"lan\"\nrate = \"4mbit\"\n\
             [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
             [[rule]]\nclass = \"lan\"\nfrom-interface = \"{interface}\"\n"
        )
    };
    let file = scratch.write("incoming.toml", text("other"));
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let mut running = Running::start(command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let packets = |class: &str| packets(&pair, &at, class);
    let send = |from: &Namespace, own: IpAddr| {
        let socket = from.run(|| UdpSocket::bind((own, 0)).unwrap()).unwrap();
        for _ in 0..50 {
            socket.send_to(&[0; 500], (RIGHT[0], 9)).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        // The answer to `status` may be of a moment ago.
        std::thread::sleep(Duration::from_millis(200));
    };
    send(&lan, own_of_lan);
    let rest = packets("rest");
    assert!(packets("lan") == 0 && rest >= 50, "{rest}");

    std::fs::write(&file, text("lan0")).expect("the file");
    succeeds(&pair, &["apply", path, at[0], at[1]]);
    send(&lan, own_of_lan);
    assert_eq!(packets("lan"), 50);
    send(&pair.left, LEFT[0]);
    assert_eq!(packets("lan"), 50, "packets of the gateway itself came from no interface");
    running.stops();
    Ended::Passed
}

/// A host behind the left one, which forwards its packets, and its address.
pub fn lan_behind(pair: &Pair) -> (Namespace, IpAddr) {
    let lan = Namespace::create().expect("a namespace");
    let address = |host: u8| [IpAddr::from([10, 78, 0, host]), IpAddr::from([0xfd78, 0, 0, 0, 0, 0, 0, host.into()])];
    pair.left.run(|| Rtnl::open().unwrap().create_veth_into("lan0", "eth0", lan.as_fd()).unwrap()).unwrap();
    pair.left.run(|| bring_up("lan0", address(1))).unwrap();
    pair.left.run(|| sysctl::write("ipv4/ip_forward", "1").unwrap()).unwrap();
    lan.run(|| bring_up("eth0", address(2))).unwrap();
    lan.run(|| wait_for_carrier("eth0")).unwrap();
    let gateway = Route { to: None, via: Some(address(1)[0]), index: None };
    lan.run(|| Rtnl::open().unwrap().add_route(gateway).unwrap()).unwrap();
    (lan, address(2)[0])
}

/// The packets that a class has had.
pub fn packets(pair: &Pair, at: &[&str; 2], class: &str) -> u64 {
    let status: serde_json::Value =
        serde_json::from_str(&succeeds(pair, &["status", "--json", at[0], at[1]])).expect("JSON");
    let classes = status["directions"][0]["classes"].as_array().expect("classes").clone();
    let class = classes.into_iter().find(|one| one["name"] == class).expect("the class");
    class["enqueued_packets"].as_u64().expect("a count")
}
