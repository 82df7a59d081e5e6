//! Ceilings: what they become, and what contradicts them, each with its place and a remedy.

use tidegate_config::shaper::guarantees::guarantees;
use tidegate_config::shaper::{Config, Root, load};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::fbq::Ceiling;
use tidegate_core::{Bytes, Rate};

fn read(text: &str) -> (Option<Config>, String) {
    let source = Source::new("ceilings.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    (config, diagnostics.render(&source))
}

/// A file with a class for guests, and another one.
fn file(shaper: &str, guests: &str, rest: &str) -> String {
    format!(
        "version = 1\n[shaper]\nrate = \"50mbit\"\n{shaper}\n[[class]]\nname = \"guests\"\nrate = \"1mbit\"\n{guests}\n\
         [[class]]\nname = \"rest\"\nrate = \"40mbit\"\ndefault = true\n{rest}"
    )
}

const RULE: &str = "[[rule]]\nclass = \"guests\"\nprotocol = \"tcp\"\n";

#[test]
fn a_ceiling_is_a_rate_with_a_burst_and_not_a_promise() {
    let keys = "at-most = \"5mbit\"\nhost-at-most = \"2mbit\"\nflow-at-most = \"40mbit\"\n";
    let rule = "[[rule]]\nclass = \"rest\"\nsource = \"192.0.2.7\"\nat-most = \"2mbit\"\n";
    let (config, said) = read(&file("fair-by = \"host\"", keys, rule));
    assert_eq!(said, "");
    let config = config.unwrap();
    let Root::Shaper(shaper) = &config.root else { panic!("not a shaper") };
    let of = |mbit, burst| Some(Ceiling { rate: Rate::from_mbit(mbit), burst: Bytes::new(burst) });
    // A millisecond at the rate, and at least the burst of the class: two packets of 1500 B.
    let ceilings = shaper.classes[0].at_most;
    assert_eq!([ceilings.class, ceilings.host, ceilings.flow], [of(5, 3_000), of(2, 3_000), of(40, 5_000)]);
    assert_eq!(shaper.classes[0].params().at_most, ceilings);
    assert_eq!(config.rules[0].at_most, of(2, 5_000));
    assert_eq!(config.profiles()[1].at_most, of(2, 5_000));
    let sums = guarantees(&config).unwrap();
    assert_eq!((sums.promised, sums.left), (Rate::from_mbit(41), Rate::from_mbit(9)), "a ceiling promises nothing");
    let guests = &sums.classes[0];
    assert_eq!((guests.at_most, guests.host_at_most), (Rate::from_mbit(5), Some(Rate::from_mbit(2))));
    assert_eq!(sums.classes[1].at_most, Rate::from_mbit(50));
}

#[test]
fn what_contradicts_a_ceiling_is_named_with_a_remedy() {
    let hosts = "fair-by = \"host\"";
    for (shaper, guests, rest, wanted, remedy) in [
        ("", "at-most = \"500kbit\"", "", "guaranteed 1mbit, more than its ceiling of 500kbit", "lower `rate`"),
        (
            "",
            "at-most = \"5mbit\"\nborrow = false",
            "",
            "does not borrow, so that it never gets 5mbit",
            "remove `borrow`",
        ),
        ("", "at-most = \"0bit\"", "", "`at-most` of zero lets nothing pass", "at-most = \"5mbit\""),
        ("", "flow-at-most = \"0bit\"", "", "`flow-at-most` of zero lets nothing pass", "leave it out"),
        ("", "host-at-most = \"1mbit\"", "", "where flows share the classes", "write fair-by = \"host\""),
        ("", "share = \"strict\"\nflow-at-most = \"1mbit\"", "", "in a class with strict sharing", "work-conserving"),
        (
            "",
            "share = \"strict\"\nborrow = true\nat-most = \"5mbit\"",
            "",
            "`at-most` in a class that borrows with strict sharing",
            "work-conserving",
        ),
        (
            "",
            "queue = { kind = \"fifo\" }\nflow-at-most = \"1mbit\"",
            "",
            "with a `queue` of its own",
            "remove `flow-at-most`",
        ),
        (
            "",
            "flow-at-most = \"1mbit\"",
            &format!("{RULE}minimum = \"1.5mbit\"\n"),
            "a minimum of 1.5mbit in a class whose flows get at most 1mbit",
            "lower `minimum`",
        ),
        (
            hosts,
            "host-at-most = \"1mbit\"",
            &format!("{RULE}minimum = \"500kbit\"\n"),
            "a minimum in class `guests`, whose hosts have a ceiling",
            "a class without `host-at-most`",
        ),
        (
            hosts,
            "host-at-most = \"1mbit\"",
            &format!("{RULE}at-most = \"500kbit\"\n"),
            "a rule with a ceiling in class `guests`, whose hosts have one",
            "a class of its own",
        ),
        ("", "", &format!("{RULE}at-most = \"0bit\"\n"), "`at-most` of zero lets nothing pass", "firewall"),
        (
            "",
            "",
            &format!("{RULE}at-most = \"2mbit\"\nminimum = \"1mbit\"\n"),
            "`minimum` and `at-most` in one rule",
            "`rate` of a class",
        ),
        (
            "",
            "",
            &format!("{RULE}at-most = \"2mbit\"\ndisplace = {{ below = \"1mbit\", to = \"rest\" }}\n"),
            "`displace` and `at-most` in one rule",
            "remove one of the two",
        ),
        (
            "",
            "queue = { kind = \"fifo\" }",
            &format!("{RULE}at-most = \"2mbit\"\n"),
            "`at-most` does not apply to the `fifo` queue",
            "remove `at-most`",
        ),
    ] {
        let (config, said) = read(&file(shaper, guests, rest));
        assert!(config.is_none(), "{guests} {rest}");
        assert!(said.contains(wanted) && said.contains(remedy) && said.contains("ceilings.toml:"), "{said}");
    }
}

/// Each thread would have a bucket of its own; hosts and flows are in one thread.
#[test]
fn several_threads_keep_the_ceilings_of_hosts_and_flows_only() {
    let threads = "[interface]\nthreads = 2\n";
    for (guests, possible) in
        [("at-most = \"5mbit\"", false), ("host-at-most = \"1mbit\"\nflow-at-most = \"1mbit\"", true)]
    {
        let (config, said) = read(&file("fair-by = \"host\"", guests, threads));
        assert_eq!(config.is_some(), possible, "{said}");
        assert_eq!(said.contains("each thread would keep a ceiling"), !possible, "{said}");
    }
}

/// Both reasons are reported at once.
#[test]
fn several_threads_keep_neither_ceilings_nor_borrowing_with_strict_shares() {
    let rest = "share = \"strict\"\nborrow = true\n[interface]\nthreads = 2\n";
    let (config, said) = read(&file("", "at-most = \"5mbit\"", rest));
    assert!(config.is_none());
    assert!(said.contains("each thread would keep a ceiling"), "{said}");
    assert!(said.contains("class `rest` borrows with strict shares"), "{said}");
}

/// A line that follows does not move a ceiling, and no guarantee rises above it.
#[test]
fn a_ceiling_stays_when_the_line_changes() {
    let (config, _) = read(&file("", "at-most = \"2mbit\"", ""));
    for (line, guaranteed) in [(25, 500), (100, 2_000), (200, 2_000)] {
        let Root::Shaper(scaled) = config.as_ref().unwrap().at_rate(Rate::from_mbit(line)).unwrap().root else {
            panic!("not a shaper")
        };
        let guests = &scaled.classes[0];
        assert_eq!(guests.rate, Rate::from_kbit(guaranteed), "{line}");
        assert_eq!(guests.at_most.class.unwrap().rate, Rate::from_mbit(2));
    }
}

#[test]
fn a_ceiling_of_a_host_that_the_class_never_reaches_is_a_warning() {
    let text = |host: &str| file("fair-by = \"host\"", &format!("at-most = \"5mbit\"\nhost-at-most = \"{host}\""), "");
    let (config, said) = read(&text("9mbit"));
    assert!(config.is_some() && said.contains("a host of class `guests` never gets 9mbit"), "{said}");
    assert_eq!(read(&text("5mbit")).1, "");
}
