//! The hook: a program that is run on events, for those who do not read the socket.
//!
//! A thread of its own runs it, from a short queue of events. An event that does not fit, exceeds the configured rate, or
//! comes while [`RUNNING`] runs have not ended, is left out; the next run receives their number. A run that takes longer
//! than [`LONGEST`] is killed.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::shaper;
use tidegate_control::calls::{Event, EventKind};

/// Runs at the same time.
const RUNNING: usize = 4;
/// The longest a run may take.
const LONGEST: Duration = Duration::from_secs(30);
/// Events that wait for a run.
const WAITING: usize = 64;

/// The queue of the thread.
#[derive(Debug)]
pub(crate) struct Hook {
    kinds: Vec<EventKind>,
    to: SyncSender<Event>,
    left_out: Arc<AtomicU64>,
}

impl Hook {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// An unknown kind of event, or a thread that cannot be started.
    pub fn start(config: &shaper::Hook, interface: &str) -> Result<Self, String> {
        let kinds = match config.events.as_slice() {
            [] => vec![EventKind::Log, EventKind::Waiting, EventKind::PromiseEnded],
            named => named.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        };
        let (to, events) = mpsc::sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let running = Running {
            program: config.program.clone(),
            interface: interface.into(),
            pause: Duration::from_secs(1) / config.rate.max(1),
            events,
            children: Vec::new(),
            last: None,
            left_out: Arc::clone(&left_out),
            reported: false,
        };
        let thread = thread::Builder::new().name("tidegate-hook".into()).spawn(move || running.run());
        thread.map(|_| Self { kinds, to, left_out }).map_err(|error| error.to_string())
    }

    /// Runs the program for this event, if it is of a configured kind. Never waits.
    pub fn run(&self, event: &Event) {
        if self.kinds.contains(&event.kind) && self.to.try_send(event.clone()).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Running {
    program: PathBuf,
    interface: String,
    pause: Duration,
    events: Receiver<Event>,
    children: Vec<(Child, Instant)>,
    last: Option<Instant>,
    left_out: Arc<AtomicU64>,
    /// Whether it was reported that the program cannot be run.
    reported: bool,
}

impl Running {
    fn run(mut self) {
        loop {
            // Runs that end are reaped.
            let patience =
                if self.children.is_empty() { Duration::from_secs(3_600) } else { Duration::from_millis(50) };
            let event = match self.events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.children.retain_mut(|(child, began)| {
                if began.elapsed() > LONGEST {
                    let _ = child.kill();
                }
                matches!(child.try_wait(), Ok(None))
            });
            let Some(event) = event else { continue };
            let too_soon = self.last.is_some_and(|last| last.elapsed() < self.pause);
            if too_soon || self.children.len() >= RUNNING {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.last = Some(Instant::now());
            // Events for a missing program are left out, as for one that is too slow.
            match self.command(&event).spawn() {
                Ok(child) => self.children.push((child, Instant::now())),
                Err(error) => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut self.reported, true) {
                        let hook = self.program.display();
                        // The count of events left out reports it where standard error is closed.
                        let _ = writeln!(io::stderr(), "tidegate: the hook {hook} cannot be run: {error}");
                    }
                }
            }
        }
        for (mut child, _) in self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn command(&self, event: &Event) -> Command {
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("TIDEGATE_INTERFACE", &self.interface).env("TIDEGATE_EVENT", event.kind.name());
        command.env("TIDEGATE_LEFT_OUT", self.left_out.swap(0, Ordering::Relaxed).to_string());
        // Names are those of the protocol, in capitals.
        if let Ok(serde_json::Value::Object(facts)) = serde_json::to_value(event) {
            add(&mut command, "TIDEGATE", &facts);
        }
        command
    }
}

fn add(command: &mut Command, prefix: &str, facts: &serde_json::Map<String, serde_json::Value>) {
    for (key, value) in facts {
        let name = format!("{prefix}_{}", key.to_uppercase());
        match value {
            serde_json::Value::String(text) => drop(command.env(name, text.replace('\0', ""))),
            serde_json::Value::Object(inner) => add(command, &name, inner),
            other => drop(command.env(name, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaper_files_know_every_kind_of_event() {
        assert_eq!(EventKind::ALL.map(EventKind::name), shaper::EVENTS);
    }
}
