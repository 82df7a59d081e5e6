//! Faults planted into the systems of the papers, one at a time: each must make an item of `tidegate reproduce` worse that
//! was not contradicted before, or say why no published number depends on it. `.ci/planted/faults` has the faults.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const FAULTS: &str = ".ci/planted/faults";
/// A fault that makes a simulation endless is found by this.
const PATIENCE: Duration = Duration::from_secs(600);

/// A fault: a text of a file, what takes its place, and the items that should notice.
#[derive(Debug, Default)]
struct Fault {
    name: String,
    says: String,
    file: PathBuf,
    /// Experiment, prefix of ids, number of seeds.
    runs: Vec<[String; 3]>,
    old: String,
    new: String,
    /// Whether it is in the short form.
    short: bool,
    /// Why no published number depends on it.
    none: Option<String>,
}

/// Reads the faults. A line names what follows; the texts are between `replace`, `with` and `end`.
fn parse(text: &str) -> Result<Vec<Fault>, String> {
    enum Part {
        Head,
        Old,
        New,
    }
    let (mut faults, mut fault, mut part) = (Vec::new(), Fault::default(), Part::Head);
    for (n, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("{FAULTS}, line {n}: {what}: `{line}`");
        match (&part, line) {
            (Part::Old, "with") => part = Part::New,
            (Part::New, "end") => {
                if fault.name.is_empty() || fault.old.is_empty() || fault.runs.is_empty() {
                    return Err(wrong("a fault without a name, a text or a run"));
                }
                faults.push(std::mem::take(&mut fault));
                part = Part::Head;
            }
            (Part::Old, line) => fault.old += &format!("{line}\n"),
            (Part::New, line) => fault.new += &format!("{line}\n"),
            (Part::Head, line) if line.is_empty() || line.starts_with('#') => {}
            (Part::Head, "replace") => part = Part::Old,
            (Part::Head, "short") => fault.short = true,
            (Part::Head, line) => match line.split_once(' ') {
                Some(("fault", name)) => fault.name = name.to_owned(),
                Some(("says", text)) => fault.says = text.to_owned(),
                Some(("file", file)) => fault.file = file.into(),
                Some(("none", reason)) => fault.none = Some(reason.to_owned()),
                Some(("run", run)) => {
                    let words: Vec<String> = run.split(' ').map(str::to_owned).collect();
                    fault.runs.push(words.try_into().map_err(|_| wrong("not EXPERIMENT PREFIX SEEDS"))?);
                }
                _ => return Err(wrong("not understood")),
            },
        }
    }
    Ok(faults)
}

/// The text of `file` with the fault in it; the text that it replaces must be there exactly once.
fn planted(fault: &Fault, text: &str) -> Result<String, String> {
    match text.matches(&fault.old).count() {
        1 => Ok(text.replacen(&fault.old, &fault.new, 1)),
        n => Err(format!("{}: its text is {n} times in {}, not once", fault.name, fault.file.display())),
    }
}

/// A copy of the repository's files, which the faults are planted in, with a target directory of its own.
struct Tree(PathBuf);

impl Tree {
    fn copy() -> io::Result<Self> {
        let to = PathBuf::from("target/planted/tree");
        crate::tree::copy(&to, |_, content| content)?;
        Ok(Self(to))
    }
    fn build(&self) -> io::Result<Result<(), String>> {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "--locked", "-p", "tidegate-experiments", "--example", "items"])
            .arg("--target-dir")
            .arg(fs::canonicalize("target/planted")?.join("target"))
            .current_dir(&self.0)
            .output()?;
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        Ok(if built.status.success() { Ok(()) } else { Err(said) })
    }
    /// The verdicts of a run by item; an error when it fails or does not end.
    fn run(&self, run: &[String; 3]) -> io::Result<Result<BTreeMap<String, String>, String>> {
        let out = Path::new("target/planted/items.csv");
        let mut child = Command::new("target/planted/target/debug/examples/items")
            .args(run)
            .stdout(fs::File::create(out)?)
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let began = Instant::now();
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if began.elapsed() > PATIENCE => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Err(format!("`{}` does not end", run.join(" "))));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        if !status.success() {
            return Ok(Err(format!("`{}` fails", run.join(" "))));
        }
        let text = fs::read_to_string(out)?;
        let fields = text.lines().filter_map(|line| line.split_once(','));
        Ok(Ok(fields
            .map(|(id, rest)| (id.to_owned(), rest.split(',').next().unwrap_or_default().to_owned()))
            .collect()))
    }
}

/// What became worse: items that were reproduced or explained, and are contradicted or gone.
fn worse(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let held = |verdict: &str| matches!(verdict, "reproduced" | "deviates");
    let lost = before.iter().filter(|(id, verdict)| held(verdict) && !after.get(*id).is_some_and(|after| held(after)));
    lost.map(|(id, _)| id.clone()).collect()
}

/// Plants every fault, or those of the short form, or those whose name begins with `only`, and writes the table. Returns what
/// was found wrong with the faults or the items.
pub fn check(short: bool, only: &str) -> io::Result<Vec<String>> {
    let faults = match fs::read_to_string(FAULTS).map(|text| parse(&text))? {
        Ok(faults) => faults,
        Err(wrong) => return Ok(vec![wrong]),
    };
    let mut wrong: Vec<String> = Vec::new();
    // All texts first: one that is out of date is found without a build.
    for fault in &faults {
        wrong.extend(planted(fault, &fs::read_to_string(&fault.file)?).err());
    }
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    let tree = Tree::copy()?;
    if let Err(said) = tree.build()? {
        return Ok(vec![said]);
    }
    let mut before = BTreeMap::new();
    println!("| fault | file | found by |\n| --- | --- | --- |");
    for fault in faults.iter().filter(|fault| (fault.short || !short) && fault.name.starts_with(only)) {
        // The items without the fault, once for each group: with the built tree only while nothing is planted.
        for run in &fault.runs {
            if !before.contains_key(run) {
                if let Err(said) = tree.build()? {
                    return Ok(vec![said]);
                }
                match tree.run(run)? {
                    Ok(items) => drop(before.insert(run.clone(), items)),
                    Err(said) => return Ok(vec![format!("without a fault {said}")]),
                }
            }
        }
        let file = tree.0.join(&fault.file);
        let text = fs::read_to_string(&file)?;
        let new = match planted(fault, &text) {
            Ok(new) => new,
            Err(said) => return Ok(vec![said]),
        };
        fs::write(&file, new)?;
        let found = found(&tree, fault, &before);
        fs::write(&file, text)?;
        let found = match found? {
            Ok(found) => found,
            Err(said) => {
                wrong.push(format!("{}: does not compile: {said}", fault.name));
                continue;
            }
        };
        let by = match (&found[..], &fault.none) {
            ([], Some(reason)) => format!("none: {reason}"),
            ([], None) => {
                wrong.push(format!("{}: no item found it", fault.name));
                "**nothing**".to_owned()
            }
            (found, reason) => {
                if reason.is_some() {
                    wrong.push(format!("{}: it says that nothing depends on it, and {} does", fault.name, found[0]));
                }
                let more = if found.len() > 1 { format!(" and {} more", found.len() - 1) } else { String::new() };
                format!("`{}`{more}", found[0])
            }
        };
        println!("| {} | `{}` | {by} |", fault.says, fault.file.display());
    }
    Ok(wrong)
}

/// The items that find a planted fault; the compiler's text when it does not compile.
fn found(
    tree: &Tree,
    fault: &Fault,
    before: &BTreeMap<[String; 3], BTreeMap<String, String>>,
) -> io::Result<Result<Vec<String>, String>> {
    if let Err(said) = tree.build()? {
        return Ok(Err(said));
    }
    let mut found = Vec::new();
    for run in &fault.runs {
        match tree.run(run)? {
            Ok(after) => found.extend(worse(&before[run], &after)),
            Err(said) => found.push(said),
        }
    }
    Ok(Ok(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_readable_and_its_text_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let faults = parse(&fs::read_to_string(root.join(FAULTS)).unwrap()).unwrap();
        assert!(faults.len() >= 40 && faults.iter().filter(|fault| fault.short).count() == 5, "{}", faults.len());
        for fault in &faults {
            planted(fault, &fs::read_to_string(root.join(&fault.file)).unwrap()).unwrap();
        }
    }

    #[test]
    fn what_got_worse_is_found() {
        let items =
            |list: &[(&str, &str)]| list.iter().map(|(id, verdict)| ((*id).into(), (*verdict).into())).collect();
        let before: BTreeMap<String, String> = items(&[
            ("a", "reproduced"),
            ("b", "deviates"),
            ("c", "contradicted"),
            ("d", "information"),
            ("e", "reproduced"),
        ]);
        let after = items(&[("a", "contradicted"), ("b", "reproduced"), ("c", "reproduced"), ("d", "information")]);
        assert_eq!(worse(&before, &after), ["a", "e"]);
        assert!(worse(&before, &before).is_empty());
        assert!(parse("fault x\nfile y\nreplace\na\nwith\nb\nend").is_err(), "without a run");
        let fault = &parse("fault x\nfile y\nrun fbq shares 1\nreplace\na\nwith\nb\nend").unwrap()[0];
        assert_eq!(planted(fault, "x\na\n").unwrap(), "x\nb\n");
        assert!(planted(fault, "a\na\n").is_err() && planted(fault, "c\n").is_err());
    }
}
