//! `tidegate compare`: results of simulations, replays and recordings side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_display::wrapped;
use tidegate_replay::departures::Departures;
use tidegate_replay::meter::Keep;
use tidegate_replay::recording::Reader;
use tidegate_replay::session;
use tidegate_replay::source::{Kind, sniff};
use tidegate_report::columns::{self, Column};
use tidegate_report::comparison::Comparison;
use tidegate_report::simulation::{
    DIFFERENCES, Quantity, by_subject, cautions, compared, compared_by_all, compared_whole, kinds_of, mark_left,
    unfinished, unit,
};
use tidegate_report::swept::is_of_quantities;
use tidegate_report::{Fold, Look, Report, Section, swept};
use tidegate_sim::scenario::sweep::scenario_of;

use super::answer::Answer;
use super::figure::{pair, read};
use super::replay::next_part;
use super::replay::page::quantities;
use super::simulate::{Item, differences, stated};
use crate::Failure;
use crate::output::{Files, Paper, width};
use crate::progress::Reading;

/// Compare results of simulations, replays, experiments and recordings side by side
///
/// Each FILE is what `simulate`, `replay` or `reproduce` printed with `--json`, the folder of `simulate --out`, a recording of `tidegate run --record`, or the folder of a `sweep`. The variants of a single file, and the
/// combinations of values of a single folder, are compared with each other. Values of the same subject and measure share a
/// row; the answer names the best file for each measure, and by how much it is better. Runs with the same seed in two files
/// are compared as pairs. Files that all have the same several variants are compared at each of them. A file is called best only of those from which these differences tell it apart. Of a sweep the answer says at how
/// many points each is the best, with the values there; --all has a sentence for each point. If scenarios name
/// quantities as primary, the answer is about these alone, and p is corrected for these, unless --look chooses others.
///
/// `--by` names the columns of a sweep whose values are compared with each other, such as the queue, at each combination of
/// the others. Without it these are the variants of the scenario, if it has several, and otherwise all columns.
/// `--by subject` compares the flows of each variant with each other, and its links: who gets more of a line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The results, recordings and folders of results or sweeps, each with a name for its variant before it if you like
    #[arg(required = true, num_args = 1.., value_name = "[NAME=]FILE", value_parser = Named::parse)]
    named: Vec<Named>,
    /// Compare only runs of a sweep that have this text in this column; several texts of one
    /// column are united
    #[arg(long, value_name = "COLUMN=TEXT", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Compare the values of this column of a sweep with each other, at each combination of the others; `variant` is
    /// the variant of the scenario. May be repeated. Of any results, `subject` compares flows with flows and links with links
    #[arg(long, value_name = "COLUMN")]
    by: Vec<String>,
    #[command(flatten)]
    output: Files,
    #[command(flatten)]
    paper: Paper,
    /// Print a sentence for every measure at every point of a sweep, the differences of all pairs with p, and every value
    #[arg(long)]
    all: bool,
    /// Print all values as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether the flows of a run are compared with each other.
    fn is_by_subject(&self) -> bool {
        self.by.iter().any(|column| column == "subject")
    }
}

/// A file, and the name under which it is compared.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub name: Option<String>,
    pub path: PathBuf,
}

impl Named {
    pub fn parse(text: &str) -> Result<Self, String> {
        // The path of a file may have the sign, too.
        let whole = PathBuf::from(text);
        match text.split_once('=').filter(|_| !whole.exists()) {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: Some(name.to_owned()), path: path.into() })
            }
            Some(_) => Err("write NAME=FILE".into()),
            None => Ok(Self { name: None, path: whole }),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let files: &[PathBuf] = &args.named.iter().map(|named| named.path.clone()).collect::<Vec<_>>();
    let is_sweep = |path: &PathBuf| path.is_dir() && !path.join("results.json").is_file();
    if args.is_by_subject() && args.by.len() > 1 {
        return Err(Failure::Usage(
            "--by subject compares the flows of each run, and has no other column beside it".into(),
        ));
    }
    if !files.iter().any(is_sweep) {
        let columns = !args.by.is_empty() && !args.is_by_subject();
        for (option, does) in [(!args.only.is_empty(), "--only chooses runs"), (columns, "--by chooses columns")] {
            if option {
                return Err(Failure::Usage(format!(
                    "{does} of a sweep; name the folder of one. --look subject=, row= and measure= choose parts of any results"
                )));
            }
        }
    }
    args.output.try_them(files.iter().map(PathBuf::as_path))?;
    let load = |path: &PathBuf| match (is_sweep(path), path.is_dir()) {
        (true, _) => sweep(path, args),
        (false, true) => load(&path.join("results.json")),
        (false, false) => load(path),
    };
    let (mut loaded, mut primary, mut noted, mut digests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut planned = None;
    for path in files {
        let found = load(path)?;
        loaded.push(found.quantities);
        primary.extend(found.primary);
        planned = planned.or(found.planned);
        noted.extend(found.notes);
        digests.push(found.digest);
    }
    if let [Some(first), _, ..] = digests.as_slice()
        && digests.iter().all(|digest| digest.as_ref() == Some(first))
    {
        noted.push(format!("All have the digest {first}: their results are the same."));
    }
    if let ([file], [found]) = (files, loaded.as_slice())
        && found.iter().all(|quantity| quantity.variant == found[0].variant)
        && !args.is_by_subject()
    {
        return Err(Failure::Usage(format!(
            "{}: nothing to compare it with; name two files, one with several variants, or the folder of a sweep",
            file.display()
        )));
    }
    let given: Vec<Option<&str>> = args.named.iter().map(|named| named.name.as_deref()).collect();
    let mut all = match (args.is_by_subject(), loaded.as_mut_slice()) {
        // The name of a file is that of its only variant, where there are others.
        (true, [only]) => std::mem::take(only),
        _ => named(loaded, &names(files), &given),
    };
    if args.is_by_subject() {
        all = by_subject(&all);
        primary = primary_of_kinds(&primary, &all);
        if all.is_empty() {
            return Err(Failure::Usage("--by subject: there are no two flows or links to compare".into()));
        }
    }
    let title = "The files beside each other";
    let comparison = compared(title, &all);
    let as_planned = |comparison: Comparison| match &planned {
        Some(planned) => comparison.planned_with(planned),
        None => comparison,
    };
    let (all, comparison, primary) = match args.only.iter().any(is_of_quantities) && !primary.is_empty() {
        true => narrowed(all, &as_planned(comparison), &args.only, &primary),
        false if names_measures(&args.only) => {
            let comparison = compared_by_all(title, &all);
            (all, comparison, primary)
        }
        false => (all, comparison, primary),
    };
    // What is planned is stated together; the page has everything else, too.
    let asked = if primary.is_empty() { comparison.clone() } else { as_planned(comparison.clone()) };
    let (chosen, is_part) = stated(&asked, &args.output, &primary)?;
    let is_part = is_part || args.only.iter().any(is_of_quantities);
    args.output.write(
        || {
            let title = match files {
                [sweep] => format!("The runs of {} beside each other", sweep.display()),
                files => format!("{} results beside each other", files.len()),
            };
            page(title, &comparison, &primary)
        },
        || table(&all),
    )?;
    let differences = differences(&chosen);
    let unfinished = unfinished(all.iter().filter(|quantity| chosen.has(&quantity.measure, quantity.plain())));
    // Of flows beside each other the notes of the file have them already.
    let cautions = match args.is_by_subject() && !noted.is_empty() {
        true => Vec::new(),
        false => cautions(all.iter(), |measure, subject| chosen.has(measure, subject)),
    };
    let items: Vec<Item> = all.into_iter().map(Item::from).collect();
    let mut out = crate::output::stdout();
    if args.json {
        let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        writeln!(
            out,
            "{:#}",
            json!({
                "version": env!("CARGO_PKG_VERSION"), "files": files, "items": items, "differences": differences,
                "unfinished": unfinished, "no_interval": chosen.why_no_interval(),
            })
        )?;
        return Ok(());
    }
    if let Some(table) = args.paper.table(&chosen, &args.output.look()?) {
        write!(out, "{table}")?;
        return Ok(());
    }
    let files = "--json and --table FILE have them";
    let answer = Answer { comparison: &chosen, is_part, primary: &primary, runs: None, all: args.all, files };
    answer.write(&mut out, &items)?;
    // Results of one scenario have the same notes.
    let mut notes: Vec<String> = unfinished.into_iter().chain(cautions).collect();
    for note in noted {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    for note in &notes {
        writeln!(out, "{}", wrapped(note, width()))?;
    }
    out.flush()?;
    Ok(())
}

/// The primary quantities where flows are compared with each other: `goodput of flow a` is the goodput of `flows`, at every point. What is not
/// of a subject with a whole name has no part in it.
fn primary_of_kinds(primary: &[String], all: &[Quantity]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in primary {
        let Some((measure, subject)) = name.split_once(" of ") else { continue };
        let is_there = all.iter().any(|quantity| quantity.measure == measure && quantity.variant == subject);
        let kinds = kinds_of(subject).filter(|_| is_there);
        found.extend(kinds.map(|kinds| format!("{measure} of {kinds}")).filter(|name| !found.contains(name)));
    }
    found
}

/// The report of a comparison: the answer, the differences and the values.
pub(super) fn page(title: String, comparison: &Comparison, primary: &[String]) -> Report {
    let values = Section { fold: Fold::Closed, ..Section::new("Values") }.with(comparison.table());
    let differences = comparison.differences();
    let tested = (!differences.rows.is_empty())
        .then(|| Section { fold: Fold::Closed, ..Section::new("Differences").note(DIFFERENCES) }.with(differences));
    let answer = Section::new("Answer").with(comparison.clone());
    Report {
        title,
        facts: vec![("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
        sections: [Some(answer), tested, Some(values)].into_iter().flatten().collect(),
        primary: primary.to_vec(),
        ..Report::default()
    }
}

/// Whether a choice of rows names measures: all of these are compared, whether or not they are usually shown.
fn names_measures(only: &[(String, String)]) -> bool {
    only.iter().any(|(column, _)| column == "measure")
}

/// The quantities of a sweep that `only` chooses, and their comparison. Those that the scenario names as primary were planned together, and
/// are corrected together with all that it names, whichever of them is chosen. If none of these is chosen, nothing is left of `primary`.
fn narrowed(
    all: Vec<Quantity>,
    comparison: &Comparison,
    only: &[(String, String)],
    primary: &[String],
) -> (Vec<Quantity>, Comparison, Vec<String>) {
    let is_chosen = |measure: &str, subject: &str| {
        let plain = subject.split(" at ").next().unwrap_or(subject);
        // Several texts of one column are united.
        [("measure", measure), ("subject", plain)].into_iter().all(|(column, value)| {
            let mut wanted = only.iter().filter(|(of, _)| of == column).peekable();
            wanted.peek().is_none() || wanted.any(|(_, text)| text == value)
        })
    };
    let some: Vec<Quantity> = all.into_iter().filter(|of| is_chosen(&of.measure, of.plain())).collect();
    let planned = Look::page().stated(comparison, primary).ok().map(|(planned, _)| planned);
    let part = planned.and_then(|planned| {
        let quantities: Vec<_> =
            planned.quantities().into_iter().filter(|(measure, subject)| is_chosen(measure, subject)).collect();
        (!quantities.is_empty()).then(|| planned.planned_part(&quantities))
    });
    let comparison = part.unwrap_or_else(|| match names_measures(only) {
        true => compared_by_all(&comparison.title, &some),
        false => compared(&comparison.title, &some),
    });
    (some, comparison, Vec::new())
}

/// The files by the shortest end of their paths that no other has.
fn names(files: &[PathBuf]) -> Vec<String> {
    let end = |path: &Path, parts: usize| {
        let all: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        all[all.len().saturating_sub(parts)..].join("/")
    };
    let most = files.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let of = |(at, path): (usize, &PathBuf)| {
        let alone =
            |parts: &usize| files.iter().enumerate().all(|(n, file)| n == at || end(file, *parts) != end(path, *parts));
        match (1..=most).find(alone) {
            Some(parts) => end(path, parts),
            // A file may be named twice.
            None => format!("{} ({})", path.display(), at + 1),
        }
    };
    files.iter().enumerate().map(of).collect()
}

/// The quantities of all files under the names of their variants: that of the variant or configuration if only one file has
/// it, otherwise the name of the file before it. If all files have the same several variants, the files are compared, at each variant as at
/// a point of a sweep. A name that is given stands for a file with one variant, and before those of several.
fn named(loaded: Vec<Vec<Quantity>>, files: &[String], given: &[Option<&str>]) -> Vec<Quantity> {
    let own: Vec<BTreeSet<String>> =
        loaded.iter().map(|found| found.iter().map(|quantity| quantity.variant.clone()).collect()).collect();
    // Files of the same variants are compared at each of these: who is the best of all pairs is a question that nobody asks then.
    let is_by_file = own.len() > 1 && own[0].len() > 1 && own.iter().all(|names| *names == own[0]);
    let is_at_points = loaded.iter().flatten().any(|quantity| !quantity.point.is_empty());
    let is_unique = |variant: &String| own.iter().filter(|names| names.contains(variant)).count() == 1;
    let renamed = |quantity: Quantity, at: usize| {
        let (plain, file) = (quantity.plain().to_owned(), given[at].unwrap_or(&files[at]));
        if is_by_file && !is_at_points {
            let point = format!("variant={}", quantity.variant);
            let (variant, subject) = (file.to_owned(), format!("{file}: {plain} at {point}"));
            return Quantity { subject, variant, point, ..quantity };
        }
        let variant = match quantity.variant.as_str() {
            "" => file.to_owned(),
            _ if given[at].is_some() && own[at].len() == 1 => file.to_owned(),
            variant if given[at].is_some() => format!("{file} {variant}"),
            _ if is_unique(&quantity.variant) => quantity.variant.clone(),
            variant => format!("{file} {variant}"),
        };
        Quantity { subject: format!("{variant}: {plain}"), variant, ..quantity }
    };
    let all = loaded.into_iter().enumerate();
    all.flat_map(|(at, found)| found.into_iter().map(move |quantity| renamed(quantity, at))).collect()
}

/// The contents of a file of results or of a sweep.
#[derive(Default)]
struct Loaded {
    quantities: Vec<Quantity>,
    /// The quantities that the scenario names before its first run.
    primary: Vec<String>,
    /// The comparison by these of all runs of a sweep, if some were chosen.
    planned: Option<Comparison>,
    /// Notes on its runs, such as that all have the same part of a trace.
    notes: Vec<String>,
    /// The digest of its runs, if it has one.
    digest: Option<String>,
}

/// The files in the folder of a sweep by the scenarios whose runs they have, for an error.
fn scenarios(folder: &Path) -> String {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(scenario) = scenario_of(&name).map(str::to_owned) {
            all.entry(scenario).or_default().push(name);
        }
    }
    all.values_mut().for_each(|names| names.sort());
    let some = |names: &Vec<String>| match names.as_slice() {
        [first, .., _] => format!("{first} and {} more", names.len() - 1),
        names => names.concat(),
    };
    let all: Vec<String> = all.values().map(some).collect();
    format!(": {}; move the files of one to another folder", all.join(", or "))
}

/// Reads the values in the folder of a sweep.
fn sweep(folder: &Path, args: &Args) -> Result<Loaded, Failure> {
    let table = read(&[folder.to_owned()])?;
    let wrong = |why: String| {
        let advice = if why.ends_with("choose some") { " by --only COLUMN=TEXT" } else { "" };
        let mixed = if why.ends_with("two scenarios") { scenarios(folder) } else { String::new() };
        Failure::Usage(format!("{}: {why}{mixed}{advice}", folder.display()))
    };
    let by: &[String] = if args.is_by_subject() { &[] } else { &args.by };
    // Quantities are chosen later from those that were planned, and are corrected for all of these.
    let is_loaded =
        |only: &&(String, String)| args.is_by_subject() || table.primary.is_empty() || !is_of_quantities(only);
    let only: Vec<(String, String)> = args.only.iter().filter(is_loaded).cloned().collect();
    if only.len() < args.only.len() {
        // A quantity that is not there is an error nevertheless.
        swept::quantities(&table, &args.only, by).map_err(wrong)?;
    }
    let found = swept::quantities(&table, &only, by).map_err(wrong)?;
    if found.iter().all(|quantity| quantity.variant.is_empty()) && !args.is_by_subject() {
        return Err(wrong("all runs have the same values, so that there is nothing to compare".to_owned()));
    }
    // Whoever chooses variants or points has planned all of the sweep, unless that cannot be compared.
    let is_narrowed =
        !table.primary.is_empty() && !args.is_by_subject() && only.iter().any(|one| !is_of_quantities(one));
    let whole = is_narrowed.then(|| swept::quantities(&table, &[], by).ok()).flatten();
    let planned = whole.and_then(|whole| Look::page().stated(&compared_whole(&whole), &table.primary).ok());
    let planned = planned.map(|(planned, _)| planned);
    Ok(Loaded { quantities: found, primary: table.primary, planned, ..Loaded::default() })
}

/// Reads the values of the file at `path`.
fn load(path: &Path) -> Result<Loaded, Failure> {
    let wrong = |what: &str| {
        Failure::Usage(format!(
            "{}: {what}; what is compared are recordings, and results that `tidegate simulate`, `replay` or `reproduce` \
             prints with --json",
            path.display()
        ))
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    // A recording is run again as it is read, which may take a while.
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let mut file: Box<dyn Read> = match length {
        Some(length) => Box::new(Reading::new(file, length)),
        None => Box::new(file),
    };
    Read::by_ref(&mut file).take(1).read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
    if bytes.first() != Some(&b'{') {
        let parquet = b"PAR1";
        file.by_ref()
            .take(parquet.len() as u64 - 1)
            .read_to_end(&mut bytes)
            .map_err(|error| wrong(&error.to_string()))?;
        if bytes == parquet {
            return Err(wrong("a table; `tidegate figure` draws it"));
        }
        if std::str::from_utf8(&bytes).is_ok_and(|text| text.chars().all(|c| !c.is_control() || c.is_whitespace())) {
            return Err(wrong("neither results nor a recording"));
        }
        let whole: Box<dyn Read> = Box::new(BufReader::new(std::io::Cursor::new(bytes).chain(file)));
        let Kind::Recording(whole) = sniff(whole).map_err(|error| wrong(&error.to_string()))? else {
            return Err(wrong("a capture contains no results; `tidegate replay` computes them"));
        };
        let mut reader = Reader::with_parts(whole, next_part(path)).map_err(|error| wrong(&error.to_string()))?;
        let again = session::again(&mut reader, "recorded", Keep::default(), None::<&mut Departures<Vec<u8>>>)
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        let outcome = again.outcome.ok_or_else(|| wrong("the recording has no packets"))?;
        return Ok(Loaded { quantities: quantities(&[&outcome]), ..Loaded::default() });
    }
    file.read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
    let mut found: Vec<Quantity> = match (value["items"].as_array(), value["configurations"].as_array()) {
        (Some(items), _) => {
            let runs = value["runs"].as_array().into_iter().flatten();
            let seeds: Vec<u64> = runs.filter_map(|run| run["seed"].as_u64()).collect();
            items.iter().filter_map(|value| item(value, &seeds)).collect()
        }
        (None, Some(configurations)) => configurations.iter().flat_map(classes).collect(),
        (None, None) => return Err(wrong("it has neither `items` nor `configurations`")),
    };
    mark_left(&mut found);
    let texts = |name: &str| {
        let all = value[name].as_array().into_iter().flatten();
        all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let digest = value["digest"].as_str().map(str::to_owned);
    Ok(Loaded { quantities: found, primary: texts("primary"), notes: texts("notes"), digest, ..Loaded::default() })
}

/// An item of a simulation of runs with `seeds`, or of an experiment, if it was measured.
fn item(value: &Value, seeds: &[u64]) -> Option<Quantity> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let open: Vec<u64> = value["not_reached"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let (subject, measure, mean) = match value["mean"].as_f64().or((!open.is_empty()).then_some(f64::INFINITY)) {
        Some(mean) => (text("subject")?, text("measure")?, mean),
        None => (text("id")?, "measured".to_owned(), value["measured"].as_f64()?),
    };
    let of_run = |(n, value): (usize, &Value)| {
        let is_open = seeds.get(n).is_some_and(|seed| open.contains(seed));
        if is_open { Some(f64::INFINITY) } else { value.as_f64() }
    };
    let values = value["values"].as_array().map(|values| values.iter().enumerate().map(of_run).collect());
    Some(Quantity {
        subject,
        variant: text("variant").unwrap_or_default(),
        point: String::new(),
        measure,
        unit: unit(value["unit"].as_str().unwrap_or_default()),
        mean,
        half_width_95: value["half_width_95"].as_f64(),
        values: values.unwrap_or_else(|| vec![Some(mean)]),
        seeds: seeds.to_vec(),
        left: None,
    })
}

/// The classes and the flows of a configuration of a replay.
fn classes(configuration: &Value) -> Vec<Quantity> {
    let variant = configuration["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for (kind, word) in [("classes", "class"), ("flows", "flow")] {
        for part in configuration[kind].as_array().into_iter().flatten() {
            let dropped = match &part["dropped_packets"] {
                Value::Object(by_reason) => Some(by_reason.values().filter_map(Value::as_f64).sum()),
                count => count.as_f64(),
            };
            let sent = part["arrived_packets"].as_f64();
            let loss = sent.zip(dropped).filter(|(sent, _)| *sent > 0.0).map(|(sent, dropped)| dropped / sent * 100.0);
            let values = [
                ("throughput", "bps", part["rate_bps"].as_f64()),
                ("wait p50", "ns", part["delay_p50_ns"].as_f64()),
                ("wait p99", "ns", part["delay_p99_ns"].as_f64()),
                ("sent", "packets", sent),
                ("dropped", "packets", dropped),
                ("loss", "%", loss),
            ];
            let of = format!("{word} {}", part["name"].as_str().unwrap_or_default());
            found.extend(
                values
                    .into_iter()
                    .filter_map(|(measure, unit, mean)| Some(Quantity::of_one_run(variant, &of, measure, unit, mean?))),
            );
        }
    }
    found
}

/// All values as columns for notebooks.
fn table(all: &[Quantity]) -> columns::Table {
    let text = |of: fn(&Quantity) -> &str| Column::Text(all.iter().map(|found| Some(of(found).to_owned())).collect());
    columns::Table::default()
        .with("variant", text(|found| &found.variant))
        .with("subject", text(Quantity::plain))
        .with("point", text(|found| &found.point))
        .with("measure", text(|found| &found.measure))
        .with("unit", text(|found| found.unit))
        .with("mean", Column::Number(all.iter().map(|found| Some(found.mean)).collect()))
        .with("half_width_95", Column::Number(all.iter().map(|found| found.half_width_95).collect()))
}
