//! Measures of directions, completion and capacity, and the files that are refused because they could not be measured.

use tidegate_config::{Diagnostics, Source};
use tidegate_core::Span;
use tidegate_sim::metrics::TransferEnd;
use tidegate_sim::scenario::{Detail, Outcome, Scenario};

const HEAD: &str = "version = 1\nduration = \"20s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n";
const LINKS: [&str; 2] = [
    "[[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"100mbit\"\n",
    "[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"2mbit\"\nqueue = { kind = \"fifo\", limit = \"250kB\" }\n",
];
const BULK: &str = "[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }\n";

fn load(text: &str) -> Result<Scenario, String> {
    let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
    Scenario::load(&source, None, &mut found).ok_or_else(|| found.render(&source))
}

fn run(text: &str) -> Outcome {
    load(text).unwrap_or_else(|text| panic!("{text}")).run(1, |_| ())
}

fn find(outcome: &Outcome, subject: &str, measure: &str) -> Option<f64> {
    let is_it = |value: &&tidegate_metrics::Value| value.label() == subject && value.measure == measure;
    outcome.values.iter().find(is_it).map(|value| value.value)
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    find(outcome, subject, measure).unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values))
}

/// A transfer fills the queue of one direction: the far end hears the caller a second late, and answers at once. A mean over
/// both would be that of no direction.
#[test]
fn a_call_has_a_quality_in_each_direction() {
    let call = "[[flow]]\nname = \"call\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"call\" }\n";
    let outcome = run(&format!("{HEAD}{}{}{BULK}{call}", LINKS[0], LINKS[1]));
    let of = |measure: &str| value(&outcome, "flow call", measure);
    assert!(of("MOS up") < 2.0 && of("MOS down") > 4.0, "{} {}", of("MOS up"), of("MOS down"));
    assert!(of("delay up p50") > 0.5e9 && of("delay down p50") < 0.01e9);
    // The call sends as much both ways. What is lost of it is lost on the full line.
    assert!(of("loss up") > 0.1 && of("loss down") == 0.0, "{} {}", of("loss up"), of("loss down"));
    assert!(of("goodput up") < of("goodput down"), "{} {}", of("goodput up"), of("goodput down"));
    assert!((of("goodput up") + of("goodput down") - of("goodput")).abs() <= 1.0);
    for both in ["MOS", "R factor", "mouth to ear", "delay p50"] {
        assert_eq!(find(&outcome, "flow call", both), None, "{both}");
    }
    // The transfer has data in one direction, and plain names.
    assert!(value(&outcome, "flow bulk", "delay p50") > 0.5e9);
    let curves: Vec<&str> = outcome.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert!(curves.contains(&"flow call delay up distribution"), "{curves:?}");
    assert!(curves.contains(&"flow bulk delay distribution"), "{curves:?}");
}

/// A datagram of headers alone arrives like any other.
#[test]
fn small_datagrams_have_a_delay() {
    let small = "[[flow]]\nname = \"s\"\nfrom = \"a\"\nto = \"b\"\n\
                 workload = { kind = \"constant\", rate = \"22400bit\", packet = \"28B\" }\n";
    let outcome = run(&format!("{HEAD}{}{}{small}", LINKS[0], LINKS[1]));
    // 28 bytes take 2.24 us of 100 Mbit/s and 112 us of 2 Mbit/s, and each line 1 ms.
    let delay = value(&outcome, "flow s", "delay p50");
    assert!((2.11e6..2.15e6).contains(&delay), "{delay}");
}

/// The share of what the line could carry: not of its nominal rate, and never above 1.
#[test]
fn utilisation_is_of_what_the_line_could_carry() {
    let slow = LINKS[1].replace(
        "queue",
        "rate-over-time = { kind = \"steps\", repeat = \"2s\", steps = [{ at = \"0s\", \
         rate = \"2mbit\" }, { at = \"1s\", rate = \"200kbit\" }] }\nqueue",
    );
    let outcome = run(&format!("{HEAD}{}{slow}{BULK}", LINKS[0]));
    let used = value(&outcome, "link r->b", "utilisation");
    // The mean rate is 1.1 Mbit/s.
    let rate = value(&outcome, "link r->b", "throughput");
    assert!((0.95..=1.0).contains(&used) && (rate / 1.1e6 / used - 1.0).abs() < 0.02, "{used} {rate}");
    // A line that fails half of the time can carry half.
    let fails = LINKS[1].replace("queue", "outage = [{ from = \"2s\", to = \"12s\" }]\nqueue");
    let packets =
        "[[flow]]\nname = \"p\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"constant\", rate = \"3mbit\" }\n";
    let used = value(&run(&format!("{HEAD}{}{fails}{packets}", LINKS[0])), "link r->b", "utilisation");
    assert!((0.98..=1.0).contains(&used), "{used}");
    // One packet occupies a line of 1 bit/s for longer than the run.
    let slow = LINKS[1].replace("2mbit", "1bit");
    let used = value(&run(&format!("{HEAD}{}{slow}{packets}", LINKS[0])), "link r->b", "utilisation");
    assert!((0.9..=1.0).contains(&used), "{used}");
}

#[test]
fn transfers_are_kept_one_by_one_where_parts_are() {
    let mice = "[[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"mice\", per-second = 4, \
                size = { kind = \"uniform\", low = \"1kB\", high = \"40kB\" } }\n";
    let text = format!("{HEAD}{}{}{mice}", LINKS[0], LINKS[1]);
    let plain = run(&text);
    let mut detailed = load(&text).unwrap();
    detailed.detail = Detail::Parts;
    let detailed = detailed.run(1, |_| ());
    assert!(plain.transfers.is_empty() && plain.digest == detailed.digest);
    let completed = value(&detailed, "flow mice", "completed");
    let finished = || detailed.transfers.iter().filter(|done| done.transfer.end == TransferEnd::Completed);
    assert_eq!(finished().count() as f64, completed);
    assert_eq!(detailed.transfers.len() as f64, value(&detailed, "flow mice", "opened"));
    assert!(completed > 40.0);
    let longest = finished().map(|done| done.transfer.time_ns).max().unwrap() as f64;
    assert!(longest >= value(&detailed, "flow mice", "completion p99") * 0.98);
    for done in finished() {
        let transfer = done.transfer;
        assert!(done.flow == "mice" && (1_000..=40_000).contains(&transfer.size), "{done:?}");
        assert!(transfer.time_ns >= transfer.ideal_ns && transfer.begun_ns < 20_000_000_000, "{done:?}");
    }
    assert!(value(&detailed, "flow mice", "slowdown p50") >= 1.0);
    // They survive the cache of runs.
    assert_eq!(Outcome::from_json(&detailed.to_json()).as_ref(), Some(&detailed));
}

/// A fifth more transfers than the line carries: many never end. Their percentiles are those of Kaplan and Meier's estimate over the
/// rows that are kept, and the 99th is not reached; the completed ones alone would have it at a few seconds.
#[test]
fn transfers_that_have_not_ended_are_longer_than_they_had_lasted() {
    let mice = "[[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"mice\", per-second = 6, \
                size = { kind = \"constant\", value = \"50kB\" } }\n";
    let mut scenario = load(&format!("{HEAD}{}{}{mice}", LINKS[0], LINKS[1])).unwrap();
    scenario.detail = Detail::Parts;
    let outcome = scenario.run(1, |_| ());
    let of = |measure: &str| value(&outcome, "flow mice", measure);
    let rows = || outcome.transfers.iter().map(|row| row.transfer);
    let is_open = |row: &tidegate_sim::metrics::Transfer| row.end != TransferEnd::Completed;
    assert_eq!(rows().filter(is_open).count() as f64, of("opened") - of("completed"));
    assert!(of("completed") > 50.0 && of("completed") < 0.95 * of("opened"), "{:?}", outcome.values);
    assert!(rows().filter(is_open).all(|row| row.begun_ns + row.time_ns == 20_000_000_000));
    let estimated = |q: f64| {
        let mut times: Vec<u64> = rows().filter(|row| !is_open(row)).map(|row| row.time_ns).collect();
        times.sort_unstable();
        let mut left = 1.0;
        for time in times {
            left *= 1.0 - 1.0 / rows().filter(|row| row.time_ns >= time).count() as f64;
            if 1.0 - left >= q {
                return time as f64;
            }
        }
        f64::INFINITY
    };
    let (median, exact) = (of("completion p50"), estimated(0.5));
    assert!(exact.is_finite() && (exact..=exact * (1.0 + 2.0 / 64.0)).contains(&median), "{median} {exact}");
    assert_eq!((of("completion p99"), estimated(0.99)), (f64::INFINITY, f64::INFINITY));
    assert_eq!(of("slowdown p99"), f64::INFINITY);
    // The curve ends where what is left had not ended.
    let curve = outcome.curves.iter().find(|curve| curve.name == "flow mice completion distribution").expect("a curve");
    let share = curve.points.last().expect("points").1;
    assert!((0.5..0.99).contains(&share), "{share}");
    // The mean is of the completed ones, and the outcome survives the cache of runs.
    assert!(of("completion mean").is_finite());
    assert_eq!(Outcome::from_json(&outcome.to_json()).as_ref(), Some(&outcome));
}

/// A line that loses most packets: some connections are aborted, and count as endless.
#[test]
fn aborted_transfers_never_complete() {
    let mice = "[[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"mice\", per-second = 2, \
                size = { kind = \"constant\", value = \"20kB\" } }\nstop = \"19s\"\n";
    let text = format!("{HEAD}{}{}loss = \"60%\"\n{mice}", LINKS[0], LINKS[1]).replace("\"20s\"", "\"3000s\"");
    let mut scenario = load(&text).unwrap();
    scenario.detail = Detail::Parts;
    let outcome = scenario.run(1, |_| ());
    let of = |measure: &str| value(&outcome, "flow mice", measure);
    let aborted = outcome.transfers.iter().filter(|row| row.transfer.end == TransferEnd::Aborted).count();
    assert!(aborted > 0 && of("failed") == aborted as f64, "{aborted} {:?}", outcome.values);
    let cut = outcome.transfers.iter().filter(|row| row.transfer.end == TransferEnd::Cut).count();
    assert_eq!(of("opened"), of("completed") + of("failed") + cut as f64);
    assert_eq!(of("completion p99"), f64::INFINITY);
}

/// A page that is loading when the run ends counts as longer than it had taken.
#[test]
fn a_page_that_has_not_been_loaded_is_longer() {
    let web = "[[flow]]\nname = \"web\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"web\" }\ncount = 40\n";
    let slow = LINKS[1].replace("2mbit", "300kbit");
    let text = format!("{HEAD}{}{slow}{web}", LINKS[0]);
    let plain = run(&text);
    let mut scenario = load(&text).unwrap();
    scenario.detail = Detail::Parts;
    let outcome = scenario.run(1, |_| ());
    let of = |measure: &str| value(&outcome, "flow web", measure);
    assert!(of("pages loaded") < 0.9 * of("pages begun") && of("pages loaded") > 0.0, "{:?}", outcome.values);
    assert_eq!(of("page load p99"), f64::INFINITY);
    // The pages are kept one by one, and their mean is that of the values.
    assert!(plain.pages.is_empty() && plain.digest == outcome.digest);
    let loaded: Vec<f64> =
        outcome.pages.iter().filter(|row| row.page.finished).map(|row| row.page.load_ns as f64).collect();
    assert_eq!((outcome.pages.len() as f64, loaded.len() as f64), (of("pages begun"), of("pages loaded")));
    let mean = loaded.iter().sum::<f64>() / loaded.len() as f64;
    assert!((mean / of("page load mean") - 1.0).abs() < 1e-9, "{mean} {}", of("page load mean"));
    let is_cut = |row: &tidegate_sim::scenario::FlowPage| row.page.begun_ns + row.page.load_ns == 20_000_000_000;
    assert!(outcome.pages.iter().filter(|row| !row.page.finished).all(is_cut));
    assert_eq!(Outcome::from_json(&outcome.to_json()).as_ref(), Some(&outcome));
}

/// A browser and a client that wait for one answer from the warm-up to the end make no other request: what they wait for is counted, or the
/// slowest run would be the one that has nothing to report.
#[test]
fn what_hangs_from_the_warm_up_to_the_end_is_counted() {
    let slow = LINKS[1].replace("2mbit", "10kbit");
    let web = "[[flow]]\nname = \"web\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"web\" }\ncount = 3\n";
    let asks = "[[flow]]\nname = \"asks\"\nfrom = \"a\"\nto = \"b\"\n[flow.workload]\nkind = \"requests\"\n\
                request = { kind = \"constant\", value = \"200B\" }\nresponse = { kind = \"constant\", value = \"1MB\" }\n\
                think = { kind = \"constant\", value = \"50ms\" }\n";
    let text = format!("{HEAD}{}{slow}{web}{asks}", LINKS[0]);
    let outcome = run(&text.replace("\"20s\"", "\"20s\"\nwarm-up = \"15s\""));
    let of = |flow: &str, measure: &str| value(&outcome, flow, measure);
    // One of the three has loaded its page before, and reads.
    assert_eq!((of("flow web", "pages begun"), of("flow web", "pages loaded")), (2.0, 0.0), "{:?}", outcome.values);
    assert!(of("flow web", "objects a page") >= 1.0);
    assert_eq!((of("flow asks", "opened"), of("flow asks", "completed")), (1.0, 0.0));
    assert_eq!((of("flow web", "page load p50"), of("flow asks", "completion p50")), (f64::INFINITY, f64::INFINITY));
    // An answer that was asked for during the warm-up and comes after it counts likewise; the next one is under way.
    let slow = LINKS[1].replace("2mbit", "500kbit");
    let text = format!("{HEAD}{}{slow}{asks}", LINKS[0]);
    let outcome = run(&text.replace("\"20s\"", "\"20s\"\nwarm-up = \"15s\""));
    let of = |measure: &str| value(&outcome, "flow asks", measure);
    assert_eq!((of("opened"), of("completed")), (2.0, 1.0), "{:?}", outcome.values);
    assert!((16e9..20e9).contains(&of("completion mean")), "{}", of("completion mean"));
}

/// A short queue makes holes all the time. An interval that begins or ends within a hole has no more data than the line
/// carries in it, which is 1460 of 1500 bytes, and at most one packet that it had begun before.
#[test]
fn goodput_is_never_above_the_line() {
    let lossy = LINKS[1].replace("2mbit", "10mbit").replace("\"250kB\"", "\"9kB\"");
    let text = format!("{HEAD}{}{lossy}{BULK}watch = true\n", LINKS[0]).replace("\"20s\"", "\"4s\"\nbin = \"10ms\"");
    for tenths in 10..38 {
        let outcome = run(&text.replace("bin", &format!("warm-up = \"{}ms\"\nbin", tenths * 100)));
        let carried = 10e6 * 1460.0 / 1500.0;
        let found = value(&outcome, "flow bulk", "goodput");
        let packet = 1460.0 * 8.0 / (4.0 - f64::from(tenths) / 10.0);
        assert!(found <= carried + packet, "{found} after {tenths}00 ms");
        let curve = outcome.curves.iter().find(|curve| curve.name == "flow bulk goodput over time").expect("watched");
        let most = curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
        assert!(most <= carried + 1460.0 * 8.0 / 0.01, "{most} in a bin");
    }
}

/// Every byte of data counts once, and a FIN that arrives before the data in front of it does not count.
#[test]
fn goodput_of_whole_transfers_is_their_size() {
    let mice = "[[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"mice\", per-second = 2, \
                size = { kind = \"constant\", value = \"20kB\" }, direction = \"upload\" }\nstop = \"60s\"\n";
    let text = format!("{HEAD}{}{}loss = \"10%\"\n{mice}", LINKS[0], LINKS[1]).replace("\"20s\"", "\"400s\"");
    let outcome = run(&text);
    let of = |measure: &str| value(&outcome, "flow mice", measure);
    assert!(of("completed") > 80.0 && of("completed") == of("opened"), "{:?}", outcome.values);
    let bytes = of("goodput") * 400.0 / 8.0;
    assert!((bytes - of("completed") * 20_000.0).abs() < 50.0, "{bytes} bytes of {} transfers", of("completed"));
}

/// On a connection that is there no handshake is part of the ideal time, and an idle line takes that time.
#[test]
fn answers_on_an_open_connection_are_not_faster_than_the_ideal() {
    let asks = "[[flow]]\nname = \"asks\"\nfrom = \"a\"\nto = \"b\"\n[flow.workload]\nkind = \"requests\"\n\
                request = { kind = \"constant\", value = \"200B\" }\nresponse = { kind = \"constant\", value = \"1kB\" }\n\
                think = { kind = \"constant\", value = \"50ms\" }\n";
    let mut scenario = load(&format!("{HEAD}{}{}delay = \"20ms\"\n{asks}", LINKS[0], LINKS[1])).unwrap();
    scenario.detail = Detail::Parts;
    let outcome = scenario.run(1, |_| ());
    assert!(outcome.transfers.len() > 50, "{}", outcome.transfers.len());
    // The first answer needs the connection, and its ideal time has the handshake.
    assert!(outcome.transfers[0].transfer.ideal_ns > outcome.transfers[1].transfer.ideal_ns + 40_000_000);
    for done in outcome.transfers.iter().filter(|done| done.transfer.end == TransferEnd::Completed) {
        let slowdown = done.transfer.time_ns as f64 / done.transfer.ideal_ns as f64;
        assert!((1.0..1.2).contains(&slowdown), "{done:?}");
    }
}

/// A download crosses the path four times before its data is there: SYN, SYN-ACK, request, answer; an upload three times.
#[test]
fn the_ideal_time_counts_every_crossing_of_the_path() {
    for direction in ["upload", "download"] {
        let mice = format!(
            "[[flow]]\nname = \"mice\"\nfrom = \"a\"\nto = \"b\"\nworkload = {{ kind = \"mice\", per-second = 1, \
             size = {{ kind = \"constant\", value = \"1kB\" }}, direction = \"{direction}\" }}\n"
        );
        let mut scenario = load(&format!("{HEAD}{}{}delay = \"50ms\"\n{mice}", LINKS[0], LINKS[1])).unwrap();
        scenario.detail = Detail::Parts;
        let outcome = scenario.run(1, |_| ());
        assert!(outcome.transfers.len() > 5, "{direction}: {}", outcome.transfers.len());
        let finished = outcome.transfers.iter().filter(|done| done.transfer.end == TransferEnd::Completed);
        let least = finished.map(|done| done.transfer.time_ns as f64 / done.transfer.ideal_ns as f64);
        let least = least.fold(f64::INFINITY, f64::min);
        assert!((1.0..1.05).contains(&least), "{direction}: {least}");
    }
}

/// A variant may have a queue for each direction of its link.
#[test]
fn a_variant_replaces_the_queues_of_both_directions() {
    let back =
        BULK.replace("bulk", "back").replace("\"a\"", "\"x\"").replace("\"b\"", "\"a\"").replace("\"x\"", "\"b\"");
    let back = back.replace("kind = \"back\"", "kind = \"bulk\"");
    let variants = "[[variant]]\nname = \"one\"\nfrom = \"r\"\nto = \"b\"\nqueue = { kind = \"codel\" }\n[[variant]]\nname = \"both\"\n\
                    from = \"r\"\nto = \"b\"\nqueue = { kind = \"codel\" }\nqueue-back = { kind = \"codel\" }\n";
    let outcome = run(&format!("{HEAD}{}{}{BULK}{back}{variants}", LINKS[0], LINKS[1]));
    let delay = |variant: &str, flow: &str| value(&outcome, &format!("{variant}: flow {flow}"), "delay p50");
    let found = [("one", "back"), ("both", "back")].map(|(variant, flow)| delay(variant, flow));
    assert!(found[0] > 3.0 * found[1], "{found:?}");
}

/// The delay of a call upwards is called `delay up` even if no packet comes the other way.
#[test]
fn a_direction_has_its_name_where_the_other_is_silent() {
    let call = "[[flow]]\nname = \"call\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"call\" }\n";
    let outcome = run(&format!("{HEAD}{}{}loss = \"0%\"\nloss-back = \"100%\"\n{call}", LINKS[0], LINKS[1]));
    assert!(value(&outcome, "flow call", "delay up p50") > 0.0);
    assert!(!outcome.values.iter().any(|value| value.measure == "delay p50" || value.measure == "delay down p50"));
}

/// The order of [[link]] decides neither a value nor the digest.
#[test]
fn the_order_of_links_does_not_matter() {
    let order = |first: &str, second: &str| run(&format!("{HEAD}{first}{second}{BULK}"));
    let (one, other) = (order(LINKS[0], LINKS[1]), order(LINKS[1], LINKS[0]));
    assert_eq!(one.digest, other.digest);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |text: String, parts: &[&str]| {
        let errors = load(&text).map(|_| ()).expect_err(parts[0]);
        parts.iter().for_each(|part| assert!(errors.contains(part), "lacks `{part}`:\n{errors}"));
    };
    let both = format!("{}{}", LINKS[0], LINKS[1]);
    let itself = LINKS[0].replace("to = \"r\"", "to = \"a\"");
    refused(format!("{HEAD}{both}{itself}{BULK}"), &["a link leads from `a` to itself", "test.toml:"]);
    let again = LINKS[0].replace("from = \"a\"\nto = \"r\"", "from = \"r\"\nto = \"a\"");
    refused(
        format!("{HEAD}{both}{again}{BULK}"),
        &["two links lead from `r` to `a`", "the first", "both-ways = false"],
    );
    // Two directions with different lines are two links.
    let one_way = |link: &str| link.replace("rate", "both-ways = false\nrate");
    assert!(load(&format!("{HEAD}{}{}{}{BULK}", one_way(LINKS[0]), one_way(&again), LINKS[1])).is_ok());
    let failing = LINKS[1].replace(
        "queue",
        "failures = { works = { kind = \"constant\", value = \"1ns\" }, \
         fails = { kind = \"constant\", value = \"1ns\" } }\nqueue",
    );
    refused(format!("{HEAD}{}{failing}{BULK}", LINKS[0]), &["failures in a run are more than the limit", "too many"]);
    let name = BULK.replace("\"bulk\"\nfrom", "\"\\u001b[2Jbulk\"\nfrom");
    refused(format!("{HEAD}{both}{name}"), &["this text has characters that are not shown"]);
    let nan = BULK.replace(
        "{ kind = \"bulk\" }",
        "{ kind = \"mice\", per-second = nan, size = { kind = \"constant\", value = \"1kB\" } }",
    );
    refused(format!("{HEAD}{both}{nan}"), &["expected a number, found nan"]);
}

/// Thirty days are promised, whatever the width of bins.
#[test]
fn a_run_of_a_month_needs_no_bin() {
    let text = format!("{HEAD}{}{}{BULK}", LINKS[0], LINKS[1]);
    assert!(load(&text.replace("\"20s\"", "\"720h\"")).is_ok());
    let errors = load(&text.replace("\"20s\"", "\"720h\"\nbin = \"100ms\"")).map(|_| ()).expect_err("too many bins");
    assert!(errors.contains("leave it out"), "{errors}");
}

/// The second flow begins after 4 s and fills the line: before that nothing is steady.
#[test]
fn the_warm_up_is_found_by_a_rule() {
    let packets = |name: &str, rate: &str, start: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nstart = \"{start}\"\n\
             workload = {{ kind = \"poisson\", rate = \"{rate}\", packet = \"500B\" }}\n"
        )
    };
    let flows = packets("first", "500kbit", "0s") + &packets("second", "1mbit", "4s");
    let text = format!("{HEAD}{}{}{flows}", LINKS[0], LINKS[1]).replace("\"20s\"", "\"20s\"\nwarm-up = \"mser-5\"");
    let scenario = load(&text).unwrap();
    assert!(scenario.finds_warm_up());
    let found = scenario.warm_up();
    assert!(found >= Span::from_millis(3_900) && found <= Span::from_millis(6_000), "{found}");
    assert!(scenario.said_of_warm_up().is_some_and(|said| said.ends_with("is found by MSER-5.")));
    // It is that of the run, and the same for every run and reading of the file.
    let again = load(&text).unwrap();
    let said = text.replace("\"mser-5\"", &format!("\"{}ns\"", found.as_nanos()));
    assert_eq!(again.run(3, |_| ()).digest, load(&said).unwrap().run(3, |_| ()).digest);
    assert_eq!(again.warm_up(), found);
}

/// RFC 8257, 3.1: with a step at K packets DCTCP keeps its queue near K and loses nothing; with RED's recommendation to drop
/// above the upper threshold it cannot.
#[test]
fn red_can_be_the_step_of_dctcp() {
    let with = |above: &str| {
        let red = format!(
            "queue = {{ kind = \"red\", min-th = \"19 packets\", max-th = \"20 packets\", early = {{ weight = 1, \
             above-max = \"{above}\" }} }}\n"
        );
        let link =
            LINKS[1].replace("2mbit", "20mbit").replace("queue = { kind = \"fifo\", limit = \"250kB\" }\n", &red);
        let flows = BULK.replace("workload", "count = 4\ntcp = { congestion = \"dctcp\", ecn = true }\nworkload");
        run(&format!("{HEAD}{}{link}{flows}", LINKS[0]))
    };
    let of = |outcome: &Outcome, measure: &str| value(outcome, "link r->b", measure);
    let (step, cliff) = (with("mark"), with("cliff"));
    assert!(of(&step, "dropped") == 0.0 && of(&step, "marked") > 100.0, "{:?}", step.values);
    // 20 packets take 12 ms.
    assert!(of(&step, "queueing p50") < 18e6 && of(&step, "utilisation") > 0.97, "{:?}", step.values);
    assert!(of(&cliff, "dropped") > 100.0, "{:?}", cliff.values);
}

const HALVES: &str = "rate-over-time = { kind = \"steps\", repeat = \"2s\", steps = [{ at = \"0s\", rate = \"2mbit\" }, \
                      { at = \"1s\", rate = \"200kbit\" }] }\nqueue";

/// The rate that a rate over time replaces is a placeholder, which no slowdown depends on.
#[test]
fn the_ideal_of_a_transfer_is_that_of_the_rate_over_time() {
    let ideal = |nominal: &str| {
        let link = LINKS[1].replace("2mbit", nominal).replace("queue", HALVES);
        let flow = BULK.replace("\"bulk\" }", "\"bulk\", bytes = \"146kB\" }");
        let mut scenario = load(&format!("{HEAD}{}{link}{flow}", LINKS[0])).unwrap_or_else(|text| panic!("{text}"));
        scenario.detail = Detail::Parts;
        scenario.run(1, |_| ()).transfers[0].transfer.ideal_ns
    };
    // 100 segments of 1460 bytes with headers at the mean of 1.1 Mbit/s take a second and more.
    let slow = ideal("2mbit");
    assert_eq!(slow, ideal("40mbit"));
    assert!((146_000.0 * 8.0 / 1.1e6..1.15).contains(&(slow as f64 / 1e9)), "{slow}");
}

/// A link whose trace cannot be read is a link all the same: variants and flows that use it are not wrong.
#[test]
fn a_bad_trace_is_one_error() {
    let bad = LINKS[1].replace("queue", "rate-over-time = { kind = \"mahimahi\", file = \"none.mahimahi\" }\nqueue");
    let variant = |name: &str| {
        format!("[[variant]]\nname = \"{name}\"\nfrom = \"r\"\nto = \"b\"\nqueue = {{ kind = \"{name}\" }}\n")
    };
    let variants = variant("codel") + &variant("pie");
    let errors = load(&format!("{HEAD}{}{bad}{BULK}{variants}", LINKS[0])).map(|_| ()).expect_err("no such file");
    assert!(
        errors.contains("the trace `none.mahimahi` cannot be used") && !errors.contains("no link leads"),
        "{errors}"
    );
    assert_eq!(errors.matches("error").count(), 1, "{errors}");
}

/// A line of a trace that cannot be read, an offset beyond its end and an empty file are marked where they are, with what to write instead.
#[test]
fn an_error_of_a_trace_has_its_place_and_its_remedy() {
    let said = |rate: &str, trace: &str| {
        let link = LINKS[1].replace("queue", &format!("rate-over-time = {rate}\nqueue"));
        let (source, mut found) =
            (Source::new("test.toml", format!("{HEAD}{}{link}{BULK}", LINKS[0])), Diagnostics::new());
        let beside = |_: &str| Ok(Source::new("line", trace.to_owned()));
        assert_eq!(Scenario::load(&source, Some(&beside), &mut found).is_none(), found.errors() > 0, "{rate}");
        let text = found.render(&source);
        let mark = text.lines().find(|line| line.contains("^^")).unwrap_or_default().to_owned();
        let line = text.lines().find(|line| line.contains("rate-over-time")).unwrap_or_default();
        let marked = mark.find('^').and_then(|at| line.get(at..)).unwrap_or_default().to_owned();
        (text, marked)
    };
    let mahimahi = "{ kind = \"mahimahi\", file = \"line\", from = \"0s\" }";
    let (text, marked) = said(mahimahi, "1\n2.5\n");
    assert!(text.contains("line 2: not milliseconds") && text.contains("help: each line is a whole number"), "{text}");
    assert!(marked.starts_with("\"line\""), "{text}");
    let (text, marked) = said(&mahimahi.replace("0s", "9s"), "1\n2\n");
    assert!(text.contains("has nothing at 9 s") && text.contains("help: begin at an earlier time"), "{text}");
    assert!(marked.starts_with("\"9s\""), "{text}");
    // A run that begins too late in a trace goes on at its beginning, and says so.
    let times = |last: u32| (1..=last).map(|second| format!("{}\n", second * 1_000)).collect::<String>();
    let (text, marked) = said(&mahimahi.replace("0s", "9s"), &times(22));
    assert!(text.contains("warning: the trace ends 13s after this time") && text.contains("begin at 2s"), "{text}");
    assert!(marked.starts_with("\"9s\""), "{text}");
    for (from, last) in [("2s", 22), ("0s", 22), ("9s", 29), ("4s", 8)] {
        let (text, _) = said(&mahimahi.replace("0s", from), &times(last));
        assert!(!text.contains("the trace ends"), "{from} of {last} s: {text}");
    }
    // A drawn beginning needs more than a run, or a period.
    let drawn = mahimahi.replace("0s", "drawn");
    assert_eq!(said(&drawn, &times(22)).0, "");
    let (text, marked) = said(&drawn.replace("mahimahi", "csv"), "0,1mbit\n5,2mbit\n");
    assert!(text.contains("there is nothing to draw") && text.contains("help: make the duration shorter"), "{text}");
    assert!(marked.starts_with("\"drawn\""), "{text}");
    let (text, _) = said("{ kind = \"csv\", file = \"line\" }", "");
    assert!(text.contains("no line with a rate") && text.contains("help: each line is `seconds,rate`"), "{text}");
}

/// With a drawn beginning each run has another window of the trace, and variants of one seed have the same; what the runs are a sample of is
/// said.
#[test]
fn runs_may_have_windows_of_a_trace() {
    let link = LINKS[1].replace(
        "queue",
        "rate-over-time = { kind = \"mahimahi\", file = \"line\", from = \"drawn\" }\nwatch = true\nqueue",
    );
    let source = Source::new("test.toml", format!("{HEAD}{}{link}{BULK}", LINKS[0]));
    // Second n of 60 has n packets of 1,500 bytes.
    let line: String = (1..=60).flat_map(|second| (1..=second).map(move |_| format!("{}\n", second * 1_000))).collect();
    // The other one has one more in the first second.
    let beside =
        |name: &str| Ok(Source::new("line", if name == "other" { format!("500\n{line}") } else { line.clone() }));
    let mut found = Diagnostics::new();
    let scenario =
        Scenario::load(&source, Some(&beside), &mut found).unwrap_or_else(|| panic!("{}", found.render(&source)));
    let goodput = |seed: u64| {
        let outcome = scenario.run(seed, |_| ());
        let of = outcome.values.iter().find(|value| value.measure == "goodput").expect("a goodput").value;
        (of, outcome.digest)
    };
    let all: Vec<_> = (1..=3).map(goodput).collect();
    assert!(all.windows(2).all(|two| two[0] != two[1]), "{all:?}");
    assert_eq!(goodput(1), all[0]);
    let said = |runs: u64| scenario.notes(1..=runs).join(" ");
    assert!(said(3).contains("Each run has a part of `line` by its seed"), "{}", said(3));
    assert!(
        said(3).contains(
            "3 runs of 20 s meet 60 of its 60 s, none of them twice, and no further run is possible: where more would \
             decide they need"
        ),
        "{}",
        said(3)
    );
    let refused = |text: String| {
        let (source, mut found) = (Source::new("test.toml", text), Diagnostics::new());
        assert!(Scenario::load(&source, Some(&beside), &mut found).is_none());
        found.render(&source)
    };
    // A run that has the window of another is no further sample of the line.
    assert!(scenario.check_runs(3).is_ok());
    assert!(scenario.check_runs(4).is_err_and(|why| why.starts_with("4 runs, and 3 windows of 20s in the trace")));
    let four = refused(source.text().replace("duration", "runs = 4\nduration"));
    assert!(four.contains("more than there are windows"), "{four}");
    // Several files are one sample, which has the windows of all; each line has as many, since all begin in the same one.
    let several = source.text().replace("file = \"line\"", "file = [\"line\", \"other\"]");
    let mut found = Diagnostics::new();
    let both = Scenario::load(&Source::new("test.toml", several.clone()), Some(&beside), &mut found).expect("valid");
    assert!(both.check_runs(6).is_ok() && both.check_runs(7).is_err());
    let notes = both.notes(1..=6).join(" ");
    assert!(notes.contains("a part of `line`, `other` by its seed") && notes.contains("120 of their 120 s"), "{notes}");
    let one = "rate-over-time = { kind = \"mahimahi\", file = \"line\", from = \"drawn\" }\n";
    let uneven = refused(several.replacen("rate = \"100mbit\"\n", &format!("rate = \"100mbit\"\n{one}"), 1));
    assert!(uneven.contains("as many files for each line"), "{uneven}");
    let early = refused(several.replace("from = \"drawn\"", "from = \"1s\""));
    assert!(early.contains("have one trace"), "{early}");
    // The same recording once more, under whatever name, is no further sample.
    let twice = refused(several.replace("other", "copy"));
    assert!(twice.contains("`copy` cannot be used: `line` has the same rates"), "{twice}");
    // Beside a trace that has no room for two windows all lines begin in what it has.
    let other = "rate-over-time = { kind = \"mahimahi\", file = \"short\", from = \"drawn\" }\n";
    let both = Source::new(
        "test.toml",
        source.text().replacen("rate = \"100mbit\"\n", &format!("rate = \"100mbit\"\n{other}"), 1),
    );
    let short: String = (1..=25).map(|second| format!("{}\n", second * 1_000)).collect();
    let beside = |name: &str| Ok(Source::new("line", if name == "short" { short.clone() } else { line.clone() }));
    let mut found = Diagnostics::new();
    let scenario =
        Scenario::load(&both, Some(&beside), &mut found).unwrap_or_else(|| panic!("{}", found.render(&both)));
    assert!((1..6).all(|seed| scenario.run(seed, |_| ()).events > 0));
    assert!(scenario.notes(1..=3).join(" ").contains("some of them the same"), "{}", scenario.notes(1..=3).join(" "));
    assert_eq!(said(1), "");
}

/// The measures of a run are known before it, so that a quantity that it cannot have is refused in time.
#[test]
fn what_a_run_can_measure_is_known_before_it() {
    let flows = [
        BULK.to_owned(),
        BULK.replace("bulk", "two").replace("\"two\" }", "\"bulk\", bytes = \"20kB\" }\ncount = 2"),
        BULK.replace("bulk", "call"),
        BULK.replace("bulk", "web"),
        BULK.replace("bulk", "video").replace("video\" }", "video\", ladder = [\"300kbit\", \"1mbit\"] }"),
        BULK.replace("bulk", "media").replace("media\" }", "media\", most = \"1mbit\" }"),
    ];
    let scenario =
        load(&format!("{HEAD}{}{}{}", LINKS[0], LINKS[1], flows.concat())).unwrap_or_else(|text| panic!("{text}"));
    let known = scenario.measurable();
    let outcome = scenario.run(1, |_| ());
    let is_counted = |measure: &str| measure.starts_with("dropped ") || measure.starts_with("throughput ");
    for value in outcome.values.iter().filter(|value| !is_counted(&value.measure)) {
        let found = known.iter().find(|(subject, _)| *subject == value.subject);
        assert!(found.is_some_and(|(_, all)| all.contains(&value.measure)), "{} of {}", value.measure, value.subject);
    }
    let of = |subject: &str| &known.iter().find(|(of, _)| of == subject).expect("a subject").1;
    let has = |subject: &str, measure: &str| of(subject).iter().any(|known| known == measure);
    assert!(has("flow call", "MOS up") && has("flow call", "delay up p99") && !has("flow call", "delay p99"));
    assert!(!has("flow bulk", "MOS") && has("flow two", "completion p99") && !has("flow two", "completion p55"));
}

/// The program of another crate has kinds of its own, which this one cannot know.
#[test]
fn a_kind_of_another_crate_is_pointed_out() {
    let said = |text: String| load(&text).map(|_| ()).expect_err("not known here");
    let control = BULK.replace("workload", "tcp = { congestion = { kind = \"mine\" } }\nworkload");
    let of_control = said(format!("{HEAD}{}{}{control}", LINKS[0], LINKS[1]));
    assert!(of_control.contains("for a control of your own"), "{of_control}");
    let of_queue =
        said(format!("{HEAD}{}{}{BULK}", LINKS[0], LINKS[1].replace("\"fifo\", limit = \"250kB\"", "\"mine\"")));
    assert!(of_queue.contains("for a discipline of your own run the binary of its crate"), "{of_queue}");
}
