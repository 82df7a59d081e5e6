//! `tidegate apply`, `confirm`, `set`, `add`, `remove` and `undo`: other rates, classes and rules for a shaper that runs.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tidegate_control::calls::{Applied, Apply, Change, Edit, Undo};
use tidegate_control::{Client, ClientError, Code};
use tidegate_units::Span;

use crate::Failure;
use crate::commands::check;
use crate::commands::connect::Connect;
use crate::commands::events::second;

/// How a change is made.
#[derive(Debug, Clone, clap::Args)]
pub struct How {
    #[command(flatten)]
    connect: Connect,
    /// The direction, where both are shaped; `both` changes them alike
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Revert after this time unless Enter is pressed here, or `tidegate confirm` is run
    #[arg(long, value_name = "TIME")]
    confirm: Option<Span>,
    /// Print the differences and the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// Continue with another shaper file, without losing or reordering a packet
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file; - for standard input
    file: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Keep a change that is on trial
#[derive(Debug, clap::Args)]
pub struct ConfirmArgs {
    #[command(flatten)]
    connect: Connect,
    /// Revert it instead, at once
    #[arg(long)]
    rollback: bool,
    /// Print the outcome as JSON: `{"kept": true}`, or false after a roll-back
    #[arg(long)]
    json: bool,
}

/// Change values of the running configuration: set class NAME rate 5mbit, set rule 2 weight 3, set shaper rate 20mbit
///
/// `tidegate status --file` shows the configuration. Several values change at once, all or none: set class NAME rate 5mbit
/// priority 0, or of several sections: set shaper rate 15mbit class NAME rate 8mbit; `rule` comes last, because it has a key
/// `class`.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// class, rule, or a table of the file such as shaper, discipline or interface
    section: String,
    /// The name of the class or number of the rule, then keys and values
    #[arg(required = true, num_args = 1.., value_name = "[NAME] KEY VALUE")]
    words: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// Add to the running configuration: add class NAME rate 1mbit, add rule CLASS destination-port 5004
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// class or rule; a rule goes before the others, and its number is printed
    #[arg(value_parser = ["class", "rule"])]
    section: String,
    /// The name of the class, then keys and values
    #[arg(required = true, num_args = 1.., value_name = "CLASS KEY VALUE")]
    words: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// Remove from the running configuration: remove class NAME, remove rule 2; `tidegate status --file` shows it
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// class or rule
    #[arg(value_parser = ["class", "rule"])]
    section: String,
    /// The name of the class, or the number of the rule
    name: String,
    #[command(flatten)]
    how: How,
}

/// Take back the last change of the running configuration that was kept
///
/// With --dry-run it only says whose change that is, from when, by which command, and what would be different.
/// Run again, it takes back the change before; the last 16 since the start are known, also those by a reload. Nothing is lost or
/// reordered. A change on trial is taken back by `tidegate confirm --rollback`.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    #[command(flatten)]
    connect: Connect,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the differences and the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `apply`.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = check::open(&args.file)?;
    // Findings have their places in this file, not in the one that the daemon is sent.
    check::load_all(&source)?;
    let file = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone()).display().to_string();
    let file = if args.file.as_os_str() == "-" { "-".into() } else { file };
    change(&args.how, Some((file, source.text().to_owned())), Vec::new())
}

/// Runs `set`.
pub fn set(args: &SetArgs) -> Result<(), Failure> {
    let mut edits = Vec::new();
    for group in groups(&args.section, &args.words) {
        let (section, words) = (group[0], &group[1..]);
        let named = matches!(section, "class" | "rule");
        let (name, words) = match (named, words.split_first()) {
            (true, Some((name, words))) => (Some((*name).to_owned()), words),
            _ => (None, words),
        };
        if !named && (words.is_empty() || !words.len().is_multiple_of(2)) {
            let text = format!(
                "cannot read `{section}`: write pairs of keys and values, after `class NAME` or `rule NUMBER` where they belong to one"
            );
            return Err(Failure::Usage(text));
        }
        let set = |(key, value)| Edit::Set { section: section.to_owned(), name: name.clone(), key, value };
        edits.extend(pairs(words)?.into_iter().map(set));
    }
    change(&args.how, None, edits)
}

/// The words of each section of one command: a word in the place of a key that names a section begins the next one.
fn groups<'a>(section: &'a str, words: &'a [String]) -> Vec<Vec<&'a str>> {
    const SECTIONS: [&str; 8] =
        ["class", "rule", "shaper", "discipline", "interface", "statistics", "control", "metrics"];
    let mut groups = vec![vec![section]];
    for word in words.iter().map(String::as_str) {
        let group = groups.last_mut().expect("there is one, and none is removed");
        let is_named = matches!(group[0], "class" | "rule");
        let is_at_key = group.len() > usize::from(is_named) && (group.len() - usize::from(is_named)) % 2 == 1;
        // A rule has the key `class`.
        let is_key = group[0] == "rule" && word == "class";
        if is_at_key && group.len() > 1 + usize::from(is_named) && SECTIONS.contains(&word) && !is_key {
            groups.push(vec![word]);
        } else {
            group.push(word);
        }
    }
    groups
}

/// Runs `add`.
pub fn add(args: &AddArgs) -> Result<(), Failure> {
    let (name, words) = args.words.split_first().ok_or_else(|| Failure::Usage("name a class".into()))?;
    let first = if args.section == "class" { "name" } else { "class" };
    let mut values = vec![(first.to_owned(), name.clone())];
    values.extend(pairs(words)?);
    change(&args.how, None, vec![Edit::Add { section: args.section.clone(), values }])
}

/// Runs `remove`.
pub fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    change(&args.how, None, vec![Edit::Remove { section: args.section.clone(), name: args.name.clone() }])
}

/// Runs `confirm`.
pub fn confirm(args: &ConfirmArgs) -> Result<(), Failure> {
    let mut client = args.connect.open()?;
    if args.json {
        if args.rollback {
            client.rollback()?;
        } else {
            client.confirm()?;
        }
        return Ok(writeln!(crate::output::stdout(), "{:#}", serde_json::json!({ "kept": !args.rollback }))?);
    }
    if args.rollback {
        client.rollback()?;
        message!("tidegate: the previous configuration is in force again");
    } else {
        client.confirm()?;
        message!("tidegate: the change is kept");
    }
    Ok(())
}

fn pairs<T: ToString>(words: &[T]) -> Result<Vec<(String, String)>, Failure> {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(Failure::Usage("keys and values come in pairs, such as: rate 5mbit".into()));
    }
    Ok(words.chunks(2).map(|pair| (pair[0].to_string(), pair[1].to_string())).collect())
}

/// Makes a change and prints the differences; with `--dry-run` it only prints them.
fn change(how: &How, file: Option<(String, String)>, edits: Vec<Edit>) -> Result<(), Failure> {
    let mut client = how.connect.open()?;
    let edited = file.is_none();
    let (file, text) = file.unzip();
    let applied = client.apply(&Apply {
        direction: how.direction.clone(),
        text,
        file,
        edits,
        dry_run: how.dry_run,
        confirm: how.confirm,
    })?;
    if how.json {
        print_json(&applied)?;
        // The answer is complete before anybody is asked to confirm it.
        return match how.confirm.filter(|_| applied.applied) {
            Some(time) => keep(&mut client, time),
            None => Ok(()),
        };
    }
    print(&applied)?;
    let numbers: Vec<String> = applied.added_rules.iter().map(ToString::to_string).collect();
    if !numbers.is_empty() && !applied.differences.is_empty() {
        let verb = if applied.applied { "is" } else { "would be" };
        message!("tidegate: the new rule {verb} rule {}, before the others", numbers.join(", "));
    }
    if !applied.applied {
        return Ok(());
    }
    if let Some(time) = how.confirm {
        keep(&mut client, time)?;
    }
    if edited {
        message!("tidegate: the file is as it was; `tidegate status --file` prints what is in force, to keep it");
    }
    Ok(())
}

/// Runs `undo`.
pub fn undo(args: &UndoArgs) -> Result<(), Failure> {
    let mut client = args.connect.open()?;
    let applied = client.undo(&Undo { dry_run: args.dry_run })?;
    if args.json {
        return print_json(&applied);
    }
    if let Some(change) = &applied.undone {
        let verb = if applied.applied { "took" } else { "would take" };
        message!("tidegate: {verb} back the change of {}", changed(change));
    }
    print(&applied)?;
    if applied.applied {
        message!("tidegate: the last change is taken back; the file is as it was");
    }
    Ok(())
}

/// When a change was made, by whom and by which command.
pub(super) fn changed(change: &Change) -> String {
    format!("{} by {}: {}", second(change.time_s), change.author, change.command)
}

fn print_json(applied: &Applied) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(applied).map_err(std::io::Error::from)?;
    Ok(writeln!(crate::output::stdout(), "{text}")?)
}

/// Prints the differences, the warnings, and how the change came into force if it did.
fn print(applied: &Applied) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    for difference in &applied.differences {
        writeln!(out, "{}", difference.text)?;
    }
    out.flush()?;
    if !applied.warnings.is_empty() {
        message_part!("{}", applied.warnings);
    }
    if applied.differences.is_empty() {
        message!("tidegate: nothing changes");
    }
    if !applied.applied {
        return Ok(());
    }
    message!(
        "tidegate: in force, {}",
        match (applied.in_place, applied.rehomed) {
            (true, _) => "in place; queues go on as they are".to_owned(),
            (false, 0) => "with other queues; nothing waited".to_owned(),
            (false, 1) => "with other queues; the packet that waited was entered anew".to_owned(),
            (false, n) => format!("with other queues; the {n} packets that waited were entered anew"),
        }
    );
    Ok(())
}

/// Waits for Enter, or for the time to be over.
fn keep(client: &mut Client, time: Span) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        message!("tidegate: it is reverted after {time} unless `tidegate confirm` is run");
        return Ok(());
    }
    message!("tidegate: press Enter within {time} to keep it, or run `tidegate confirm` elsewhere");
    let (entered, enter) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
            let _ = entered.send(());
        }
    });
    let end = Instant::now() + Duration::from_nanos(time.as_nanos());
    match enter.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(()) => match client.confirm() {
            Ok(_) => {
                message!("tidegate: the change is kept");
                Ok(())
            }
            // Somebody else confirmed it, or the time was over a moment ago; the daemon reports which.
            Err(ClientError::Refused(refusal)) if refusal.code == Code::NotFound => {
                Err(Failure::Failed("the trial is over; `tidegate events` shows what happened".into()))
            }
            Err(error) => Err(error.into()),
        },
        Err(_) => Err(Failure::Failed(
            "not confirmed here in time; unless `tidegate confirm` was run, the previous configuration is in force again".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_changes_several_sections() {
        let split = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            groups(&words[0], &words[1..]).iter().map(|group| group.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(
            split("shaper rate 15mbit class house rate 8mbit"),
            ["shaper rate 15mbit", "class house rate 8mbit"]
        );
        assert_eq!(
            split("class a rate 1mbit priority 0 class b rate 2mbit"),
            ["class a rate 1mbit priority 0", "class b rate 2mbit"]
        );
        // Names and values are no sections, and a rule has a key `class`.
        assert_eq!(split("class class rate 1mbit"), ["class class rate 1mbit"]);
        assert_eq!(split("class shaper rate 1mbit"), ["class shaper rate 1mbit"]);
        assert_eq!(
            split("rule 2 class class weight 3 rule 3 weight 2"),
            ["rule 2 class class weight 3", "rule 3 weight 2"]
        );
        assert_eq!(
            split("discipline kind control shaper rate 1mbit"),
            ["discipline kind control", "shaper rate 1mbit"]
        );
    }
}
