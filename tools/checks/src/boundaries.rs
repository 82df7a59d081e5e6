//! Checks the claims of the table of crates in ARCHITECTURE.md that the compiler does not check.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Claims about one crate.
struct Boundary {
    /// Its folder under `crates/` or `lab/`, or at the root.
    name: &'static str,
    /// The allowed direct dependencies, if that is part of the claim.
    only: Option<&'static [&'static str]>,
    /// Packages that must not be linked with it, directly or indirectly.
    without: &'static [&'static str],
    /// The files and folders of its sources that `never` applies to.
    sources: &'static [&'static str],
    /// Names that these must not contain.
    never: &'static [&'static str],
    /// Longer names that they may contain nevertheless.
    but: &'static [&'static str],
}

/// Packages through which a crate reaches the operating system.
const SYSTEM: &[&str] = &["tidegate-live", "tidegate-sys", "libc", "rustix", "nix"];
/// Clocks, entropy, the environment, input and output.
const WORLD: &[&str] = &[
    "SystemTime",
    "std::env",
    "std::fs",
    "std::io",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "std::process",
    "std::thread",
    "std::time",
    "OsRng",
    "from_os_rng",
    "thread_rng",
];
/// Like [`WORLD`], but I/O on files that the caller opened, addresses and durations are allowed.
const HOST: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixStream",
    "std::env",
    "std::process",
    "std::thread",
    "OsRng",
    "from_os_rng",
    "thread_rng",
];

/// The dependencies of the Python package, none of which reaches the traffic of other programs.
const PYTHON: &[&str] = &[
    "tidegate-core",
    "tidegate-config",
    "tidegate-laws",
    "tidegate-metrics",
    "tidegate-pace",
    "tidegate-quic",
    "tidegate-replay",
    "tidegate-report",
    "tidegate-script",
    "tidegate-sim",
    "arrow-array",
    "arrow-schema",
    "pyo3",
    "serde_json",
];

const fn boundary(name: &'static str) -> Boundary {
    Boundary { name, only: None, without: &[], sources: &[""], never: &[], but: &[] }
}

/// The crates with unsafe code: system calls, and the C interface of `pace`, whose callers alone vouch for its pointers.
const UNSAFE: [&str; 2] = ["sys", "pace-c"];
/// One entry for each crate of the table. Claims that tests check have no entry here: the table names the test.
const BOUNDARIES: &[Boundary] = &[
    Boundary { only: Some(&[]), never: WORLD, ..boundary("units") },
    Boundary {
        only: Some(&["tidegate-units", "hashbrown", "libm"]),
        without: SYSTEM,
        never: WORLD,
        ..boundary("core")
    },
    Boundary { only: Some(&["tidegate-units"]), without: SYSTEM, never: WORLD, ..boundary("autorate") },
    Boundary { only: Some(&["tidegate-core", "tidegate-autorate"]), without: SYSTEM, never: WORLD, ..boundary("laws") },
    Boundary { only: Some(&["tidegate-units", "libm"]), without: SYSTEM, never: WORLD, ..boundary("metrics") },
    Boundary { without: SYSTEM, never: HOST, ..boundary("config") },
    Boundary { without: SYSTEM, never: WORLD, ..boundary("engine") },
    Boundary { without: SYSTEM, never: WORLD, ..boundary("script") },
    Boundary { without: SYSTEM, never: HOST, ..boundary("sim") },
    // rand, without which quinn-proto cannot be built, reaches the entropy of the machine by libc.
    Boundary { without: &["tidegate-live", "tidegate-sys", "rustix", "nix", "ring"], never: HOST, ..boundary("quic") },
    Boundary { without: SYSTEM, never: HOST, but: &["std::thread"], ..boundary("replay") },
    Boundary { without: SYSTEM, never: HOST, ..boundary("capture") },
    Boundary {
        sources: &["algorithm", "pacer.rs", "oversleep.rs", "udp/schedule.rs"],
        without: &["tidegate-sys", "tidegate-core"],
        never: WORLD,
        ..boundary("pace")
    },
    Boundary { only: Some(&["tidegate-pace", "libc"]), ..boundary("pace-c") },
    Boundary { only: Some(&["libc", "rustix"]), ..boundary("sys") },
    boundary("live"),
    Boundary { only: Some(&["tidegate-units", "serde", "serde_json", "thiserror"]), ..boundary("control") },
    boundary("daemon"),
    Boundary {
        only: Some(&[
            "tidegate-metrics",
            "tidegate-display",
            "parquet",
            "bytes",
            "pdf-writer",
            "resvg",
            "skrifa",
            "deunicode",
        ]),
        never: WORLD,
        ..boundary("report")
    },
    boundary("exec"),
    Boundary { only: Some(&["unicode-width"]), never: WORLD, ..boundary("display") },
    Boundary { only: Some(&["pulldown-cmark", "tidegate-display"]), ..boundary("book") },
    boundary("papers"),
    boundary("tidegate"),
    Boundary { only: Some(PYTHON), ..boundary("python") },
    boundary("testbed"),
];

/// Packages on which only these crates may depend.
const USERS: &[(&str, &[&str])] = &[
    ("tidegate-papers", &["tidegate"]),
    ("tidegate-testbed", &["papers"]),
    ("clap", &["tidegate"]),
    ("smoltcp", &["exec"]),
];

/// The folders with the crates that the table describes.
const PARTS: [&str; 3] = ["crates", "lab", ""];

/// The folder of a crate, from the root.
fn folder(root: &Path, name: &str) -> PathBuf {
    let folders = PARTS.map(|part| Path::new(part).join(name));
    let found = folders.iter().find(|folder| root.join(folder).join("Cargo.toml").is_file());
    found.unwrap_or(&folders[0]).clone()
}

/// Returns a line for each claim that does not hold.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let table = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let rows: BTreeSet<&str> = table
        .lines()
        .skip_while(|line| *line != "## Crates")
        .take_while(|line| *line == "## Crates" || !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let mut crates = BTreeSet::new();
    for part in PARTS {
        for entry in std::fs::read_dir(root.join(part))? {
            let entry = entry?;
            if entry.path().join("Cargo.toml").is_file() {
                crates.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    for name in &crates {
        if !rows.contains(name.as_str()) {
            found.push(format!("ARCHITECTURE.md has no row for {name}"));
        }
        if !BOUNDARIES.iter().any(|boundary| boundary.name == name) {
            found.push(format!("tools/checks has no entry for {name}"));
        }
    }
    for name in rows.iter().filter(|name| !crates.contains(**name)) {
        found.push(format!("ARCHITECTURE.md has a row for {name}, which is not there"));
    }
    for boundary in BOUNDARIES.iter().filter(|boundary| crates.contains(boundary.name)) {
        boundary.check(root, &mut found)?;
    }
    injected(root, &mut found)?;
    forbids_unsafe(root, &mut found)?;
    Ok(found)
}

/// The lint that forbids unsafe code stands in the manifest of the workspace. It holds for a package, its tests and benchmarks
/// included, that takes its lints from there.
fn forbids_unsafe(root: &Path, found: &mut Vec<String>) -> io::Result<()> {
    const LINT: &str = "\nunsafe_code = \"forbid\"\n";
    const FROM_WORKSPACE: &str = "\n[lints]\nworkspace = true\n";
    let manifest = |folder: &Path| std::fs::read_to_string(root.join(folder).join("Cargo.toml"));
    if !manifest(Path::new(""))?.contains(LINT) {
        found.push("the workspace does not forbid unsafe code".into());
    }
    for part in ["", "crates", "kernel", "lab", "tools"] {
        for entry in std::fs::read_dir(root.join(part))? {
            let folder = Path::new(part).join(entry?.file_name());
            let Ok(text) = manifest(&folder) else { continue };
            // A workspace of its own is no part of this one.
            if !text.contains("\n[workspace]\n")
                && !text.contains(FROM_WORKSPACE)
                && !UNSAFE.iter().any(|name| folder == Path::new("crates").join(name))
            {
                found.push(format!("{} does not take its lints from the workspace", folder.display()));
            }
        }
    }
    let python = root.join("lab/python/src/lib.rs");
    if !std::fs::read_to_string(&python)?.contains("#![forbid(unsafe_code)]") {
        found.push(format!("{} does not forbid unsafe code", python.display()));
    }
    Ok(())
}

/// The module of the faults that tests inject, and the condition without which releases would hold it. What names it
/// elsewhere does not compile without the condition.
fn injected(root: &Path, found: &mut Vec<String>) -> io::Result<()> {
    let path = root.join("crates/live/src/shaping/mod.rs");
    if !std::fs::read_to_string(&path)?.contains("#[cfg(debug_assertions)]\nmod injection;\n") {
        found.push(format!("{}: releases must not hold the module of injected faults", path.display()));
    }
    // Only test builds have the condition, as long as no other profile sets it.
    let path = root.join("Cargo.toml");
    if std::fs::read_to_string(&path)?.contains("debug-assertions") {
        found.push(format!("{}: a profile sets debug-assertions, by which faults can be injected", path.display()));
    }
    let module = Path::new("injection.rs");
    for name in ["live", "daemon", "papers", "tidegate"] {
        let mut open = vec![root.join(folder(root, name)).join("src")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                for entry in std::fs::read_dir(path)? {
                    open.push(entry?.path());
                }
            } else if path.file_name() != Some(module.as_os_str())
                && std::fs::read_to_string(&path)?.contains("a fault was injected")
            {
                found.push(format!("{}: faults are injected in live/src/shaping/injection.rs alone", path.display()));
            }
        }
    }
    Ok(())
}

impl Boundary {
    fn check(&self, root: &Path, found: &mut Vec<String>) -> io::Result<()> {
        let name = self.name;
        let source = root.join(folder(root, name)).join("src");
        if let Some(only) = self.only {
            for package in dependencies(name, true)?.iter().filter(|package| !only.contains(&package.as_str())) {
                found.push(format!("{name} depends on {package}; it may on {only:?} alone"));
            }
        }
        if !self.without.is_empty() {
            for package in dependencies(name, false)?.iter().filter(|package| self.without.contains(&package.as_str()))
            {
                found.push(format!("{name} is linked with {package}"));
            }
        }
        for (package, users) in USERS.iter().filter(|(_, users)| !users.contains(&name)) {
            if dependencies(name, true)?.contains(*package) {
                found.push(format!("{name} depends on {package}; only {users:?} may"));
            }
        }
        for part in self.sources.iter().filter(|_| !self.never.is_empty()) {
            self.read(&source.join(part), found)?;
        }
        Ok(())
    }

    /// Looks for names that the sources must not contain, outside comments and unit tests.
    fn read(&self, path: &Path, found: &mut Vec<String>) -> io::Result<()> {
        if path.is_dir() {
            for entry in std::fs::read_dir(path)? {
                self.read(&entry?.path(), found)?;
            }
            return Ok(());
        }
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            return Ok(());
        }
        let text = std::fs::read_to_string(path)?;
        let code = text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
        for (number, line) in code.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let line = self.but.iter().fold(line.to_owned(), |line, allowed| line.replace(allowed, ""));
            for word in self.never.iter().filter(|word| line.contains(**word)) {
                let place = format!("{}:{}", path.display(), number + 1);
                found.push(format!("{place}: {word}, which {} must not use", self.name));
            }
        }
        Ok(())
    }
}

/// The packages that are linked with a crate, or only its direct dependencies.
fn dependencies(name: &str, direct: bool) -> io::Result<BTreeSet<String>> {
    let manifest = std::fs::read_to_string(folder(Path::new("."), name).join("Cargo.toml"))?;
    if manifest.contains("\n[workspace]\n") {
        // For a workspace of its own, whose packages need not be available: the dependencies in its manifest.
        let named = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let named = named.take_while(|line| !line.starts_with('['));
        return Ok(named.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect());
    }
    let depth = if direct { "1" } else { "999" };
    let package = format!("tidegate-{name}");
    let package = if name == "tidegate" { name } else { &package };
    let output = Command::new("cargo")
        .args(["tree", "--locked", "-e", "normal", "--prefix", "none", "--depth", depth, "-p", package])
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(lines.lines().skip(1).filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}
