//! Hosts that share classes: which address that is, what does not go with it, and the file in which a flow is a host.

use tidegate_config::shaper::{Config, FairBy, Root, load};
use tidegate_config::{Diagnostics, Source};

const CLASS: &str = "[[class]]\nname = \"all\"\nrate = \"1mbit\"\ndefault = true\n";

fn read(text: &str) -> (Option<Config>, String) {
    let source = Source::new("hosts.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = load(&source, &mut diagnostics);
    (config, diagnostics.render(&source))
}

fn file(direction: &str, shaper: &str, rest: &str) -> String {
    format!("version = 1\n[interface]\ndirection = \"{direction}\"\n[shaper]\n{shaper}\n{CLASS}{rest}")
}

#[test]
fn a_host_is_the_sender_of_what_leaves_and_the_receiver_of_what_arrives() {
    for (direction, word, address) in [
        ("egress", "host", FairBy::Source),
        ("ingress", "host", FairBy::Destination),
        ("egress", "destination", FairBy::Destination),
        ("ingress", "source", FairBy::Source),
        ("ingress", "flow", FairBy::Flow),
    ] {
        let (config, said) = read(&file(direction, &format!("fair-by = \"{word}\""), ""));
        assert_eq!(said, "");
        let Some(Config { root: Root::Shaper(shaper), .. }) = config else { panic!("not a shaper") };
        assert_eq!(shaper.fair_by, address, "{direction} {word}");
    }
}

#[test]
fn a_file_in_which_a_flow_is_a_host_is_warned_of() {
    for (direction, by, warned) in [
        ("egress", "source", true),
        ("ingress", "destination", true),
        ("egress", "destination", false),
        ("egress", "5-tuple", false),
    ] {
        let (config, said) = read(&file(direction, &format!("flow-by = \"{by}\""), ""));
        assert!(config.is_some());
        assert_eq!(said.contains("write fair-by = \"host\" instead"), warned, "{direction} {by}: {said}");
    }
}

#[test]
fn what_does_not_go_with_hosts_is_an_error() {
    let displace = "[[rule]]\nclass = \"all\"\ndisplace = { below = \"10kbit\", to = \"all\" }\n";
    for (shaper, class, wanted) in [
        ("fair-by = \"host\"\nflow-by = \"mark\"", "", "hosts cannot share what flows by mark span"),
        ("fair-by = \"host\"", "share = \"strict\"\n", "hosts cannot share class `all`"),
        ("fair-by = \"host\"", displace, "cannot be displaced where hosts share"),
        ("fair-by = \"hosts\"", "", "did you mean `host`?"),
    ] {
        let (config, said) = read(&file("egress", shaper, class));
        assert!(config.is_none() && said.contains(wanted) && said.contains("hosts.toml:"), "{said}");
    }
}
