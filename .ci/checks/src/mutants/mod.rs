//! Mutation runs: all mutants of a part are compiled into one copy of the repository, and chosen one at a time when its
//! tests run. Prints the mutants that no test noticed.
//!
//! A mutant is tested by those tests only that reach its place, the quickest first, until one fails or does not end.
//! `target/mutants/PART/outcomes` has the outcomes; a run that was ended goes on where it was.

mod build;
mod operators;
mod schema;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use build::Mutated;
use tests::{Reach, Speed};

/// What is mutated, and the tests that should notice.
pub struct Part {
    name: &'static str,
    /// The directory of the crate.
    root: &'static str,
    package: &'static str,
    /// Files or directories in `src` of the crate.
    sources: &'static [&'static str],
    /// The options of `cargo test` that choose the tests.
    tests: &'static [&'static str],
    /// What else is changed of the copy: file, text, and the text instead.
    changes: &'static [(&'static str, &'static str, &'static str)],
}

/// A violated law ends the test, without the search for a shorter script.
const UNSHRUNK: (&str, &str, &str) = ("crates/laws/src/harness.rs", "shrink(&fresh, script)", "script");

const PARTS: [Part; 3] = [
    // The laws, held to the faults that their own tests plant in a FIFO, and to what the tests of the disciplines expect
    // of a run.
    Part {
        name: "laws",
        root: "crates/laws",
        package: "tidegate-laws",
        sources: &["harness.rs", "packet.rs", "script.rs"],
        tests: &["-p", "tidegate-laws", "--lib", "--tests"],
        changes: &[],
    },
    // FBC and FBQ, held to their unit tests and to the laws.
    Part {
        name: "shaper",
        root: "crates/core",
        package: "tidegate-core",
        sources: &["fbq"],
        tests: &["-p", "tidegate-core", "-p", "tidegate-laws", "--lib", "--test", "fbq", "--test", "fbq_hosts"],
        changes: &[UNSHRUNK],
    },
    // The driver and the stages of the engine, held to the tests of the engine and of replay.
    Part {
        name: "driver",
        root: "crates/engine",
        package: "tidegate-engine",
        sources: &["driver.rs", "engine.rs", "classify.rs", "account.rs", "admit.rs", "schedule.rs"],
        tests: &["-p", "tidegate-engine", "-p", "tidegate-replay", "--lib", "--tests"],
        changes: &[],
    },
];

/// What became of a mutant, as it stands in the file of outcomes.
type Outcomes = BTreeMap<String, String>;
const SURVIVED: &str = "survived";

/// Makes and tests the mutants of a part, or with `survivors` those again that survived before, and prints the table.
/// A line for each survivor.
pub fn check(part: &str, survivors: bool) -> io::Result<Vec<String>> {
    let Some(part) = PARTS.iter().find(|known| known.name == part) else {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(io::Error::other(format!("there is no part `{part}`; the parts are {}", names.join(", "))));
    };
    let folder = PathBuf::from("target/mutants").join(part.name);
    fs::create_dir_all(&folder)?;
    let mutated = build::build(part, &folder)?;
    let tests = mutated.tests()?;
    let state = digest(&folder.join("tree"))?;
    let mut outcomes = read(&folder, &state, survivors)?;
    eprintln!(
        "{} mutants, {} that do not compile, {} tests",
        mutated.mutants.len(),
        mutated.unviable.len(),
        tests.len()
    );
    let reach = Reach::record(tests, &folder)?;
    run(&mutated, &reach, &folder, &mut outcomes)?;
    Ok(summary(&mutated, &reach, &outcomes))
}

/// Tests the mutants without outcome: all with the quick tests first, then what survived these with the others.
fn run(mutated: &Mutated, reach: &Reach, folder: &Path, outcomes: &mut Outcomes) -> io::Result<()> {
    let file = fs::OpenOptions::new().create(true).append(true).open(folder.join("outcomes"))?;
    let done = Mutex::new((file, outcomes));
    for speed in [Speed::Quick, Speed::Slow] {
        let open: Vec<_> = {
            let done = done.lock().expect("no worker panics");
            mutated.mutants.iter().filter(|mutant| !done.1.contains_key(&mutant.name)).collect()
        };
        let (todo, total) = (Mutex::new(open.iter().enumerate()), open.len());
        tests::parallel(|| {
            loop {
                let next = todo.lock().expect("no worker panics").next();
                let Some((nth, mutant)) = next else { return Ok(()) };
                let outcome = reach.outcome(mutant, speed)?;
                if outcome.is_none() || nth % 50 == 0 {
                    eprintln!("{nth} of {total}: {}: {}", mutant.name, outcome.as_deref().unwrap_or("open"));
                }
                if let Some(outcome) = outcome {
                    let mut done = done.lock().expect("no worker panics");
                    writeln!(done.0, "{}\t{outcome}", mutant.name)?;
                    done.1.insert(mutant.name.clone(), outcome);
                }
            }
        })?;
    }
    Ok(())
}

/// Prints the counts; returns the survivors.
fn summary(mutated: &Mutated, reach: &Reach, outcomes: &Outcomes) -> Vec<String> {
    let of = |mutant: &schema::Mutant| outcomes.get(&mutant.name).map_or("", String::as_str);
    let count = |prefix: &str| mutated.mutants.iter().filter(|mutant| of(mutant).starts_with(prefix)).count();
    println!(
        "| mutants | tests | caught | not ended | survived | not compiled |\n| --- | --- | --- | --- | --- | --- |"
    );
    println!(
        "| {} | {} | {} | {} | {} | {} |",
        mutated.mutants.len(),
        reach.tests.len(),
        count("caught"),
        count("not ended"),
        count(SURVIVED),
        mutated.unviable.len()
    );
    let survivors = mutated.mutants.iter().filter(|mutant| of(mutant).starts_with(SURVIVED));
    survivors.map(|mutant| format!("{}: {}", mutant.name, of(mutant))).collect()
}

/// The outcomes of an earlier run: all while the sources are the same; otherwise none, or with `survivors` of those
/// that were noticed.
fn read(folder: &Path, state: &str, survivors: bool) -> io::Result<Outcomes> {
    let (outcomes, of) = (folder.join("outcomes"), folder.join("state"));
    let same = fs::read_to_string(&of).is_ok_and(|old| old == state);
    let text = fs::read_to_string(&outcomes).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let kept: Outcomes = lines
        .filter(|(_, outcome)| if survivors { !outcome.starts_with(SURVIVED) } else { same })
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect();
    let text: String = kept.iter().map(|(name, outcome)| format!("{name}\t{outcome}\n")).collect();
    fs::write(outcomes, text)?;
    fs::write(of, state)?;
    Ok(kept)
}

/// A digest of the Rust files of the crates in `tree`.
fn digest(tree: &Path) -> io::Result<String> {
    let (mut folders, mut files) = (vec![tree.join("crates")], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(&file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
