//! The language: errors are reported with their position and a remedy, and a failed expectation reports what happened
//! instead.

use tidegate_config::Source;
use tidegate_script::{Findings, Limits, Outcome, Script, no_files};

fn parse(text: &str) -> Result<Script, Findings> {
    Script::parse(Source::new("test.tgs", text), &Limits::default(), &mut no_files)
}

fn run(text: &str) -> Outcome {
    parse(text).and_then(|script| script.run()).unwrap_or_else(|findings| panic!("{findings}"))
}

/// A FIFO of two packets on a link that takes 1 ms for 1000 B.
const TWO: &str = "discipline { kind = \"fifo\", packets = 2 }\nlink 8mbit\nflow a, b size 1000\n";

fn on_two(text: &str) -> Outcome {
    run(&format!("{TWO}{text}"))
}

/// The failures of `text`, as text.
fn failure(text: &str) -> String {
    let outcome = on_two(text);
    assert!(!outcome.holds(), "holds: {text}");
    outcome.failures()
}

#[test]
fn expectations_that_hold() {
    for text in [
        // Arrivals at an instant precede departures at it: the third finds two.
        "at 0s send a b a\nexpect a b\nexpect drop a by queue-limit\nexpect nothing else",
        "at 0s send a b a\nexpect b#1 leaves at 1ms\nexpect a#1 leaves at 0s\nexpect a#2 dropped by queue_limit at 0s",
        "at 0s send a b\nexpect b#1 waits 1ms\nexpect all waits < 1001us\nexpect b waits 1ms +-1ns",
        "at 0s send 2 a every 5ms\nexpect a a from 0s to 5ms\nexpect a left 2\nexpect a left 2000B\nexpect all dropped 0",
        "at 0s send 2 a every 5ms\nat 4ms expect a left 1\nat 5ms expect a left 2\nexpect nothing from 1ms to 4ms",
        // 8 packets of 1000 B in 8 ms are 8 Mbit/s.
        "at 0s send 8 a every 1ms\nexpect a rate 8mbit from 0s to 8ms\nexpect a rate 7.9mbit +-2% from 0s to 8ms",
        "at 0s send a b\nat 0s expect backlog 2 packets 2000B\nat 500us expect backlog 1\nat 500us expect deadline now",
        "at 1ms expect deadline idle\nafter 1ms send c: tcp size 40 ack\nexpect c\nexpect c#1 leaves at 2ms",
        "link closed\nat 0s send a b\nat 1ms take\nat 2ms take 5\nexpect a at 1ms\nexpect b at 2ms ± 1us",
        "at 0s send a dscp ef ecn ect0 size 40B\nexpect a#1 dscp ef\nexpect a#1 ecn ect0\nexpect a#1 colour green",
        "link closed\nat 0s send a\nexpect a#1 stays\nexpect nothing",
        "at 0s send a\nat 0s serve\nat 0s expect backlog 0 0B\nadvance 1s\ntime back 500ms\nsend b\nexpect a b",
    ] {
        let outcome = on_two(text);
        assert!(outcome.holds(), "{text}\n{}", outcome.failures());
        assert!(outcome.expectations > 0, "{text}");
    }
}

#[test]
fn what_happened_instead_is_reported() {
    let text = failure("at 0s send a b\nexpect b a");
    assert!(text.contains("test.tgs:5:8") && text.contains("b should leave here, but a#1 left, at 0s"), "{text}");
    assert!(text.contains("-> ") && text.contains("a#1      leaves, waited 0s"), "{text}");
    for (script, message) in [
        ("at 0s send a\nexpect a a", "2 packets should leave here, and only 1 did"),
        ("at 0s send a b\nexpect a b at 0s", "b should leave at 0s, but b#1 left at 1ms"),
        ("at 0s send a\nexpect drop a", "1 packets should be dropped here, and none did"),
        ("at 0s send 3 a\nexpect drop a by early", "a#3 should be dropped by early, but it was queue-limit"),
        ("at 0s send 3 a\nexpect a#3 leaves", "a#3 should leave, but it was dropped by queue-limit at 0s"),
        ("at 0s send 2 a\nexpect a#2 waits < 1ms", "a#2 waited 1ms, not 0s to 999.999us"),
        ("at 0s send 2 a\nexpect a#3 leaves", "a#3 was never sent"),
        ("at 0s send 2 a\nexpect a left 3", "of a, 2 packets left from 0s; expected 3"),
        ("at 0s send 2 a\nexpect nothing from 1ms to 2ms", "a departure or drop happened from 1ms to 2ms"),
        ("at 0s send 3 a\nexpect a\nexpect nothing else", "2 departures and drops were not expected"),
        ("at 0s send 2 a\nat 0s expect backlog 1", "at 0s 2 packets are queued, 2kB"),
        ("at 0s send 2 a\nat 1us expect deadline idle", "at 1us the deadline is now"),
        ("at 0s send a\nexpect a#1 ecn ce", "a#1 left at 0s with ECN field not-ect"),
        ("at 0s send a\nexpect b waits < 1s", "no packet of b left"),
    ] {
        let text = failure(script);
        assert!(text.contains(message), "{script}\n{text}");
    }
}

/// A class of 2 of 8 Mbit/s that borrows, by bytes and by idle time: what it has is told with the place, and an unknown quantity with
/// those that there are.
#[test]
fn a_class_of_cbq_is_compared_by_its_counters() {
    let class = |accounting: &str, text: &str| {
        run(&format!(
            "discipline {{ kind = \"cbq\", link = \"8mbit\", mtu = \"1000B\", accounting = \"{accounting}\", class = [{{ name = \"v\", \
             rate = \"2mbit\", borrow = \"from-parent\", max-burst = 2, min-burst = 1 }}] }}\nlink 8mbit\nflow a size 1000 class v\n\
             at 0ms send 6 a\n{text}"
        ))
    };
    for (accounting, text, message) in [
        ("bytes", "at 4500us expect class v borrowed 1", "at 4.5ms class v has 2 packets borrowed, not 1"),
        ("bytes", "at 4500us expect class root lent 0", "class root has 2 packets lent, not 0"),
        ("bytes", "at 4500us expect class v overlimit 2", "class v has 3 packets over limit, not 2"),
        ("bytes", "at 4500us expect class v regulated 1", "class v has 0 suspensions, not 1"),
        ("bytes", "at 4500us expect class v credit -800B", "class v has credit -875B"),
        ("bytes", "at 4500us expect class v avgidle 0ms", "class v has no avgidle"),
        ("bytes", "at 4500us expect class v under-time none", "class v has under-time 8ms"),
        ("bytes", "at 0s expect class v under-time 1ms", "class v is not over its limit"),
        ("bytes", "at 0s expect class w lent 0", "no class of CBQ is called `w`"),
        ("idle-time", "at 4500us expect class v credit 0B", "class v has no credit"),
        ("idle-time", "at 4500us expect class v avgidle 1s", "class v has avgidle"),
    ] {
        let outcome = class(accounting, text);
        assert!(!outcome.holds() && outcome.failures().contains(message), "{text}\n{}", outcome.failures());
    }
    let held = "at 4500us expect class v credit -875B\nat 4500us expect class v credit -900B +-25B\n\
                at 4500us expect class v under-time 7ms +-1ms";
    assert!(class("bytes", held).holds(), "{}", class("bytes", held).failures());
    let findings = parse("flow a\nat 0s expect class v borowed 3").expect_err("no such quantity").to_string();
    assert!(findings.contains("no quantity `borowed`") && findings.contains("did you mean `borrowed`"), "{findings}");
}

/// One expectation with both elements at another time: two errors, one failed expectation.
#[test]
fn an_expectation_that_fails_twice_is_one() {
    let outcome = on_two("at 0s send 2 a\nexpect a a at 5ms\nexpect a left 2\nat 9ms expect backlog 1");
    assert_eq!((outcome.expectations, outcome.unmet, outcome.failed.errors()), (3, 2, 3), "{}", outcome.failures());
    assert_eq!(on_two("send a\nexpect a").unmet, 0);
}

#[test]
fn until_ends_the_run() {
    let outcome = on_two("until 10ms\nsend 5 a every 5ms\nexpect 3 a\nexpect a left 3\nexpect nothing else");
    assert!(outcome.holds(), "{}", outcome.failures());
    assert_eq!(outcome.log.packets.len(), 3, "what would be sent later is not");
    // At the end of the run the link is in the middle of the second packet.
    assert!(on_two("send 2 a\nuntil 999us\nexpect a#2 stays").holds());
    let message = failure("send a\nuntil 1ms\nat 2ms expect backlog 0");
    assert!(message.contains("test.tgs:6:15") && message.contains("the run ends at 1ms, before this"), "{message}");
}

#[test]
fn all_errors_of_a_text_are_reported_at_once() {
    let text =
        "discipline { kind = \"fiffo\" }\nflow a size 10 mbit\nat 1ms sned a\nat 0ms send b\nexpect drop a by erly\n";
    let findings = parse(text).expect_err("wrong");
    let message = findings.to_string();
    for (place, what) in [
        ("test.tgs:1:21", "did you mean `fifo`?"),
        ("test.tgs:2:16", "`mbit` is not a field"),
        ("test.tgs:3:8", "did you mean `send`?"),
        ("test.tgs:4:4", "earlier than 1ms"),
        ("test.tgs:5:18", "did you mean `early`?"),
    ] {
        assert!(message.contains(place) && message.contains(what), "{place} {what}\n{message}");
    }
    assert_eq!(findings.errors(), 5, "{message}");
}

#[test]
fn each_error_has_its_remedy() {
    for (text, what, help) in [
        ("flow a\nflow a", "defined twice", "choose another name"),
        ("flow at", "cannot name a flow", "begins with a letter"),
        ("flow a 10.0.0.1:5 > ::1", "of different versions", "IPv4 or IPv6"),
        ("flow a size 0", "no packet has 0B", "from 1B"),
        ("flow a segments 0", "at least one segment", "segments 1"),
        ("flow a dscp efg", "efg", "help"),
        ("flow a ecn ect2", "not an ECN field", "did you mean `ect"),
        ("link 8", "no unit", "help"),
        ("link 0bit", "of rate 0", "link closed"),
        ("take x", "not a whole number", "write a number"),
        ("send", "lacks what to send", "send 3 a"),
        ("flow a\nsend 2000000 a", "too large", "at most"),
        ("flow a\nsend a every", "missing at the end", "write for example"),
        ("at 1ms seed 4", "no time", "on a line of its own"),
        ("config \"x.toml\"", "may not name files", "relative to the script"),
        ("config", "shaper file is missing", "shaper.toml"),
        (
            "discipline { kind = \"fifo\" }\nreconfigure \"x\"",
            "only a script that runs on a configuration",
            "begin the script",
        ),
        ("discipline", "lacks its table", "kind = \"fifo\""),
        (
            "discipline { kind = \"fifo\" }\nconfig {\nversion = 1\n}",
            "one discipline or one configuration",
            "second script",
        ),
        ("discipline { kind = ", "not TOML", "toml.io"),
        ("discipline { kind = \"red\" }", "`min-th`", "help"),
        ("config {\n version = 1\n [discipline]\n kind = \"fifo\"\n limit = 5\n}", "no unit", "test.tgs:5:10"),
        ("flow a\nexpect a#0", "not the number of a packet", "counted from 1"),
        ("flow a\nexpect a rate 1mbit", "needs a time", "from 1s to 2s"),
        ("flow a\nexpect a leaves at 1s", "applies to one packet", "a#1"),
        ("flow a\nexpect a#1 left 3", "counts packets of a flow", "leave out its number"),
        ("flow a\nexpect a from 2s to 1s", "ends before it begins", "earlier"),
        ("flow a\nexpect 2 a#1", "one packet cannot have a count", "a#1 a#2"),
        ("flow a\nexpect a at 1s at 2s", "does not belong here", "one statement"),
        ("time forth 1s", "expected `back`", "`back`"),
        ("flow a\nsend a at 5ms", "`at` must be before the statement", "at 5ms send a"),
        ("flow a\nsend a 10.0.0.1:99999 > 10.0.0.2:1", "`10.0.0.1:99999` is not an address", "up to 65535"),
        ("flow a\nsend a 10.0.0.256 > 10.0.0.2", "`10.0.0.256` is not an address", "test.tgs:2:8"),
        ("flow a\nexpect a waits < 0ms", "no packet waits less than 0", "write 0ms"),
    ] {
        let message = parse(text).map(|_| String::new()).unwrap_or_else(|findings| findings.to_string());
        assert!(message.contains(what) && message.contains(help), "{text}\n{message}");
    }
}

#[test]
fn what_a_run_cannot_do_is_reported() {
    let message = |text: &str| parse(text).and_then(|script| script.run()).expect_err("cannot run").to_string();
    assert!(message("flow a\nsend a").contains("does not specify what it runs on"));
    let class = message("discipline { kind = \"fifo\" }\nflow a class voice\nsend a");
    assert!(class.contains("test.tgs:2:14") && class.contains("no class `voice`"), "{class}");
    let config = "config {\nversion = 1\n[discipline]\nkind = \"fifo\"\n}\nflow a class 1\nsend a";
    assert!(message(config).contains("the rules of the configuration choose the class"));
}

#[test]
fn a_shaper_file_and_its_rules_run_too() {
    // Calls are chosen by their code point; 1 Mbit/s for each class, packets of 1250 B are 10 ms.
    let outcome = run(r#"
config {
    version = 1
    [shaper]
    rate = "2mbit"
    [[class]]
    name = "calls"
    rate = "1mbit"
    burst = "1514B"
    flow-burst = "1514B"
    priority = 0
    [[class]]
    name = "rest"
    rate = "1mbit"
    burst = "1514B"
    flow-burst = "1514B"
    default = true
    [[rule]]
    class = "calls"
    dscp = "ef"
}
flow call, bulk udp size 1250
at 0s send 20 bulk
at 0s send 2 call dscp ef
# The call has a class of its own: both of its packets leave long before the bulk.
expect call left 2 from 0s to 20ms
expect all left 22
expect bulk rate 1.6mbit +-30% from 0s to 100ms
"#);
    assert!(outcome.holds(), "{}", outcome.failures());
}

#[test]
fn errors_of_two_files_are_separate() {
    let mut files = |name: &str| Ok(Source::new(name, "version = 1\nfoo = 2\n"));
    let script = Source::new("test.tgs", "config \"wrong.toml\"\n");
    let message = Script::parse(script, &Limits::default(), &mut files).expect_err("wrong").to_string();
    assert!(message.contains("wrong.toml:2:1") && message.contains("\n\nerror: this file has errors\n"), "{message}");
}

/// As editors of other systems write it.
#[test]
fn the_mark_of_utf8_and_carriage_returns_are_no_part_of_a_script() {
    let text = "\u{feff}discipline { kind = \"fifo\" }\r\nflow a\r\nsend a\r\nexpect a\r\n";
    assert!(run(text).holds());
    assert_eq!(run(text).digest(), run(&text.replace(['\u{feff}', '\r'], "")).digest());
}

#[test]
fn a_run_has_a_digest() {
    let text = format!("{TWO}at 0s send 3 a\nexpect 2 a");
    assert_eq!(run(&text).digest(), run(&text).digest());
    assert_ne!(run(&text).digest(), on_two("at 1ns send 3 a").digest());
    assert_ne!(run(&text).digest(), on_two("at 0s send 3 a dscp ef").digest());
}

#[test]
fn a_discipline_that_breaks_the_law_of_deadlines_is_reported() {
    use tidegate_core::{Backlog, Deadline, Instant, Outlet, Qdisc, Queued};
    struct Idler;
    impl Qdisc<tidegate_script::Item> for Idler {
        fn enqueue(
            &mut self,
            _: Instant,
            _: tidegate_script::Item,
            _: &mut dyn Outlet<tidegate_script::Item>,
        ) -> Queued {
            Queued::default()
        }
        fn dequeue(&mut self, _: Instant, _: &mut dyn Outlet<tidegate_script::Item>) -> Option<tidegate_script::Item> {
            None
        }
        fn deadline(&self, _: Instant) -> Deadline {
            Deadline::Now
        }
        fn backlog(&self) -> Backlog {
            Backlog::default()
        }
    }
    let message = tidegate_script::run_qdisc("t.tgs", "flow a\nsend a", |_| Box::new(Idler)).expect_err("breaks law 3");
    assert!(message.contains("law 3"), "{message}");
}

#[test]
fn a_configuration_is_changed_and_nothing_is_lost() {
    // 1250 B are 10 ms at 1 Mbit/s and 5 ms at 2 Mbit/s.
    let file = |rate: &str| {
        format!("{{\nversion = 1\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\nlimit = \"1MB\"\ndefault = true\n}}\n")
    };
    let outcome = run(&format!(
        "config {}flow a size 1250\nat 0s send 60 a\nat 300ms reconfigure {}expect all dropped 0\nexpect a left 60\n\
         expect a rate 1mbit +-15% from 100ms to 300ms\nexpect a rate 2mbit +-15% from 310ms to 410ms",
        file("1mbit"),
        file("2mbit")
    ));
    assert!(outcome.holds(), "{}", outcome.failures());
}
