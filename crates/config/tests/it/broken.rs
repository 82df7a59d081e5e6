//! Errors of a file are reported with line, column, the text, and the remedy.

use tidegate_config::{Diagnostics, Source, shaper};

/// A good file to break.
const GOOD: &str = r#"version = 1

[interface]
name = "eth0"

[shaper]
rate = "80mbit"

[[class]]
name = "premium"
rate = "10mbit"
burst = "3kB"
feedback = { above = "75%", below = "25%" }

[[class]]
name = "rest"
rate = "40mbit"
default = true

[[rule]]
class = "premium"
protocol = "udp"
destination-port = "5000-5100"
minimum = "2mbit"
flows = 5
displace = { below = "3mbit", to = "rest" }
"#;

fn findings(text: &str) -> (Source, Diagnostics, bool) {
    let source = Source::new("broken.toml", text);
    let mut diagnostics = Diagnostics::new();
    let valid = shaper::load(&source, &mut diagnostics).is_some();
    assert_eq!(valid, diagnostics.errors() == 0, "a file is valid exactly when it has no errors");
    (source, diagnostics, valid)
}

/// Replaces `from` by `to` in the good file, and expects one error that marks `marked`, which is at the line and
/// column given, with `message` and `help`.
#[track_caller]
fn broken(from: &str, to: &str, (line, column): (usize, usize), marked: &str, message: &str, help: &str) {
    assert_eq!(GOOD.matches(from).count(), 1, "`{from}` is not once in the good file");
    let text = GOOD.replace(from, to);
    let (source, diagnostics, _) = findings(&text);
    let rendered = diagnostics.render(&source);
    assert_eq!(diagnostics.errors(), 1, "{rendered}");
    let error = diagnostics.iter().next().unwrap();
    assert_eq!(&text[error.place.start..error.place.end], marked, "{rendered}");
    assert!(rendered.contains(&format!("broken.toml:{line}:{column}\n")), "not at {line}:{column}: {rendered}");
    assert!(error.message.contains(message), "not `{message}`: {rendered}");
    assert!(error.help.as_deref().unwrap_or_default().contains(help), "not `{help}`: {rendered}");
    assert!(error.label.is_some(), "nothing stands at the mark: {rendered}");
    // The mark is as wide as the text, under it.
    assert!(rendered.contains(&"^".repeat(marked.lines().next().unwrap_or_default().chars().count())), "{rendered}");
}

#[test]
fn the_good_file_is_good() {
    let (source, diagnostics, valid) = findings(GOOD);
    assert!(valid && diagnostics.is_empty(), "{}", diagnostics.render(&source));
}

#[test]
fn unknown_keys() {
    broken(
        "burst = \"3kB\"",
        "brust = \"3kB\"",
        (12, 1),
        "brust",
        "unknown key `brust` in class",
        "did you mean `burst`?",
    );
    broken(
        "name = \"eth0\"",
        "device = \"eth0\"",
        (4, 1),
        "device",
        "unknown key `device`",
        "choose from `name`, `direction`, `mtu`",
    );
    broken("to = \"rest\"", "to = \"rest\", x = 1", (26, 44), "x", "unknown key `x` in displace", "`below` and `to`");
}

#[test]
fn quantities_without_or_with_wrong_units() {
    broken("\"10mbit\"", "10", (11, 8), "10", "rate `10` has no unit", "20mbit");
    broken("\"10mbit\"", "\"10\"", (11, 8), "\"10\"", "rate `10` has no unit", "20mbit");
    broken("\"10mbit\"", "\"10Mbps\"", (11, 8), "\"10Mbps\"", "ambiguous", "20mbit");
    broken("\"3kB\"", "\"3 kilo\"", (12, 9), "\"3 kilo\"", "unknown unit", "1500B");
    broken("\"75%\"", "\"75\"", (13, 22), "\"75\"", "no percent sign", "10%");
    broken("\"75%\"", "true", (13, 22), "true", "expected a percentage, found true or false", "10%");
}

#[test]
fn what_is_missing() {
    broken("name = \"rest\"\n", "", (15, 1), "[[class]]", "class lacks `name`", "name = ");
    broken("class = \"premium\"\n", "", (20, 1), "[[rule]]", "rule lacks `class`", "class = ");
    broken("default = true\n", "", (15, 1), "[[class]]", "no class is the default", "`rest`");
}

#[test]
fn a_mistyped_key_is_one_error_and_not_two() {
    broken("name = \"rest\"", "nmae = \"rest\"", (16, 1), "nmae", "unknown key `nmae`", "did you mean `name`?");
}

#[test]
fn names_that_lead_nowhere() {
    broken(
        "class = \"premium\"",
        "class = \"premum\"",
        (21, 9),
        "\"premum\"",
        "no class `premum`",
        "did you mean `premium`?",
    );
    broken("to = \"rest\"", "to = \"bulk\"", (26, 36), "\"bulk\"", "no class `bulk`", "`premium` and `rest`");
    broken("to = \"rest\"", "to = \"premium\"", (26, 36), "\"premium\"", "to `premium` itself", "another class");
    broken(
        "default = true",
        "default = true\n[[class]]\nname = \"rest\"\nrate = \"1mbit\"",
        (20, 8),
        "\"rest\"",
        "a second class is called `rest`",
        "rename",
    );
    broken("\"udp\"", "\"utp\"", (22, 12), "\"utp\"", "unknown protocol", "did you mean `udp`?");
    broken("\"udp\"", "\"icmp\"", (23, 20), "\"5000-5100\"", "packets of icmp have no ports", "remove the ports");
    broken("\"udp\"", "[\"udp\", 300]", (22, 20), "300", "no protocol 300", "255");
}

#[test]
fn guarantees_that_do_not_add_up() {
    broken(
        "rate = \"80mbit\"",
        "rate = \"45mbit\"",
        (7, 8),
        "\"45mbit\"",
        "promised 50mbit, more than the total of 45mbit",
        "10mbit + 40mbit",
    );
    broken("flows = 5", "flows = 6", (24, 11), "\"2mbit\"", "promised 12mbit, more than its 10mbit", "lower a minimum");
    broken("\"3mbit\"", "\"2mbit\"", (26, 22), "\"2mbit\"", "not above the minimum 2mbit", "raise `below`");
    broken("below = \"25%\"", "below = \"75%\"", (13, 37), "\"75%\"", "not under `above`", "lower `below`");
    broken("\"3kB\"", "\"1kB\"", (12, 9), "\"1kB\"", "smaller than the largest packet", "1500B");
    broken("rate = \"40mbit\"", "rate = \"0mbit\"", (17, 8), "\"0mbit\"", "no guaranteed rate", "8kbit");
    broken("minimum = \"2mbit\"\n", "", (24, 9), "5", "`flows` without `minimum`", "add minimum");
    broken(
        "default = true",
        "default = true\n[[class]]\nname = \"more\"\nrate = \"1mbit\"\ndefault = true",
        (22, 11),
        "true",
        "a second class is the default",
        "remove",
    );
}

#[test]
fn strict_shares_borrow_on_one_thread() {
    use tidegate_core::fbq::{Borrow, Spare};
    let strict = GOOD.replace("default = true", "default = true\nshare = \"strict\"\nborrow = true");
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&Source::new("strict.toml", strict), &mut diagnostics).unwrap();
    let shaper::Root::Shaper(shaper) = &config.root else { panic!("classes") };
    let params = shaper.classes[1].params();
    assert_eq!((params.spare, params.borrow), (Spare::Idle, Borrow::FromOthers));
    // Without `borrow` a strict class uses its own rate.
    let strict = GOOD.replace("default = true", "default = true\nshare = \"strict\"");
    let config = shaper::load(&Source::new("strict.toml", strict), &mut diagnostics).unwrap();
    let shaper::Root::Shaper(shaper) = &config.root else { panic!("classes") };
    assert_eq!(shaper.classes[1].params().borrow, Borrow::Never);
    broken(
        "name = \"eth0\"\n\n[shaper]\nrate = \"80mbit\"\n\n[[class]]\nname = \"premium\"",
        "name = \"eth0\"\nthreads = 2\n\n[shaper]\nrate = \"80mbit\"\n\n[[class]]\nname = \"premium\"\nshare = \"strict\"\nborrow = true",
        (5, 11),
        "2",
        "this shaper cannot be divided over threads",
        "remove `threads`, or `borrow`",
    );
}

#[test]
fn modes_that_exclude_each_other() {
    broken(
        "[shaper]\n",
        "[discipline]\nkind = \"fifo\"\n[shaper]\n",
        (8, 1),
        "[shaper]",
        "[shaper] beside [discipline]",
        "remove one",
    );
}

/// Warnings do not make a file invalid.
#[track_caller]
fn warned(rules: &str, marked: usize, related: usize, message: &str) {
    let text = format!("{GOOD}{rules}");
    let (source, diagnostics, valid) = findings(&text);
    let rendered = diagnostics.render(&source);
    assert!(valid && diagnostics.warnings() == 1, "{rendered}");
    let warning = diagnostics.iter().next().unwrap();
    assert!(warning.message.contains(message), "{rendered}");
    let line = |place: tidegate_config::Place| source.line_column(place.start).0;
    assert_eq!(line(warning.place), marked, "{rendered}");
    assert_eq!(line(warning.related[0].0), related, "{rendered}");
}

#[test]
fn rules_that_never_match_are_warned_of() {
    warned("[[rule]]\nclass = \"rest\"\nprotocol = \"udp\"\ndestination-port = 5050\n", 27, 20, "rule 2 never matches");
    // Both of its ports are taken, each by a rule.
    warned(
        "[[rule]]\nclass = \"rest\"\nuid = 7\n[[rule]]\nclass = \"rest\"\nuid = 7\nsource = [\"::/1\", \"10.0.0.0/8\"]\n",
        30,
        27,
        "rule 3 never matches",
    );
    // One of its two protocols gets through.
    let (source, diagnostics, _) = findings(&format!(
        "{GOOD}[[rule]]\nclass = \"rest\"\nprotocol = [\"udp\", \"tcp\"]\ndestination-port = 5050\n"
    ));
    assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
}

#[test]
fn rules_that_cannot_be_classified() {
    let masks: String =
        (0..17).map(|i| format!("[[rule]]\nclass = \"rest\"\nmark = \"1/{}\"\n", 1 + (2 << i))).collect();
    let (source, diagnostics, _) = findings(&format!("{GOOD}{masks}"));
    let rendered = diagnostics.render(&source);
    // The 17th rule begins 16 times 3 lines after line 27.
    assert!(rendered.contains("a 17th mask") && rendered.contains("broken.toml:75:1"), "{rendered}");
    let ports: Vec<String> = (0..300).map(|i| format!("\"10.0.{}.{}\"", i / 256, i % 256)).collect();
    let lists = format!("source = [{0}]\ndestination = [{0}]\n", ports.join(", "));
    let (source, diagnostics, _) = findings(&format!("{GOOD}[[rule]]\nclass = \"rest\"\n{lists}"));
    assert!(diagnostics.render(&source).contains("90000 combinations"), "{}", diagnostics.render(&source));
}

#[test]
fn syntax() {
    broken("version = 1", "version 1", (1, 9), "", "key with no value", "not TOML");
    broken("version = 1", "version = 2", (1, 11), "2", "version 2", "version = 1");
    broken(
        "[shaper]",
        "[discipline]\nkind = \"fifi\"\n[shaper]",
        (7, 8),
        "\"fifi\"",
        "unknown kind of discipline `fifi`",
        "did you mean `fifo`?",
    );
}

#[test]
fn all_errors_in_one_go_in_the_order_of_the_file() {
    let text =
        GOOD.replace("\"10mbit\"", "10").replace("\"udp\"", "\"utp\"").replace("mbit\"\n\n", "mbit\"\ncolour = 1\n\n");
    let (source, diagnostics, _) = findings(&text);
    let rendered = diagnostics.render(&source);
    assert_eq!(diagnostics.errors(), 3, "{rendered}");
    let at = |what: &str| rendered.find(what).unwrap_or_else(|| panic!("no {what}: {rendered}"));
    assert!(at("unknown key `colour`") < at("has no unit") && at("has no unit") < at("unknown protocol"));
}

/// A typing error in a rule does not hide what is wrong in others and in the sums.
#[test]
fn errors_beside_those_of_a_rule_are_found_in_one_go() {
    let errors = |text: &str, expected: &[&str]| {
        let (source, mut diagnostics) = (Source::new("broken.toml", text), Diagnostics::new());
        assert!(shaper::load_all(&source, &mut diagnostics).is_none());
        let rendered = diagnostics.render(&source);
        assert!(expected.iter().all(|one| rendered.contains(one)), "{rendered}");
        assert_eq!(diagnostics.errors(), expected.len(), "{rendered}");
    };
    let wrong = "[[rule]]\nclass = \"rest\"\nprotocol = \"utp\"\n[[rule]]\nclass = \"nobody\"\nprotocol = \"tcp\"\n";
    errors(&format!("{GOOD}{wrong}"), &["unknown protocol", "`nobody`"]);
    let up =
        "version = 1\n[up.shaper]\nrate = \"1mbit\"\n[[up.class]]\nname = \"rest\"\nrate = \"2mbit\"\ndefault = true\n";
    errors(
        &format!("{up}{}", wrong.replace("[[rule]]", "[[up.rule]]")),
        &["unknown protocol", "`nobody`", "promised 2mbit"],
    );
    // Without a class that cannot be read, the rules about it would seem to be wrong.
    errors(&GOOD.replacen("mbit\"\n\n", "mbit\"\ncolour = 1\n\n", 1), &["unknown key `colour`"]);
}

#[test]
fn a_text_that_is_shown_in_another_order_is_refused() {
    for hidden in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}'] {
        let (source, diagnostics, _) = findings(&GOOD.replacen("\"premium\"", &format!("\"pre{hidden}mium\""), 1));
        let rendered = diagnostics.render(&source);
        assert!(rendered.contains("not shown in the order") && rendered.contains("broken.toml:10:8"), "{rendered}");
    }
    // Other scripts are welcome.
    let (source, diagnostics, valid) = findings(&GOOD.replace("premium", "\u{05e9}\u{05dc}\u{05d5}\u{05dd}"));
    assert!(valid, "{}", diagnostics.render(&source));
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let path = std::env::temp_dir().join(format!("tidegate-large-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    // With nothing in it: it takes no space.
    file.set_len(1 << 40).unwrap();
    let error = Source::open(&path).unwrap_err().to_string();
    assert!(error.contains("larger than 16 MiB") && error.contains("tidegate-large-"), "{error}");
    file.set_len(16 << 20).unwrap();
    assert_eq!(Source::open(&path).unwrap().text().len(), 16 << 20);
    std::fs::remove_file(&path).unwrap();
    // One that says nothing about its size.
    let error = Source::open(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("larger than 16 MiB"), "{error}");
}

#[test]
fn a_thousand_errors_are_not_a_thousand_pages() {
    let (source, diagnostics, _) = findings(&format!("{GOOD}{}", "[[rule]]\n".repeat(1_000)));
    assert_eq!(diagnostics.errors(), 1_000);
    let rendered = diagnostics.render(&source);
    assert!(rendered.ends_with("... and 990 more, which are shown when some of these are mended\n"));
    assert_eq!(rendered.matches("rule lacks `class`").count(), 10);
}

/// The whole text of one error, as a reader sees it.
#[test]
fn a_rendered_error() {
    let (source, diagnostics, _) = findings(&GOOD.replace("rate = \"80mbit\"", "rate = \"45mbit\""));
    let expected = r#"error: the classes are promised 50mbit, more than the total of 45mbit
  --> broken.toml:7:8
   |
 7 | rate = "45mbit"
   |        ^^^^^^^^ 5mbit too little
...
11 | rate = "10mbit"
   |        -------- `premium`
...
17 | rate = "40mbit"
   |        -------- `rest`
   |
   = help: 10mbit + 40mbit = 50mbit: raise the total or lower a class; a promise must fit even when all are busy

"#;
    assert_eq!(diagnostics.render(&source), expected);
}

/// Conditions about single packets, in the good file without its promises.
#[test]
fn rules_about_single_packets() {
    let said = |keys: &str| {
        let rule = GOOD.find("protocol").expect("a rule");
        let (source, diagnostics, valid) = findings(&format!("{}{keys}\n", &GOOD[..rule]));
        (valid, diagnostics.render(&source))
    };
    for keys in [
        "tcp-flags = \"syn !ack\"",
        "tcp-flags = [\"syn\", \"rst\"]\nprotocol = \"tcp\"",
        "pure-ack = true",
        "mac = [\"02:00:5e:00:53:01\", \"02-00-5E-00-53-02\"]\nfrom-interface = \"br-guest\"",
        "host-name = [\"anna-laptop\", \"tv.lan\"]\ndns-name = [\"example.com\", \"*.example.com\"]",
        "length = [\"0-200\", 1500]\nprotocol = \"udp\"",
        "icmp-type = [\"echo-request\", 3]\nprotocol = [\"icmp\", \"icmpv6\"]",
    ] {
        let (valid, said) = said(keys);
        assert!(valid, "{keys}: {said}");
    }
    for (keys, wanted) in [
        ("tcp-flags = \"sny\"", "did you mean `syn`?"),
        ("tcp-flags = 2", "write names"),
        ("length = \"200-0\"", "write \"0-200\""),
        ("length = 70000", "at most 65535"),
        ("icmp-type = \"ping\"", "write \"echo-request\""),
        ("pure-ack = \"yes\"", "expected true or false"),
        ("pure-ack = true\nprotocol = \"udp\"", "packets of udp have no `pure-ack`"),
        ("icmp-type = \"redirect\"\nprotocol = \"tcp\"", "packets of tcp have no `icmp-type`"),
        ("icmp-type = \"redirect\"\nport = 53", "no packet has an `icmp-type` and ports"),
        ("icmp-type = \"redirect\"\npure-ack = true", "no packet has an `icmp-type` and pure-ack"),
        ("pure-ack = true\nminimum = \"1mbit\"", "`minimum` is for flows, and `pure-ack` is about single packets"),
        ("length = 52\nweight = 2", "`weight` is for flows, and `length` is about single packets"),
        ("mac = \"02:00:5e:00:53\"", "`ip neigh` lists those of devices nearby"),
        ("host-name = \"anna laptop\"", "the name that the leases of the DHCP server have"),
        ("dns-name = \"*\"", "for all names below `example.com`"),
        ("from-interface = \"lan0\"\nuid = 0", "no packet has a `uid` and has come in by an interface"),
        ("from-interface = \"the guests\"", "`ip link` lists them"),
        ("from-interface = \"br-of-all-guests\"", "not 1 to 15 bytes"),
    ] {
        let (valid, said) = said(keys);
        assert!(!valid && said.contains(wanted), "{keys}: not `{wanted}`: {said}");
    }
}

#[test]
fn keys_of_other_shapers_are_answered_by_the_key_that_serves() {
    for (from, word, wanted) in [
        ("burst = \"3kB\"", "maximum", "`at-most` is|`borrow` can"),
        ("burst = \"3kB\"", "ceil", "`at-most` is|`borrow` can"),
        ("burst = \"3kB\"", "max", "`at-most` is|`borrow` can"),
        ("protocol = \"udp\"", "hwaddr", "write `mac`"),
        ("protocol = \"udp\"", "hostname", "write `host-name`"),
        ("protocol = \"udp\"", "domain", "write `dns-name`"),
        ("protocol = \"udp\"", "interface", "write `from-interface`"),
        ("protocol = \"udp\"", "time", "when =|`mark`"),
        ("protocol = \"udp\"", "dport", "write `destination-port`"),
    ] {
        let (source, diagnostics, _) = findings(&GOOD.replace(from, &format!("{word} = 1")));
        let said = diagnostics.render(&source);
        assert!(
            said.contains(&format!("unknown key `{word}`")) && wanted.split('|').any(|one| said.contains(one)),
            "{word}: {said}"
        );
        assert!(!said.contains("choose from"), "{word}: {said}");
    }
}
