//! Who changed the configuration, by which command, and what is different: a line in the log, a note on the page, and the
//! data of an event.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidegate_config::decode::printable;
use tidegate_control::calls::{Apply, Change, Difference, Edit};
use tidegate_live::shaping::user_name;

use crate::caller::Peer;
use crate::notifier::Notifier;

/// The most differences in a line; the event has all of them.
const MOST: usize = 8;
/// The longest part of a line, in characters: a file may have values of any length.
const LONGEST: usize = 160;

/// The origin of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Author {
    /// A client of the control socket, by its credentials (`SO_PEERCRED`).
    Client(Peer),
    /// A signal that has the file read again; who sent it is not known.
    Signal,
    /// Nobody confirmed a change in time.
    Time,
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(peer @ Peer { uid, pid }) => match peer.login() {
                Some(login) => write!(f, "{}, process {pid}, logged in as {}", name(*uid), name(login)),
                None => write!(f, "{}, process {pid}", name(*uid)),
            },
            Self::Signal => f.write_str("SIGHUP"),
            Self::Time => f.write_str("the end of the trial"),
        }
    }
}

/// The name of a user with the number, or the number alone of one that this machine does not have.
fn name(uid: u32) -> String {
    user_name(uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

impl Author {
    fn peer(self) -> Option<Peer> {
        match self {
            Self::Client(peer) => Some(peer),
            Self::Signal | Self::Time => None,
        }
    }
}

/// Describes a change that is made now.
pub(crate) fn change(author: Author, command: &str) -> Change {
    let peer = author.peer();
    Change {
        time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        uid: peer.map(|peer| peer.uid),
        login_uid: peer.and_then(Peer::login),
        author: author.to_string(),
        command: short(command),
    }
}

/// Describes the start of this process, in the form of a change: who started it, and by which command.
pub(crate) fn start() -> String {
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let author = Author::Client(Peer { uid: rustix::process::getuid().as_raw(), pid });
    let words = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let words = words.enumerate().map(|(at, text)| word(&if at == 0 { program(&text) } else { text }));
    format!("{author}: {}: started", short(&words.collect::<Vec<_>>().join(" ")))
}

/// Reports a change of the configuration: `outcome` says what is in force now.
pub(crate) fn report(notifier: &Notifier, author: Author, command: &str, outcome: &str, differences: &[Difference]) {
    let mut text = format!("{author}: {}: {outcome}", short(command));
    let shown = differences.iter().take(MOST).map(|difference| short(&difference.text));
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        text.push_str(&format!(": {}", shown.join("; ")));
    }
    if let Some(more @ 1..) = differences.len().checked_sub(MOST) {
        text.push_str(&format!("; and {more} more"));
    }
    let peer = author.peer();
    let (uid, pid, login) = (peer.map(|peer| peer.uid), peer.map(|peer| peer.pid), peer.and_then(Peer::login));
    let data = json!({ "uid": uid, "login_uid": login, "pid": pid, "command": command, "outcome": outcome, "differences": differences });
    notifier.log_change(&text, data);
}

/// The command of the command line that makes such a request, to be repeated in a shell; of several edits a command for each.
pub(crate) fn command(request: &Apply) -> String {
    let edits = request.edits.iter().map(|edit| match edit {
        Edit::Set { section, name, key, value } => {
            let words = ["set", section].into_iter().chain(name.as_deref()).chain([key.as_str(), value.as_str()]);
            words.map(word).collect::<Vec<_>>().join(" ")
        }
        Edit::Add { section, values } => {
            let keys = values.iter().enumerate().flat_map(|(at, (key, value))| [(at > 0).then_some(key), Some(value)]);
            let words = ["add", section].into_iter().chain(keys.flatten().map(String::as_str));
            words.map(word).collect::<Vec<_>>().join(" ")
        }
        Edit::Remove { section, name } => format!("remove {section} {}", word(name)),
    });
    let mut commands: Vec<String> = edits.collect();
    if request.text.is_some() {
        commands
            .insert(0, request.file.as_ref().map_or_else(|| "apply".into(), |file| format!("apply {}", word(file))));
    }
    let direction = request.direction.as_ref().map_or(String::new(), |name| format!(" --direction {}", word(name)));
    let trial = request.confirm.map_or(String::new(), |time| format!(" --confirm {time}"));
    commands.iter().map(|command| format!("{command}{direction}{trial}")).collect::<Vec<_>>().join(", ")
}

/// A word of a command, in quotes where a shell would split or change it.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,%+@=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A part of a line without what does something to a terminal.
pub(crate) fn short(text: &str) -> String {
    let text = printable(text).replace('\n', " ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Span;

    #[test]
    fn a_start_is_told_like_a_change() {
        let told = start();
        let name = name(rustix::process::getuid().as_raw());
        let own = format!("{name}, process {}", std::process::id());
        assert!(told.starts_with(&own) && told.ends_with(": started"), "{told}");
        let program = std::env::args().next().expect("a program");
        let (folder, program) = program.rsplit_once('/').expect("a path");
        assert!(told.contains(&format!(": {program}")) && !told.contains(folder), "{told}");
    }

    #[test]
    fn a_request_is_named_by_its_command() {
        let set = |key: &str, value: &str| Edit::Set {
            section: "class".into(),
            name: Some("calls".into()),
            key: key.into(),
            value: value.into(),
        };
        let edits = vec![set("rate", "8mbit"), set("priority", "0")];
        let request = Apply { edits, confirm: Some(Span::from_millis(30_000)), ..Apply::default() };
        assert_eq!(
            command(&request),
            "set class calls rate 8mbit --confirm 30s, set class calls priority 0 --confirm 30s"
        );
        let values = vec![("class".into(), "calls".into()), ("source".into(), "10.0.0.0/8".into())];
        let add = Apply { edits: vec![Edit::Add { section: "rule".into(), values }], ..Apply::default() };
        assert_eq!(command(&add), "add rule calls source 10.0.0.0/8");
        let values = vec![
            ("class".into(), "backup".into()),
            ("source".into(), "192.168.1.20".into()),
            ("name".into(), "tv uploads".into()),
        ];
        let edits = vec![Edit::Add { section: "rule".into(), values }, set("note", "it's"), set("at-most", "")];
        let add = Apply { edits, direction: Some("up".into()), ..Apply::default() };
        assert_eq!(
            command(&add),
            "add rule backup source 192.168.1.20 name 'tv uploads' --direction up, \
             set class calls note 'it'\\''s' --direction up, set class calls at-most '' --direction up"
        );
        let file = Apply { text: Some("version = 1".into()), ..Apply::default() };
        assert_eq!(command(&file), "apply");
        assert_eq!(command(&Apply { file: Some("/etc/line.toml".into()), ..file }), "apply /etc/line.toml");
        let long = short(&format!("\u{1b}[2J{}", "x".repeat(500)));
        assert!(!long.contains('\u{1b}') && long.chars().count() == LONGEST + 3, "{long}");
    }
}
