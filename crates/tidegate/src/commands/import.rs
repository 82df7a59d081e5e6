//! `tidegate import`: shaper files from what other shapers have.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidegate_config::import::{self, Import, ImportError, LARGEST};
use tidegate_config::{Diagnostics, Source, shaper};

use crate::{Failure, output};

/// Make a shaper file of what sqm-scripts, tc, CAKE or wondershaper have here
///
/// The file goes to standard output, or to --output; what could not be carried over is named on standard error and in the first lines of the
/// file, with its line. Nothing is changed on this machine. `tidegate check FILE` shows the result, and `tidegate
/// run FILE` shapes by it, after the other shaper was ended.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: Other,
}

#[derive(Debug, clap::Subcommand)]
enum Other {
    /// sqm-scripts: /etc/config/sqm of OpenWrt, or /etc/sqm/INTERFACE.iface.conf
    Sqm(Sqm),
    /// What `tc` shows: HTB with its classes, queues and filters, CAKE, TBF, or a queue
    Tc(Tc),
    /// The options of a CAKE: a line of `tc qdisc show`, or the words after `cake`
    Cake(Words),
    /// wondershaper: its file, or its arguments, such as: eth0 2048 512
    Wondershaper(Words),
}

#[derive(Debug, clap::Args)]
struct To {
    /// The interface, where the input names several or none
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// Write the file there, unless it exists
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Sqm {
    /// The file; - for standard input; by default /etc/config/sqm, or /etc/sqm/INTERFACE.iface.conf
    file: Option<PathBuf>,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct Tc {
    /// The output of `tc qdisc show`, `tc class show` and `tc filter show`, as text or as JSON (-j); - for standard input;
    /// without a file `tc` is run for --interface
    #[arg(required_unless_present = "interface")]
    file: Option<PathBuf>,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct Words {
    /// A file, - for standard input, or the words themselves
    #[arg(required = true, num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true, value_name = "FILE|WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    to: To,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (import, to) = match &args.from {
        Other::Sqm(Sqm { file, to }) => {
            let path = file.clone().unwrap_or_else(|| default_sqm(to.interface.as_deref()));
            let interface = to.interface.clone().or_else(|| named_by(&path));
            (import::sqm(&open(&path)?, interface.as_deref()), to)
        }
        Other::Tc(Tc { file: Some(path), to }) => (import::tc(&open(path)?, to.interface.as_deref()), to),
        Other::Tc(Tc { file: None, to }) => {
            let interface = to.interface.as_deref().unwrap_or_default();
            (import::tc(&shown(interface)?, Some(interface)), to)
        }
        Other::Cake(Words { words, to }) => {
            let source = match file_of(words) {
                Some(path) => open(&path)?,
                None => Source::new("the options", words.join(" ")),
            };
            (import::cake(&source, to.interface.as_deref()), to)
        }
        Other::Wondershaper(Words { words, to }) => {
            let interface = to.interface.as_deref();
            let import = match file_of(words) {
                Some(path) => import::wondershaper(&open(&path)?, interface),
                None => import::wondershaper_arguments(words, interface),
            };
            (import, to)
        }
    };
    write(&import.map_err(usage)?, to)
}

fn usage(error: ImportError) -> Failure {
    Failure::Usage(error.to_string())
}

/// Writes the file, after a check that `run` accepts it, and names what is missing.
fn write(import: &Import, to: &To) -> Result<(), Failure> {
    let source = Source::new("the imported file", import.text.as_str());
    let mut diagnostics = Diagnostics::new();
    let configs = shaper::load_all(&source, &mut diagnostics);
    crate::commands::check::say(&diagnostics, &source);
    if configs.is_none() {
        let text = "what was read does not make a valid file; the findings above have their places in that file:";
        return Err(Failure::Failed(format!("{text}\n{}", import.text)));
    }
    match &to.output {
        Some(path) => {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
                Failure::Failed(format!("cannot make {}: {error}; move it away, or write another", path.display()))
            })?;
            file.write_all(import.text.as_bytes())?;
        }
        None => {
            let mut out = output::stdout();
            out.write_all(import.text.as_bytes())?;
            out.flush()?;
        }
    }
    for left in &import.left {
        message!("not carried over, line {}: {}", left.line, left.text);
    }
    if import.left.is_empty() {
        message!("everything was carried over");
    }
    let file = to.output.as_ref().map_or_else(|| "FILE".into(), |path| path.display().to_string());
    output::hint(&format!("`tidegate check {file}`, then end the other shaper and `sudo tidegate run {file}`"));
    Ok(())
}

/// Reads a file that may be anything, up to a size.
fn open(path: &Path) -> Result<Source, Failure> {
    let is_large = std::fs::metadata(path).is_ok_and(|data| data.len() > LARGEST as u64);
    if is_large {
        let kib = LARGEST >> 10;
        return Err(Failure::Usage(format!("{}: it is larger than {kib} KiB; is it the right file?", path.display())));
    }
    Source::open(path).map_err(|error| Failure::Usage(error.to_string()))
}

/// The file that the words are, if they are one.
fn file_of(words: &[String]) -> Option<PathBuf> {
    match words {
        [one] if one == "-" || Path::new(one).is_file() => Some(one.into()),
        [one] if one.contains('/') => Some(one.into()),
        _ => None,
    }
}

/// The interface that a `.iface.conf` is for, by its name.
fn named_by(path: &Path) -> Option<String> {
    path.file_name()?.to_str()?.strip_suffix(".iface.conf").filter(|name| *name != "default").map(str::to_owned)
}

fn default_sqm(interface: Option<&str>) -> PathBuf {
    let debian = interface.map(|name| PathBuf::from(format!("/etc/sqm/{}.iface.conf", name.replace('/', "_"))));
    debian.filter(|path| path.exists()).unwrap_or_else(|| "/etc/config/sqm".into())
}

/// The output of `tc` for an interface.
fn shown(interface: &str) -> Result<Source, Failure> {
    let mut text = String::new();
    for what in ["qdisc", "class", "filter"] {
        let output = Command::new("tc").args([what, "show", "dev", interface]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| {
            Failure::Failed(format!("cannot run tc: {error}; install iproute2, or give the output of another machine"))
        })?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::Failed(format!("tc {what} show dev {interface}: {why}")));
        }
        text.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    Ok(Source::new(format!("tc show dev {interface}"), text))
}
