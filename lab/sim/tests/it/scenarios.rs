//! Scenario files: what they run, and what they are refused for, with line and column.

use std::path::Path;

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::{Outcome, Scenario};

/// The text of a scenario with the header that all have.
fn scenario(rest: &str) -> String {
    format!("version = 1\nduration = \"5s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n{rest}")
}

const LINKS: &str = "
[[link]]
from = \"a\"
to = \"r\"
rate = \"100mbit\"
[[link]]
from = \"r\"
to = \"b\"
rate = \"10mbit\"
";

const FLOW: &str = "
[[flow]]
name = \"bulk\"
from = \"a\"
to = \"b\"
workload = { kind = \"bulk\" }
";

fn load(text: &str) -> Result<Scenario, String> {
    let source = Source::new("test.toml", text);
    let mut diagnostics = Diagnostics::new();
    Scenario::load(&source, None, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

/// The text is refused at `place` with a message that has all of `parts`.
fn refused(text: &str, place: &str, parts: &[&str]) {
    let errors = load(text).expect_err("refused");
    assert!(errors.contains(&format!("test.toml:{place}")), "not at {place}:\n{errors}");
    for part in parts {
        assert!(errors.contains(part), "lacks `{part}`:\n{errors}");
    }
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.label() == subject && value.measure == measure);
    found.unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values)).value
}

#[test]
fn a_scenario_has_the_same_digest_for_the_same_seed() {
    let text = scenario(&format!("{LINKS}{}", FLOW.replace("workload", "jitter = \"1s\"\nworkload")));
    let scenario = load(&text).unwrap();
    let mut last = 0;
    let outcome = scenario.run(7, |at| last = at.as_nanos());
    assert_eq!(last, 5_000_000_000, "progress goes to the end");
    let goodput = value(&outcome, "flow bulk", "goodput");
    // 9.73 Mbit/s of data less the handshake, the start in the first second, and the beginning of slow start.
    assert!((7.5e6..9.74e6).contains(&goodput), "{goodput}");
    assert_eq!(outcome, scenario.run(7, |_| ()));
    assert_ne!(outcome.digest, scenario.run(8, |_| ()).digest);
}

#[test]
fn what_would_never_end_is_refused_with_the_limit() {
    let mice = |often: &str| {
        let workload =
            format!("workload = {{ kind = \"mice\", {often}, size = {{ kind = \"constant\", value = \"4kB\" }} }}");
        scenario(&format!("{LINKS}{}", FLOW.replace("workload = { kind = \"bulk\" }", &workload)))
    };
    load(&mice("per-second = 100.0")).unwrap();
    refused(&mice("per-second = 2002147483648.0"), "19:", &["2.002e12 mice per second", "more than the limit of 1e8"]);
    let never = "interval = { kind = \"constant\", value = \"0s\" }";
    refused(&mice(never), "19:", &["inf mice per second", "more than the limit of 1e8"]);
    let packets = "workload = { kind = \"constant\", rate = \"100gbit\", packet = \"1B\" }";
    let text = scenario(&format!("{LINKS}{}", FLOW.replace("workload = { kind = \"bulk\" }", packets)));
    refused(&text, "19:", &["packets per second", "more than the limit of 1e8"]);
    let slow = packets.replace("100gbit", "1gbit").replace("1B", "2B");
    let text = scenario(&format!("{LINKS}{}", FLOW.replace("workload = { kind = \"bulk\" }", &slow)));
    load(&text).unwrap();
    refused(&text.replace("\"5s\"", "\"60s\""), "19:", &["3.750e9 packets in a run", "more than the limit of 1e9"]);
    let bulk = scenario(&format!("{LINKS}{FLOW}"));
    refused(&bulk.replace("\"5s\"", "\"9000h\""), "2:", &["more than 30 days"]);
    let header = |line: &str| bulk.replacen("version = 1\n", &format!("version = 1\n{line}\n"), 1);
    refused(&header("runs = 4000000000"), "2:", &["more than the limit of 10000"]);
    refused(&header("bin = \"1us\""), "2:", &["more than 1000000 bins"]);
}

#[test]
fn every_part_of_the_language_can_be_said() {
    let text = r#"
version = 1
sentence = "Everything at once"
duration = "5s"
warm-up = "500ms"
seed = 4
runs = 2
bin = "50ms"
measure = ["goodput", "colours", "delay", "loss", "completion", "fairness", "links"]
hosts = ["s{1..4}", "d{1..4}"]
routers = ["left", "middle", "right"]

[[link]]
from = "s{1..4}"
to = "left"
rate = "100mbit"
limit = 50

[[link]]
from = "left"
to = "middle"
rate = "20mbit"
delay = "2ms"
queue = { kind = "fifo", limit = "60kB" }
queue-back = { kind = "fifo", limit = "60kB" }
driver = { software = "4KiB", hardware = "8KiB", service = "drain-all", on-receive = true, on-enqueue = true, timer-hz = 500 }

[[link]]
from = "middle"
to = "right"
rate = "20mbit"
delay = "2ms"
loss = "0.1%"
timer = "1ms"
watch = true

[[link]]
from = "left"
to = "right"
rate = "1mbit"
delay = "1us"

[[link]]
from = "right"
to = "d{1..4}"
rate = "100mbit"

[[route]]
at = "left"
to = "d1"
via = "middle"

[[flow]]
name = "bulk"
from = "s{1..4}"
to = "d{1..4}"
count = 2
start = "500ms"
stagger = "10ms"
class = "3"
dscp = "af11"
watch = true
tcp = { recovery = "newreno", congestion = "cubic", window = "64KiB", delayed-ack = "0s", min-rto = "200ms", ecn = true }
workload = { kind = "bulk", bytes = "300kB" }

[[flow]]
name = "calls"
from = "s1"
to = "d1"
transport = "udp"
stop = "2s"
workload = { kind = "on-off", rate = "64kbit", packet = "200B", on = { kind = "exponential", mean = "400ms" }, off = { kind = "pareto", mean = "600ms", shape = 1.5 } }

[[flow]]
name = "mice"
from = "s2"
to = "d2"
workload = { kind = "mice", interval = { kind = "uniform", low = "10ms", high = "50ms" }, direction = "download", size = { kind = "lognormal", mean = "8kB", deviation = "9kB" } }

[[flow]]
name = "web"
from = "s3"
to = "d3"
workload = { kind = "requests", request = { kind = "constant", value = "200B" }, response = { kind = "empirical", points = [{ value = "1kB", share = 0.5 }, { value = "20kB", share = 1.0 }] }, think = { kind = "normal", mean = "50ms", deviation = "20ms" } }

[[flow]]
name = "noise"
from = "s4"
to = "d4"
transport = "udp"
ecn = true
workload = { kind = "poisson", rate = "1mbit" }
"#;
    let scenario = load(text).unwrap();
    assert_eq!((scenario.seed, scenario.runs), (4, 2));
    let outcome = scenario.run(4, |_| ());
    assert_eq!(value(&outcome, "flow bulk", "completed"), 8.0);
    assert!(value(&outcome, "flow bulk", "fairness") > 0.9);
    assert!(value(&outcome, "flow mice", "completed") > 60.0);
    assert!(value(&outcome, "flow web", "completed") > 20.0);
    assert!(value(&outcome, "link left->middle", "throughput") > 1e6, "d1 goes by the middle");
    assert!(outcome.curves.iter().any(|curve| curve.name == "flow bulk 8 goodput over time"));
    assert!(outcome.curves.iter().any(|curve| curve.name == "link middle->right queueing distribution"));
}

#[test]
fn variants_run_side_by_side_with_the_same_random_numbers() {
    let flow = FLOW.replace("workload = { kind = \"bulk\" }", MICE).replace("bulk", "mice");
    let variant = |name: &str, queue: &str| {
        format!("[[variant]]\nname = \"{name}\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ {queue} }}\n")
    };
    let both = [variant("small", "kind = \"fifo\", limit = \"15kB\""), variant("large", "kind = \"fifo\"")].concat();
    let scenario = load(&scenario(&format!("{LINKS}{flow}{both}"))).unwrap();
    assert_eq!(scenario.parts(), 2);
    let outcome = scenario.run(1, |_| ());
    let opened = |name: &str| value(&outcome, &format!("{name}: flow mice"), "opened");
    assert_eq!(opened("small"), opened("large"), "the same mice come");
    assert!(opened("small") > 200.0);
    let dropped = |name: &str| value(&outcome, &format!("{name}: link r->b"), "dropped");
    assert!(dropped("small") > dropped("large"));
    let twice = [variant("same", "kind = \"fifo\""), variant("same", "kind = \"fifo\"")].concat();
    let text = self::scenario(&format!("{LINKS}{FLOW}{twice}"));
    refused(&text, "26:8", &["two variants are called `same`"]);
}

const MICE: &str =
    "workload = { kind = \"mice\", per-second = 60.0, size = { kind = \"exponential\", mean = \"15kB\" } }";

#[test]
fn impossible_scenarios_are_refused_with_their_place() {
    let with = |links: &str, flow: &str| scenario(&format!("{links}{flow}"));
    refused(&with(&LINKS.replace("10mbit", "0mbit"), FLOW), "13:8", &["a rate of zero"]);
    refused(&with(LINKS, &FLOW.replace("to = \"b\"", "to = \"bb\"")), "18:6", &["called `bb`", "`b`"]);
    refused(&with(LINKS, &FLOW.replace("to = \"b\"", "to = \"r\"")), "18:6", &["r is a router"]);
    refused(&with(LINKS, &FLOW.replace("to = \"b\"", "to = \"a\"")), "18:6", &["is at both ends"]);
    let apart = with(&LINKS.replace("to = \"b\"", "to = \"q\""), FLOW).replace("[\"r\"]", "[\"r\", \"q\"]");
    refused(&apart, "18:6", &["no path leads from a to b"]);
    let one_way = LINKS.replace("rate = \"10mbit\"", "rate = \"10mbit\"\nboth-ways = false");
    refused(&with(&one_way, FLOW), "19:6", &["no path leads from b to a", "both-ways"]);
    let text = scenario("").replace("[\"r\"]", "[\"r\", \"q\"]");
    let links = format!("{LINKS}[[link]]\nfrom = \"r\"\nto = \"q\"\nrate = \"1mbit\"\n");
    let circle = "[[route]]\nat = \"r\"\nto = \"b\"\nvia = \"q\"\n[[route]]\nat = \"q\"\nto = \"b\"\nvia = \"r\"\n";
    refused(&format!("{text}{links}{circle}{FLOW}"), "30:6", &["form a loop: r -> q -> r"]);
    let nowhere = "[[route]]\nat = \"a\"\nto = \"b\"\nvia = \"b\"\n";
    refused(&with(&format!("{LINKS}{nowhere}"), FLOW), "17:7", &["no link leads from `a` to `b`"]);
}

#[test]
fn wrong_names_units_and_numbers_are_refused_with_their_place() {
    let with = |flow: &str| scenario(&format!("{LINKS}{flow}"));
    refused("version = 1\nduration = 5\n", "2:12", &["no unit"]);
    refused(&scenario("dealy = 3\n"), "5:1", &["dealy"]);
    refused(&with(&FLOW.replace("\"bulk\" }", "\"bulks\" }")), "19:21", &["bulks", "bulk"]);
    let mice = |rest: &str| with(&FLOW.replace("kind = \"bulk\"", &format!("kind = \"mice\", {rest}")));
    refused(
        &mice("per-second = 1.0, size = { kind = \"exponential\", mean = \"5s\" }"),
        "19:85",
        &["a time is given where a size"],
    );
    refused(
        &mice("size = { kind = \"exponential\", mean = \"5kB\" }"),
        "19:12",
        &["the rate of mice is not specified"],
    );
    refused(&mice("per-second = 0.0, size = { kind = \"constant\", value = \"5kB\" }"), "19:42", &["no mice at all"]);
    let udp = FLOW.replace("workload", "transport = \"udp\"\nworkload");
    refused(&with(&udp), "20:12", &["needs TCP"]);
    refused(&with(&FLOW.replace("\"b\"", "\"b{1..2\"")), "18:6", &["range"]);
    refused(&with(FLOW).replace("\"5s\"", "\"5s\"\nwarm-up = \"9s\""), "3:11", &["warm-up takes up"]);
    refused(&with(&format!("{FLOW}{FLOW}")), "22:8", &["two flows are called `bulk`"]);
    refused(&with(&FLOW.replace("workload", "class = \"gold\"\nworkload")), "19:9", &["no class is called `gold`"]);
    // The name is used by links that have a queue in common before the errors are reported.
    let queue = "[[shared-queue]]\nfrom = \"a\"\nto = \"r\"\nqueue = { kind = \"fifo\" }\n";
    let twice = with(&format!("{queue}{FLOW}")).replace("[\"r\"]", "[\"r\", \"r\"]");
    refused(&twice, "4:17", &["two nodes are called `r`"]);
    refused(&with(""), "1:11", &["has no flow"]);
    refused(
        &with(&FLOW.replace("kind = \"bulk\"", "kind = \"trace\", file = \"x.csv\"")),
        "19:37",
        &["cannot refer to files"],
    );
    // Several at once, each with its place.
    let errors = load(&with(FLOW).replace("100mbit", "fast").replace("10mbit", "10")).unwrap_err();
    assert!(errors.contains("test.toml:9:8") && errors.contains("test.toml:13:8"), "{errors}");
}

#[test]
fn the_example_scenarios_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../papers/scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder of scenarios") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let source = Source::open(&path).unwrap();
            let mut diagnostics = Diagnostics::new();
            let open = |name: &str| Source::open(&folder.join(name));
            let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
            assert!(scenario.is_some_and(|scenario| scenario.sentence.is_some()), "{}", diagnostics.render(&source));
            count += 1;
        }
    }
    assert!(count >= 3);
}

#[test]
fn the_language_has_a_schema() {
    let schema = tidegate_sim::scenario::schema();
    assert!(schema["properties"]["link"].is_object() && schema["properties"]["warm-up"]["default"] == "0s");
}
