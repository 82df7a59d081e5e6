//! Rates and fairness of CUBIC at the round trips of real lines, through every preset, every example that shapes and every
//! kind of discipline: one flow and ten, at 5, 20 and 100 ms, beside FQ-CoDel at the same rate. A delay is what shows a
//! discipline that drops too much, or a queue that is too short.
//!
//! `TIDEGATE_TESTS=nightly cargo test -p tidegate-sim --test it round_trips:: -- --nocapture` prints the table; a short run takes
//! only the round trip of 20 ms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tidegate_config::shaper::{Direction, split};
use tidegate_config::{Diagnostics, Source, preset};
use tidegate_core::cake::Wire;
use tidegate_core::{Bytes, Rate};
use tidegate_sim::scenario::Scenario;
use tidegate_testbed::is_nightly;

/// A discipline or a shaper.
struct Row {
    name: String,
    /// As a scenario has it.
    queue: String,
    /// The rate in Mbit/s of a flow or host that is alone, with `overhead` bytes beside each packet.
    rate: f64,
    overhead: f64,
    /// The expected results; where they are not [`USUAL`], the reason is beside the row.
    bounds: Bounds,
}

/// Parts of what FQ-CoDel gives in the same place, at 5, 20 and 100 ms.
#[derive(Clone, Copy)]
struct Bounds {
    one: [f64; 3],
    ten: [f64; 3],
    /// Jain's index of ten flows.
    fairness: f64,
}

/// Flows are kept apart.
const USUAL: Bounds = Bounds { one: [0.95; 3], ten: [0.95; 3], fairness: 0.98 };
/// Flows share a queue: their windows differ as the chance of drops has it, within the time that is measured.
const MIXED: Bounds = Bounds { fairness: 0.75, ..USUAL };
/// They share a queue of 0.6 or 1 MB, which is hundreds of milliseconds, and lose packets only when it is full: who recovers
/// first has a lead for longer than what is measured.
const TAIL: Bounds = Bounds { fairness: 0.3, ..USUAL };
/// ARED holds an average of 5 ms of queue, and its probability follows a flow alone slowly: at 100 ms the window of a lone
/// flow is often below what the line needs.
const ARED: Bounds = Bounds { one: [0.95, 0.95, 0.9], ..MIXED };
/// There is no queue, and elephants get 95 % of the line less what mice had: a window that is halved leaves the line idle.
const FILTER: Bounds = Bounds { one: [0.9, 0.8, 0.8], ten: [0.9, 0.9, 0.85], ..MIXED };

/// The rate of the line of a discipline.
const LINE: f64 = 20.0;
/// The bytes of a packet: PPPoE's, so that no example has to cut it up.
const PACKET: f64 = 1_492.0;
const ROUND_TRIPS: [u64; 3] = [5, 20, 100];

fn row(name: &str, queue: &str, bounds: Bounds) -> Row {
    Row { name: name.into(), queue: queue.into(), rate: LINE, overhead: 0.0, bounds }
}

/// Every kind of discipline on a line of 20 Mbit/s.
fn kinds() -> Vec<Row> {
    let colours = "green = { min-th = \"100kB\", max-th = \"300kB\" }, yellow = { min-th = \"100kB\", max-th = \"300kB\" }, \
                   red = { min-th = \"100kB\", max-th = \"300kB\" }";
    let colours = |kind| format!("kind = \"{kind}\", {colours}");
    let class =
        |kind, rest: &str| format!("kind = \"{kind}\", {rest}class = [{{ name = \"all\", rate = \"20mbit\" }}]");
    [
        ("ared", "kind = \"ared\", link = \"20mbit\"".to_owned(), ARED),
        ("cake", "kind = \"cake\", rate = \"20mbit\"".into(), USUAL),
        ("cbq", class("cbq", "link = \"20mbit\", "), TAIL),
        ("codel", "kind = \"codel\"".into(), MIXED),
        ("drr", "kind = \"drr\"".into(), USUAL),
        ("dualpi2", "kind = \"dualpi2\"".into(), MIXED),
        ("fbq", class("fbq", ""), USUAL),
        ("fifo", "kind = \"fifo\"".into(), TAIL),
        ("fq-codel", "kind = \"fq-codel\"".into(), USUAL),
        ("fq-pie", "kind = \"fq-pie\"".into(), USUAL),
        ("hfsc", "kind = \"hfsc\", link = \"20mbit\", class = [{ name = \"all\", guarantee = { rate = \"20mbit\" } }]".into(), TAIL),
        ("htb", class("htb", ""), TAIL),
        ("ingress-filter", "kind = \"ingress-filter\", link = \"20mbit\"".into(), FILTER),
        ("marker", "kind = \"marker\", conditioner = { class = 1, meter = { kind = \"srtcm\", cir = \"10mbit\", cbs = \"30kB\", ebs = \"30kB\" } }".into(), TAIL),
        ("mered", "kind = \"mered\", link = \"20mbit\"".into(), MIXED),
        ("meredt", "kind = \"meredt\", link = \"20mbit\"".into(), MIXED),
        ("pie", "kind = \"pie\"".into(), MIXED),
        ("ras", "kind = \"ras\", cir = \"10mbit\", line-rate = \"20mbit\", cir-th = \"64kB\", mir-th = \"256kB\", buffer = \"640kB\"".into(), TAIL),
        ("red", "kind = \"red\", min-th = \"100kB\", max-th = \"300kB\"".into(), MIXED),
        ("rio", colours("rio"), MIXED),
        ("sfq", "kind = \"sfq\"".into(), USUAL),
        ("wf2q", "kind = \"wf2q\", link = \"20mbit\"".into(), USUAL),
        ("wfq", "kind = \"wfq\", link = \"20mbit\"".into(), USUAL),
        ("wred", colours("wred"), MIXED),
    ]
    .map(|(name, keys, bounds)| row(name, &format!("{{ {keys} }}"), bounds))
    .into()
}

/// Every example that shapes, and its rate for whoever is alone.
fn examples() -> Vec<Row> {
    [
        ("assured", 34.0, 0.0, TAIL),
        ("download", 45.0, 38.0, MIXED),
        ("gateway", 48.0, 26.0, USUAL),
        ("host", 80.0, 0.0, USUAL),
        ("mice", 19.0, 0.0, MIXED),
        ("minimal", 20.0, 0.0, USUAL),
        ("office", 24.0, 0.0, USUAL),
        ("thin-uplink", 9.0, 0.0, USUAL),
        ("vlans", 20.0, 0.0, USUAL),
    ]
    .map(|(name, rate, overhead, bounds)| {
        let queue = format!("{{ shaper = \"{name}.toml\" }}");
        Row { rate, overhead, ..row(name, &queue, bounds) }
    })
    .into()
}

/// The presets of every kind of line, for 20 Mbit/s either way.
fn presets() -> Vec<Row> {
    let ways = [("up", 19.0), ("down", 18.0)];
    let both = |(link, _, wire): &(&str, &str, Wire)| {
        let wire = *wire;
        ways.map(|(way, rate)| {
            let name = format!("preset {link} {way}");
            let overhead = wire.bytes(Bytes::new(PACKET as u64), 1).as_u64() as f64 - PACKET;
            Row { rate, overhead, ..row(&name, &format!("{{ shaper = \"{name}\" }}"), USUAL) }
        })
    };
    preset::LINKS.iter().flat_map(both).collect()
}

fn examples_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The text of a shaper file by the name in a row.
fn open(name: &str) -> std::io::Result<Source> {
    let preset = name.strip_prefix("preset ").and_then(|name| name.rsplit_once(' '));
    let Some((link, way)) = preset else {
        let text = std::fs::read_to_string(examples_folder().join(name))?;
        // A link has one direction of a file for both.
        return Ok(Source::new(name, split(&text, Direction::Egress).unwrap_or(text)));
    };
    let rate = |its| (way == its).then(|| preset::LineRate::Constant(Rate::from_mbit(20)));
    let wire = preset::wire_of(link).expect("a kind of line");
    let line = preset::Line {
        up: rate("up"),
        down: rate("down"),
        wire,
        interfaces: Vec::new(),
        mtu: None,
        l4s: preset::L4s::Off,
    };
    Ok(Source::new(name, line.text().expect("a rate")))
}

/// Runs flows of two hosts, so many of each, through a queue; the outcome, in parts of the rate: what the flows of each host
/// get together, and Jain's index of those of the second.
fn run(row: &Row, milliseconds: u64, flows: [u64; 2]) -> ([f64; 2], f64) {
    run_with(row, milliseconds, flows, "cubic")
}

/// Like [`run`], with a congestion control.
fn run_with(row: &Row, milliseconds: u64, flows: [u64; 2], control: &str) -> ([f64; 2], f64) {
    // What is measured is the second half. CUBIC needs some seconds where its window is large.
    let seconds = if milliseconds < 100 { 20 } else { 40 };
    // A discipline has the line behind it, a shaper a faster one.
    let line = if row.queue.contains("shaper") { 10.0 * row.rate } else { row.rate };
    let mut text = format!(
        "version = 1\nduration = \"{seconds}s\"\nwarm-up = \"{}s\"\n\
         hosts = [\"a1\", \"a2\", \"b1\", \"b2\"]\nrouters = [\"r\", \"s\"]\n\
         [[link]]\nfrom = \"a{{1..2}}\"\nto = \"r\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n\
         [[link]]\nfrom = \"r\"\nto = \"s\"\nrate = \"{}bit\"\ndelay = \"{}us\"\nqueue = {}\n\
         [[link]]\nfrom = \"s\"\nto = \"b{{1..2}}\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n",
        seconds / 2,
        (line * 1e6) as u64,
        milliseconds * 500,
        row.queue,
    );
    for (host, count) in flows.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let host = host + 1;
        text += &format!(
            "[[flow]]\nname = \"{host}\"\nfrom = \"a{host}\"\nto = \"b{host}\"\ncount = {count}\nport = 6000\n\
             jitter = \"100ms\"\nworkload = {{ kind = \"bulk\" }}\n\
             tcp = {{ congestion = \"{control}\", mss = \"1452B\", window = \"16MiB\", min-rto = \"200ms\" }}\n"
        );
    }
    let (source, mut diagnostics) = (Source::new("test.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(1, |_| ());
    let value = |host: usize, measure: &str| {
        let subject = format!("flow {host}");
        outcome
            .values
            .iter()
            .find(|value| value.subject == subject && value.measure == measure)
            .map(|value| value.value)
    };
    let part = |host| {
        let goodput = value(host, "goodput").unwrap_or(0.0);
        goodput * (PACKET + row.overhead) / (PACKET - 40.0) / row.rate / 1e6
    };
    ([part(1), part(2)], value(2, "fairness").unwrap_or(1.0))
}

/// The results of FQ-CoDel, by rate, round trip and number of flows.
static PEERS: Mutex<BTreeMap<(u64, u64, u64), f64>> = Mutex::new(BTreeMap::new());

fn peer(rate: f64, milliseconds: u64, flows: u64) -> f64 {
    let key = (rate as u64, milliseconds, flows);
    let known = PEERS.lock().expect("no panic").get(&key).copied();
    known.unwrap_or_else(|| {
        let fq_codel = Row { rate, ..row("fq-codel", "{ kind = \"fq-codel\" }", USUAL) };
        let ([_, part], _) = run(&fq_codel, milliseconds, [0, flows]);
        PEERS.lock().expect("no panic").insert(key, part);
        part
    })
}

/// Prints a line for the row, of the round trips with these numbers; what is too little of it.
fn try_row(row: &Row, numbers: &[usize]) -> Vec<String> {
    let (mut line, mut wrong) = (format!("{:<24}", row.name), Vec::new());
    for &n in numbers {
        let milliseconds = ROUND_TRIPS[n];
        for (flows, bound) in [(1, row.bounds.one[n]), (10, row.bounds.ten[n])] {
            let ([_, part], fairness) = run(row, milliseconds, [0, flows]);
            let peer = peer(row.rate, milliseconds, flows);
            line += &format!("  {part:.2} ({:.2})", part / peer);
            let what = format!("{}, {milliseconds} ms, {flows} flows", row.name);
            // Above 1 by data that arrived earlier and waited for a retransmission.
            if part < bound * peer || part > 1.06 {
                wrong.push(format!(
                    "{what}: {part:.3} of the rate, where FQ-CoDel gives {peer:.3}; at least {bound} of that"
                ));
            }
            if flows > 1 {
                line += &format!(" {fairness:.3}");
                if fairness < row.bounds.fairness {
                    wrong.push(format!("{what}: fairness {fairness:.3}, at least {}", row.bounds.fairness));
                }
            }
        }
    }
    println!("{line}");
    wrong
}

/// The round trips of this run, by their numbers.
fn numbers() -> &'static [usize] {
    if is_nightly() { &[0, 1, 2] } else { &[1] }
}

fn table(rows: &[Row]) {
    let numbers = numbers();
    let heads =
        numbers.iter().map(|&n| format!("  {:<12}  {:<18}", format!("{} ms, one", ROUND_TRIPS[n]), "ten, Jain"));
    println!("Part of the rate (of what FQ-CoDel gives)\n{:<24}{}", "", heads.collect::<String>());
    let wrong: Vec<String> = rows.iter().flat_map(|row| try_row(row, numbers)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn disciplines() {
    table(&kinds());
}

#[test]
fn shapers_of_the_examples() {
    table(&examples());
}

#[test]
fn shapers_of_the_presets() {
    table(&presets());
}

/// Each congestion control through FQ-CoDel, which marks what is ECN-capable; as parts of what CUBIC gets there.
#[test]
fn congestion_controls() {
    let queue = row("fq-codel", "{ kind = \"fq-codel\" }", USUAL);
    let mut wrong = Vec::new();
    // Reno halves a window that a queue of 5 ms hardly exceeds: alone at 100 ms it uses about three quarters of the line. BBR
    // paces at 99 % of the bandwidth and gives a fiftieth to its probes of the round trip.
    for (control, least) in [("reno", 0.85), ("prague", 0.95), ("bbr", 0.93)] {
        for milliseconds in numbers().iter().map(|&n| ROUND_TRIPS[n]) {
            let mut line = format!("{control:<8} {milliseconds:>4} ms");
            for flows in [1, 10] {
                let (([_, part], fairness), peer) =
                    (run_with(&queue, milliseconds, [0, flows], control), peer(queue.rate, milliseconds, flows));
                line += &format!("  {part:.2} ({:.2}) {fairness:.3}", part / peer);
                if part < least * peer || part > 1.06 || fairness < USUAL.fairness {
                    wrong.push(format!(
                        "{control}, {milliseconds} ms, {flows} flows: {part:.3} of {peer:.3}, {fairness:.3}"
                    ));
                }
            }
            println!("{line}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// CAKE alone on lines of other rates: BLUE's probability never fell, and a lone flow got 0.35, 0.17 and 0.02 of them.
#[test]
fn a_flow_alone_has_the_line_under_cake() {
    let wrong: Vec<String> = [(50.0, 1), (10.0, 2), (100.0, 2)]
        .into_iter()
        .filter(|(_, n)| numbers().contains(n))
        .flat_map(|(rate, n)| {
            let cake = format!("{{ kind = \"cake\", rate = \"{rate}mbit\" }}");
            try_row(&Row { rate, ..row(&format!("cake, {rate} Mbit/s"), &cake, USUAL) }, &[n])
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where hosts are kept apart, one with a flow beside one with ten: even within 5 %, up to where a flow alone would not use
/// its half of the line either.
#[test]
fn hosts_are_even() {
    let is_fair =
        |row: &Row| row.name.starts_with("preset") || ["cake", "gateway", "thin-uplink"].contains(&&*row.name);
    let mut wrong = Vec::new();
    for row in [kinds(), examples(), presets()].into_iter().flatten().filter(is_fair) {
        let mut line = format!("{:<24}", row.name);
        for milliseconds in numbers().iter().map(|&n| ROUND_TRIPS[n]) {
            let ([one, ten], _) = run(&row, milliseconds, [1, 10]);
            line += &format!("  {one:.3} {ten:.3}");
            let least = 0.5 * peer(row.rate / 2.0, milliseconds, 1) * 0.975;
            if one < least || one > ten * 1.05 || one + ten < 0.95 {
                wrong.push(format!("{}, {milliseconds} ms: {one:.3} and {ten:.3}, at least {least:.3}", row.name));
            }
        }
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_out() {
    let names = |rows: Vec<Row>| rows.into_iter().map(|row| row.name).collect::<BTreeSet<_>>();
    let files = std::fs::read_dir(examples_folder()).expect("examples");
    let files =
        files.filter_map(|file| file.expect("a file").file_name().to_str()?.strip_suffix(".toml").map(str::to_owned));
    assert_eq!(files.collect::<BTreeSet<_>>(), names(examples()));
    let kinds: BTreeSet<String> =
        tidegate_config::discipline::Discipline::KINDS.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(kinds, names(self::kinds()));
}
