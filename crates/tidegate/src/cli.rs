//! The definition of the command line, and the exit codes.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{CommandFactory, Parser, Subcommand};
use tidegate_config::decode::is_printable;
use tidegate_config::discipline;

use crate::commands;

/// Traffic shaping for Linux
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, disable_help_subcommand = true, after_help = MORE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const MORE: &str = "\
Exit codes: 0 success, 1 failure, 2 wrong usage or a wrong file.

More:
  tidegate help COMMAND   all options of a command
  tidegate man COMMAND    its manual page
  tidegate book           concepts, the manual of each discipline, recipes, experiments
  tidegate help CHAPTER   a chapter of it
  tidegate schema --text  every key of a shaper file";

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "live")]
    Setup(Box<commands::setup::Args>),
    #[cfg(feature = "live")]
    Run(Box<commands::run::Args>),
    #[cfg(feature = "live")]
    Status(commands::status::Args),
    #[cfg(feature = "live")]
    Top(commands::top::Args),
    #[cfg(feature = "live")]
    Events(commands::events::Args),
    #[cfg(feature = "live")]
    Apply(commands::apply::Args),
    #[cfg(feature = "live")]
    Confirm(commands::apply::ConfirmArgs),
    #[cfg(feature = "live")]
    Set(commands::apply::SetArgs),
    #[cfg(feature = "live")]
    Add(commands::apply::AddArgs),
    #[cfg(feature = "live")]
    Remove(commands::apply::RemoveArgs),
    #[cfg(feature = "live")]
    Undo(commands::apply::UndoArgs),
    #[cfg(feature = "live")]
    Reserve(Box<commands::reserve::Args>),
    #[cfg(feature = "live")]
    Promise(Box<commands::promise::Args>),
    #[cfg(feature = "papers")]
    Demo(commands::demo::Args),
    Check(commands::check::Args),
    #[cfg(feature = "live")]
    Doctor(commands::doctor::Args),
    #[cfg(feature = "live")]
    Measure(commands::measure::Args),
    #[cfg(feature = "live")]
    Import(commands::import::Args),
    #[cfg(feature = "live")]
    Exec(commands::exec::Args),
    #[cfg(all(feature = "lab", feature = "live"))]
    Explain(Box<commands::explain::Args>),
    #[cfg(feature = "lab")]
    Artifact(Box<commands::artifact::Args>),
    #[cfg(feature = "lab")]
    Figure(Box<commands::figure::Args>),
    #[cfg(feature = "lab")]
    NewCongestion(commands::new_lab::CongestionArgs),
    #[cfg(feature = "lab")]
    NewExperiment(commands::new_lab::ExperimentArgs),
    #[cfg(feature = "lab")]
    NewQdisc(commands::new_lab::QdiscArgs),
    #[cfg(feature = "live")]
    Pace(Box<commands::pace::Args>),
    #[cfg(feature = "lab")]
    Replay(Box<commands::replay::Args>),
    #[cfg(feature = "lab")]
    Compare(commands::compare::Args),
    #[cfg(feature = "lab")]
    Conform(commands::conform::Args),
    #[cfg(feature = "papers")]
    Reproduce(commands::reproduce::Args),
    Schema(commands::schema::Args),
    #[cfg(feature = "live")]
    Metrics(commands::metrics::Args),
    #[cfg(feature = "lab")]
    Script(commands::script::Args),
    #[cfg(feature = "lab")]
    Simulate(commands::simulate::Args),
    #[cfg(feature = "lab")]
    Sweep(commands::sweep::Args),
    Book(commands::book::Args),
    Man(commands::man::Args),
    Completions(commands::completions::Args),
    Help(commands::book::HelpArgs),
    #[cfg(feature = "live")]
    Cni(commands::container::cni::Args),
    #[cfg(feature = "live")]
    Oci(commands::container::oci::Args),
    #[cfg(feature = "live")]
    Varlink(commands::varlink::Args),
    /// Guard the shaper that started this process
    #[command(hide = true)]
    #[cfg(feature = "live")]
    Guardian,
    /// Read the sockets of processes for the shaper that started this process
    #[command(hide = true)]
    #[cfg(feature = "live")]
    Lookup,
}

/// Why a command failed. The text is written to standard error before the process exits.
#[derive(Debug)]
pub enum Failure {
    /// Invalid usage or an invalid file: exit code 2.
    Usage(String),
    /// A failure: exit code 1.
    Failed(String),
    /// The command ran and the result is negative (an experiment that does not hold): exit code 1, without a message.
    Negative,
    /// The exit code of a program that was run on behalf of the user, and a message.
    Exit(u8, String),
    /// The reader of standard output closed it: success.
    BrokenPipe,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Exit(_, text) => f.write_str(text),
            Self::Negative | Self::BrokenPipe => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe { Self::BrokenPipe } else { Self::Failed(error.to_string()) }
    }
}

#[cfg(feature = "papers")]
impl From<tidegate_papers::Failure> for Failure {
    fn from(failure: tidegate_papers::Failure) -> Self {
        match failure {
            tidegate_papers::Failure::Failed(text) => Self::Failed(text),
            tidegate_papers::Failure::Output(error) => error.into(),
        }
    }
}

/// Disciplines of other crates that a binary adds to those of Tidegate.
#[derive(Default)]
pub struct Registry {
    refused: Option<discipline::RegisterError>,
    of_crate: Option<&'static str>,
}

/// The folder of the crate that this program is built from, if it adds kinds to Tidegate.
static OWN_CRATE: OnceLock<&'static str> = OnceLock::new();

/// The folder of the crate that this program is built from, if it adds kinds to Tidegate.
#[cfg(feature = "lab")]
pub(crate) fn own_crate() -> Option<&'static str> {
    OWN_CRATE.get().copied()
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }
    /// An empty registry of a crate in this folder, which is `env!("CARGO_MANIFEST_DIR")`: `tidegate artifact` packs its source.
    pub fn of_crate(folder: &'static str) -> Self {
        Self { of_crate: Some(folder), ..Self::default() }
    }
    /// Adds a kind to shaper files, scenarios, replay, scripts and live. [`main_with`] reports a name that is taken.
    #[must_use]
    pub fn with<K: discipline::Kind>(mut self) -> Self {
        self.refused = self.refused.or(discipline::register::<K>().err());
        self
    }
}

/// Runs Tidegate with the disciplines of `registry`: the `main` of a crate that adds one.
pub fn main_with(registry: Registry) -> ExitCode {
    main_from(registry, std::env::args_os())
}

/// [`main_with`] with explicit arguments; the first is the name of the program.
pub fn main_from(registry: Registry, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(refused) = registry.refused {
        message!("tidegate: {refused}");
        return ExitCode::FAILURE;
    }
    if let Some(folder) = registry.of_crate {
        let _ = OWN_CRATE.set(folder);
    }
    #[cfg(feature = "lab")]
    commands::schema::register_transports();
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    // Container runtimes start plugins without arguments, and varlinkctl services.
    let name = arguments.first().and_then(|program| Path::new(program).file_name()?.to_str());
    let command = name.and_then(|name| Some(name.strip_prefix("tidegate-")?.to_owned()));
    if let (1, Some(command @ ("cni" | "varlink"))) = (arguments.len(), command.as_deref()) {
        arguments.push(command.into());
    }
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(cli),
        // clap quotes arguments as they are; its text without colours has no other control characters.
        Err(error) if arguments.iter().any(|argument| !is_printable(&argument.to_string_lossy())) => {
            message_part!("{error}");
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
        Err(error) => {
            if let Some(way) = way_of(&error) {
                message!("tidegate: {way}");
                return ExitCode::from(2);
            }
            error.exit()
        }
    }
}

/// Names that other programs have for a command of this one, or for a wish that several commands together fulfil.
const WAYS: [(&[&str], &str); 5] = [
    (
        &["rollback", "revert", "cancel", "back"],
        "`tidegate undo` takes back the last change, `tidegate confirm --rollback` one on trial (--confirm); `tidegate \
         setup --undo` removes the service that `setup` made",
    ),
    (
        &["reload", "restart", "load"],
        "`tidegate apply FILE` puts a file in force; a service does it by `systemctl reload`",
    ),
    (&["start", "up", "shape"], "`tidegate run FILE` shapes, `tidegate setup` makes a service of it"),
    (&["stop", "end", "down"], "Ctrl-C or SIGTERM ends `tidegate run`; a service ends by `systemctl stop`"),
    (
        &["limit", "change", "modify", "edit"],
        "`tidegate set`, `add` and `remove` change what runs, `tidegate apply` replaces it",
    ),
];

/// The way to what somebody meant by a command that does not exist; without one the nearest name is suggested.
fn way_of(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (_, way) = WAYS.iter().find(|(words, _)| words.contains(&word.as_str()))?;
    (error.kind() == ErrorKind::InvalidSubcommand).then(|| format!("there is no command `{word}`: {way}"))
}

/// The definition of the command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs Tidegate with its own disciplines.
pub fn main() -> ExitCode {
    main_with(Registry::new())
}

fn run(cli: Cli) -> ExitCode {
    let outcome = match cli.command {
        #[cfg(feature = "live")]
        Command::Setup(args) => commands::setup::run(&args),
        #[cfg(feature = "live")]
        Command::Run(args) => commands::run::run(*args),
        #[cfg(feature = "live")]
        Command::Status(args) => commands::status::run(&args),
        #[cfg(feature = "live")]
        Command::Top(args) => commands::top::run(&args),
        #[cfg(feature = "live")]
        Command::Events(args) => commands::events::run(&args),
        #[cfg(feature = "live")]
        Command::Apply(args) => commands::apply::run(&args),
        #[cfg(feature = "live")]
        Command::Confirm(args) => commands::apply::confirm(&args),
        #[cfg(feature = "live")]
        Command::Set(args) => commands::apply::set(&args),
        #[cfg(feature = "live")]
        Command::Add(args) => commands::apply::add(&args),
        #[cfg(feature = "live")]
        Command::Remove(args) => commands::apply::remove(&args),
        #[cfg(feature = "live")]
        Command::Undo(args) => commands::apply::undo(&args),
        #[cfg(feature = "live")]
        Command::Reserve(args) => commands::reserve::run(&args),
        #[cfg(feature = "live")]
        Command::Promise(args) => commands::promise::run(&args),
        #[cfg(feature = "papers")]
        Command::Demo(args) => commands::demo::run(&args),
        Command::Check(args) => commands::check::run(&args),
        #[cfg(feature = "live")]
        Command::Doctor(args) => commands::doctor::run(&args),
        #[cfg(feature = "live")]
        Command::Measure(args) => commands::measure::run(&args),
        #[cfg(feature = "live")]
        Command::Import(args) => commands::import::run(&args),
        #[cfg(all(feature = "lab", feature = "live"))]
        Command::Explain(args) => commands::explain::run(&args),
        #[cfg(feature = "live")]
        Command::Exec(args) => commands::exec::run(&args),
        #[cfg(feature = "lab")]
        Command::Artifact(args) => commands::artifact::run(&args),
        #[cfg(feature = "lab")]
        Command::Figure(args) => commands::figure::run(&args),
        #[cfg(feature = "lab")]
        Command::NewCongestion(args) => commands::new_lab::congestion(&args),
        #[cfg(feature = "lab")]
        Command::NewExperiment(args) => commands::new_lab::experiment(&args),
        #[cfg(feature = "lab")]
        Command::NewQdisc(args) => commands::new_lab::qdisc(&args),
        #[cfg(feature = "live")]
        Command::Pace(args) => commands::pace::run(&args),
        #[cfg(feature = "lab")]
        Command::Replay(args) => commands::replay::run(&args),
        #[cfg(feature = "lab")]
        Command::Compare(args) => commands::compare::run(&args),
        #[cfg(feature = "lab")]
        Command::Conform(args) => commands::conform::run(&args),
        #[cfg(feature = "papers")]
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        #[cfg(feature = "live")]
        Command::Metrics(args) => commands::metrics::run(&args),
        #[cfg(feature = "lab")]
        Command::Script(args) => commands::script::run(&args),
        #[cfg(feature = "lab")]
        Command::Simulate(args) => commands::simulate::run(&args),
        #[cfg(feature = "lab")]
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Book(args) => commands::book::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Help(args) => commands::book::help(&args),
        #[cfg(feature = "live")]
        Command::Cni(args) => commands::container::cni::run(&args),
        #[cfg(feature = "live")]
        Command::Oci(args) => commands::container::oci::run(&args),
        #[cfg(feature = "live")]
        Command::Varlink(args) => commands::varlink::run(&args),
        #[cfg(feature = "live")]
        Command::Guardian => tidegate_live::guardian::run().map_err(Failure::from),
        #[cfg(feature = "live")]
        Command::Lookup => tidegate_daemon::lookup::serve().map_err(Failure::from),
    };
    match outcome {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            // A diagnostic with a position has its own prefix. If standard error is closed, the exit code still
            // reports the failure.
            if text.starts_with("error: ") {
                message!("{text}");
            } else if !text.is_empty() {
                message!("tidegate: {text}");
            }
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                Failure::Exit(code, _) => code,
                _ => 1,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "lab")]
    use tidegate_book::{Book, blocks::blocks};

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[cfg(not(feature = "lab"))]
    #[test]
    fn without_the_laboratory_help_offers_nothing_of_it() {
        fn helps(command: &mut clap::Command, out: &mut String) {
            out.push_str(&command.render_long_help().to_string());
            command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()).for_each(|inner| helps(inner, out));
        }
        let mut all = String::new();
        helps(&mut command(), &mut all);
        for word in [
            "simulate",
            "scenario",
            "sweep",
            "replay",
            "compare",
            "reproduce",
            "new-qdisc",
            "new-congestion",
            "new-experiment",
            "tidegate figure",
            "tidegate artifact",
            "explain",
            "tidegate script",
            "tidegate demo",
            "--report",
            "--parquet",
            "--table",
            "--figure",
            "--record",
        ] {
            assert!(!all.contains(word), "{word}");
        }
        assert!(all.contains("tidegate status --file") && all.contains("--metrics"));
    }

    #[cfg(feature = "lab")]
    #[test]
    fn the_json_of_every_command_is_described() {
        let book = Book::new();
        let chapters = book.chapters();
        let page = chapters.iter().find(|chapter| chapter.slug == "reference/json").expect("a page");
        let described: Vec<&str> = page
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("## tidegate "))
            .flat_map(|names| names.split(", "))
            .collect();
        let definition = command();
        let has = |of: &clap::Command| of.get_arguments().any(|argument| argument.get_id() == "json");
        let with: Vec<&str> = definition.get_subcommands().filter(|of| has(of)).map(clap::Command::get_name).collect();
        assert!(with.len() >= 18, "{with:?}");
        for name in &with {
            assert!(described.contains(name), "{name} has --json, and book/src/reference/json.md has nothing on it");
        }
        for name in described {
            assert!(with.contains(&name), "{name} has no --json");
        }
    }

    /// `tests/it/book.rs` runs most of them; those that need root or a network are only parsed, here.
    #[cfg(feature = "lab")]
    #[test]
    fn every_command_line_of_the_book_is_understood() {
        let mut seen = 0;
        for chapter in Book::new().chapters() {
            if chapter.slug.starts_with("lab/papers/") || chapter.slug.starts_with("howto") {
                continue;
            }
            for block in blocks(&chapter.text).iter().filter(|block| block.language == "sh") {
                for line in block.text.lines() {
                    let line = line.trim().strip_prefix("sudo ").unwrap_or(line.trim());
                    if !line.starts_with("tidegate ") {
                        continue;
                    }
                    let ends: &[&str] =
                        if line.starts_with("tidegate exec ") { &["#"] } else { &["#", ">", "|", "&&", "--"] };
                    // Double quotes are the only ones that the book uses.
                    let mut quoted = false;
                    let words = line.split(|c: char| {
                        quoted ^= c == '"';
                        c.is_whitespace() && !quoted
                    });
                    let words = words.filter(|word| !word.is_empty()).take_while(|word| !ends.contains(word));
                    let words = words.map(|word| word.replace('"', ""));
                    if let Err(error) = Cli::try_parse_from(words) {
                        panic!("{}:{}: {line}\n{error}", chapter.slug, block.line);
                    }
                    seen += 1;
                }
            }
        }
        assert!(seen >= 30, "{seen} command lines");
    }
}
