//! Plants the faults of `tools/planted/faults` into the systems of the papers. Each must make an item of `tidegate
//! reproduce` worse that was not contradicted before.
//!
//! All faults are compiled into one program, a copy of the tree in which each expression `E` that a fault replaces by `F` is
//! `(if planted(n) { F } else { E })`; the environment chooses one. (Mutant schemata: Untch, Offutt and Harrold 1993.) A fault
//! then costs a run of the items that should notice it, instead of a build.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FAULTS: &str = "tools/planted/faults";
const PAGE: &str = "lab/papers/PLANTED.md";
const BUILT: &str = "target/planted";
/// A run that takes longer counts as endless.
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

/// A fault: an expression of a file, its replacement, and the items that should notice.
#[derive(Debug, Default)]
struct Fault {
    name: String,
    says: String,
    file: PathBuf,
    /// Experiment, prefix of ids, number of seeds.
    runs: Vec<[String; 3]>,
    /// A text before the expression; empty if the expression occurs once in the file.
    after: String,
    replace: String,
    with: String,
    /// The run of the short form, if the fault is part of that.
    short: Option<[String; 3]>,
}

/// Reads the faults.
fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut last = "";
    for (n, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("{FAULTS}, line {n}: {what}: `{line}`");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
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
    Ok(faults)
}

/// The range of the expression of `fault` in the text of its file.
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

/// Inserts the faults of a file into its text, each with its number. Faults of the same expression exclude each other;
/// others must not overlap. `within` is the crate with the function `planted`.
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

/// The crate from which `file` imports the function `planted`: all crates with faults depend on one of these.
fn chooser(file: &Path) -> io::Result<&'static str> {
    let package = file.ancestors().map(|folder| folder.join("Cargo.toml")).find(|toml| toml.is_file());
    let manifest = fs::read_to_string(package.ok_or_else(|| io::Error::other("a fault outside of a crate"))?)?;
    Ok(if manifest.contains("tidegate-units") { "tidegate_units" } else { "tidegate_core" })
}

/// Copies the repository's files with all faults. Unchanged files keep their times, so that they are not built again.
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
    /// The folder with the results of this program, so that an interrupted command can continue.
    results: PathBuf,
}

impl Items {
    fn build(faults: &[Fault]) -> io::Result<Self> {
        let copy = copy(faults)?;
        // Not in the target directory of the workspace: their crates have the same relative paths, and cargo would
        // confuse them.
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "--locked", "-p", "tidegate-papers", "--example", "items"])
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
    /// The verdicts of a run by item, with a fault or without; an error if the run fails or does not end.
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

/// The items that became worse: they were reproduced or explained, and are contradicted or gone.
fn worse(before: &Verdicts, after: &Verdicts) -> Vec<String> {
    let lost = before.iter().filter(|(id, verdict)| held(verdict) && !after.get(*id).is_some_and(|after| held(after)));
    lost.map(|(id, _)| id.clone()).collect()
}

/// Plants every fault, or those of the short form, or those whose name begins with `only`, and prints the table. The
/// table of all faults is written to the page. Returns a line for each problem with the faults or the items.
pub fn check(short: bool, only: &str) -> io::Result<Vec<String>> {
    let faults = match fs::read_to_string(FAULTS).map(|text| parse(&text))? {
        Ok(parsed) => parsed,
        Err(wrong) => return Ok(vec![wrong]),
    };
    let program = Items::build(&faults)?;
    let mut wrong: Vec<String> = Vec::new();
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
            found.extend(lost);
        }
        let by = match &found[..] {
            [] => {
                wrong.push(format!("{}: no item found it", fault.name));
                "**nothing**".to_owned()
            }
            [only] => format!("`{only}`"),
            [first, more @ ..] => format!("`{first}` and {} more", more.len()),
        };
        let row = format!("| `{}` | {} | `{}` | {by} |\n", fault.name, fault.says, fault.file.display());
        print!("{row}");
        rows += &row;
    }
    if !short && only.is_empty() {
        fs::write(PAGE, page(&rows)?)?;
    }
    Ok(wrong)
}

/// The page: the table of the faults.
fn page(rows: &str) -> io::Result<String> {
    let date = Command::new("date").args(["-u", "+%F"]).output()?.stdout;
    Ok(format!(
        "# Planted faults\n\nWritten by `cargo run -p tidegate-checks -- planted` on {}. Each fault is planted alone into \
         the system of a paper (`{FAULTS}`), and the items of that paper are measured with it, with the first seed (of FBQ's \
         `sim` two). Found by: the first item that was reproduced or explained without the fault and is contradicted with \
         it.\n\n| fault | what it does | file | found by |\n| --- | --- | --- | --- |\n{rows}",
        String::from_utf8_lossy(&date).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_readable_and_its_expression_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let faults = parse(&fs::read_to_string(root.join(FAULTS)).unwrap()).unwrap();
        let short = faults.iter().filter(|fault| fault.short.is_some()).count();
        assert!(faults.len() >= 30 && short >= 5, "{}, {short}", faults.len());
        for (file, faults) in by_file(&faults) {
            let text = planted(&faults, &fs::read_to_string(root.join(file)).unwrap(), "units").unwrap();
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    #[test]
    fn expressions_become_choices() {
        let text = "fault x\nsays s\nfile f\nrun fbq shares 1\nafter one\n| two\nreplace a + b\nwith c";
        let other = "\n\nfault y\nsays s\nfile f\nrun fbq shares 1\nreplace d\nwith e";
        let faults = parse(&format!("{text}{other}")).unwrap();
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
