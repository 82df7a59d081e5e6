//! Applications in scenarios: what they send, what their users meet, and which keys are refused.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Outcome, Scenario};

/// A scenario of `seconds` whose second link has `rate` and `link`, with a flow from `a` to `b`.
fn text(seconds: u32, rate: &str, link: &str, flow: &str) -> String {
    format!(
        "version = 1\nduration = \"{seconds}s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"1gbit\"\ndelay = \"5ms\"\n\
         [[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"{rate}\"\n{link}\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    )
}

fn load(text: &str) -> Result<Scenario, String> {
    let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
    Scenario::load(&source, None, &mut found).ok_or_else(|| found.render(&source))
}

fn run(text: &str, seed: u64) -> Outcome {
    load(text).unwrap_or_else(|errors| panic!("{errors}")).run(seed, |_| ())
}

fn value(outcome: &Outcome, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.label() == "flow f" && value.measure == measure);
    found.unwrap_or_else(|| panic!("no {measure} in {:?}", outcome.values)).value
}

fn close(got: f64, expected: f64, share: f64, what: &str) {
    assert!((got / expected - 1.0).abs() <= share, "{what}: {got}, not {expected}");
}

const EXPONENTIAL: &str = "workload = { kind = \"packets\", gap = { kind = \"exponential\", mean = \"2ms\" }, \
     size = { kind = \"uniform\", low = \"200B\", high = \"1000B\" } }";

#[test]
fn packets_have_the_means_of_their_distributions_over_udp_and_tcp() {
    // 50,000 packets of 600 B: 2.4 Mbit/s, with a standard error of half a percent.
    let udp = run(&text(100, "10mbit", "", EXPONENTIAL), 1);
    close(value(&udp, "sent"), 50_000.0, 0.03, "packets");
    close(value(&udp, "goodput"), 600.0 * 8.0 * 500.0 * 572.0 / 600.0, 0.03, "goodput");
    let tcp = run(&text(100, "10mbit", "", &format!("transport = \"tcp\"\n{EXPONENTIAL}")), 1);
    close(value(&tcp, "goodput"), 2.4e6, 0.03, "goodput over TCP");
}

#[test]
fn what_the_network_draws_does_not_change_what_is_sent() {
    // The same workload over a line that loses, with another seed, and through a discipline that draws.
    let lossy = "loss = \"5%\"\nqueue = { kind = \"pie\" }";
    let calls = "workload = { kind = \"call\", talk = { kind = \"exponential\", mean = \"1s\" }, \
         silence = { kind = \"exponential\", mean = \"1500ms\" } }";
    for flow in [EXPONENTIAL, calls] {
        let of = |link: &str, seed: u64, workload: u64| {
            let text = text(30, "2mbit", link, flow).replacen('\n', &format!("\nworkload-seed = {workload}\n"), 1);
            let outcome = run(&text, seed);
            (value(&outcome, "sent"), outcome.digest)
        };
        let (sent, digest) = of("", 1, 7);
        let (through, other) = of(lossy, 1, 7);
        assert_eq!(sent, through);
        assert_eq!(sent, of(lossy, 2, 7).0);
        assert_ne!(other, of(lossy, 2, 7).1, "the network draws anew");
        assert_ne!(sent, of("", 1, 8).0, "another workload");
        assert_ne!(digest, other);
    }
    // Pages too, although those of the slower line take longer to load.
    let pages = |link: &str, seed| {
        let flow = "stop = \"1000s\"\nworkload = { kind = \"web\", think = { kind = \"constant\", value = \"300s\" }, \
             objects = { kind = \"uniform\", low = 0, high = 10 } }";
        let text = text(900, "2mbit", link, flow).replacen('\n', "\nworkload-seed = 7\n", 1);
        let outcome = run(&text, seed);
        (value(&outcome, "objects a page"), value(&outcome, "bytes a page"), value(&outcome, "pages begun"))
    };
    assert_eq!(pages("", 1), pages("loss = \"2%\"", 2));
}

#[test]
fn phases_follow_one_another() {
    // 1 Mbit/s for 2 s, 3 Mbit/s for 1 s, silence for 2 s: 1 Mbit/s on average.
    let outcome = run(
        &text(
            50,
            "10mbit",
            "",
            "workload = { kind = \"phases\", packet = \"1000B\", phases = [\
             { rate = \"1mbit\", lasts = { kind = \"constant\", value = \"2s\" } },\
             { rate = \"3mbit\", lasts = { kind = \"constant\", value = \"1s\" } },\
             { lasts = { kind = \"constant\", value = \"2s\" } }] }",
        ),
        1,
    );
    // 250 and 375 packets in each of the ten rounds, and the first of the next at the end.
    assert_eq!(value(&outcome, "sent"), 6_251.0);
}

#[test]
fn pages_have_the_published_means_and_no_more_are_loaded_than_begun() {
    let flow = "workload = { kind = \"web\", think = { kind = \"exponential\", mean = \"1s\" } }";
    let outcome = run(&text(4_000, "100mbit", "", flow), 1);
    let (begun, loaded) = (value(&outcome, "pages begun"), value(&outcome, "pages loaded"));
    assert!(loaded <= begun && loaded >= begun - 1.0 && begun > 1_500.0, "{loaded} of {begun}");
    assert!(value(&outcome, "completed") <= value(&outcome, "opened"));
    // A main object, and 5.64 others on average (3GPP TR 25.892): the deviation of a page is 10.
    close(value(&outcome, "objects a page"), 6.64, 0.12, "objects");
    // An empty line: the page's round trips, parsing, and seldom a large object.
    let median = value(&outcome, "page load p50");
    assert!((20e6..500e6).contains(&median), "{median} ns");
    // The mean of the sizes is that of few large ones; without deviation it is exact.
    let exact = |kind: &str, size: &str| format!("{kind} = {{ kind = \"constant\", value = \"{size}\" }}");
    let flow = format!(
        "workload = {{ kind = \"web\", {}, {}, objects = {{ kind = \"constant\", value = 4 }}, {}, {} }}",
        exact("main", "10kB"),
        exact("object", "5kB"),
        exact("parse", "100ms"),
        exact("think", "1s")
    );
    let outcome = run(&text(60, "100mbit", "", &flow), 1);
    assert_eq!((value(&outcome, "bytes a page"), value(&outcome, "objects a page")), (30_000.0, 5.0));
    // The first page takes a handshake, two round trips and the parsing at least; the later ones two and the parsing.
    let shortest = value(&outcome, "page load p50");
    assert!((120e6..135e6).contains(&shortest), "{shortest}");
}

#[test]
fn a_video_takes_the_rate_that_the_line_carries() {
    let flow = "workload = { kind = \"video\", ladder = [\"300kbit\", \"750kbit\", \"1500kbit\", \"3mbit\"], \
         segment = \"2s\", buffer = \"40s\" }";
    let at = |rate: &str| run(&text(400, rate, "delay = \"10ms\"", flow), 1);
    let wide = at("20mbit");
    assert_eq!((value(&wide, "rebuffering"), value(&wide, "stalls")), (0.0, 0.0));
    // All but the first segments, until the buffer has filled, in the highest rate.
    assert!(value(&wide, "bit rate mean") > 2.7e6, "{}", value(&wide, "bit rate mean"));
    assert!(value(&wide, "completed") <= value(&wide, "opened"));
    let middle = at("1200kbit");
    let mean = value(&middle, "bit rate mean");
    // No more than the line carries, less what was in the buffer at first, and it alternates between the two around it.
    assert!((0.8e6..1.25e6).contains(&mean), "{mean}");
    assert_eq!(value(&middle, "stalls"), 0.0);
    assert!(value(&middle, "switches") >= 2.0);
    // Less than the lowest rate: what does not come does not play.
    let narrow = at("200kbit");
    close(value(&narrow, "rebuffering"), 1.0 - 200.0 / 300.0, 0.12, "rebuffering");
    assert_eq!(value(&narrow, "switches"), 0.0);
}

#[test]
fn calls_are_rated_by_delay_and_loss() {
    let call =
        |link: &str, keys: &str| run(&text(60, "10mbit", link, &format!("workload = {{ kind = \"call\"{keys} }}")), 1);
    let clean = call("", "");
    // 20 ms of speech, 6 ms of the lines, and the buffer of 60 ms, for which G.107 takes 2 from 93.2.
    for way in ["up", "down"] {
        close(value(&clean, &format!("mouth to ear {way}")), 86.2e6, 0.001, "mouth to ear");
        assert_eq!(value(&clean, &format!("not played {way}")), 0.0);
        let rating = value(&clean, &format!("R factor {way}"));
        assert!((90.5..92.0).contains(&rating), "{rating}");
    }
    // Both ends send 50 packets a second, the last at the end.
    assert_eq!(value(&clean, "sent"), 6_002.0);
    // Loss in one direction: 95 * 5 / (5 + 25.1) less there.
    let lossy = call("loss = \"5%\"\nloss-back = \"0%\"", "");
    let (best, worst) = (value(&clean, "R factor up"), value(&lossy, "R factor up"));
    assert!((best - worst - 15.8).abs() < 4.0, "{best} {worst}");
    assert!(value(&lossy, "MOS up") < value(&lossy, "MOS down"));
    // Several calls have the lowest beside the mean.
    let text = text(60, "10mbit", "loss = \"5%\"", "count = 3\nworkload = { kind = \"call\", both-ways = false }");
    let three = run(&text, 1);
    assert!(value(&three, "MOS lowest") <= value(&three, "MOS"));
    // A satellite: 300 ms each way.
    let far = call(
        "delay = \"300ms\"",
        ", codec = \"g729a\", talk = { kind = \"exponential\", mean = \"1004ms\" }, \
         silence = { kind = \"exponential\", mean = \"1587ms\" }",
    );
    assert!((45.0..65.0).contains(&value(&far, "R factor up")), "{}", value(&far, "R factor up"));
    // Of 120 s in both directions, 39 % are spoken.
    close(value(&far, "sent"), 6_000.0 * 1.004 / 2.591, 0.25, "packets");
}

#[test]
fn games_send_both_ways() {
    let outcome = run(&text(100, "10mbit", "", "workload = { kind = \"game\" }"), 1);
    // 25 packets a second up, and one each 58.5 ms down.
    close(value(&outcome, "sent"), 2_500.0 + 100.0 / 0.058_46, 0.03, "packets");
}

#[test]
fn what_an_application_cannot_be_is_refused_at_its_key() {
    let refused = |flow: &str, parts: &[&str]| {
        let errors = load(&text(10, "10mbit", "", flow)).expect_err(flow);
        for part in parts {
            assert!(errors.contains(part), "lacks `{part}`:\n{errors}");
        }
    };
    refused("workload = { kind = \"video\", ladder = [\"2mbit\", \"1mbit\"] }", &["ladder", "rise", "help"]);
    refused("workload = { kind = \"video\", ladder = [\"1mbit\"], buffer = \"6s\" }", &["buffer of 6s", "too short"]);
    refused("workload = { kind = \"web\", connections = 0 }", &["connections", "zero"]);
    refused(
        "workload = { kind = \"web\", objects = { kind = \"constant\", value = \"3kB\" } }",
        &["a size is given where a number is needed"],
    );
    refused("workload = { kind = \"call\", talk = { kind = \"constant\", value = \"1s\" } }", &["talk and silence"]);
    refused("workload = { kind = \"call\", codec = \"g712\" }", &["g711"]);
    refused("transport = \"tcp\"\nworkload = { kind = \"game\" }", &["needs datagrams"]);
    refused("transport = \"udp\"\nworkload = { kind = \"web\" }", &["needs TCP"]);
    refused(
        "workload = { kind = \"phases\", phases = [{ lasts = { kind = \"constant\", value = \"1s\" } }] }",
        &["no phase has a rate"],
    );
    let none = EXPONENTIAL.replace("\"exponential\", mean = \"2ms\"", "\"constant\", value = \"0s\"");
    refused(&none, &["a gap of no time", "above zero"]);
}

const MEDIA: &str = "workload = { kind = \"media\", most = \"4mbit\" }";

/// draft-ietf-ccwg-rfc8298bis-screamv2: the encoder reaches its highest rate where the line has it, and holds the queue
/// between half and all of QDELAY_TARGET, 60 ms, where it has not.
#[test]
fn a_live_video_follows_the_line() {
    let fast = run(&text(40, "20mbit", "", MEDIA).replacen('\n', "\nwarm-up = \"15s\"\n", 1), 1);
    close(value(&fast, "goodput"), 4e6, 0.05, "the highest rate");
    // 50 frames of 10 kB a second, each paced over a part of 20 ms, and 5 ms of path.
    close(value(&fast, "frames"), 25.0 * 50.0, 0.01, "frames");
    assert_eq!(value(&fast, "frames incomplete"), 0.0);
    assert!(value(&fast, "frame delay p99") < 30e6, "{}", value(&fast, "frame delay p99"));
    let slow = run(
        &text(60, "2mbit", "queue = { kind = \"fifo\", limit = \"200kB\" }", MEDIA).replacen(
            '\n',
            "\nwarm-up = \"20s\"\n",
            1,
        ),
        1,
    );
    let used = value(&slow, "goodput") * 1228.0 / 1200.0 / 2e6;
    assert!((0.7..1.0).contains(&used), "{used}");
    let late = value(&slow, "frame delay p99");
    assert!(late < 5e6 + 60e6 + 60e6, "the path, QDELAY_TARGET, and three frames in the sender: {late}");
    assert_eq!(value(&slow, "frames incomplete"), 0.0);
    // Losses reduce the rate, and what they hit is not sent again.
    let lossy = run(&text(40, "20mbit", "loss = \"1%\"", MEDIA), 1);
    let incomplete = value(&lossy, "frames incomplete");
    assert!((0.5..15.0).contains(&incomplete), "{incomplete} %");
    // A frame that is never complete is longer than any.
    let begun = value(&lossy, "frames");
    close(value(&lossy, "frames complete"), begun * (1.0 - incomplete / 100.0), 1e-9, "complete");
    let beyond = if incomplete > 1.0 { "frame delay p99" } else { "frame delay p99.9" };
    assert!(value(&lossy, beyond).is_infinite() && value(&lossy, "frame delay p50").is_finite(), "{incomplete} %");
}

/// With L4S, the draft aims at marks in place of a queue.
#[test]
fn a_live_video_with_l4s_has_no_queue() {
    let with = |ecn: &str| {
        // Queue protection takes the bursts of frames at this rate for a queue of the flow's own.
        let link = "queue = { kind = \"dualpi2\", protection = false }";
        let text = text(60, "3mbit", link, &format!("{ecn}\n{MEDIA}")).replacen('\n', "\nwarm-up = \"20s\"\n", 1);
        let outcome = run(&text, 1);
        (value(&outcome, "delay up p99") / 1e6, value(&outcome, "goodput") / 3e6)
    };
    let ((l4s, used), (without, _)) = (with("ecn = \"l4s\""), with(""));
    println!("delay p99 {l4s:.1} ms with L4S ({used:.2} of the line), {without:.1} ms without");
    // 5 ms of path, 3.3 ms for a datagram; a frame of 20 ms is sent at 1.5 times the rate of the line, so that a third of it
    // waits, and frames vary by a fifth.
    assert!(l4s < 25.0 && l4s < 0.6 * without, "{l4s} {without}");
    assert!(used > 0.5, "{used}");
}

#[test]
fn the_keys_of_a_live_video_are_checked() {
    for (flow, what) in [
        ("workload = { kind = \"media\", most = \"100kbit\" }", "the least rate must be above zero"),
        ("workload = { kind = \"media\", most = \"4mbit\", unit = \"50B\" }", "a datagram must have"),
        ("workload = { kind = \"media\", most = \"4mbit\", variation = 2.0 }", "a variation is between"),
        ("workload = { kind = \"media\", most = \"4mbit\", frame = \"0s\" }", "a frame of no time"),
        ("transport = \"tcp\"\nworkload = { kind = \"media\", most = \"4mbit\" }", "this workload needs datagrams"),
        ("ecn = \"accurate\"\nworkload = { kind = \"media\", most = \"4mbit\" }", "accurate feedback of datagrams"),
        ("workload = { kind = \"bulk\" }\ntcp = { congestion = \"bbr\", recovery = \"newreno\" }", "needs SACK"),
        ("workload = { kind = \"bulk\" }\ntcp = { ecn = \"ect1\" }", "kind of ECN"),
    ] {
        let errors = load(&text(1, "1mbit", "", flow)).err().unwrap_or_default();
        assert!(errors.contains(what), "{flow}: {errors}");
    }
    for ecn in ["true", "false", "\"classic\"", "\"accurate\"", "\"l4s\"", "\"no\""] {
        let flow = format!("workload = {{ kind = \"bulk\" }}\ntcp = {{ ecn = {ecn}, congestion = \"prague\" }}");
        assert!(load(&text(1, "1mbit", "", &flow)).is_ok(), "{ecn}");
    }
}
