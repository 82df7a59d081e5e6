//! [`PathThread`]: a thread of a data path, as the control plane sees it.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::command::{Command, WorkerCounts};
use super::error::{StartError, system};
use super::watchdog::WorkerState;
use crate::guardian::Turn;
use crate::netlink;
use crate::timing::Readiness;

/// How long the data path may take to reply to the control plane.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a thread that waits for a reply checks whether the data path has been abandoned.
const LOOK: Duration = Duration::from_millis(50);
/// How long the thread of the data path may take to start on a busy machine; one that ends instead is noticed at once.
const START: Duration = Duration::from_secs(20);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PathThread {
    commands: Sender<Command>,
    waker: UnixStream,
    pub state: Arc<WorkerState>,
    worker: Option<JoinHandle<Result<WorkerCounts, netlink::Error>>>,
}

impl PathThread {
    /// Starts the thread, which calls `run` with the ends of its commands and of its waker, and waits until it is ready.
    ///
    /// # Errors
    /// When there is no thread to be had, or it ends before it is ready, or is not ready within [`START`].
    pub fn start(
        state: Arc<WorkerState>,
        run: impl FnOnce(Receiver<Command>, UnixStream, &Sender<Readiness>) -> Result<WorkerCounts, netlink::Error>
        + Send
        + 'static,
    ) -> Result<(Self, Readiness), StartError> {
        let (commands, inbox) = mpsc::channel();
        let (waker, woken) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(system("make a socket nonblocking"))?;
        }
        let (ready, is_ready) = mpsc::channel();
        let worker = thread::Builder::new()
            .name("tidegate".into())
            .spawn(move || run(inbox, woken, &ready))
            .map_err(system("start the data path"))?;
        let readiness = is_ready.recv_timeout(START).map_err(|_| StartError::DataPath("it did not start".into()))?;
        Ok((Self { commands, waker, state, worker: Some(worker) }, readiness))
    }

    pub fn send(&self, command: Command) -> Result<(), StartError> {
        self.commands.send(command).map_err(|_| StartError::DataPath("it is not running".into()))?;
        self.wake();
        Ok(())
    }
    /// Has the thread receive packets.
    pub fn begin(&self) {
        self.state.begin();
        self.wake();
    }
    pub fn wake(&self) {
        // A full pipe wakes it as well.
        let _ = (&self.waker).write(&[1]);
    }

    /// Sends a command that is replied to.
    pub fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<Receiver<T>, StartError> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply))?;
        Ok(answer)
    }

    /// Waits for a reply, on a machine that may be busy, unless the data path is abandoned.
    pub fn receive<T>(&self, answer: &Receiver<T>) -> Result<T, StartError> {
        let asked = Instant::now();
        loop {
            let why = match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() < ANSWER && !self.state.is_abandoned() => continue,
                Err(RecvTimeoutError::Timeout) => "it does not answer",
                Err(RecvTimeoutError::Disconnected) => "it is not running",
            };
            return Err(StartError::DataPath(why.into()));
        }
    }

    /// Makes the thread write a list of the packets that it holds to `file`, and end. The receiver gets the length of the list.
    pub fn list_held(&self, file: &Arc<fs::File>) -> Option<Receiver<u64>> {
        if self.state.is_abandoned() || self.state.page.turn() != Turn::Shaper {
            return None;
        }
        self.ask(|count| Command::Leave(Arc::clone(file), count)).ok()
    }

    /// Whether the thread was neither joined nor detached.
    pub fn is_running(&self) -> bool {
        self.worker.is_some()
    }
    /// Waits for the end of a thread that was told to end.
    pub fn join(&mut self) -> Result<WorkerCounts, StartError> {
        match self.worker.take().map(JoinHandle::join) {
            Some(Ok(counts)) => counts.map_err(StartError::Netlink),
            Some(Err(_)) => Err(StartError::DataPath("it panicked".into())),
            None => Ok(WorkerCounts::default()),
        }
    }
    /// Waits for the end of an abandoned thread until `deadline`, and no longer; returns whether it has ended. One that is
    /// stuck ends without touching a packet when it wakes.
    pub fn detach(&mut self, deadline: Instant) -> bool {
        let Some(worker) = self.worker.take() else { return true };
        while !worker.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_micros(100));
        }
        worker.is_finished()
    }
}
