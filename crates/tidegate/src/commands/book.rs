//! `tidegate book`: the book in the terminal, as HTML pages, or as sources of mdbook; and `tidegate help`.

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_book::Book;
use tidegate_book::search::Found;
use tidegate_config::schema::reference;
use tidegate_config::shaper;
use tidegate_display::middle;
#[cfg(feature = "lab")]
use tidegate_sim::scenario;

use crate::output::width;
use crate::{Failure, output};

/// Read the book: concepts, the manual of each discipline, a cookbook, the experiments, references
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The chapter, for example `concepts` or `fq_codel`; without one, the contents
    chapter: Option<String>,
    /// Write the book as HTML pages, which open without a network, into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "chapter")]
    html: Option<PathBuf>,
    /// Write the book as sources for mdbook into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "chapter")]
    sources: Option<PathBuf>,
    /// List the sections that contain all of these words, the best first
    #[arg(long, value_name = "WORDS", num_args = 1.., conflicts_with_all = ["chapter", "html", "sources"])]
    search: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(folder) = &args.html {
        write_all(folder, book().pages())?;
        message!("open {}", folder.join("index.html").display());
    }
    if let Some(folder) = &args.sources {
        write_all(folder, book().sources())?;
        message!("mdbook build {}", folder.display());
    }
    if args.html.is_some() || args.sources.is_some() {
        return Ok(());
    }
    if !args.search.is_empty() {
        return search(&args.search.join(" "));
    }
    match &args.chapter {
        Some(topic) => show(topic).unwrap_or_else(|| {
            Err(Failure::Usage(format!("the book has no chapter `{topic}`; `tidegate book` lists them")))
        }),
        None => contents(),
    }
}

/// The book with the references that are generated from the program.
fn book() -> Book {
    let keys = |schema| format!("\n## Every key\n\n```text\n{}```\n", reference(&schema));
    let mut command = crate::cli::command();
    command.build();
    let mut options = String::new();
    helps(&mut command, "tidegate", &mut options);
    let book =
        Book::new().append("reference/shaper-file", keys(shaper::schema())).append("reference/command-line", options);
    #[cfg(feature = "lab")]
    let book = book.append("reference/scenario-file", keys(scenario::schema()));
    book
}

/// The long help of each command at any depth, as sections.
fn helps(command: &mut clap::Command, name: &str, out: &mut String) {
    out.push_str(&format!("\n## {name}\n\n```text\n{}```\n", command.render_long_help()));
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let name = format!("{name} {}", inner.get_name());
        helps(inner, &name, out);
    }
}

/// The maximum number of sections that a search lists.
const FOUND: usize = 15;

/// Lists the sections with all the words of `text`: chapter, heading, and the first line with one of them.
fn search(text: &str) -> Result<(), Failure> {
    let found = book().search(text);
    if found.is_empty() {
        return Err(Failure::Failed(format!("no section has `{text}`; `tidegate book` lists the chapters")));
    }
    let mut out = output::stdout();
    for Found { section, line } in found.iter().take(FOUND) {
        let topic = section.slug.rsplit_once('/').map_or(&*section.slug, |(_, name)| name);
        let line: String = line.chars().take(74).collect();
        // The heading of a manual begins with its name.
        let heading = section.heading.strip_prefix(&format!("{topic}: ")).unwrap_or(&section.heading);
        writeln!(out, "{topic}: {heading}\n    {line}")?;
    }
    if found.len() > FOUND {
        writeln!(out, "and {} more sections; further words narrow it", found.len() - FOUND)?;
    }
    message!("`tidegate book NAME` prints a chapter, here for example {}", found[0].section.slug);
    Ok(())
}

fn contents() -> Result<(), Failure> {
    let mut out = output::stdout();
    writeln!(
        out,
        "Chapters; `tidegate book NAME` prints one, `--search WORDS` finds a section, `--html DIR` writes pages."
    )?;
    for chapter in book().chapters() {
        if let Some(part) = chapter.part {
            writeln!(out, "\n{part}")?;
        }
        let topic = format!("{}{}", "  ".repeat(chapter.depth), chapter.topic());
        let title = chapter.title.trim_start_matches(&format!("`{}`: ", chapter.topic()));
        writeln!(out, "{topic:28} {}", middle(title, width().map_or(80, |width| width.saturating_sub(29)).min(80)))?;
    }
    Ok(())
}

/// Prints a chapter; `None` when there is no chapter of that name.
fn show(topic: &str) -> Option<Result<(), Failure>> {
    let chapter = book().find(topic)?;
    Some(output::stdout().write_all(without_pictures(&chapter.text).as_bytes()).map_err(Failure::from))
}

/// The text without its drawings, of which a terminal shows the title.
fn without_pictures(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        inside |= line.starts_with("<svg");
        if let Some(title) = line.trim_end().strip_prefix("<title>").filter(|_| inside) {
            out.push_str(&format!("[picture: {}]\n", title.trim_end_matches("</title>")));
        }
        if !inside {
            out.push_str(line);
        }
        inside &= !line.starts_with("</svg>");
    }
    out
}

fn write_all(folder: &Path, files: Vec<(String, String)>) -> Result<(), Failure> {
    for (path, text) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| Failure::Failed(format!("cannot make {}: {error}", parent.display())))?;
        }
        output::write(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Print the help of a command, or a chapter of the book
#[derive(Debug, clap::Args)]
pub struct HelpArgs {
    /// A command, for example `status`, or a chapter of the book, for example `concepts`; `tidegate book` lists the
    /// chapters
    topic: Vec<String>,
}

/// Runs `tidegate help`.
pub fn help(args: &HelpArgs) -> Result<(), Failure> {
    let mut command = crate::cli::command();
    command.build();
    let mut at = &mut command;
    for (n, word) in args.topic.iter().enumerate() {
        if at.find_subcommand(word).is_none() {
            if let Some(shown) = (n == 0).then(|| show(word)).flatten() {
                return shown;
            }
            let given = args.topic.join(" ");
            return Err(Failure::Usage(format!(
                "there is no command or chapter `{given}`; `tidegate help` lists the commands, `tidegate book` the chapters"
            )));
        }
        at = at.find_subcommand_mut(word).ok_or_else(|| Failure::Failed(format!("there is no command `{word}`")))?;
    }
    // With colours on a terminal, as `--help`.
    at.print_long_help()?;
    Ok(())
}
