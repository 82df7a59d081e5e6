//! `tidegate man`: manual pages, generated from the definition of the command line.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::Stdio;

use clap::Command;

use crate::{Failure, output};

/// Show a manual page, or write all of them
///
/// Without a name, the page of `tidegate` itself. On a terminal `man` shows it; into a pipe or a file goes its source
/// (roff). `--dir` writes all pages, for a package or for ~/.local/share/man/man1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command, for example `status`
    command: Option<String>,
    /// Write all pages into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let pages = pages(crate::cli::command())?;
    if let Some(folder) = &args.dir {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Failed(format!("cannot make {}: {error}", folder.display())))?;
        for (name, page) in &pages {
            output::write(&folder.join(format!("{name}.1")), page)?;
        }
        message!("{} pages in {}", pages.len(), folder.display());
        return Ok(());
    }
    let wanted = match args.command.as_deref() {
        None | Some("tidegate") => "tidegate".to_owned(),
        Some(name) => format!("tidegate-{}", name.strip_prefix("tidegate-").unwrap_or(name)),
    };
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known: Vec<&str> = pages.iter().filter_map(|(name, _)| name.strip_prefix("tidegate-")).collect();
        let given = args.command.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("there is no command `{given}`; there are: {}", known.join(", "))));
    };
    if !std::io::stdout().is_terminal() {
        std::io::stdout().lock().write_all(page)?;
    } else if !shown(page)? {
        // Without `man` the same text, without its layout.
        let names = wanted.split('-').skip(1).map(str::to_owned).collect::<Vec<_>>().join("-");
        let mut command = crate::cli::command();
        let help = match command.find_subcommand_mut(&names) {
            Some(command) => command.render_long_help(),
            None => command.render_long_help(),
        };
        write!(std::io::stdout().lock(), "{help}")?;
    }
    Ok(())
}

/// Whether `man` is installed and has shown the page.
fn shown(page: &[u8]) -> std::io::Result<bool> {
    let mut command = std::process::Command::new("man");
    let Ok(mut man) = command.args(["-l", "-"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Ok(false);
    };
    if let Some(mut stdin) = man.stdin.take() {
        // It may end before it has read everything.
        let _ = stdin.write_all(page);
    }
    Ok(man.wait()?.success())
}

/// The names and texts of the pages: of the command itself and of each subcommand at any depth.
pub fn pages(mut command: Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    fn add(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command.clone());
        man.render(&mut page)?;
        pages.push((name.to_owned(), tidy(&String::from_utf8_lossy(&page), name).into_bytes()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            add(inner, &format!("{name}-{}", inner.get_name()), pages)?;
        }
        Ok(())
    }
    // Sets the full name of each command.
    command.build();
    let mut pages = Vec::new();
    add(&command, "tidegate", &mut pages)?;
    Ok(pages)
}

/// Corrects what mandoc rejects in the generated pages: without a date, the field is missing instead of empty, and
/// the source would take its place; and line breaks next to paragraphs.
fn tidy(page: &str, name: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let mut out = String::with_capacity(page.len());
    for (n, line) in lines.iter().enumerate() {
        let beside =
            |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|line| matches!(*line, ".sp" | ""));
        if line.starts_with(".TH ") {
            let (title, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
            out.push_str(&format!(".TH \"{title}\" \"1\" \"\" \"Tidegate {version}\" \"Tidegate\"\n"));
        } else if *line != ".br" || !(beside(n.checked_sub(1)) || beside(n.checked_add(1))) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}
