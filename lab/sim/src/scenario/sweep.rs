//! Sweeps: a scenario for every combination of the values of some axes, with several seeds, divided into batches.
//!
//! A run consists of a text and a seed, so it can be executed on any machine. A batch contains the runs of one file of
//! results.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source, node::Node};
//! use tidegate_sim::scenario::sweep::{Axis, Sweep};
//! let text = "version = 1\nhosts = [\"a\", \"b\"]\nlink = [{ from = \"a\", to = \"b\", rate = \"1mbit\" }]";
//! let base = Node::parse(&Source::new("net.toml", text), &mut Diagnostics::new()).unwrap();
//! let rates = Axis::parse("link.a->b.rate", "[\"2mbit\", \"4mbit\"]")?;
//! let sweep = Sweep::new(&base, vec![rates], vec![1, 2, 3], 4)?;
//! assert_eq!((sweep.runs(), sweep.batches()), (6, 2));
//! let last = &sweep.batch(1)?.runs[1];
//! assert_eq!((last.values[0].1.as_str(), last.seed), ("4mbit", 3));
//! assert!(last.text.contains("rate = \"4mbit\""));
//! # Ok::<(), String>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use tidegate_config::node::{Entry, Node, Value};
use tidegate_config::{Diagnostics, Place, Source};
use tidegate_metrics::Digest;

use super::{Outcome, Scenario};

/// A key of a scenario, or several that change together, and the values that they take in turn.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The path of each key: keys separated by dots. After a section that is a list (`link`, `flow`, ...) follows the name of an entry, its
    /// ends `from->to`, or its number from 1: `link.r->b.rate`.
    paths: Vec<String>,
    /// The values of all keys in each turn.
    values: Vec<Vec<Node>>,
}

impl Axis {
    /// Reads an axis as commands have it: `PATH=VALUE,...`, with values that are numbers, `true`, `false` or texts without quotes, or with a
    /// TOML array of them. Of several paths, with commas between, the parts of a value have `/` between them.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and without `=`.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let Some((path, values)) = text.split_once('=') else {
            return Err("write PATH=VALUE,..., for example link.1.rate=10mbit,20mbit".into());
        };
        if values.starts_with('[') {
            return Self::parse(path, values);
        }
        let value = |text: &str| {
            let is_number = text.ends_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
            if is_number || matches!(text, "true" | "false") {
                text.to_owned()
            } else {
                serde_json::Value::from(text).to_string()
            }
        };
        let turn = |text: &str| match path.contains(',') {
            true => format!("[{}]", text.split('/').map(|part| value(part.trim())).collect::<Vec<_>>().join(", ")),
            false => value(text.trim()),
        };
        let values: Vec<String> = values.split(',').map(turn).collect();
        Self::parse(path, &format!("[{}]", values.join(", ")))
    }

    /// Reads the axis at `path` with the values in `list`, a TOML array. Several paths with commas between change together: each value is an
    /// array with one of each.
    ///
    /// # Errors
    /// If `list` is not an array or is empty, or a value has not as many parts as there are paths.
    pub fn parse(path: &str, list: &str) -> Result<Self, String> {
        let paths: Vec<String> = path.split(',').map(|path| path.trim().to_owned()).collect();
        if let Some(path) = paths.iter().find(|path| matches!(path.as_str(), "seed" | "runs")) {
            return Err(format!("`{path}` cannot be an axis: the seeds of a sweep are given by themselves"));
        }
        let parts = |node: Node| match (paths.len(), node.value) {
            (1, value) => Ok(vec![Node { value, ..node }]),
            (several, Value::List(parts)) if parts.len() == several => Ok(parts),
            (several, _) => Err(format!(
                "each value of `{path}` needs {several} parts, one for each key: write for example 20mbit/19mbit,50mbit/47mbit, or \
                 [[\"20mbit\", \"19mbit\"]]"
            )),
        };
        let wrong = || format!("the values of `{path}` are not a list: write for example [\"10mbit\", \"20mbit\"]");
        let node = Node::parse(&Source::new("<axis>", format!("values = {list}")), &mut Diagnostics::new());
        let Some(Node { value: Value::Table(entries), .. }) = node else { return Err(wrong()) };
        match entries.into_iter().next().map(|entry| entry.node.value) {
            Some(Value::List(values)) if !values.is_empty() => {
                let values = values.into_iter().map(parts).collect::<Result<_, _>>()?;
                Ok(Self { paths, values })
            }
            Some(Value::List(_)) => Err(format!("the axis `{path}` has no value")),
            _ => Err(wrong()),
        }
    }

    /// Sets the keys of a table to one of the values.
    fn set(&self, node: &mut Node, values: &[Node]) -> Result<(), String> {
        self.paths.iter().zip(values).try_for_each(|(path, value)| set(node, path, value))
    }
}

/// The keys whose values are file names: of shapers (`link.queue`, the action `apply`), and of traces (`link.rate`,
/// `workload`).
const FILES: [&str; 2] = ["shaper", "file"];

/// The keys of a scenario on which no result of a run depends.
const NO_RESULT: [&str; 4] = ["seed", "runs", "sentence", "primary"];

/// How many values of an axis are checked before the first run.
const CHECKED: usize = 100;

/// The path and the value of each axis at a point.
type Values = Vec<(String, String)>;

/// A run of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The path and the value of each axis. Texts appear as they are, other values as JSON.
    pub values: Vec<(String, String)>,
    /// The text of the scenario.
    pub text: Arc<str>,
    /// The seed.
    pub seed: u64,
}

impl Point {
    /// The name of the run in messages: the name of the scenario and the values.
    pub fn named(&self, scenario: &str) -> String {
        let values: Vec<String> = self.values.iter().map(|(path, value)| format!("{path}={value}")).collect();
        if values.is_empty() { scenario.to_owned() } else { format!("{scenario} with {}", values.join(", ")) }
    }

    /// Adds all that the run consists of to a digest.
    fn digest(&self, digest: &mut Digest) {
        let values = self.values.iter().flat_map(|(path, value)| [path, value]).map(String::as_str);
        for text in values.chain([&*self.text]) {
            digest.number(text.len() as u64);
            digest.bytes(text.as_bytes());
        }
        digest.number(self.seed);
    }

    /// Runs `scenario`, which was loaded from the text of this point, with all variants. `stop` is polled now and then;
    /// if it returns `true`, the result is `None`.
    pub fn run(&self, scenario: &Scenario, mut stop: impl FnMut() -> bool) -> Option<Outcome> {
        let pause =
            |stop: &mut dyn FnMut() -> bool| if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let parts = (0..scenario.parts()).map(|part| scenario.run_part(self.seed, part, |_| pause(&mut stop)));
        let outcomes: Option<Vec<Outcome>> = parts.collect();
        Some(Outcome::joined(self.seed, outcomes?))
    }
}

/// The runs whose results are stored in one file.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The name of the file, which includes a digest of everything that the results depend on, after one of the scenario without its axes
    /// and seeds. Files with equal names have equal results.
    pub name: String,
    /// The runs. Those of the same point follow each other.
    pub runs: Vec<Point>,
}

/// All runs: every combination of the values of the axes, with every seed. The last axis changes first.
#[derive(Clone, Debug)]
pub struct Sweep {
    base: Node,
    axes: Vec<Axis>,
    seeds: Vec<u64>,
    size: usize,
    shared: Digest,
    /// That of the scenario without its axes, its seeds and what no result depends on, after `shared`.
    scenario: Digest,
    /// The values of the axes at each point, and the digests of the files that it refers to, if somebody has asked for them.
    of_points: Option<BTreeMap<Values, Vec<Digest>>>,
    /// Digests of the files that runs refer to, by name.
    files: BTreeMap<String, Digest>,
    /// Runs whose results are elsewhere, by the values of their axes and their seed.
    known: BTreeSet<(Values, u64)>,
}

impl Sweep {
    /// Creates a sweep of the scenario `base` along `axes` with `seeds`, in batches of `size` runs.
    ///
    /// # Errors
    /// If there is no seed, if a batch has no run, or if the path of an axis does not exist in the scenario; the error
    /// lists the alternatives.
    pub fn new(base: &Node, axes: Vec<Axis>, seeds: Vec<u64>, size: usize) -> Result<Self, String> {
        if seeds.is_empty() {
            return Err("a sweep needs at least one seed".into());
        }
        if size == 0 {
            return Err("a batch has at least one run".into());
        }
        for (n, axis) in axes.iter().enumerate() {
            let others = |at: usize| axes[..n].iter().flat_map(|axis| &axis.paths).chain(&axis.paths[..at]);
            if let Some((_, path)) =
                axis.paths.iter().enumerate().find(|(at, path)| others(*at).any(|other| other == *path))
            {
                return Err(format!("the axis `{path}` is given twice"));
            }
            axis.set(&mut base.clone(), &axis.values[0])?;
        }
        let mut shared = Digest::default();
        shared.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        let mut kept = base.clone();
        if let Value::Table(entries) = &mut kept.value {
            entries.retain(|entry| !NO_RESULT.contains(&entry.key.as_str()));
        }
        let mut scenario = shared;
        scenario.bytes(kept.to_text().as_bytes());
        let (base, files, known) = (base.clone(), BTreeMap::new(), BTreeSet::new());
        Ok(Self { base, axes, seeds, size, shared, scenario, of_points: None, files, known })
    }

    /// The path of each key of the axes, with its values in their order, each once.
    pub fn order(&self) -> Vec<(String, Vec<String>)> {
        let keys = self.axes.iter().flat_map(|axis| (0..axis.paths.len()).map(move |at| (axis, at)));
        let of = |(axis, at): (&Axis, usize)| {
            let mut values: Vec<String> = Vec::new();
            for value in axis.values.iter().map(|values| shown(&values[at])) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            (axis.paths[at].clone(), values)
        };
        keys.map(of).collect()
    }

    /// The names of all files that runs may refer to.
    pub fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        name_files(&self.base, false, &mut found);
        for axis in &self.axes {
            for (path, value) in axis.values.iter().flat_map(|values| axis.paths.iter().zip(values)) {
                let is_file = path.rsplit('.').next().is_some_and(|key| FILES.contains(&key));
                name_files(value, is_file, &mut found);
            }
        }
        found
    }

    /// Makes the names of batches that refer to the file `name` depend on its text.
    pub fn depend_on(&mut self, name: &str, text: &str) {
        let mut digest = Digest::default();
        digest.number(text.len() as u64);
        digest.bytes(text.as_bytes());
        self.files.insert(name.to_owned(), digest);
        self.of_points = None;
    }

    /// Leaves runs, each the values of the axes and the seed, out of [`missing`](Self::missing), because the file `name` has their results, if
    /// it was made of this scenario and of the same files. Returns whether it was.
    ///
    /// # Errors
    /// If a value of one axis removes the key of another.
    pub fn know(&mut self, name: &str, runs: BTreeSet<(Vec<(String, String)>, u64)>) -> Result<bool, String> {
        let mut files = BTreeSet::new();
        if !self.files.is_empty() {
            if self.of_points.is_none() {
                let point = |number| self.point(number, self.seeds[0]).map(|(point, files)| (point.values, files));
                let all: Result<_, String> = (0..self.runs() / self.seeds.len()).map(point).collect();
                self.of_points = Some(all?);
            }
            for (values, _) in &runs {
                let Some(of_points) = &self.of_points else { return Ok(false) };
                // Nobody knows the files of a point that is not in this sweep.
                let Some(of_point) = of_points.get(values) else { return Ok(false) };
                files.extend(of_point.iter().map(Digest::to_string));
            }
        }
        let is_whole = name.ends_with(".parquet") && !name.ends_with(".part.parquet");
        let is_ours = is_whole && scenario_of(name) == Some(&self.scenario(&files));
        if is_ours {
            self.known.extend(runs);
        }
        Ok(is_ours)
    }

    /// The part of a batch whose results are not known, in a file with a name of its own.
    pub fn missing(&self, mut batch: Batch) -> Batch {
        let all = batch.runs.len();
        batch.runs.retain(|run| !self.known.contains(&(run.values.clone(), run.seed)));
        if batch.runs.len() < all && !batch.runs.is_empty() {
            let mut digest = Digest::default();
            digest.bytes(batch.name.as_bytes());
            batch.runs.iter().for_each(|run| run.digest(&mut digest));
            let begin = batch.name.rsplit_once('-').map_or("", |(begin, _)| begin);
            batch.name = format!("{begin}-{}.parquet", &digest.to_string()[..16]);
        }
        batch
    }

    /// The scenario without its axes and seeds, and these files, in short.
    fn scenario(&self, files: &BTreeSet<String>) -> String {
        let mut digest = self.scenario;
        files.iter().for_each(|file| digest.bytes(file.as_bytes()));
        digest.to_string()[..8].to_owned()
    }

    /// The runs to check before all others: each value of an axis (the first hundred of a long one) combined with the
    /// first values of the other axes.
    ///
    /// # Errors
    /// If a value of one axis removes the key of another.
    pub fn samples(&self) -> Result<Vec<Point>, String> {
        let mut step = self.runs() / self.seeds.len();
        let mut numbers = BTreeSet::from([0]);
        for axis in &self.axes {
            step /= axis.values.len();
            numbers.extend((1..axis.values.len().min(CHECKED)).map(|value| value * step));
        }
        numbers.into_iter().map(|number| Ok(self.point(number, self.seeds[0])?.0)).collect()
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product::<usize>() * self.seeds.len()
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.runs().div_ceil(self.size)
    }

    /// Returns batch `number`, counted from 0.
    ///
    /// # Errors
    /// If a value of one axis removes the key of another.
    pub fn batch(&self, number: usize) -> Result<Batch, String> {
        let begin = number * self.size;
        let end = (begin + self.size).min(self.runs());
        let mut runs: Vec<Point> = Vec::with_capacity(end.saturating_sub(begin));
        let (mut digest, mut used) = (self.shared, BTreeSet::new());
        for index in begin..end {
            let seed = self.seeds[index % self.seeds.len()];
            let run = match runs.last() {
                Some(last) if !index.is_multiple_of(self.seeds.len()) => Point { seed, ..last.clone() },
                _ => {
                    let (run, files) = self.point(index / self.seeds.len(), seed)?;
                    used.extend(files.iter().map(Digest::to_string));
                    files.into_iter().for_each(|file| digest.digest(file));
                    run
                }
            };
            run.digest(&mut digest);
            runs.push(run);
        }
        Ok(Batch {
            name: format!("batch-{number:06}-{}-{}.parquet", self.scenario(&used), &digest.to_string()[..16]),
            runs,
        })
    }

    /// Returns a run and the digests of the files that it refers to.
    fn point(&self, mut index: usize, seed: u64) -> Result<(Point, Vec<Digest>), String> {
        let mut chosen: Vec<(&Axis, &[Node])> = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            chosen.push((axis, &axis.values[index % axis.values.len()]));
            index /= axis.values.len();
        }
        chosen.reverse();
        let mut base = self.base.clone();
        chosen.iter().try_for_each(|(axis, values)| axis.set(&mut base, values))?;
        let each = chosen.iter().flat_map(|(axis, values)| axis.paths.iter().zip(*values));
        let values = each.map(|(path, value)| (path.clone(), shown(value))).collect();
        let mut names = BTreeSet::new();
        name_files(&base, false, &mut names);
        let files = names.iter().filter_map(|name| self.files.get(name).copied()).collect();
        Ok((Point { values, text: base.to_text().into(), seed }, files))
    }
}

/// The digest of the scenario in the name of a file of a sweep; `None` if it is no such name.
pub fn scenario_of(name: &str) -> Option<&str> {
    name.strip_suffix(".parquet")?.split('-').nth(2)
}

/// Adds the names of files in a value, which is that of a key with such or another one.
fn name_files(node: &Node, is_file: bool, found: &mut BTreeSet<String>) {
    match &node.value {
        Value::Text(name) if is_file => _ = found.insert(name.clone()),
        Value::List(list) => list.iter().for_each(|node| name_files(node, is_file, found)),
        Value::Table(entries) => {
            for entry in entries {
                name_files(&entry.node, FILES.contains(&entry.key.as_str()), found);
            }
        }
        _ => {}
    }
}

/// Sets the value at `path` in the table `node`. Missing tables on the path are created.
fn set(node: &mut Node, path: &str, value: &Node) -> Result<(), String> {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let place = node.place;
    let Value::Table(entries) = &mut node.value else { return Err(format!("`{path}` is in no table")) };
    let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        let node = Node { place, value: Value::Table(Vec::new()) };
        entries.push(Entry { key: key.to_owned(), key_place: Place::default(), node });
        entries.len() - 1
    });
    let inside = &mut entries[at].node;
    let Some(rest) = rest else {
        if matches!(&inside.value, Value::List(list) if list.iter().any(|entry| matches!(entry.value, Value::Table(_))))
        {
            return Err(format!("`{key}` is a section: write for example `{key}.1.` and a key of it"));
        }
        *inside = value.clone();
        return Ok(());
    };
    let Value::List(list) = &mut inside.value else { return set(inside, rest, value) };
    let names: Vec<String> = list.iter().map(name).collect();
    // Names may contain dots.
    let named =
        names.iter().position(|name| rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.')));
    let (number, tail) = rest.split_once('.').unwrap_or((rest, ""));
    let numbered = || number.parse::<usize>().ok().filter(|n| (1..=list.len()).contains(n)).map(|n| n - 1);
    match named.map(|n| (n, &rest[names[n].len() + 1..])).or_else(|| numbered().map(|n| (n, tail))) {
        Some((_, "")) => Err(format!("`{key}.{rest}` names a section, but no key of it")),
        Some((n, tail)) => set(&mut list[n], tail, value),
        None if names.contains(&rest.to_owned()) => Err(format!("`{key}.{rest}` names a section, but no key of it")),
        None => Err(format!("no {key} is called `{number}`; there are {}, or numbers from 1", names.join(", "))),
    }
}

/// The name of an entry of a list: its key `name`, or its ends.
fn name(entry: &Node) -> String {
    let text = |key: &str| match &entry.value {
        Value::Table(entries) => match entries.iter().find(|entry| entry.key == key)?.node.value {
            Value::Text(ref text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    text("name").unwrap_or_else(|| format!("{}->{}", text("from").unwrap_or_default(), text("to").unwrap_or_default()))
}

/// Formats a value: a text as it is, other values as JSON.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => text.clone(),
        _ => json(node),
    }
}

fn json(node: &Node) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match &node.value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => serde_json::Value::from(*number).to_string(),
        Value::Float(number) => serde_json::Value::from(*number).to_string(),
        Value::Truth(truth) => truth.to_string(),
        Value::Date => "null".into(),
        Value::List(list) => format!("[{}]", list.iter().map(json).collect::<Vec<_>>().join(", ")),
        Value::Table(entries) => {
            let pairs: Vec<String> =
                entries.iter().map(|entry| format!("{}: {}", quoted(&entry.key), json(&entry.node))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
