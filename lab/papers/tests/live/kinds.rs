//! HTB, H-FSC, WFQ, WF2Q+ and FQ-PIE live: the shares that their classes and flows get.

use std::thread::sleep;
use std::time::Duration;

use tidegate_testbed::{Pair, Senders, Sink};

use crate::cbq::{shares, with_rules};
use crate::flows::{measure, near, udp};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// Three classes of a list of classes, by number.
fn classes(class: impl Fn(u64) -> String) -> String {
    (0..3).map(class).collect()
}

pub fn trees_share_what_a_class_leaves() -> Ended {
    let htb = classes(|n| {
        let (rate, queue) = (2 + 2 * n, "{ kind = \"fifo\", limit = \"40kB\" }");
        format!("{{ name = \"c{n}\", parent = \"link\", rate = \"{rate}mbit\", ceil = \"12mbit\", queue = {queue} }},")
    });
    let htb = format!("kind = \"htb\"\nclass = [{{ name = \"link\", rate = \"12mbit\" }}, {htb}]\n");
    let hfsc = classes(|n| {
        let (share, queue) = (2 + 2 * n, "{ kind = \"fifo\", limit = \"40kB\" }");
        format!("{{ name = \"c{n}\", share = \"{share}mbit\", queue = {queue} }},")
    });
    let hfsc = format!("kind = \"hfsc\"\nlink = \"12mbit\"\nclass = [{hfsc}]\n");
    // What the third leaves goes 1 to 2, by quanta and by shares.
    patiently(|| {
        shares("htb", &with_rules(&htb), [4e6, 8e6])?;
        shares("hfsc", &with_rules(&hfsc), [4e6, 8e6])
    })
}

pub fn fair_queues_share_by_weights() -> Ended {
    let classes = classes(|n| format!("{{ name = \"c{n}\", weight = {} }},", n + 1));
    patiently(|| {
        for kind in ["wfq", "wf2q"] {
            let file = format!("kind = \"{kind}\"\nlink = \"12mbit\"\nlimit = \"120kB\"\nclass = [{classes}]\n");
            shares(kind, &with_rules(&file), [4e6, 8e6])?;
        }
        Ok(())
    })
}

pub fn fq_pie_shares_between_flows() -> Ended {
    patiently(|| {
        let pair = Pair::create().expect("a pair of hosts");
        let class = "{ name = \"all\", rate = \"12mbit\", queue = { kind = \"fq-pie\" } }";
        let file = format!("version = 1\n[discipline]\nkind = \"htb\"\ndefault = \"all\"\nclass = [{class}]\n");
        let shaping = shape(&pair, &file);
        // The first sends less than its part, and loses nothing.
        let flows = [udp(0, 1_000, 1_000), udp(1, 9_000, 1_000), udp(2, 18_000, 1_000)];
        let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
        let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
        sleep(Duration::from_millis(1_500));
        let rates = measure(&sink, 3, Duration::from_secs(2));
        senders.stop();
        shaping.stop().expect("an orderly end");
        println!("  fq-pie: {rates:.0?}");
        // Packets are 1028 B on the wire where the flows' rates count 1000.
        for (rate, wanted) in rates.iter().zip([1.028e6, 5.486e6, 5.486e6]) {
            near(*rate, wanted, 0.03)?;
        }
        Ok(())
    })
}
