//! Shapers in several shards: one engine for each part of the flows, with rates in common.

use super::*;

/// Two classes over 24 flows, and one flow that begins when the others have ended. `queue` are keys beside `shaper`.
fn divided(queue: &str, actions: &str) -> String {
    let flow = |name: &str, count: u32, port: u32, rate: &str, keys: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ncount = {count}\ntransport = \"udp\"\nport = {port}\n\
             workload = {{ kind = \"constant\", rate = \"{rate}\", packet = \"1000B\" }}\n{keys}"
        )
    };
    format!(
        "version = 1\nduration = \"6s\"\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1gbit\"\nqueue = {{ {queue} shaper = {{ class = [\
         {{ name = \"work\", rate = \"12mbit\" }}, {{ name = \"rest\", rate = \"8mbit\", default = true, borrow = true }}], \
         rule = [{{ class = \"work\", destination-port = 5000 }}] }} }}\n{}{}{}{actions}",
        flow("work", 12, 5000, "4mbit", "stop = \"4s\"\n"),
        flow("rest", 12, 6000, "4mbit", "stop = \"4s\"\n"),
        flow("alone", 1, 6001, "30mbit", "start = \"5s\"\n"),
    )
}

/// Snapshots while all flows send, and while one does.
fn snapshots() -> String {
    let at = |ms: u32| format!("[[at]]\ntime = \"{ms}ms\"\naction = {{ kind = \"status\", flows = 30 }}\n");
    [1_000, 3_900, 5_100, 5_900].map(at).concat()
}

/// Classes have their rates over all shards and flows their parts; what is reported is of all shards together.
#[test]
fn classes_and_flows_have_their_rates_over_all_shards() {
    for shards in [2, 3, 8] {
        let text = divided(&format!("shards = {shards},"), &snapshots());
        let outcome = run(&text);
        assert_eq!(outcome.digest, run(&text).digest, "the same run again");
        let all: Vec<&Report> = reports(&outcome, "status").collect();
        let seconds = all[1].time.since(all[0].time).as_secs_f64();
        for (class, wanted) in [("work", 12e6), ("rest", 8e6)] {
            near((sent(all[1], "classes", class) - sent(all[0], "classes", class)) * 8.0 / seconds, wanted, 0.01);
            let state = named(&all[1].result["classes"], class);
            assert_eq!(state["flows"], 12, "{state:#}");
            for flow in 1..=12 {
                let name = format!("{class} {flow}");
                let rate = (sent(all[1], "flows", &name) - sent(all[0], "flows", &name)) * 8.0 / seconds;
                near(rate, wanted / 12.0, 0.06);
            }
        }
        // Alone it is in one shard, and borrows what all others leave.
        let alone = sent(all[3], "flows", "alone") - sent(all[2], "flows", "alone");
        near(alone * 8.0 / 0.8, 20e6, 0.01);
    }
}

/// One shard is what a shaper without shards is.
#[test]
fn one_shard_is_the_whole() {
    let digest = |queue: &str| run(&divided(queue, &snapshots())).digest;
    assert_eq!(digest("shards = 1,"), digest(""));
    assert_ne!(digest("shards = 2,"), digest(""));
}

/// A change applies to all shards, also one for which they get new trees.
#[test]
fn a_change_applies_to_all_shards() {
    let change = |edit: &str| format!("[[at]]\ntime = \"900ms\"\naction = {edit}\n{}", snapshots());
    let set = "{ kind = \"set\", section = \"class\", name = \"work\", values = { rate = \"6mbit\" } }";
    for (edit, work) in [
        (set.to_owned(), 6e6),
        (
            "{ kind = \"apply\", shaper = { class = [{ name = \"rest\", rate = \"16mbit\", default = true }, \
             { name = \"work\", rate = \"4mbit\" }], rule = [{ class = \"work\", destination-port = 5000 }] } }"
                .to_owned(),
            4e6,
        ),
    ] {
        let outcome = run(&divided("shards = 3,", &change(&edit)));
        let all: Vec<&Report> = reports(&outcome, "status").collect();
        let seconds = all[1].time.since(all[0].time).as_secs_f64();
        near((sent(all[1], "classes", "work") - sent(all[0], "classes", "work")) * 8.0 / seconds, work, 0.02);
    }
}

#[test]
fn shards_are_refused_where_they_cannot_be() {
    let promise = "[[at]]\ntime = \"1s\"\naction = { kind = \"promise\", name = \"p\", minimum = \"1mbit\", target = { flow = \"work\" } }\n";
    let fifo = "version = 1\nduration = \"1s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1gbit\"\n\
        queue = { shards = 2, shaper = { discipline = { kind = \"fifo\" } } }\n\
        [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }\n";
    for (text, message) in [
        (divided("shards = 0,", ""), "0 shards"),
        (divided("shards = 65,", ""), "65 shards"),
        (divided("shards = 2,", promise), "`promise` on a shaper in several shards"),
        (fifo.to_owned(), "this shaper cannot be divided"),
    ] {
        let errors = load("t.toml", &text).expect_err("refused");
        assert!(errors.contains(message), "lacks `{message}`:\n{errors}");
    }
    assert!(load("t.toml", &divided("", promise)).is_ok());
}
