//! `tidegate new-qdisc`, `new-congestion` and `new-experiment`: write crates that stand on the libraries of the laboratory alone,
//! so that they are built in a minute or two, and again in seconds. The whole command is a feature of the first two.

use std::io::Write;
use std::path::PathBuf;

use tidegate_config::discipline::Discipline;

use super::scaffold::{Origin, crate_name, for_shell, origin, origin_note, write_all, wrong_crate_name};
use crate::Failure;

/// Write a crate with a queueing discipline to modify, and a scenario around it
///
/// The crate has a commented drop-tail queue, its manual, the test of the laws, a script, a scenario that compares it with
/// FIFO, and a program that runs the scenario, prints the answer and draws it. It needs some fifty packages. With its feature
/// `command` it has all of Tidegate with the new kind in shaper files, scenarios, replay, scripts and live, and there are files
/// for a live demonstration. The book's chapter "A new discipline" continues from here to RED.
///
/// With `--kernel` the decisions, in `src/decider.rs`, run in the kernel as well: a build script translates them to C and
/// compiles that where clang is, `cargo test` compares the C with the Rust by random calls, and `run --in-kernel` loads
/// it. The book's chapter "Rust for the kernel" has the subset of Rust that this takes.
#[derive(Debug, clap::Args)]
pub struct QdiscArgs {
    /// The name of the crate and of the kind in files (`kind = "NAME"`); lower case letters, digits and -
    name: String,
    #[command(flatten)]
    place: Place,
    /// Write what takes the discipline into the kernel as well (Linux 6.16 and later)
    #[arg(long)]
    kernel: bool,
}

/// Write a crate with a TCP congestion control to modify, and a scenario around it
///
/// The crate has a commented control (additive increase, multiplicative decrease), the test of its laws, a scenario in which it
/// shares a line with CUBIC under three queues, and a program that runs the scenario, prints the answer and draws it. It needs
/// some fifty packages. The book's chapter "A new congestion control" continues from here.
#[derive(Debug, clap::Args)]
pub struct CongestionArgs {
    /// The name of the crate and of the control in scenarios (`congestion = { kind = "NAME" }`); lower case letters, digits
    /// and -
    name: String,
    #[command(flatten)]
    place: Place,
}

/// Write a crate with an experiment: a scenario, claims as tests, figures and a table
///
/// The crate has a scenario that compares two queues, tests that state what must come out with the reason for each bound, and
/// a program that runs the scenario, prints the answer and draws it. It needs some fifty packages. The book's chapter "A new
/// experiment" continues from here.
#[derive(Debug, clap::Args)]
pub struct ExperimentArgs {
    /// The name of the crate; lower case letters, digits and -
    name: String,
    #[command(flatten)]
    place: Place,
}

/// Where a crate is written, and where it finds Tidegate's.
#[derive(Debug, clap::Args)]
struct Place {
    /// The folder to create. Default: ./NAME
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The source of Tidegate's crates: a source tree, the address of a git repository, or a version of a registry.
    /// Default: the source tree that this tidegate was built from
    #[arg(long, value_name = "PATH|URL|VERSION")]
    tidegate: Option<String>,
}

/// The files of all kinds of crates: path in the crate, and text with placeholders as [`filled`](super::scaffold::filled) has them.
/// `{{register}}`, `{{description}}`, `{{tests}}` and what belongs to the command differ.
const SHARED: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/lab/Cargo.toml.in")),
    (".gitignore", "/target\n/out\n*.html\n"),
    ("rustfmt.toml", "max_width = 120\nuse_small_heuristics = \"Max\"\n"),
    ("src/experiment.rs", include_str!("../../templates/lab/src/experiment.rs.in")),
    ("src/main.rs", include_str!("../../templates/lab/src/main.rs.in")),
];

const QDISC: &[(&str, &str)] = &[
    ("README.md", include_str!("../../templates/new-qdisc/README.md")),
    ("src/lib.rs", include_str!("../../templates/new-qdisc/src/lib.rs.in")),
    ("src/decider.rs", include_str!("../../templates/new-qdisc/src/decider.rs.in")),
    ("src/kind.rs", include_str!("../../templates/new-qdisc/src/kind.rs.in")),
    ("src/command.rs", include_str!("../../templates/new-qdisc/src/command.rs.in")),
    ("tests/laws.rs", include_str!("../../templates/new-qdisc/tests/laws.rs.in")),
    ("tests/scripts.rs", include_str!("../../templates/new-qdisc/tests/scripts.rs.in")),
    ("tests/scenario.rs", include_str!("../../templates/new-qdisc/tests/scenario.rs.in")),
    ("tests/command.rs", include_str!("../../templates/new-qdisc/tests/command.rs.in")),
    ("scripts/limit.tgs", include_str!("../../templates/new-qdisc/scripts/limit.tgs")),
    ("scenario.toml", include_str!("../../templates/new-qdisc/scenario.toml")),
    ("demo/fifo.toml", include_str!("../../templates/new-qdisc/demo/fifo.toml")),
    ("demo/{{name}}.toml", include_str!("../../templates/new-qdisc/demo/name.toml")),
];

/// The files that only a discipline for the kernel has.
const KERNEL: &[(&str, &str)] = &[
    ("build.rs", include_str!("../../templates/new-qdisc/build.rs.in")),
    ("tests/kernel.rs", include_str!("../../templates/new-qdisc/tests/kernel.rs.in")),
];

const CONGESTION: &[(&str, &str)] = &[
    ("README.md", include_str!("../../templates/new-congestion/README.md")),
    ("src/lib.rs", include_str!("../../templates/new-congestion/src/lib.rs.in")),
    ("src/kind.rs", include_str!("../../templates/new-congestion/src/kind.rs.in")),
    ("src/command.rs", include_str!("../../templates/new-congestion/src/command.rs.in")),
    ("tests/laws.rs", include_str!("../../templates/new-congestion/tests/laws.rs.in")),
    ("tests/scenario.rs", include_str!("../../templates/new-congestion/tests/scenario.rs.in")),
    ("scenario.toml", include_str!("../../templates/new-congestion/scenario.toml")),
];

const EXPERIMENT: &[(&str, &str)] = &[
    ("README.md", include_str!("../../templates/new-experiment/README.md")),
    ("src/lib.rs", include_str!("../../templates/new-experiment/src/lib.rs.in")),
    ("tests/claims.rs", include_str!("../../templates/new-experiment/tests/claims.rs.in")),
    ("scenario.toml", include_str!("../../templates/new-experiment/scenario.toml")),
];

/// The words that select congestion controls in scenarios, and names that are easily taken for them.
const CONTROLS: [&str; 5] = ["reno", "newreno", "cubic", "dctcp", "prague"];

/// The parts of `Cargo.toml` for a program that is the whole command, or nothing in their place: an experiment needs none, as the command
/// that wrote it knows all that its scenario has. The profiles are those of Tidegate's tree, so that its builds are used again where
/// both have one target folder.
const COMMAND: [(&str, &str); 4] = [
    ("{{default-run}}", "default-run = \"{{name}}\"\n"),
    (
        "{{program}}",
        r#"[features]
# The commands of the laboratory with `{{name}}` in them: `cargo run --features lab --bin {{name}}-tidegate`.
lab = ["dep:tidegate"]
{{features}}
[[bin]]
name = "{{name}}-tidegate"
path = "src/command.rs"
required-features = ["lab"]

"#,
    ),
    ("{{command}}", "{{dependency tidegate}}\n"),
    (
        "{{profiles}}",
        "tidegate-autorate = { opt-level = 1 }
tidegate-quic = { opt-level = 1 }
hashbrown = { opt-level = 1 }
libm = { opt-level = 1 }
quinn-proto = { opt-level = 1 }
bytes = { opt-level = 1 }
",
    ),
];

/// A discipline may shape, too.
const OF_SHAPER: &str = r#"# All of Tidegate with it, for real packets.
command = ["lab", "tidegate/papers"]
"#;

/// Dependencies of the tests of a discipline.
const OF_QDISC: &str = r#"[[test]]
name = "command"
required-features = ["lab"]

[dev-dependencies]
{{dependency tidegate-laws}}
{{dependency tidegate-script}}
{{kernel:# The comparison of the decider in C with that in Rust.
{{dependency tidegate-translator equal}}

[build-dependencies]
# Makes C of the decider.
{{dependency tidegate-translator}}
:kernel}}
"#;

/// A kind of crate: its own files, and what the shared ones have in it.
struct Kind {
    what: &'static str,
    own: &'static [(&'static str, &'static str)],
    register: &'static str,
    description: &'static str,
    /// Dependencies of its tests, as lines of `Cargo.toml`.
    tests: &'static str,
    /// Its profiles beside those of all.
    profiles: &'static str,
    /// Its program with the commands of the laboratory, and the features of that beside `lab`; an experiment has none.
    program: Option<&'static str>,
}

const QDISC_KIND: Kind = Kind {
    what: "a discipline",
    own: QDISC,
    register: "    if let Err(error) = tidegate_config::discipline::register::<{{snake}}::Section>() {\n        eprintln!(\"{error}\");\n        \
               return ExitCode::FAILURE;\n    }\n",
    description: "The queueing discipline {{name}}, and a scenario around it",
    tests: OF_QDISC,
    profiles: "tidegate-pace = { opt-level = 1 }\ntidegate-live = { opt-level = 1 }\ntidegate-exec = { opt-level = 1 }\n\
               tidegate-papers = { opt-level = 1 }\nsmoltcp = { opt-level = 1 }\n{{name}} = { opt-level = 1 }\ntidegate-laws = { opt-level = 1 }\n{{kernel:tidegate-translator = { opt-level = 1 }\n:kernel}}",
    program: Some(OF_SHAPER),
};
const CONGESTION_KIND: Kind = Kind {
    what: "a congestion control",
    own: CONGESTION,
    register: "    tidegate_sim::scenario::congestion::register::<{{snake}}::Section>();\n",
    description: "The congestion control {{name}}, and a scenario around it",
    tests: "",
    profiles: "",
    program: Some(""),
};
const EXPERIMENT_KIND: Kind = Kind {
    what: "an experiment",
    own: EXPERIMENT,
    register: "",
    description: "The experiment {{name}}: a scenario and its claims",
    tests: "",
    profiles: "",
    program: None,
};

impl Kind {
    /// The files of a crate of this kind, with those that only a discipline for the kernel has or without them.
    fn files(&self, kernel: bool) -> Vec<(&'static str, String)> {
        let own = self.own.iter().chain(if kernel { KERNEL } else { &[] });
        let own = own.map(|(path, text)| (*path, (*text).to_owned()));
        let parts = [("{{register}}", self.register), ("{{description}}", self.description), ("{{tests}}", self.tests)];
        let command = COMMAND.map(|(place, part)| (place, self.program.map_or("", |_| part)));
        let features = [("{{features}}", self.program.unwrap_or_default())];
        let shared = SHARED.iter().map(|(path, text)| {
            let text = text.replace("{{profiles}}", &format!("{{{{profiles}}}}{}", self.profiles));
            let filled = |text: String, (place, part): (&str, &str)| text.replace(place, part);
            (*path, parts.into_iter().chain(command).chain(features).fold(text, filled))
        });
        shared.chain(own).collect()
    }

    /// The checked name of a crate of this kind.
    fn name(&self, given: &str) -> Result<String, Failure> {
        wrong_crate_name(given, self.what, &self.files(true))
            .map_or_else(|| Ok(crate_name(given)), |why| Err(Failure::Usage(why)))
    }

    /// Writes a crate of this kind, and says what to do with it.
    fn write(&self, given: &str, place: &Place, kernel: bool) -> Result<(), Failure> {
        let name = self.name(given)?;
        let origin = origin(place.tidegate.as_deref())?;
        if kernel && matches!(origin, Origin::Version(_)) {
            let text = "--kernel needs the C of the kernel path, which no registry has; \
                        specify a source tree or a git repository with --tidegate";
            return Err(Failure::Usage(text.into()));
        }
        let folder = place.path.clone().unwrap_or_else(|| PathBuf::from(&name));
        write_all(&folder, &self.files(kernel), &name, &origin, kernel)?;
        let mut out = crate::output::stdout();
        writeln!(out, "{}: a crate with {}\n", folder.display(), self.what)?;
        writeln!(out, "    cd {}", for_shell(&folder.display().to_string()))?;
        writeln!(out, "    cargo run                          # the scenario, as a table and in words")?;
        writeln!(out, "    cargo run -- --report page.html    # its curves")?;
        writeln!(out, "    cargo test                         # what must be true")?;
        if self.program.is_some() {
            writeln!(
                out,
                "    cargo build --features lab         # sweeps, artifacts and more with it: target/debug/{name}-tidegate"
            )?;
        }
        if kernel {
            writeln!(out, "    sudo target/debug/{name}-tidegate run demo/{name}.toml --interface eth0 --in-kernel")?;
        }
        if let Some(note) = origin_note(place.tidegate.as_deref()) {
            writeln!(out, "\n{note}")?;
        }
        Ok(())
    }
}

/// Runs `tidegate new-qdisc`.
pub fn qdisc(args: &QdiscArgs) -> Result<(), Failure> {
    let name = QDISC_KIND.name(&args.name)?;
    // `--with fbq@20mbit` is the end-system shaper.
    if Discipline::kinds().contains(&&*name) || name == "fbq" {
        return Err(Failure::Usage(format!("there is a discipline `{name}` already; try my-{name}")));
    }
    QDISC_KIND.write(&args.name, &args.place, args.kernel)
}

/// Runs `tidegate new-congestion`.
pub fn congestion(args: &CongestionArgs) -> Result<(), Failure> {
    if CONTROLS.contains(&args.name.as_str()) {
        let name = &args.name;
        return Err(Failure::Usage(format!("there is a congestion control `{name}` already; try my-{name}")));
    }
    CONGESTION_KIND.write(&args.name, &args.place, false)
}

/// Runs `tidegate new-experiment`.
pub fn experiment(args: &ExperimentArgs) -> Result<(), Failure> {
    EXPERIMENT_KIND.write(&args.name, &args.place, false)
}

#[cfg(test)]
mod tests {
    use super::super::scaffold::filled;
    use super::*;

    /// The first claim is about the quantity that the scenario names before its first run.
    #[test]
    fn the_claims_of_an_experiment_test_its_primary_quantity() {
        let file = |name: &str| EXPERIMENT.iter().find(|(path, _)| *path == name).map_or("", |(_, text)| *text);
        let line = file("scenario.toml").lines().find(|line| line.starts_with("primary")).expect("a primary quantity");
        let (measure, subject) = line.split('"').nth(1).and_then(|text| text.split_once(" of ")).expect("both parts");
        let claims = file("tests/claims.rs");
        assert!(claims.contains(&format!("mean(queue, \"{subject}\", \"{measure}\")")), "{measure} of {subject}");
    }

    #[test]
    fn names_that_work_and_names_that_do_not() {
        for kind in [QDISC_KIND, CONGESTION_KIND, EXPERIMENT_KIND] {
            let why = |name: &str| match kind.name(name) {
                Err(Failure::Usage(why)) => why,
                _ => String::new(),
            };
            for name in ["my-red", "red2", "a", "type-x", "law"] {
                assert_eq!(why(name), "", "{name}");
            }
            for (name, expected) in [
                ("Red", "lower case"),
                ("2red", "lower case"),
                ("a--b", "lower case"),
                ("", "lower case"),
                ("../x", "lower case"),
                ("match", "a word of Rust"),
                ("tidegate-core", "own crates"),
                ("deps", "a folder that Cargo builds in"),
                ("experiment", "try my-experiment"),
            ] {
                assert!(why(name).contains(expected), "{name}: {}", why(name));
            }
            // The message has the name that was given.
            let said = why("Foo_Bar");
            assert!(said.starts_with("`Foo_Bar` cannot name") && said.ends_with("for example foo-bar"), "{said}");
        }
        // Types of the template, of what it imports, of its example, and its parameter.
        for name in ["params", "drop-reason", "discard", "p"] {
            assert!(QDISC_KIND.name(name).is_err(), "{name}");
        }
    }

    /// Where the new crate and the tree share a target folder, a package with another profile is compiled again, and with it all that
    /// depend on it.
    #[test]
    fn the_profiles_are_those_of_the_tree() {
        let origin = origin(Some("1.0")).unwrap_or_else(|_| panic!("a version"));
        let packages = |text: &str| -> Vec<String> {
            let (_, rest) = text.split_once("[profile.dev.package]\n").expect("profiles of packages");
            let lines = rest.lines().take_while(|line| line.contains(" = { "));
            lines.map(str::to_owned).collect()
        };
        let manifest = |kernel| packages(&filled(&QDISC_KIND.files(kernel)[0].1, "my-red", &origin, kernel));
        let ours = manifest(true);
        for line in packages(include_str!("../../../../Cargo.toml")) {
            // Random numbers are for tests of the tree alone.
            assert!(ours.contains(&line) || line.starts_with("rand_pcg"), "{line}: {ours:#?}");
        }
        // Cargo would warn of a package that is not in the graph.
        let plain = manifest(false);
        assert!(!plain.iter().any(|line| line.starts_with("tidegate-translator")), "{plain:#?}");
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let origin = origin(Some("1.0")).unwrap_or_else(|_| panic!("a version"));
        for (kind, kernel) in
            [(QDISC_KIND, false), (QDISC_KIND, true), (CONGESTION_KIND, false), (EXPERIMENT_KIND, false)]
        {
            for (path, text) in kind.files(kernel) {
                let filled = [path, &text].map(|text| filled(text, "my-cc", &origin, kernel));
                assert!(filled.iter().all(|text| !text.contains("{{") && !text.contains("kernel}}")), "{path}");
            }
        }
    }
}
