//! Faults planted into the systems of the papers: each must make an item of `tidegate reproduce` worse that was not
//! contradicted before, or state why no published number depends on it. `.ci/planted/faults` has the faults.
//!
//! All faults are compiled into one program, a copy of the tree in which each expression `E` that a fault replaces by `F` is
//! `(if planted(n) { F } else { E })`; the environment chooses one. (Mutant schemata: Untch, Offutt and Harrold 1993.) A fault
//! then costs a run of the items that should notice it, instead of a build.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FAULTS: &str = ".ci/planted/faults";
const PAGE: &str = "experiments/PLANTED.md";
const BUILT: &str = "target/planted";
/// A fault that makes a simulation endless is found by this.
const PATIENCE: Duration = Duration::from_secs(240);
/// Which fault is planted, in the copy of the tree.
const CHOICE: &str = r#"
extern crate std;
#[doc(hidden)]
pub fn planted(fault: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("PLANTED").ok()?.parse().ok()) == Some(fault)
}
"#;

/// A fault: an expression of a file, what takes its place, and the items that should notice.
#[derive(Debug, Default)]
struct Fault {
    name: String,
    says: String,
    file: PathBuf,
    /// Experiment, prefix of ids, number of seeds.
    runs: Vec<[String; 3]>,
    /// A text before the expression; none where the expression is in the file once.
    after: String,
    replace: String,
    with: String,
    /// The run of the short form, if it is in that.
    short: Option<[String; 3]>,
    /// Why no published number depends on it.
    none: Option<String>,
}

/// Why no fault breaks some items of an experiment.
#[derive(Debug)]
struct Kept {
    experiment: String,
    /// What the ids of these items begin with.
    prefix: String,
    why: String,
}

/// Reads the faults, and why none breaks some items. An empty line ends a fault.
fn parse(text: &str) -> Result<(Vec<Fault>, Vec<Kept>), String> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut kept = Vec::new();
    let mut last = "";
    for (n, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("{FAULTS}, line {n}: {what}: `{line}`");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "kept" {
            let fields: Vec<&str> = rest.splitn(3, ' ').collect();
            let [experiment, prefix, why] = fields[..] else { return Err(wrong("not EXPERIMENT PREFIX WHY")) };
            kept.push(Kept { experiment: experiment.to_owned(), prefix: prefix.to_owned(), why: why.to_owned() });
            continue;
        }
        if word == "fault" {
            faults.push(Fault { name: rest.to_owned(), ..Fault::default() });
        }
        let fault = faults.last_mut().ok_or_else(|| wrong("before the first fault"))?;
        let field = if word == "|" { last } else { word };
        let text = match field {
            "after" => &mut fault.after,
            "replace" => &mut fault.replace,
            "with" => &mut fault.with,
            _ if word == "|" => return Err(wrong("goes on with a line that has no text")),
            _ => {
                match word {
                    "fault" => {}
                    "says" => fault.says = rest.to_owned(),
                    "file" => fault.file = rest.into(),
                    "none" => fault.none = Some(rest.to_owned()),
                    "run" | "short" => {
                        let words: Vec<String> = rest.split(' ').map(str::to_owned).collect();
                        let run = words.try_into().map_err(|_| wrong("not EXPERIMENT PREFIX SEEDS"))?;
                        if word == "run" { fault.runs.push(run) } else { fault.short = Some(run) }
                    }
                    _ => return Err(wrong("not understood")),
                }
                last = word;
                continue;
            }
        };
        if word == "|" {
            text.push('\n');
        }
        text.push_str(rest);
        last = field;
    }
    for fault in &faults {
        if fault.says.is_empty() || fault.runs.is_empty() {
            return Err(format!("{FAULTS}: {} has no sentence or no run", fault.name));
        }
        for text in [&fault.replace, &fault.with] {
            let parsed = syn::parse_str::<syn::Expr>(text);
            parsed.map_err(|error| format!("{FAULTS}: {}: `{text}` is no expression: {error}", fault.name))?;
        }
    }
    Ok((faults, kept))
}

/// Where the expression of `fault` is in the text of its file.
fn place(fault: &Fault, text: &str) -> Result<Range<usize>, String> {
    let unique = if fault.after.is_empty() { &fault.replace } else { &fault.after };
    let file = fault.file.display();
    match text.matches(unique).count() {
        1 => {}
        n => return Err(format!("{}: `{unique}` is {n} times in {file}, not once", fault.name)),
    }
    let from = text.find(unique).unwrap_or_default() + fault.after.len();
    let found = text[from..].find(&fault.replace);
    let at = from + found.ok_or_else(|| format!("{}: `{}` does not follow in {file}", fault.name, fault.replace))?;
    Ok(at..at + fault.replace.len())
}

/// The text of a file with its faults, each with its number. Faults of the same expression exclude each other; others must
/// not overlap. `within` is the crate that has the choice.
fn planted(faults: &[(usize, &Fault)], text: &str, within: &str) -> Result<String, String> {
    let mut places: BTreeMap<(usize, usize), Vec<(usize, &Fault)>> = BTreeMap::new();
    for &(n, fault) in faults {
        let place = place(fault, text)?;
        places.entry((place.start, place.end)).or_default().push((n, fault));
    }
    let (mut out, mut at) = (String::new(), 0);
    for ((start, end), faults) in places {
        if start < at {
            return Err(format!("{}: its expression overlaps with that of another fault", faults[0].1.name));
        }
        out += &text[at..start];
        // No parentheses: the compiler would warn of them where they are not needed.
        out += "::core::convert::identity(";
        for (n, fault) in faults {
            let _ = write!(out, "if ::{within}::planted({n}) {{ {} }} else ", fault.with);
        }
        let _ = write!(out, "{{ {} }})", &text[start..end]);
        at = end;
    }
    Ok(out + &text[at..])
}

/// The faults of each file.
fn by_file(faults: &[Fault]) -> BTreeMap<&Path, Vec<(usize, &Fault)>> {
    let mut files: BTreeMap<&Path, Vec<(usize, &Fault)>> = BTreeMap::new();
    for (n, fault) in faults.iter().enumerate() {
        files.entry(&fault.file).or_default().push((n, fault));
    }
    files
}

/// The crate that the choice is imported from in `file`: all that have faults depend on one of these.
fn chooser(file: &Path) -> io::Result<&'static str> {
    let package = file.ancestors().map(|folder| folder.join("Cargo.toml")).find(|toml| toml.is_file());
    let manifest = fs::read_to_string(package.ok_or_else(|| io::Error::other("a fault outside of a crate"))?)?;
    Ok(if manifest.contains("tidegate-units") { "tidegate_units" } else { "tidegate_core" })
}

/// Copies the repository's files with all faults in them; what is equal keeps its time, so that it is not built again.
fn copy(faults: &[Fault]) -> io::Result<PathBuf> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let files = by_file(faults);
    for (path, faults) in &files {
        let text = planted(faults, &fs::read_to_string(path)?, chooser(path)?).map_err(io::Error::other)?;
        texts.insert(path.to_str().unwrap_or_default(), text);
    }
    let copy = PathBuf::from(BUILT).join("tree");
    crate::tree::copy(&copy, |file, mut content| {
        if let Some(text) = texts.get(file) {
            content = text.clone().into_bytes();
        }
        match file {
            "crates/units/src/lib.rs" => content.extend_from_slice(CHOICE.as_bytes()),
            "crates/core/src/lib.rs" => {
                content.extend_from_slice(b"\n#[doc(hidden)]\npub use tidegate_units::planted;\n");
            }
            _ => {}
        }
        content
    })?;
    Ok(copy)
}

/// The program that measures items, with all faults in it.
struct Items {
    program: PathBuf,
    /// Where results are kept, so that an interrupted command goes on; of this very program.
    results: PathBuf,
}

impl Items {
    fn build(faults: &[Fault]) -> io::Result<Self> {
        let copy = copy(faults)?;
        // Not in the target directory of the workspace: cargo would take the one's crates for the other's, whose paths within
        // their workspaces are the same.
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "--locked", "-p", "tidegate-experiments", "--example", "items"])
            .arg("--target-dir")
            .arg(fs::canonicalize(BUILT)?.join("target"))
            // Built once, and run for every fault.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "3")
            .current_dir(copy)
            .status()?;
        if !built.success() {
            return Err(io::Error::other("the tree with the faults does not compile"));
        }
        let program = PathBuf::from(BUILT).join("items");
        fs::copy(format!("{BUILT}/target/debug/examples/items"), &program)?;
        let mut hash = DefaultHasher::new();
        hash.write(&fs::read(&program)?);
        let results = PathBuf::from(BUILT).join(format!("results-{:016x}", hash.finish()));
        fs::create_dir_all(&results)?;
        Ok(Self { program, results })
    }
    /// The verdicts of a run by item, with a fault or without; an error when it fails or does not end.
    fn run(&self, run: &[String; 3], fault: Option<(usize, &Fault)>) -> io::Result<Result<Verdicts, String>> {
        let name = fault.map_or("nothing", |(_, fault)| &fault.name);
        let kept = self.results.join(format!("{name} {}", run.join(" ")));
        if !kept.exists() {
            let out = self.results.join("unfinished");
            let mut child = Command::new(&self.program)
                .args(run)
                .env("PLANTED", fault.map_or("none".to_owned(), |(n, _)| n.to_string()))
                .stdout(fs::File::create(&out)?)
                .stderr(Stdio::null())
                .spawn()?;
            let began = Instant::now();
            let failed = loop {
                match child.try_wait()? {
                    Some(status) if status.success() => break None,
                    Some(_) => break Some("fails"),
                    None if began.elapsed() > PATIENCE => {
                        child.kill()?;
                        child.wait()?;
                        break Some("does not end");
                    }
                    None => std::thread::sleep(Duration::from_millis(50)),
                }
            };
            if let Some(failed) = failed {
                fs::write(&out, format!("!{failed}"))?;
            }
            fs::rename(out, &kept)?;
        }
        let text = fs::read_to_string(kept)?;
        if let Some(failed) = text.strip_prefix('!') {
            return Ok(Err(format!("`{}` {failed}", run.join(" "))));
        }
        let fields = text.lines().filter_map(|line| line.split_once(','));
        Ok(Ok(fields
            .map(|(id, rest)| (id.to_owned(), rest.split(',').next().unwrap_or_default().to_owned()))
            .collect()))
    }
}

/// The verdicts by the ids of the items.
type Verdicts = BTreeMap<String, String>;

fn held(verdict: &str) -> bool {
    matches!(verdict, "reproduced" | "deviates")
}

/// What became worse: items that were reproduced or explained, and are contradicted or gone.
fn worse(before: &Verdicts, after: &Verdicts) -> Vec<String> {
    let lost = before.iter().filter(|(id, verdict)| held(verdict) && !after.get(*id).is_some_and(|after| held(after)));
    lost.map(|(id, _)| id.clone()).collect()
}

/// Plants every fault, or those of the short form, or those whose name begins with `only`, and prints the table; that of all
/// faults is written to the page. Returns what was found wrong with the faults or the items.
pub fn check(short: bool, only: &str) -> io::Result<Vec<String>> {
    let (faults, kept) = match fs::read_to_string(FAULTS).map(|text| parse(&text))? {
        Ok(parsed) => parsed,
        Err(wrong) => return Ok(vec![wrong]),
    };
    let program = Items::build(&faults)?;
    let mut wrong: Vec<String> = Vec::new();
    let mut broken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rows = String::new();
    for (n, fault) in faults.iter().enumerate() {
        if (short && fault.short.is_none()) || !fault.name.starts_with(only) {
            continue;
        }
        let mut found = Vec::new();
        for run in if short { fault.short.as_slice() } else { &fault.runs } {
            let before = match program.run(run, None)? {
                Ok(items) => items,
                Err(said) => return Ok(vec![format!("without a fault {said}")]),
            };
            let lost = match program.run(run, Some((n, fault)))? {
                Ok(after) => worse(&before, &after),
                Err(said) => vec![said],
            };
            broken.entry(run[0].clone()).or_default().extend(lost.iter().cloned());
            found.extend(lost);
        }
        let by = match (&found[..], &fault.none) {
            ([], Some(reason)) => format!("none: {reason}"),
            ([], None) => {
                wrong.push(format!("{}: no item found it", fault.name));
                "**nothing**".to_owned()
            }
            (found, reason) => {
                if reason.is_some() {
                    wrong.push(format!("{}: nothing should depend on it, and {} does", fault.name, found[0]));
                }
                let more = if found.len() > 1 { format!(" and {} more", found.len() - 1) } else { String::new() };
                format!("`{}`{more}", found[0])
            }
        };
        let row = format!("| `{}` | {} | `{}` | {by} |\n", fault.name, fault.says, fault.file.display());
        print!("{row}");
        rows += &row;
    }
    if !short && only.is_empty() {
        let unbroken = unbroken(&broken, &kept, &mut wrong)?;
        fs::write(PAGE, page(&rows, &unbroken)?)?;
    }
    Ok(wrong)
}

/// A row for each experiment and for each line that says why no fault breaks some of its items. An item that no fault breaks and
/// no line names is wrong, and so is a line without such an item.
fn unbroken(broken: &BTreeMap<String, BTreeSet<String>>, kept: &[Kept], wrong: &mut Vec<String>) -> io::Result<String> {
    let mut rows = String::new();
    let mut used = vec![0_usize; kept.len()];
    for (experiment, broken) in broken {
        let recorded = fs::read_to_string(format!("experiments/{experiment}/verdicts.csv"))?;
        let of_this = |line: &Kept| line.experiment == *experiment;
        let (mut count, mut found) = (0, 0);
        for (id, _) in recorded.lines().filter_map(|line| line.split_once(',')).filter(|(_, verdict)| held(verdict)) {
            count += 1;
            if broken.contains(id) {
                found += 1;
                continue;
            }
            match kept.iter().position(|line| of_this(line) && id.starts_with(&line.prefix)) {
                Some(n) => used[n] += 1,
                None => {
                    wrong.push(format!("{experiment}, {id}: no fault breaks it, and no `kept` of {FAULTS} says why"))
                }
            }
        }
        let _ = writeln!(rows, "| {experiment} | {found} of {count} are broken | |");
        for (line, &used) in kept.iter().zip(&used).filter(|(line, _)| of_this(line)) {
            if used == 0 {
                wrong.push(format!("kept {experiment} {}: there is no such item that no fault breaks", line.prefix));
            }
            let _ = writeln!(rows, "| | {used} of `{}` | {} |", line.prefix, line.why);
        }
    }
    Ok(rows)
}

/// The page: the table of the faults, and the items with a bound that none of them broke.
fn page(rows: &str, unbroken: &str) -> io::Result<String> {
    let date = Command::new("date").args(["-u", "+%F"]).output()?.stdout;
    Ok(format!(
        "# Planted faults\n\nWritten by `cargo run -p tidegate-checks -- planted` on {}. Each fault is planted alone into \
         the system of a paper (`{FAULTS}`), and the items of that paper are measured with it, with the first seed (of FBQ's \
         `sim` two). Found by: the first item that was reproduced or explained without the fault and is contradicted with \
         it.\n\n| fault | what it does | file | found by |\n| --- | --- | --- | --- |\n{rows}\n## Items that no fault \
         breaks\n\nOf the simulated items with a bound that holds (`verdicts.csv`).\n\n| paper | items | why no fault \
         breaks them |\n| --- | --- | --- |\n{unbroken}",
        String::from_utf8_lossy(&date).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_readable_and_its_expression_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (faults, kept) = parse(&fs::read_to_string(root.join(FAULTS)).unwrap()).unwrap();
        for line in kept {
            let recorded =
                fs::read_to_string(root.join(format!("experiments/{}/verdicts.csv", line.experiment))).unwrap();
            let named = recorded.lines().any(|item| item.starts_with(&line.prefix) && !line.why.is_empty());
            assert!(named, "{} has no item {}", line.experiment, line.prefix);
        }
        assert!(
            faults.len() >= 40 && faults.iter().filter(|fault| fault.short.is_some()).count() >= 5,
            "{}",
            faults.len()
        );
        for (file, faults) in by_file(&faults) {
            let text = planted(&faults, &fs::read_to_string(root.join(file)).unwrap(), "units").unwrap();
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    #[test]
    fn expressions_become_choices() {
        let text = "fault x\nsays s\nfile f\nrun fbq shares 1\nafter one\n| two\nreplace a + b\nwith c";
        let other = "\n\nfault y\nsays s\nfile f\nrun fbq shares 1\nreplace d\nwith e";
        let (faults, kept) = parse(&format!("{text}{other}\nkept fbq a.b because it is\n")).unwrap();
        assert_eq!((&kept[0].experiment[..], &kept[0].prefix[..], &kept[0].why[..]), ("fbq", "a.b", "because it is"));
        assert!(parse("kept fbq a.b").is_err(), "without a reason");
        let numbered: Vec<(usize, &Fault)> = faults.iter().enumerate().collect();
        assert_eq!(
            planted(&numbered, "d; one\ntwo a + b; a + b", "units").unwrap(),
            "::core::convert::identity(if ::units::planted(1) { e } else { d }); one\n\
             two ::core::convert::identity(if ::units::planted(0) { c } else { a + b }); a + b"
        );
        assert!(
            planted(&numbered, "d; one\ntwo a", "").is_err() && planted(&numbered, "d d one\ntwo a + b", "").is_err()
        );
        assert!(parse("fault x\nsays s\nfile y\nreplace a\nwith b").is_err(), "without a run");
        assert!(parse("fault x\nsays s\nrun a b 1\nreplace let\nwith b").is_err(), "no expression");
        assert!(parse("fault x\nrun a b").is_err() && parse("| x").is_err() && parse("fault x\n| x").is_err());
    }

    #[test]
    fn what_got_worse_is_found() {
        let items =
            |list: &[(&str, &str)]| list.iter().map(|(id, verdict)| ((*id).into(), (*verdict).into())).collect();
        let before: Verdicts = items(&[
            ("a", "reproduced"),
            ("b", "deviates"),
            ("c", "contradicted"),
            ("d", "information"),
            ("e", "reproduced"),
        ]);
        let after = items(&[("a", "contradicted"), ("b", "reproduced"), ("c", "reproduced"), ("d", "information")]);
        assert_eq!(worse(&before, &after), ["a", "e"]);
        assert!(worse(&before, &before).is_empty());
    }
}
