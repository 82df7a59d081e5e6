use super::*;

const NET: &str = r#"
    version = 1
    hosts = ["a", "b"]
    [[link]]
    from = "a"
    to = "b"
    queue = { kind = "fifo" }
    [[flow]]
    name = "v1.2"
    tcp.mss = "1000B"
"#;

fn sweep(axes: &[(&str, &str)]) -> Result<Sweep, String> {
    let base = Node::parse(&Source::new("net.toml", NET), &mut Diagnostics::new()).expect("it is TOML");
    let axes = axes.iter().map(|(path, list)| Axis::parse(path, list)).collect::<Result<_, _>>()?;
    Sweep::new(&base, axes, vec![1, 2], 3)
}

fn batch(sweep: &Sweep, number: usize) -> Batch {
    sweep.batch(number).expect("each axis has a place")
}

#[test]
fn every_combination_has_every_seed_once() {
    let queues = r#"[{ kind = "fifo", limit = "9kB" }, "none"]"#;
    let sweep = sweep(&[("duration", r#"["1s", "2s"]"#), ("link.a->b.queue", queues)]).expect("an axis each");
    let batches: Vec<Batch> = (0..sweep.batches()).map(|n| batch(&sweep, n)).collect();
    let sizes: Vec<usize> = batches.iter().map(|batch| batch.runs.len()).collect();
    assert_eq!((sweep.runs(), sizes), (8, vec![3, 3, 2]));
    let all: Vec<(&str, &str, u64)> = batches
        .iter()
        .flat_map(|batch| &batch.runs)
        .map(|run| (run.values[0].1.as_str(), run.values[1].1.as_str(), run.seed))
        .collect();
    let fifo = r#"{"kind": "fifo", "limit": "9kB"}"#;
    assert_eq!(all[..4], [("1s", fifo, 1), ("1s", fifo, 2), ("1s", "none", 1), ("1s", "none", 2)]);
    assert_eq!(all[4..], [("2s", fifo, 1), ("2s", fifo, 2), ("2s", "none", 1), ("2s", "none", 2)]);
    assert!(batches[0].runs[0].text.contains("9kB") && batches[0].runs[0].text.contains("1000B"));
}

/// The rate of a line and that of its shaper, a little below it.
#[test]
fn keys_that_belong_together_change_together() {
    let both = "[[\"2mbit\", \"1.9mbit\"], [\"5mbit\", \"4.75mbit\"]]";
    let sweep =
        sweep(&[("link.1.rate, link.1.queue.rate", both), ("duration", "[\"1s\", \"2s\"]")]).expect("an axis each");
    assert_eq!(sweep.runs(), 8, "two pairs, two durations and two seeds");
    let points: Vec<Point> = (0..sweep.batches()).flat_map(|n| batch(&sweep, n).runs).collect();
    let values = |point: &Point| point.values.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
    assert_eq!(values(&points[0]), ["2mbit", "1.9mbit", "1s"]);
    assert_eq!(
        (values(&points[7]), points[7].values[1].0.as_str()),
        (vec!["5mbit".into(), "4.75mbit".into(), "2s".into()], "link.1.queue.rate")
    );
    assert!(points[7].text.contains("4.75mbit") && !points[7].text.contains("1.9mbit"));
    let refused = |path: &str, list: &str| self::sweep(&[(path, list)]).expect_err("it is wrong");
    assert!(refused("link.1.rate,duration", "[\"1mbit\"]").contains("needs 2 parts, one for each key"));
    assert!(refused("duration,duration", "[[\"1s\", \"2s\"]]").contains("given twice"));
    assert!(refused("duration,seed", "[[\"1s\", 1]]").contains("by themselves"));
}

#[test]
fn the_name_of_a_batch_depends_on_all_that_its_results_do() {
    let axis = [("link.1.rate", r#"["1mbit", "2mbit"]"#)];
    let one = sweep(&axis).expect("an axis");
    assert_eq!(batch(&one, 0), batch(&sweep(&axis).expect("an axis"), 0));
    assert_ne!(batch(&one, 0).name[13..], batch(&one, 1).name[13..]);
    let other = sweep(&[("link.1.rate", r#"["1mbit", "3mbit"]"#)]).expect("an axis");
    assert_ne!(batch(&one, 0).name, batch(&other, 0).name);
}

/// More seeds of the same scenario: the files of the first ones are of it, and no run is made again.
#[test]
fn runs_that_are_known_are_left_out() {
    let base = |text: &str| Node::parse(&Source::new("net.toml", text), &mut Diagnostics::new()).expect("it is TOML");
    let rates = || vec![Axis::parse("link.1.rate", r#"["1mbit", "2mbit"]"#).expect("an axis")];
    let of = |text: &str, seeds: Vec<u64>| Sweep::new(&base(text), rates(), seeds, 3).expect("an axis");
    let few = of(NET, vec![1, 2]);
    // The words about a scenario, and the quantities planned with it, change no result.
    let said = "runs = 4\nsentence = \"One line\"\nprimary = [\"goodput of flow v1.2\"]\n";
    let mut more = of(&format!("{said}{NET}"), vec![1, 2, 3]);
    let (first, second) = (batch(&few, 0), batch(&few, 1));
    let runs = |batch: &Batch| batch.runs.iter().map(|run| (run.values.clone(), run.seed)).collect::<BTreeSet<_>>();
    let knows = |sweep: &mut Sweep, name: &str, batch: &Batch| sweep.know(name, runs(batch)).expect("an axis");
    assert!(knows(&mut more, &first.name, &first) && knows(&mut more, &second.name, &second));
    let mut other = of(&NET.replace("v1.2", "other"), vec![1]);
    assert!(!knows(&mut other, &first.name, &first));
    assert!(!knows(&mut of(NET, vec![3]), &first.name.replace(".parquet", ".part.parquet"), &first));
    let missing = |number: usize| more.missing(batch(&more, number));
    let seeds = |number: usize| missing(number).runs.iter().map(|run| run.seed).collect::<Vec<_>>();
    assert_eq!([seeds(0), seeds(1)], [[3], [3]]);
    assert_ne!(missing(0).name, batch(&more, 0).name);
    for rest in [missing(0), missing(1)] {
        assert!(knows(&mut more, &rest.name, &rest));
    }
    assert!(more.missing(batch(&more, 0)).runs.is_empty());
    // Files of another shaper are not taken, and points of which no run is planned neither.
    let queues = r#"[{ kind = "fifo" }, { shaper = "one.toml" }]"#;
    let with = |text: &str, seeds: Vec<u64>| {
        let axes = vec![Axis::parse("link.a->b.queue", queues).expect("an axis")];
        let mut sweep = Sweep::new(&base(NET), axes, seeds, 2).expect("an axis");
        sweep.depend_on("one.toml", text);
        sweep
    };
    let (before, mut same, mut changed) = (with("a", vec![1, 2]), with("a", vec![3]), with("b", vec![3]));
    for (number, is_kept) in [(0, true), (1, false)] {
        let batch = batch(&before, number);
        assert!(knows(&mut same, &batch.name, &batch));
        assert_eq!(knows(&mut changed, &batch.name, &batch), is_kept);
    }
    let elsewhere = batch(&before, 0).runs.into_iter().map(|run| (Vec::new(), run.seed)).collect();
    assert!(!changed.know(&batch(&before, 0).name, elsewhere).expect("an axis"));
}

#[test]
fn the_name_of_a_batch_depends_on_the_files_that_its_runs_name() {
    let queues = r#"[{ kind = "fifo" }, { shaper = "one.toml" }, { shaper = "two.toml" }]"#;
    let trace = sweep(&[("flow.1.workload", r#"[{ kind = "trace", file = "sent.csv" }]"#)]).expect("an axis");
    assert_eq!(trace.files().into_iter().collect::<Vec<_>>(), ["sent.csv"]);
    let at = r#"[[{ time = "1s", action = { kind = "apply", shaper = "three.toml" } }]]"#;
    for axes in [[("at", at), ("link.a->b.queue", queues)], [("link.a->b.queue", queues), ("at", at)]] {
        let sweep = sweep(&axes).expect("an axis each");
        assert_eq!(sweep.files().into_iter().collect::<Vec<_>>(), ["one.toml", "three.toml", "two.toml"]);
    }
    let with = |texts: [&str; 2]| {
        let mut sweep = sweep(&[("link.a->b.queue", queues)]).expect("an axis");
        sweep.size = 2;
        ["one.toml", "two.toml"].iter().zip(texts).for_each(|(name, text)| sweep.depend_on(name, text));
        [0, 1, 2].map(|number| batch(&sweep, number).name)
    };
    let (first, second) = (with(["a", "b"]), with(["a", "c"]));
    assert_eq!(first, with(["a", "b"]));
    assert_eq!(first[..2], second[..2]);
    assert_ne!(first[2], second[2]);
    // The axis may also consist of file names.
    let named = sweep(&[("link.a->b.queue.shaper", r#"["x.toml", "y.toml"]"#)]).expect("an axis");
    assert_eq!(named.files().into_iter().collect::<Vec<_>>(), ["x.toml", "y.toml"]);
}

#[test]
fn samples_have_each_value_once_beside_the_first_of_the_others() {
    let many: Vec<String> = (0..250).map(|n| format!("\"{n}B\"")).collect();
    let many = format!("[{}]", many.join(", "));
    let axes = [("duration", r#"["1s", "2s", "3s"]"#), ("link.1.queue", r#"["none", "x"]"#), ("flow.1.tcp.mss", &many)];
    let samples = sweep(&axes).expect("an axis each").samples().expect("each has a place");
    let found: BTreeSet<[&str; 3]> =
        samples.iter().map(|point| [0, 1, 2].map(|axis| point.values[axis].1.as_str())).collect();
    assert_eq!(found.len(), 1 + 2 + 1 + 99);
    for values in [["2s", "none", "0B"], ["3s", "none", "0B"], ["1s", "x", "0B"], ["1s", "none", "99B"]] {
        assert!(found.contains(&values), "{values:?}");
    }
}

#[test]
fn an_axis_without_a_place_is_refused_with_what_is_there() {
    let refused = |path: &str, list: &str| sweep(&[(path, list)]).expect_err("it is wrong");
    assert_eq!(refused("link.x->y.rate", "[\"1mbit\"]"), "no link is called `x->y`; there are a->b, or numbers from 1");
    assert!(refused("link.a->b", "[1]").contains("no key of it"));
    assert!(refused("link.1", "[1]").contains("no key of it"));
    assert!(refused("link", "[1]").contains("is a section"));
    assert!(refused("hosts.0.rate", "[1]").contains("no hosts is called"));
    assert!(refused("version.x", "[1]").contains("in no table"));
    assert!(refused("duration", "[]").contains("has no value"));
    assert!(refused("duration", "\"1s\"").contains("not a list"));
    assert!(refused("seed", "[1]").contains("by themselves"));
    let dotted = sweep(&[("flow.v1.2.tcp.mss", "[\"500B\"]")]).expect("a name may have dots");
    assert!(batch(&dotted, 0).runs[0].text.contains("500B"));
    let inside = [("link.1.queue", "[\"none\"]"), ("link.a->b.queue.limit", "[\"9kB\"]")];
    assert!(sweep(&inside).expect("each has a place alone").batch(0).is_err());
}

#[test]
fn keys_that_change_together_have_a_value_each() {
    let wrong = |text: &str| Axis::of_text(text).err().unwrap_or_default();
    assert!(Axis::of_text("link.1.rate,link.1.queue.rate=20mbit/19mbit, 50mbit/47mbit").is_ok());
    assert!(wrong("link.1.rate,link.1.queue.rate=20mbit,19mbit").contains("needs 2 parts"));
    // The path of a file is one value.
    assert!(Axis::of_text("link.1.queue.shaper=a/b.toml,c/d.toml").is_ok());
}
