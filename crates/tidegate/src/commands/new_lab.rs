//! `tidegate new-congestion` and `tidegate new-experiment`: write crates that stand on the libraries of the laboratory alone,
//! so that they are built in a minute or two, and again in seconds.

use std::io::Write;
use std::path::PathBuf;

use super::new_qdisc::{crate_name, for_shell, origin, origin_note, write_all, wrong_crate_name};
use crate::Failure;

/// Write a crate with a TCP congestion control to modify, and a scenario around it
///
/// The crate has a commented control (additive increase, multiplicative decrease), the test of its laws, a scenario in which it
/// shares a line with CUBIC under three queues, and a program that runs the scenario, prints the answer and draws it. It needs
/// some forty packages. The book's chapter "A new congestion control" continues from here.
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
/// a program that runs the scenario, prints the answer and draws it. It needs some forty packages. The book's chapter "A new
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

/// The files of both kinds of crates. `{{register}}`, `{{description}}` and what belongs to the command differ.
const SHARED: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/lab/Cargo.toml.in")),
    (".gitignore", "/target\n*.html\n"),
    ("rustfmt.toml", "max_width = 120\nuse_small_heuristics = \"Max\"\n"),
    ("src/experiment.rs", include_str!("../../templates/lab/src/experiment.rs.in")),
    ("src/main.rs", include_str!("../../templates/lab/src/main.rs.in")),
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

/// A kind of crate: its own files, and what the shared ones have in it.
struct Kind {
    what: &'static str,
    own: &'static [(&'static str, &'static str)],
    register: &'static str,
    description: &'static str,
    /// The parts of `Cargo.toml` for a program that is the whole command. An experiment needs none: the command that wrote it knows
    /// all that its scenario has.
    command: [(&'static str, &'static str); 4],
}

const CONGESTION_KIND: Kind = Kind {
    what: "a congestion control",
    own: CONGESTION,
    register: "    tidegate_sim::scenario::congestion::register::<{{snake}}::Section>();\n",
    description: "The congestion control {{name}}, and a scenario around it",
    command: [
        ("{{default-run}}", "default-run = \"{{name}}\"\n"),
        (
            "{{program}}",
            "[features]\n# The whole command with this control in it, for sweeps and artifacts: `cargo run --features command --bin \
             {{name}}-tidegate`.\ncommand = [\"dep:tidegate\"]\n\n[[bin]]\nname = \"{{name}}-tidegate\"\npath = \
             \"src/command.rs\"\nrequired-features = [\"command\"]\n\n",
        ),
        ("{{command}}", "{{dependency tidegate}}\n"),
        // As in Tidegate's tree, so that its builds are used again where both have one target folder.
        (
            "{{profiles}}",
            "tidegate-autorate = { opt-level = 1 }\ntidegate-quic = { opt-level = 1 }\ntidegate-pace = { opt-level = 1 }\ntidegate-live = { opt-level = 1 }\ntidegate-exec = \
             { opt-level = 1 }\ntidegate-papers = { opt-level = 1 }\nhashbrown = { opt-level = 1 }\nlibm = { opt-level = 1 }\n\
             quinn-proto = { opt-level = 1 }\nbytes = { opt-level = 1 }\nsmoltcp = { opt-level = 1 }\n",
        ),
    ],
};
const EXPERIMENT_KIND: Kind = Kind {
    what: "an experiment",
    own: EXPERIMENT,
    register: "",
    description: "The experiment {{name}}: a scenario and its claims",
    command: [("{{default-run}}", ""), ("{{program}}", ""), ("{{command}}", ""), ("{{profiles}}", "")],
};

impl Kind {
    /// The files of a crate of this kind.
    fn files(&self) -> Vec<(&'static str, String)> {
        let own = self.own.iter().map(|(path, text)| (*path, (*text).to_owned()));
        let shared = SHARED.iter().map(|(path, text)| {
            let text = text.replace("{{register}}", self.register).replace("{{description}}", self.description);
            (*path, self.command.iter().fold(text, |text, (place, part)| text.replace(place, part)))
        });
        shared.chain(own).collect()
    }

    /// Writes a crate of this kind, and says what to do with it.
    fn write(&self, given: &str, place: &Place) -> Result<(), Failure> {
        let files = self.files();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        if let Some(problem) = wrong_crate_name(given, self.what, &files) {
            return Err(Failure::Usage(problem));
        }
        let name = crate_name(given);
        let origin = origin(place.tidegate.as_deref())?;
        let folder = place.path.clone().unwrap_or_else(|| PathBuf::from(&name));
        write_all(&folder, &files, &name, &origin, false)?;
        let mut out = crate::output::stdout();
        writeln!(out, "{}: a crate with {}\n", folder.display(), self.what)?;
        writeln!(out, "    cd {}", for_shell(&folder.display().to_string()))?;
        writeln!(out, "    cargo run                          # the scenario, as a table and in words")?;
        writeln!(out, "    cargo run -- --report page.html    # its curves")?;
        writeln!(out, "    cargo test                         # what must be true")?;
        if let Some(note) = origin_note(place.tidegate.as_deref()) {
            writeln!(out, "\n{note}")?;
        }
        Ok(())
    }
}

/// Runs `tidegate new-congestion`.
pub fn congestion(args: &CongestionArgs) -> Result<(), Failure> {
    if CONTROLS.contains(&args.name.as_str()) {
        let name = &args.name;
        return Err(Failure::Usage(format!("there is a congestion control `{name}` already; try my-{name}")));
    }
    CONGESTION_KIND.write(&args.name, &args.place)
}

/// Runs `tidegate new-experiment`.
pub fn experiment(args: &ExperimentArgs) -> Result<(), Failure> {
    EXPERIMENT_KIND.write(&args.name, &args.place)
}

#[cfg(test)]
mod tests {
    use super::super::new_qdisc::filled;
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
    fn nothing_is_left_to_fill_in() {
        let origin = origin(Some("1.0")).unwrap_or_else(|_| panic!("a version"));
        for kind in [CONGESTION_KIND, EXPERIMENT_KIND] {
            let files = kind.files();
            for (path, text) in &files {
                assert!(!filled(text, "my-cc", &origin, false).contains("{{"), "{path}");
            }
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            assert_eq!(wrong_crate_name("my-cc", kind.what, &files), None);
            // The message has the name that was given.
            let said = wrong_crate_name("Foo_Bar", kind.what, &files).unwrap_or_default();
            assert!(said.starts_with("`Foo_Bar` cannot name") && said.ends_with("for example foo-bar"), "{said}");
            assert!(
                wrong_crate_name("experiment", kind.what, &files).is_some_and(|why| why.contains("try my-experiment"))
            );
        }
    }
}
