//! Rules about hosts by name: by the leases of a DHCP server, and by answers of the Domain Name System that pass.

use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::at_pair::{command, output, succeeds};
use crate::devices::{lan_behind, packets};
use crate::running::{PATIENCE, Running, Traffic};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Chain, Compare, Expression, Family, MetaKey, Ownership, Rule, Table};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

fn file(rule: &str) -> String {
    format!(
        "version = 1\n\
         [[class]]\nname = \"named\"\nrate = \"4mbit\"\n\
         [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"named\"\n{rule}\n"
    )
}

/// Waits until packets come into the class `named`, and then none into the other one.
fn named_now(pair: &Pair, at: &[&str; 2]) {
    let deadline = Instant::now() + PATIENCE;
    while packets(pair, at, "named") == 0 {
        assert!(Instant::now() < deadline, "the name is not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (rest, named) = (packets(pair, at, "rest"), packets(pair, at, "named"));
    std::thread::sleep(Duration::from_millis(1_500));
    let (rest, named) = (packets(pair, at, "rest") - rest, packets(pair, at, "named") - named);
    assert!(named > 50 && rest < 20, "{rest} and {named}");
}

/// The leases are those of the test: its files lie over those of the machine, in a mount namespace of the command alone.
pub fn a_device_is_known_by_the_name_in_its_lease() -> Ended {
    const LEASES: &str = "/var/lib/misc";
    let (pair, scratch) = (Pair::new(), Folder::new("leases"));
    if !std::path::Path::new(LEASES).is_dir() {
        return Ended::Skipped(format!("there is no {LEASES}"));
    }
    let leases = Folder::new("dnsmasq");
    let file = scratch.write("leases.toml", file("host-name = \"anna-laptop\""));
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let own = LEFT[0].to_string();
    let over = |words: &[&str]| -> Command {
        let mut command = pair.left.command("unshare").unwrap();
        let script = "mount --bind \"$1\" /var/lib/misc && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&leases.0).arg(env!("CARGO_BIN_EXE_tidegate"));
        command.args(words);
        command
    };
    let checked = || String::from_utf8(over(&["check", path]).output().unwrap().stdout).unwrap();
    assert!(checked().contains("rule 1 anna-laptop has no address that is known now"), "{}", checked());
    let mut running = Running::start(over(&["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    assert_eq!(packets(&pair, &at, "named"), 0);

    leases.write("dnsmasq.leases", format!("1 02:00:5e:00:53:01 {own} Anna-Laptop *\n"));
    named_now(&pair, &at);
    assert!(checked().contains(&format!("rule 1 anna-laptop has {own} now")), "{}", checked());
    let shown = succeeds(&pair, &["status", at[0], at[1]]);
    assert!(shown.contains(&format!("rule 1, host-name anna-laptop has {own} now")), "{shown}");
    // The host is known by this name to the shaper, and not to whoever asks it, whose leases are others.
    let far = RIGHT[0].to_string();
    let words = ["explain", "--live", "--source", "anna-laptop", "--destination", &far, "--protocol", "udp"];
    let explained = succeeds(&pair, &[&words[..], &at[..]].concat());
    let compared = format!("yes host-name is anna-laptop, by its address {own}; wanted: anna-laptop (now {own})");
    assert!(explained.contains(&compared), "{explained}");
    let (code, refused) =
        output(&pair, &["explain", "--live", "--source", "annas-laptop", "--destination", &far, at[0], at[1]]);
    assert!(code == Some(2) && refused.contains("no address is known here for `annas-laptop`"), "{refused}");
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.stops();
    Ended::Passed
}

/// A message with the question for the address of `www.example.com`, and with its answer if there is one.
fn message(id: u16, answer: Option<IpAddr>) -> Vec<u8> {
    let flags = if answer.is_some() { 0x8180 } else { 0x0100 };
    let mut bytes: Vec<u8> =
        [id, flags, 1, u16::from(answer.is_some()), 0, 0].iter().flat_map(|half: &u16| half.to_be_bytes()).collect();
    bytes.extend(b"\x03www\x07example\x03com\0\0\x01\0\x01");
    if let Some(IpAddr::V4(address)) = answer {
        bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend(address.octets());
    }
    bytes
}

/// The server is the other host. An answer that nobody asked for comes first, and names this host, which all packets are from.
pub fn a_host_is_known_by_the_answer_that_named_it() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("answers"));
    let file = scratch.write("answers.toml", file("dns-name = [\"example.com\", \"*.example.com\"]"));
    let (path, socket) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let mut running = Running::start(command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    let resolver = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
    let server = pair.right.run(|| UdpSocket::bind((RIGHT[0], 53)).unwrap()).unwrap();
    let asking = resolver.local_addr().unwrap();
    server.send_to(&message(7, Some(LEFT[0])), asking).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(packets(&pair, &at, "named"), 0, "nobody asked");
    let shown = succeeds(&pair, &["status", at[0], at[1]]);
    assert!(shown.contains("rule 1, dns-name *.example.com has no address that is known now"), "{shown}");

    resolver.send_to(&message(8, None), (RIGHT[0], 53)).unwrap();
    let mut buffer = [0; 512];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&message(8, None)[..], asking));
    server.send_to(&message(8, Some(RIGHT[0])), asking).unwrap();
    named_now(&pair, &at);
    let shown = succeeds(&pair, &["status", at[0], at[1]]);
    assert!(shown.contains(&format!("rule 1, dns-name *.example.com has {} now", RIGHT[0])), "{shown}");
    let (own, other) = (LEFT[0].to_string(), RIGHT[0].to_string());
    let words = ["explain", "--live", "--source", &own, "--destination", &other, "--protocol", "udp", at[0], at[1]];
    let explained = succeeds(&pair, &words);
    assert!(explained.contains("dns-name") && explained.contains("named"), "{explained}");
    let tables = || {
        let listed = || nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap();
        let names: Vec<String> = pair.left.run(listed).unwrap().into_iter().map(|(_, name)| name).collect();
        names.join(" ")
    };
    assert!(tables().contains("tidegate-log"), "{}", tables());
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    running.stops();
    assert!(!tables().contains("tidegate"), "{}", tables());
    Ended::Passed
}

/// The rules that copy answers go to the successor with the others: a hook that went would have the kernel drop what waits in the queue.
pub fn a_hand_over_with_a_rule_about_names_loses_nothing() -> Ended {
    // Slower than what is sent, so that packets wait all the time.
    let slow = |rule: &str| {
        let text = file(rule).replace("[[rule]]\nclass = \"named\"\n\n", "");
        text.replace(
            "rate = \"4mbit\"\ndefault",
            "rate = \"400kbit\"\nborrow = false\nlimit = \"32MB\"\nflow-limit = \"16MB\"\ndefault",
        )
    };
    let (pair, scratch) = (Pair::new(), Folder::new("handed"));
    let path = scratch.write("answers.toml", slow("dns-name = \"*.example.com\""));
    let (words, socket) = (path.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", socket.to_str().unwrap()];
    let start = || {
        let mut running =
            Running::start(command(&pair, &["run", words, "--interface", DEVICE, "--hand-over", at[0], at[1]]));
        running.says("control socket");
        running
    };
    let copies = || {
        let listed = || {
            let mut socket = Socket::open(Protocol::Netfilter).unwrap();
            let name = format!("tidegate-log_{DEVICE}");
            nft::read(&mut socket, Family::Inet, &name).unwrap().map(|found| found.table.rules.len())
        };
        pair.left.run(listed).unwrap()
    };
    let first = start();
    assert_eq!(copies(), Some(4));
    let traffic = Traffic::start(&pair, 500, Duration::from_millis(5));
    traffic.until(100);
    let ends = |running: Running| {
        let (ended, _, said) = running.end();
        assert!(ended.success() && said.contains("is left to a successor"), "{said}");
    };
    let second = start();
    ends(first);
    assert_eq!(copies(), Some(4), "the successor's rules copy");
    // One without such a rule keeps the hooks, and copies nothing.
    std::fs::write(&path, slow("")).unwrap();
    let third = start();
    ends(second);
    assert_eq!(copies(), Some(0));
    // One that has it again.
    std::fs::write(&path, slow("dns-name = \"*.example.com\"")).unwrap();
    let fourth = start();
    ends(third);
    assert_eq!(copies(), Some(4));
    succeeds(&pair, &["set", "class", "rest", "rate", "8mbit", at[0], at[1]]);
    let arrivals = traffic.stop();
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0));
    fourth.signal(libc::SIGINT);
    let (ended, _, said) = fourth.end();
    assert!(ended.success(), "{said}");
    assert_eq!(copies(), None);
    Ended::Passed
}

/// Translates the addresses of what leaves by the shaped interface, as gateways do.
fn masquerade(socket: &mut Socket) -> Result<(), tidegate_live::netlink::Error> {
    let mut name = DEVICE.as_bytes().to_vec();
    name.resize(16, 0);
    let chain = Chain { name: "out".into(), hook: Some((libc::NF_INET_POST_ROUTING as u32, 100)) };
    let expressions = vec![
        Expression::Meta(MetaKey::OutName, 1),
        Expression::Compare(1, Compare::Equal, name),
        Expression::Unknown("masq".into()),
    ];
    let rule = Rule { chain: "out".into(), comment: "masquerade".into(), expressions };
    let table = Table { family: Family::Ipv4, name: "gateway".into(), chains: vec![chain], rules: vec![rule] };
    nft::create(socket, &[table], Ownership::Persistent)
}

/// The question of a host behind a gateway that translates addresses, and its answer.
pub fn the_answer_to_a_host_behind_a_gateway_is_seen() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("forwarded"));
    let (lan, own) = lan_behind(&pair);
    let mut socket = pair.left.run(|| Socket::open(Protocol::Netfilter).unwrap()).unwrap();
    if let Err(error) = masquerade(&mut socket) {
        return Ended::Skipped(format!("this kernel does not translate addresses: {error}"));
    }
    let file = scratch.write("forwarded.toml", file("dns-name = \"www.example.com\""));
    let (path, control) = (file.to_str().unwrap(), scratch.0.join("s"));
    let at = ["--control", control.to_str().unwrap()];
    let mut running = Running::start(command(&pair, &["run", path, "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let resolver = lan.run(|| UdpSocket::bind((own, 0)).unwrap()).unwrap();
    let server = pair.right.run(|| UdpSocket::bind((RIGHT[0], 53)).unwrap()).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    resolver.set_read_timeout(Some(PATIENCE)).unwrap();
    resolver.send_to(&message(7, None), (RIGHT[0], 53)).unwrap();
    let mut buffer = [0; 512];
    let (_, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(from.ip(), LEFT[0], "translated");
    server.send_to(&message(7, Some(RIGHT[0])), from).unwrap();
    resolver.recv_from(&mut buffer).expect("the answer");
    let deadline = Instant::now() + PATIENCE;
    while !succeeds(&pair, &["status", at[0], at[1]]).contains(&format!("www.example.com has {} now", RIGHT[0])) {
        assert!(Instant::now() < deadline, "the answer is not seen");
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = packets(&pair, &at, "named");
    for _ in 0..50 {
        resolver.send_to(&[0; 500], (RIGHT[0], 9)).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let named = packets(&pair, &at, "named") - before;
    assert!(named >= 50, "{named}");
    running.stops();
    Ended::Passed
}
