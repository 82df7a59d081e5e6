//! Ceilings with TCP: guests below theirs on an idle line and on a busy one, each host below its own, and a call beside.

use super::{Outcome, run, value};

/// A line of 50 Mbit/s and 20 ms. The guests are promised 500 kbit/s and get at most 5 Mbit/s; `keys` are more of their class.
/// Two guests send with `flows` connections each; `rest` are more flows.
fn line(keys: &str, flows: u32, rest: &str) -> Outcome {
    let shaper = format!(
        "queue = {{ shaper = {{ shaper = {{ rate = \"50mbit\", fair-by = \"host\" }}, class = [\
         {{ name = \"calls\", rate = \"2mbit\", priority = 0, borrow = false }}, \
         {{ name = \"house\", rate = \"40mbit\", default = true }}, \
         {{ name = \"guests\", rate = \"500kbit\", at-most = \"5mbit\", priority = 2{keys} }}], rule = [\
         {{ class = \"calls\", protocol = \"udp\" }}, {{ class = \"guests\", destination-port = \"5000-5999\" }}] }} }}"
    );
    let near =
        |host: &str| format!("[[link]]\nfrom = \"{host}\"\nto = \"gateway\"\nrate = \"1gbit\"\ndelay = \"50us\"\n");
    let guest = |n: u32| {
        let (first, last) = (5_000 + 100 * n, 5_000 + 100 * n + flows - 1);
        let port = if flows > 1 { format!("\"{first}-{last}\"") } else { first.to_string() };
        format!(
            "[[flow]]\nname = \"guest{n}\"\nfrom = \"guest{n}\"\nto = \"internet\"\ncount = {flows}\nport = {port}\n\
             jitter = \"100ms\"\nworkload = {{ kind = \"bulk\" }}\n"
        )
    };
    run(&format!(
        "version = 1\nduration = \"12s\"\nwarm-up = \"2s\"\nhosts = [\"pc\", \"guest1\", \"guest2\", \"internet\"]\n\
         routers = [\"gateway\"]\n{}{}{}[[link]]\nfrom = \"gateway\"\nto = \"internet\"\nrate = \"1gbit\"\ndelay = \"10ms\"\n\
         {shaper}\n{}{}{rest}",
        near("pc"),
        near("guest1"),
        near("guest2"),
        guest(1),
        guest(2),
    ))
}

/// Bit/s that the class sends, with headers.
fn class(outcome: &Outcome, name: &str) -> f64 {
    value(outcome, "link gateway->internet", &format!("throughput class {name}"))
}

const CALL: &str = "[[flow]]\nname = \"call\"\nfrom = \"pc\"\nto = \"internet\"\ntransport = \"udp\"\nport = 10000\n\
                    workload = { kind = \"constant\", rate = \"160kbit\", packet = \"200B\" }\n";
const UPLOAD: &str = "[[flow]]\nname = \"upload\"\nfrom = \"pc\"\nto = \"internet\"\nport = 6000\n\
                      workload = { kind = \"bulk\" }\n";

#[test]
fn guests_have_their_ceiling_on_an_idle_line() {
    let outcome = line("", 3, CALL);
    let guests = class(&outcome, "guests");
    // What is measured over ten seconds may have the burst of two packets.
    assert!((4.75e6..=5.003e6).contains(&guests), "{guests:.0}");
    let (p99, dropped) = (value(&outcome, "flow call", "delay p99"), value(&outcome, "flow call", "dropped"));
    assert!(p99 < 12e6 && dropped == 0.0, "the call waits {p99} ns, {dropped} dropped");
}

#[test]
fn guests_have_their_ceiling_and_others_the_rest_of_a_busy_line() {
    let outcome = line("", 3, &format!("{CALL}{UPLOAD}"));
    let guests = class(&outcome, "guests");
    // By weight of their classes they would borrow less than a tenth of what is left: what they are promised and a part of it.
    assert!((0.45e6..=5.003e6).contains(&guests), "{guests:.0}");
    let upload = class(&outcome, "house");
    assert!(upload + guests > 46e6, "{upload:.0} beside {guests:.0}");
    let (p99, dropped) = (value(&outcome, "flow call", "delay p99"), value(&outcome, "flow call", "dropped"));
    assert!(p99 < 13e6 && dropped == 0.0, "the call waits {p99} ns, {dropped} dropped");
}

#[test]
fn each_guest_has_its_own_ceiling_however_many_connections_it_has() {
    for flows in [1, 6] {
        let outcome = line(", host-at-most = \"1mbit\"", flows, CALL);
        for guest in ["guest1", "guest2"] {
            // Headers are 3 %, and data counts when it is in order: what six connections lost before the measurement and sent
            // again releases as much as a tenth more, or less for the other.
            let rate = value(&outcome, &format!("flow {guest}"), "goodput");
            assert!((0.85e6..=1.1e6).contains(&rate), "{guest} with {flows}: {rate:.0}");
        }
        let both = class(&outcome, "guests");
        assert!((1.95e6..=2.005e6).contains(&both), "both with {flows}: {both:.0}");
        let p99 = value(&outcome, "flow call", "delay p99");
        assert!(p99 < 12e6, "the call waits {p99} ns");
    }
}
