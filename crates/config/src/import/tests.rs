use super::*;
use crate::shaper::{self, Direction, Root};
use crate::{Diagnostics, discipline::Discipline};

/// The configurations of an import, which must be a valid file. It has a warning where the import says that the discipline does not shape, and no other.
fn loaded(import: &Import) -> Vec<shaper::Config> {
    let (source, mut diagnostics) = (Source::new("imported.toml", import.text.as_str()), Diagnostics::new());
    let configs = shaper::load_all(&source, &mut diagnostics);
    let only_queues = import.left.iter().any(|left| left.text.contains("something else must shape"));
    assert_eq!(diagnostics.is_empty(), !only_queues, "{}\n{}", diagnostics.render(&source), import.text);
    configs.expect("valid")
}

fn left(import: &Import) -> Vec<(usize, &str)> {
    import.left.iter().map(|left| (left.line, left.text.as_str())).collect()
}

/// Whether something of this line was left whose description contains `text`, there and in the file.
fn leaves(import: &Import, line: usize, text: &str) -> bool {
    left(import).iter().any(|(at, what)| *at == line && what.contains(text))
        && import.text.lines().any(|comment| comment.starts_with("# Not carried over") && comment.contains(text))
}

const OPENWRT: &str = "\nconfig queue 'eth1'\n\toption enabled '1'\n\toption interface 'pppoe-wan'\n\
\toption download '85000'\n\toption upload '10000'\n\toption qdisc 'cake'\n\toption script 'layer_cake.qos'\n\
\toption qdisc_advanced '1'\n\toption ingress_ecn 'ECN'\n\toption egress_ecn 'NOECN'\n\
\toption qdisc_really_really_advanced '1'\n\toption iqdisc_opts 'nat dual-dsthost ingress'\n\
\toption eqdisc_opts 'nat dual-srchost ack-filter'\n\toption linklayer 'ethernet'\n\toption overhead '34'\n\
\toption linklayer_advanced '1'\n\toption tcMTU '2047'\n\toption tcTSIZE '128'\n\toption tcMPU '64'\n\
\toption itarget '10ms'\n\toption debug_logging '0'\n\toption verbosity '5'\n\
config queue 'lan'\n\toption enabled '0'\n\toption interface 'br-guest'\n\toption download '5000'\n";

#[test]
fn a_queue_of_openwrt_becomes_a_cake_for_each_direction() {
    let import = sqm(&Source::new("sqm", OPENWRT), None).unwrap();
    let configs = loaded(&import);
    assert_eq!(configs.len(), 2);
    for (config, (way, kbit)) in configs.iter().zip([(Direction::Egress, 10_000), (Direction::Ingress, 85_000)]) {
        assert_eq!((config.interface.direction, &config.interface.names[..]), (way, &["pppoe-wan".to_owned()][..]));
        let Root::Discipline(discipline) = &config.root else { panic!("{}", import.text) };
        assert!(matches!(**discipline, Discipline::Cake(_)));
        assert_eq!(discipline.line(), Some(Rate::from_kbit(kbit)));
        assert_eq!((discipline.wire().0.overhead, discipline.wire().0.least.as_u64()), (34, 64));
    }
    let text = &import.text;
    assert!(
        text.contains("tins = \"diffserv3\"\nhosts = \"source\"\nack-filter = \"on\"\nsignal = \"drop\""),
        "{text}"
    );
    assert!(text.contains("tins = \"besteffort\"\nhosts = \"destination\""), "{text}");
    // Each with its line.
    for (line, what) in [(13, "ingress"), (21, "itarget"), (24, "not enabled")] {
        assert!(leaves(&import, line, what), "{line}: {what} in {:?}", left(&import));
    }
    assert_eq!(import.left.len(), 3, "{:?}", left(&import));
    // With a choice, another one: it is not enabled, and that is said.
    let guests = sqm(&Source::new("sqm", OPENWRT), Some("br-guest")).unwrap();
    assert_eq!(loaded(&guests).len(), 1);
    assert!(leaves(&guests, 25, "not enabled"), "{:?}", left(&guests));
}

#[test]
fn a_conf_of_sqm_scripts_is_read_and_not_run() {
    let conf = "# eth0\nUPLINK=4000\nDOWNLINK=20000 # of 22000\nSCRIPT=\"simple.qos\"\nQDISC=fq_codel\nLINKLAYER=atm\n\
                OVERHEAD=40\nIECN=\"ECN\"\nEECN=\"NOECN\"\nELIMIT=\"100\"\nCUSTOM=1\n";
    let import = sqm(&Source::new("eth0.iface.conf", conf), Some("eth0")).unwrap();
    assert_eq!(loaded(&import).len(), 2);
    assert!(import.text.contains("framing = \"atm\"") && import.text.contains("rate = \"20mbit\""), "{}", import.text);
    for (line, what) in [(4, "simple.qos"), (5, "fq_codel"), (10, "elimit"), (11, "CUSTOM")] {
        assert!(leaves(&import, line, what), "{line}: {what} in {:?}", left(&import));
    }
    let refused = |conf: &str| sqm(&Source::new("x.conf", conf), Some("eth0")).unwrap_err().to_string();
    assert!(refused("UPLINK=$(curl example.org)\n").starts_with("x.conf:1: UPLINK: the value is computed"));
    assert!(refused("UPLINK=4000\nif true; then\n").starts_with("x.conf:2: `if true; then` is no assignment"));
    assert!(refused("UPLINK=fast\n").contains("x.conf:1: `fast` is not a rate; write upload in kbit/s"));
    assert!(refused("UPLINK=0\n").contains("neither upload nor download has a rate"));
    assert!(refused("HELLO=1\n").contains("no setting of sqm-scripts"));
}

#[test]
fn options_of_cake_have_counterparts_or_are_named() {
    let line = "qdisc cake 8003: dev eth1 root refcnt 2 bandwidth 18500Kbit diffserv4 dual-srchost nat nowash ack-filter \
                split-gso rtt 30ms ptm overhead 30 mpu 68 memlimit 4Mb";
    let import = cake(&Source::new("line", line), None).unwrap();
    let text = &import.text;
    loaded(&import);
    assert!(text.contains("name = \"eth1\"") && text.contains("rate = \"18.5mbit\""), "{text}");
    assert!(
        text.contains("overhead = 30\nleast = \"68B\"\nframing = \"ptm\"\ntins = \"diffserv4\"\nhosts = \"source\"")
    );
    assert!(text.contains("limit = \"4194304B\""), "{text}");
    assert_eq!(import.left.len(), 1, "{:?}", left(&import));
    let mistyped = cake(&Source::new("line", "bandwith 20mbit"), None).unwrap_err();
    assert_eq!(mistyped.help, "did you mean `bandwidth`?");
    assert!(leaves(&import, 1, "rtt 30ms"), "{:?}", left(&import));
    // As it is typed; the device of sqm-scripts is for what arrives.
    let typed = "tc qdisc add dev ifb4eth1 root cake bandwidth 90mbit besteffort pppoe-ptm ether-vlan wash";
    let import = cake(&Source::new("line", typed), None).unwrap();
    let config = &loaded(&import)[0];
    assert_eq!((config.interface.direction, config.interface.names[0].as_str()), (Direction::Ingress, "eth1"));
    assert!(import.text.contains("overhead = 34\nframing = \"ptm\"") && leaves(&import, 1, "wash"), "{}", import.text);
    let refused = |line: &str| cake(&Source::new("l", line), None).unwrap_err().to_string();
    assert!(refused("bandwidth fast").starts_with("l:1: `fast` is no value of `bandwidth`"));
    assert!(refused("overhead 9999").contains("no value of `overhead`"));
    assert!(refused("besteffort mpu").contains("`mpu` has no value"));
}

#[test]
fn wondershaper_is_read_from_its_file_and_its_arguments() {
    let conf = "[wondershaper]\n# Adapter\nIFACE=\"eth0\"\nDSPEED=\"16000\"\nUSPEED=\"2000\"\nNOPRIOPORTDST=\"6881\"\n";
    let import = wondershaper(&Source::new("wondershaper.conf", conf), None).unwrap();
    assert_eq!(loaded(&import).len(), 2);
    assert!(leaves(&import, 6, "NOPRIOPORTDST") && import.text.contains("rate = \"2mbit\""), "{}", import.text);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for arguments in ["eth0 16000 2000", "-a eth0 -d 16000 -u 2000"] {
        let other = wondershaper_arguments(&words(arguments), None).unwrap();
        let rates = |import: &Import| {
            import.text.lines().filter(|line| line.contains("rate")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rates(&other), rates(&import), "{arguments}");
        assert_eq!(loaded(&other)[0].interface.names, ["eth0"]);
    }
    let up = wondershaper(&Source::new("interfaces", "up /sbin/wondershaper ppp0 0 512\n"), None).unwrap();
    assert_eq!(loaded(&up).iter().map(|config| config.interface.direction).collect::<Vec<_>>(), [Direction::Egress]);
    assert!(
        wondershaper_arguments(&words("-c eth0"), None).unwrap_err().to_string().contains("`-c` is not an argument")
    );
}

/// As iproute2 6.1 prints it on a router of a small office, with HTB, fq_codel, CAKE and SFQ at its leaves.
const OFFICE: &str = "\
qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x30 direct_packets_stat 0 direct_qlen 1000
qdisc fq_codel 10: dev eth0 parent 1:10 limit 10240p flows 1024 quantum 1514 target 10ms interval 100ms memory_limit 32Mb ecn drop_batch 64
qdisc cake 20: dev eth0 parent 1:20 bandwidth unlimited besteffort triple-isolate nonat nowash no-ack-filter split-gso rtt 100ms raw overhead 0
qdisc sfq 30: dev eth0 parent 1:30 limit 127p quantum 1514b depth 127 divisor 1024 perturb 10sec
qdisc noqueue 0: dev lo root refcnt 2
qdisc ingress ffff: dev eth0 parent ffff:fff1 ----------------
class htb 1:1 root rate 20Mbit ceil 20Mbit burst 60Kb cburst 1600b
class htb 1:10 parent 1:1 leaf 10: prio 0 rate 5Mbit ceil 20Mbit burst 1600b cburst 1600b
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:20 parent 1:1 leaf 20: prio 1 rate 10Mbit ceil 20Mbit burst 1600b cburst 1600b
class htb 1:30 parent 1:1 leaf 30: prio 2 rate 5Mbit ceil 15Mbit burst 1600b cburst 1597b
class fq_codel 10:1 parent 10:
filter parent 1: protocol ip pref 1 u32 chain 0
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:10 not_in_hw
  match 00000016/0000ffff at 20
  match 00060000/00ff0000 at 8
filter parent 1: protocol ip pref 2 u32 chain 0 fh 801::800 order 2048 key ht 801 bkt 0 *flowid 1:10 not_in_hw
  match 00b80000/00fc0000 at 0
filter parent 1: protocol ip pref 3 fw chain 0 handle 0x10/0xff classid 1:30
filter parent 1: protocol ip pref 4 u32 chain 0 fh 802::800 order 2048 key ht 802 bkt 0 flowid 1:30 not_in_hw
  match c0a83200/ffffff00 at 12
filter parent 1: protocol ip pref 5 flower chain 0 handle 0x1 classid 1:20
  eth_type ipv4
  ip_proto tcp
  dst_port 5000-5100
  not_in_hw
filter parent 1: protocol ipv6 pref 6 u32 chain 0 fh 803::800 order 2048 key ht 803 bkt 0 flowid 1:20 not_in_hw
  match 20010db8/ffffffff at 24
filter parent 1: protocol all pref 7 basic chain 0 handle 0x1 flowid 1:20
filter parent 1: protocol ip pref 8 u32 chain 0 fh 804::800 order 2048 key ht 804 bkt 0 flowid 1:30 not_in_hw
  match 00000028/0000ffff at 0
";

#[test]
fn a_tree_of_htb_is_imported_with_its_queues_and_filters() {
    let import = tc(&Source::new("tc", OFFICE), None).unwrap();
    let configs = loaded(&import);
    let text = &import.text;
    assert!(text.contains("name = \"eth0\"") && text.contains("default = \"1:30\""), "{text}");
    assert!(
        text.contains(
            "name = \"1:10\"\nparent = \"1:1\"\nrate = \"5mbit\"\nceil = \"20mbit\"\nqueue = { kind = \"fq-codel\""
        ),
        "{text}"
    );
    assert!(text.contains("name = \"1:1\"\nrate = \"20mbit\"\nburst = \"61440B\"\n"), "{text}");
    assert!(text.contains("priority = 2\nqueue = { kind = \"sfq\""), "{text}");
    assert!(
        text.contains("target = \"10ms\"") && text.contains("queue = { kind = \"cake\", tins = \"besteffort\""),
        "{text}"
    );
    let rules: Vec<&str> = text.split("[[rule]]\n").skip(1).map(str::trim).collect();
    assert_eq!(
        rules,
        [
            "class = \"1:10\"\ndestination-port = 22\nprotocol = 6",
            "class = \"1:10\"\ndscp = 46",
            "class = \"1:30\"\nmark = \"0x10/0xff\"",
            "class = \"1:30\"\nsource = \"192.168.50.0/24\"",
            "class = \"1:20\"\nprotocol = \"tcp\"\ndestination-port = \"5000-5100\"",
            "class = \"1:20\"\ndestination = \"2001:db8::/32\"",
        ]
    );
    assert!(matches!(&configs[0].root, Root::Discipline(htb) if htb.line() == Some(Rate::from_mbit(20))));
    for (line, what) in [
        (4, "`limit` `127p` of `sfq`"),
        (6, "ingress"),
        (13, "fq_codel"),
        (16, "IPv6"),
        (31, "basic"),
        (32, "at 0 is no field"),
    ] {
        assert!(leaves(&import, line, what), "{line}: {what} in {:?}", left(&import));
    }
}

#[test]
fn json_of_tc_is_read_with_its_repeated_keys() {
    let json = "[{\"kind\":\"htb\",\"handle\":\"1:\",\"root\":true,\"refcnt\":3,\"options\":{\"r2q\":10,\"default\":\"0x20\"}},\
        {\"kind\":\"fq_codel\",\"handle\":\"10:\",\"parent\":\"1:10\",\"options\":{\"limit\":10240,\"flows\":1024,\
        \"quantum\":1514,\"target\":4999,\"interval\":99999,\"memory_limit\":33554432,\"ecn\":true,\"drop_batch\":64}}]\n\
        [{\"class\":\"htb\",\"handle\":\"1:10\",\"root\":true,\"leaf\":\"10:\",\"prio\":0,\"rate\":625000,\"ceil\":2500000,\
        \"burst\":1600,\"cburst\":1600},{\"class\":\"htb\",\"handle\":\"1:20\",\"root\":true,\"prio\":1,\"rate\":125000,\
        \"ceil\":125000}]\n\
        [{\"parent\":\"1:\",\"protocol\":\"ip\",\"pref\":1,\"kind\":\"u32\",\"chain\":0,\"options\":{\"fh\":\"800::800\",\
        \"flowid\":\"1:10\",\"match\":{\"value\":\"16\",\"mask\":\"ffff\",\"offmask\":\"\",\"off\":20},\
        \"match\":{\"value\":\"60000\",\"mask\":\"ff0000\",\"offmask\":\"\",\"off\":8}}}]\n";
    let import = tc(&Source::new("tc", json), Some("wan0")).unwrap();
    loaded(&import);
    let text = &import.text;
    // 625,000 B/s are 5 Mbit/s.
    assert!(text.contains("rate = \"5mbit\"\nceil = \"20mbit\"") && text.contains("target = \"4.999ms\""), "{text}");
    assert!(text.contains("destination-port = 22\nprotocol = 6"), "{text}");
}

#[test]
fn roots_other_than_htb_are_imported_or_refused_with_a_way_out() {
    let shaped = |text: &str| tc(&Source::new("tc", text), Some("wan0"));
    let tbf = shaped("qdisc tbf 8003: root refcnt 2 rate 10Mbit burst 32Kb lat 50ms\n").unwrap();
    loaded(&tbf);
    assert!(
        tbf.text.contains("rate = \"10mbit\"\nburst = \"32768B\"\nqueue = { kind = \"fifo\", limit = \"62500B\" }")
    );
    let cake =
        shaped("qdisc cake 8001: root refcnt 2 bandwidth 20Mbit besteffort triple-isolate rtt 100ms overhead 18\n")
            .unwrap();
    loaded(&cake);
    assert!(cake.text.contains("overhead = 18") && cake.left.is_empty(), "{}", cake.text);
    loaded(
        &shaped("qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms ecn\n")
            .unwrap(),
    );
    let refused = |text: &str| shaped(text).unwrap_err().to_string();
    assert!(
        refused("qdisc hfsc 1: root refcnt 2 default 0x10\n")
            .starts_with("tc:1: the root is `hfsc`, which is not imported; htb")
    );
    assert!(refused("qdisc noqueue 0: root refcnt 2\n").contains("nothing is shaped there; `tidegate setup`"));
    assert!(refused("qdisc htb 1: root refcnt 2 default 0x10\n").contains("the HTB has no classes; add the output"));
    assert!(refused("# a script\ntc qdisc add dev eth0 root htb\n").starts_with("tc:2: this is a command"));
    assert!(refused("hello\n").starts_with("tc:1: `hello` does not begin a line of `tc`"));
    let two = "qdisc tbf 1: dev a root rate 1Mbit\nqdisc tbf 1: dev b root rate 1Mbit\n";
    let several = tc(&Source::new("tc", two), None).unwrap_err().to_string();
    assert!(several.contains("tc:2: several interfaces have a root of their own: `a`, `b`; choose one"), "{several}");
    assert!(tc(&Source::new("tc", two), Some("b")).unwrap().text.contains("name = \"b\""));
}

#[test]
fn hostile_input_is_refused_or_quoted_and_costs_little() {
    let large = "x".repeat(LARGEST + 1);
    for import in [sqm, tc, cake, wondershaper] {
        let error = |text: &str| import(&Source::new("f\u{1b}[2J", text), Some("eth0")).unwrap_err().to_string();
        assert!(error(&large).contains("larger than 1024 KiB"));
        assert!(error(&format!("a\n{}", "y".repeat(LONGEST_LINE + 1))).contains(":2: the line is longer"));
        assert!(!error("").contains('\u{1b}'));
    }
    // Names do nothing to a terminal or to the file.
    let evil = "config queue\n option enabled 1\n option upload 1000\n option interface 'a\"\u{202e}b'\n";
    let refused = sqm(&Source::new("sqm", evil), None).unwrap_err().to_string();
    assert!(refused.contains("is not the name of an interface") && !refused.contains('\u{202e}'), "{refused}");
    let many: String = (0..5_000).map(|n| format!("OPTION{n}=1\n")).collect();
    let import = sqm(&Source::new("x", format!("UPLINK=1000\n{many}")), Some("eth0")).unwrap();
    assert_eq!(import.left.len(), MOST_LEFT + 1);
    assert!(import.left[MOST_LEFT].text.contains("and 4800 more"), "{:?}", import.left.last());
    loaded(&import);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(tc(&Source::new("tc", deep), None).unwrap_err().to_string().contains("not JSON"));
    let injected = "qdisc htb 1: root default 0x1\nclass htb \"]\\n[control] root rate 1Mbit\n";
    let import = tc(&Source::new("tc", injected), Some("eth0")).unwrap();
    assert!(!import.text.lines().any(|line| line.starts_with("[control]")), "{}", import.text);
}
