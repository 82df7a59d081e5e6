//! `tidegate book`: the book in the terminal, as HTML pages, or as sources of mdbook; and `tidegate help`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidegate_book::search::Found;
use tidegate_book::{Book, Ink};
use tidegate_config::schema::reference;
use tidegate_config::shaper;
use tidegate_display::middle;

use crate::output::width;
use crate::{Failure, output};

/// Read the book: concepts, the manual of each discipline, a cookbook, the experiments, references
///
/// At a terminal a chapter is shown by $PAGER, or by `less` where that is not set; elsewhere its Markdown is written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The chapter, for example `concepts` or `fq_codel`, or a section of it, `rules#quotas`; without one, the contents
    chapter: Option<String>,
    /// Write the book as HTML pages, which open without a network, into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "chapter")]
    html: Option<PathBuf>,
    /// Write the book as sources for mdbook into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "chapter")]
    sources: Option<PathBuf>,
    /// List the sections that contain these words, or words of the same meaning, the best first. A word finds those that
    /// begin with it
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
            Err(Failure::Usage(format!(
                "the book has no chapter `{topic}`; `tidegate book` lists them, `tidegate book --search {topic}` finds sections"
            )))
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
    let book = book.append("reference/scenario-file", keys(super::schema::of_scenarios()));
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
        let line = beginning(line, 74);
        // The heading of a manual begins with its name.
        let heading = section.heading.strip_prefix(&format!("{topic}: ")).unwrap_or(&section.heading);
        let anchor = if section.anchor.is_empty() { String::new() } else { format!("#{}", section.anchor) };
        writeln!(out, "{topic}{anchor}: {heading}\n    {line}")?;
    }
    if found.len() > FOUND {
        writeln!(out, "and {} more sections; further words narrow it", found.len() - FOUND)?;
    }
    let first = &found[0].section;
    let name = if first.anchor.is_empty() { first.slug.clone() } else { format!("{}#{}", first.slug, first.anchor) };
    message!("`tidegate book NAME` prints a chapter or a section, here for example {name}");
    Ok(())
}

/// The words at the beginning of a line that fit so many characters.
fn beginning(line: &str, most: usize) -> String {
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most).collect();
    let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{words} …")
}

fn contents() -> Result<(), Failure> {
    let mut out = output::stdout();
    writeln!(
        out,
        "Chapters; `tidegate book NAME` prints one, `--search WORDS` finds a section, `--html DIR` writes pages."
    )?;
    let mut manuals = Vec::new();
    for chapter in book().chapters() {
        // Dozens of them would hide the chapters that an operator reads.
        if chapter.slug.starts_with("disciplines/") || chapter.slug.starts_with("lab/papers/") {
            manuals.push(chapter.topic().to_owned());
            continue;
        }
        names(&mut out, &mut manuals)?;
        if let Some(part) = chapter.part {
            writeln!(out, "\n{part}")?;
        }
        let topic = format!("{}{}", "  ".repeat(chapter.depth), chapter.topic());
        let title = chapter.title.trim_start_matches(&format!("`{}`: ", chapter.topic()));
        writeln!(out, "{topic:28} {}", middle(title, width().map_or(80, |width| width.saturating_sub(29)).min(80)))?;
    }
    names(&mut out, &mut manuals)?;
    Ok(())
}

/// Writes the names of chapters below the last one, and forgets them.
fn names(out: &mut impl Write, names: &mut Vec<String>) -> std::io::Result<()> {
    if !names.is_empty() {
        let text = format!("  {}", std::mem::take(names).join(" "));
        writeln!(out, "{}", output::hanging(&text, Some(width().unwrap_or(80)), 2))?;
    }
    Ok(())
}

/// Prints a chapter; `None` when there is no chapter of that name.
fn show(topic: &str) -> Option<Result<(), Failure>> {
    let text = match topic.split_once('#') {
        Some((topic, anchor)) => book().section(topic, anchor)?,
        None => book().find(topic)?.text.into_owned(),
    };
    let text = without_pictures(&text);
    Some(match width() {
        Some(width) => page(&tidegate_book::render(&text, width, ink())).map_err(Failure::from),
        None => output::stdout().write_all(text.as_bytes()).map_err(Failure::from),
    })
}

/// Attributes, unless the user or the terminal has none (no-color.org).
fn ink() -> Ink {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_plain = set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb");
    if is_plain { Ink::Plain } else { Ink::Ansi }
}

/// Shows a text of the book by the pager, or writes it where there is none. The text is this program's own, so that
/// its escape sequences may reach the terminal.
fn page(text: &str) -> std::io::Result<()> {
    let plain = || std::io::stdout().lock().write_all(text.as_bytes());
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
    if pager.trim().is_empty() || !std::io::stdin().is_terminal() {
        return plain();
    }
    let mut command = Command::new("sh");
    // A missing pager is no reason not to show the text: `cat` does.
    command.args(["-c", "command -v \"${1%% *}\" >/dev/null 2>&1 || exec cat; eval \"exec $1\"", "sh", &pager]);
    if std::env::var_os("LESS").is_none() {
        // Ends at once if it fits the screen, passes attributes, and leaves the text on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else { return plain() };
    if let Some(mut input) = child.stdin.take() {
        // A pager that was left has not read everything.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().map(drop)
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
