//! Rate advice in simulated packets: what a class tells a video, and what the video makes of it.

use super::{reports, run, value};
use tidegate_sim::scenario::Outcome;

/// A video, a download, a call and a game in a class of 5 Mbit/s; the video has a minimum of 2.6 Mbit/s.
fn videos(class: &str, video: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
sentence = "a video with three others in a class of 5 Mbit/s"
duration = "200s"
hosts = ["internet", "home"]
[[link]]
from = "internet"
to = "home"
rate = "20mbit"
delay = "15ms"
queue = {{ shaper = {{ class = [
    {{ name = "home", rate = "5mbit", borrow = false, default = true{class} }},
], rule = [{{ class = "home", source-port = 443, minimum = "2600kbit" }}] }} }}
[[flow]]
name = "video"
from = "home"
to = "internet"
port = 443
workload = {{ kind = "video", ladder = ["300kbit", "750kbit", "1200kbit", "1750kbit", "2350kbit", "3mbit", "4300kbit"], buffer = "40s"{video} }}
[[flow]]
name = "download"
from = "internet"
to = "home"
port = 80
workload = {{ kind = "bulk" }}
[[flow]]
name = "call"
from = "internet"
to = "home"
port = 5060
workload = {{ kind = "call", both-ways = false }}
[[flow]]
name = "game"
from = "internet"
to = "home"
port = 27015
workload = {{ kind = "constant", rate = "60kbit", packet = "120B" }}
[[at]]
time = "190s"
action = {{ kind = "status" }}
"#
    ))
}

/// How many packets of the class carry advice, by the status at the end.
fn advised(outcome: &Outcome) -> u64 {
    let status = reports(outcome, "status").last().expect("a status");
    status.result["classes"][0]["advised_packets"].as_u64().unwrap_or(0)
}

/// 2.6 Mbit/s leave 2.54 for payload, and the next step of the scale is 2.51: above 2.35 and below 3.
#[test]
fn a_video_that_follows_its_promise_keeps_one_rate() {
    let followed = videos(", advice = \"promise\"", ", follow-advice = true");
    assert_eq!((value(&followed, "flow video", "switches"), value(&followed, "flow video", "stalls")), (1.0, 0.0));
    let rate = value(&followed, "flow video", "bit rate mean");
    // All segments but the first, which is requested before anything is told.
    assert!((2_250_000.0..2_350_000.0).contains(&rate), "{rate}");
    // Four at once, and one in an eighth of 67 s.
    let told = advised(&followed);
    assert!((4 + 15..=4 + 190 * 8 / 67 + 1).contains(&told), "{told}");
    // Who does not ask is told nothing, and who is told nothing goes by the buffer.
    let blind = videos(", advice = \"promise\"", "");
    assert_eq!(advised(&blind), 0);
    assert!(value(&blind, "flow video", "switches") >= 2.0);
    let unadvised = videos("", ", follow-advice = true");
    assert_eq!(advised(&unadvised), 0);
    assert_eq!(value(&unadvised, "flow video", "switches"), value(&blind, "flow video", "switches"));
}

/// With four flows a fair share is 2.6 for the one with the minimum; without it, it would be a quarter. The ceiling is 5 Mbit/s, which
/// the others do not leave: who follows it stalls.
#[test]
fn the_ceiling_is_what_the_class_may_send_and_not_what_others_leave() {
    let ceiling = videos(", advice = \"ceiling\"", ", follow-advice = true");
    let share = videos(", advice = \"fair-share\"", ", follow-advice = true");
    assert_eq!(value(&share, "flow video", "switches"), 1.0);
    let [switches, stalls, rate] =
        ["switches", "stalls", "bit rate mean"].map(|measure| value(&ceiling, "flow video", measure));
    println!("ceiling: {switches} switches, {stalls} stalls, {rate:.0} bit/s");
    assert!(stalls >= 10.0, "{switches} {stalls}");
}

/// The rate that is told is the least of all bounds: 2.8 Mbit/s carry the step of 2.35, which the minimum keeps free.
#[test]
fn a_ceiling_of_each_flow_bounds_what_is_told() {
    let bounded = videos(", advice = \"ceiling\", flow-at-most = \"2800kbit\"", ", follow-advice = true");
    assert_eq!(value(&bounded, "flow video", "switches"), 1.0);
}

/// Two TCPs in a class of 10 Mbit/s, at a round trip of 40 ms.
fn downloads(class: &str, tcp: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
sentence = "two downloads in a class of 10 Mbit/s"
duration = "30s"
warm-up = "5s"
measure = ["goodput", "links"]
hosts = ["internet", "home"]
[[link]]
from = "internet"
to = "home"
rate = "100mbit"
delay = "20ms"
queue = {{ shaper = {{ class = [{{ name = "home", rate = "10mbit", borrow = false, default = true{class} }}] }} }}
[[flow]]
name = "download"
from = "internet"
to = "home"
count = 2
tcp = {{ congestion = "cubic"{tcp} }}
workload = {{ kind = "bulk" }}
"#
    ))
}

/// A fair share of 5 Mbit/s leaves 4.886 for payload, and the next step of the scale is 4.467: 559 kB/s, and two segments in a round
/// trip. So the sender is never ahead of the shaper by more than these.
#[test]
fn a_tcp_that_follows_its_advice_keeps_the_queue_empty() {
    let goodput = |outcome: &Outcome| value(outcome, "flow download", "goodput");
    let wait = |outcome: &Outcome| value(outcome, "link internet->home", "queueing p99");
    let followed = downloads(", advice = \"fair-share\"", ", follow-advice = true");
    let blind = downloads(", advice = \"fair-share\"", "");
    assert!((8_900_000.0..9_740_000.0).contains(&goodput(&followed)), "{}", goodput(&followed));
    assert!(wait(&followed) < 10e6 && wait(&blind) > 50e6, "{} {}", wait(&followed), wait(&blind));
    assert!(goodput(&blind) > 9_500_000.0, "{}", goodput(&blind));
    // Who is told nothing is bounded by nothing.
    let untold = downloads("", ", follow-advice = true");
    assert_eq!((goodput(&untold), wait(&untold)), (goodput(&blind), wait(&blind)));
}
