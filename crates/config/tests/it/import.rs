//! Imports of what the tools of this machine print.

use std::process::Command;

use tidegate_config::{Diagnostics, Source, import, shaper};
use tidegate_testbed::files::skip;

/// A tree as the kernel and `tc` of this machine show it.
#[test]
fn a_tree_that_tc_made_in_a_namespace_is_imported() {
    let script = "set -e; ip link set lo up\n\
        tc qdisc add dev lo root handle 1: htb default 30\n\
        tc class add dev lo parent 1: classid 1:1 htb rate 20mbit burst 60k\n\
        tc class add dev lo parent 1:1 classid 1:10 htb rate 5mbit ceil 20mbit prio 0\n\
        tc class add dev lo parent 1:1 classid 1:30 htb rate 5mbit ceil 15mbit prio 2\n\
        tc qdisc add dev lo parent 1:30 handle 30: bfifo limit 50000\n\
        tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip dport 22 0xffff match ip protocol 6 0xff flowid 1:10\n\
        tc filter add dev lo parent 1: protocol ip prio 2 u32 match ip src 192.168.50.0/24 flowid 1:30\n\
        for what in qdisc class filter; do tc $FORM $what show dev lo; done";
    for form in ["", "-j", "-d", "-s"] {
        let output = Command::new("unshare").args(["-rn", "sh", "-c", script]).env("FORM", form).output();
        let output = match output {
            Ok(output) if output.status.success() => output,
            other => {
                let why = other
                    .map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stderr).into());
                return skip(&format!("no tree of HTB in a namespace: {why}"));
            }
        };
        let shown = String::from_utf8(output.stdout).expect("text");
        let imported = import::tc(&Source::new("tc", shown.as_str()), Some("lo"))
            .unwrap_or_else(|error| panic!("{error}\n{shown}"));
        let text = &imported.text;
        let (source, mut diagnostics) = (Source::new("imported.toml", text.as_str()), Diagnostics::new());
        assert!(shaper::load_all(&source, &mut diagnostics).is_some(), "{}\n{text}", diagnostics.render(&source));
        assert!(
            text.contains("default = \"1:30\"") && text.contains("kind = \"fifo\", limit = \"50000B\""),
            "{form}\n{text}"
        );
        assert!(
            text.contains("name = \"1:10\"\nparent = \"1:1\"\nrate = \"5mbit\"\nceil = \"20mbit\""),
            "{form}\n{text}"
        );
        assert!(text.contains("class = \"1:10\"\ndestination-port = 22\nprotocol = 6"), "{form}\n{text}\n{shown}");
        assert!(text.contains("source = \"192.168.50.0/24\""), "{form}\n{text}");
    }
}
