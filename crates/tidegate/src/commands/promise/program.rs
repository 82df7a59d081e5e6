//! `tidegate promise -- COMMAND`: a promise for what one program and its descendants send, held while the program runs.
//!
//! The promise is for the sockets of this process and its descendants. So it is in force before the program starts, and the
//! program's first packet is under it as far as the shaper sees its socket in time.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidegate_control::calls::PromiseCall;
use tidegate_control::{Client, EventKind, Pushed};
use tidegate_exec::signals::{SignalAction, Signals, pass_on};

use super::{Args, guess, told};
use crate::Failure;
use crate::commands::connect::process;
use crate::commands::events;
use crate::commands::exec::OURS;

/// How often a shaper that has gone is looked for. It is also how long a silent one may go without being asked.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a shaper that was gone may take for its reply. Signals and the end of the program wait meanwhile.
const REPLY: Duration = Duration::from_secs(2);

/// Requests the promise, runs the program, and ends with it.
pub fn run(args: &Args, call: PromiseCall) -> Result<(), Failure> {
    let mut call = call;
    call.target.pid = Some(std::process::id());
    let name = args.program[0].to_string_lossy().into_owned();
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    // The program inherits the signal mask of the thread that starts it. So this thread exists before signals are blocked.
    // Until the program runs, a signal reaches it and ends this process.
    let (go, gone) = mpsc::channel();
    let starter = thread::Builder::new().spawn(move || gone.recv().is_ok().then(|| command.spawn()))?;
    let signals = Signals::new()?;
    let mut failed = String::new();
    let promise = match promised(args, &call, None) {
        Ok(client) => Some(client),
        Err(failure) if args.anyway => {
            failed = failure.to_string();
            message!("tidegate: {failed}");
            None
        }
        Err(Failure::Usage(text)) => return Err(Failure::Usage(text)),
        Err(failure) => {
            let text = format!("{failure}\n{name} was not run; with --anyway it is run without a promise");
            return Err(Failure::Exit(OURS, text));
        }
    };
    // Neither can fail: the thread waits for this, and does nothing that panics.
    let started = go.send(()).ok().and_then(|()| starter.join().ok()).flatten();
    let started = started.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()));
    let child = started.map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        Failure::Exit(code, format!("cannot run `{name}`: {error}"))
    })?;
    if promise.is_none() {
        message!("tidegate: {name} runs without a promise until one is given");
    }
    let code = Held { args, call, name, promise, next: Instant::now() + AGAIN, failed }.until_end(child, &signals)?;
    Err(Failure::Exit(code, String::new()))
}

/// Connects, requests the promise, and reports it.
fn promised(args: &Args, call: &PromiseCall, limit: Option<Duration>) -> Result<Client, Failure> {
    let mut client = args.connect.open()?;
    limit.into_iter().for_each(|limit| client.set_limit(limit));
    let Some(shaper) = process(&client) else {
        let text = "the shaper is outside of this container: the numbers of processes here are those of others there; \
                    request the promise on the host, with --cgroup or --service";
        return Err(Failure::Failed(text.into()));
    };
    // The program may enter the other one, as `ip netns exec` does.
    let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    if let (Some(ours), Some(theirs)) = (network("self"), network(&shaper.to_string()))
        && ours != theirs
    {
        message!(
            "tidegate: the shaper (process {shaper}) is in another network namespace, and only sockets there are under the promise"
        );
    }
    let promised = client.promise(call)?;
    message!("tidegate: {}{}", told(&promised.state), guess(args, &promised.state));
    Ok(client)
}

/// The promise of a program that runs.
struct Held<'a> {
    args: &'a Args,
    call: PromiseCall,
    /// The name of the program, for messages.
    name: String,
    /// The connection that holds the promise; `None` while there is no promise.
    promise: Option<Client>,
    /// When the shaper is looked for again.
    next: Instant,
    /// Why there is no promise, as it was reported last.
    failed: String,
}

impl Held<'_> {
    /// Passes signals on and holds the promise until the program has ended; returns the exit code.
    fn until_end(&mut self, mut child: Child, signals: &Signals) -> Result<u8, Failure> {
        loop {
            while let Some(action) = signals.pending() {
                if let SignalAction::PassOn(signal) = action {
                    pass_on(child.id(), signal);
                }
            }
            // The end of the program is a signal as well. It may have come before signals were blocked.
            if let Some(status) = child.try_wait()? {
                return Ok(status.code().map_or_else(|| 128 + status.signal().unwrap_or(0) as u8, |code| code as u8));
            }
            self.hear();
            let wait = Timespec::try_from(AGAIN).ok();
            let mut ready = vec![PollFd::new(signals, PollFlags::IN)];
            ready.extend(
                self.promise.iter().map(|client| PollFd::from_borrowed_fd(client.stream().as_fd(), PollFlags::IN)),
            );
            match poll(&mut ready, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Reads what the shaper sends. Requests the promise again when a shaper that had ended is back.
    fn hear(&mut self) {
        let Some(client) = &mut self.promise else { return self.again() };
        loop {
            match client.next_push(Some(Duration::ZERO)) {
                Ok(Some((_, Pushed::Event(event)))) if event.kind == EventKind::PromiseEnded => {
                    // Somebody who may ended it, so it is not requested again.
                    let why = event.text.unwrap_or_default();
                    message!("tidegate: the promise ended: {why}; {} goes on without it", self.name);
                }
                // Drops and rates of flows are many, and the program is what people look at.
                Ok(Some((_, Pushed::Event(event)))) if !matches!(event.kind, EventKind::Dropped | EventKind::Rate) => {
                    message!("tidegate: {}", events::line(&event));
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    message!("tidegate: {error}; {} goes on, and the promise is requested again", self.name);
                    (self.promise, self.next) = (None, Instant::now() + AGAIN);
                    return;
                }
            }
        }
    }

    /// Requests the promise again, when it is time. A failure is reported once, not every second.
    fn again(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        match promised(self.args, &self.call, Some(REPLY)) {
            Ok(client) => (self.promise, self.failed) = (Some(client), String::new()),
            Err(failure) => {
                let failure = failure.to_string();
                if failure != self.failed {
                    message!("tidegate: {failure}; {} goes on without a promise", self.name);
                    self.failed = failure;
                }
            }
        }
        self.next = Instant::now() + AGAIN;
    }
}
