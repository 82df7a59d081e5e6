//! The guardians of a data path, and [`Inherited`], by which one data path leaves its queues to the next.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_engine::guard::lock;

use super::division::{Bound, Division};
use super::{Queue, Served};
use crate::guardian::{self, Aside, Condition, Guardian, Left, Page, Shared};
use crate::nfqueue::{QueueSettings, QueueSocket, Releaser, Superpackets};
use crate::rules::{Direction, Rules, Spec, prefix, table_name};
use crate::shaping::Shaping;
use crate::shaping::error::{StartError, no_queue, permission, system};
use crate::shaping::options::Options;
use crate::shaping::running::Running;
use crate::shaping::thread::PathThread;

/// How long a data path may take to end its turn when it is replaced.
pub(super) const LAST_TURN: Duration = Duration::from_millis(200);

/// The queues and rules of a data path that has ended, served by its guardians until another data path takes them over.
/// When it is dropped the guardians wait for a successor for a while, and then remove the rules.
#[derive(Debug)]
pub struct Inherited {
    threads: Vec<LeftThread>,
    division: Division,
}

#[derive(Debug)]
struct LeftThread {
    shared: Shared,
    queues: [u16; 2],
    from: From,
}

/// The time at which the next data path comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Successor {
    /// At once: packets wait for it, for 40 ms at most.
    Ready,
    /// Later, or never: packets pass meanwhile.
    Later,
}

/// The process whose data path it was.
#[derive(Debug)]
enum From {
    /// This process, which has their guardian.
    Own(Box<Guardian>),
    /// Another process. Its guardian is at the other end of the descriptor, and listens at this path.
    Other(OwnedFd, PathBuf),
}

impl From {
    fn socket_name(&self) -> String {
        match self {
            Self::Own(guardian) => guardian.socket_name(),
            Self::Other(_, socket) => {
                socket.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
        }
    }
    /// The connection with its guardian.
    fn connection(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Own(guardian) => guardian.connection(),
            Self::Other(peer, _) => Some(peer.as_fd()),
        }
    }
    /// The directory of its socket.
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Own(guardian) => guardian.settings().directory.as_deref(),
            Self::Other(_, socket) => socket.parent(),
        }
    }
}

impl Inherited {
    /// Looks for guardians of an earlier shaper of one of the interfaces.
    pub(super) fn find(
        options: &Options,
        interfaces: &[String],
        direction: Direction,
    ) -> Result<Option<Self>, StartError> {
        let Some(settings) = &options.guardian else { return Ok(None) };
        let take_over = system("take over from the shaper that runs");
        let find = || {
            for interface in interfaces {
                let left = Left::find(settings, &table_name(interface, direction))?;
                if let Some(division) = left.first().map(|first| Division::from_key(left.len(), first.division)) {
                    let division = division.ok_or_else(|| io::Error::other("a thread of it has no guardian"))?;
                    return Ok(Some((left, division)));
                }
            }
            Ok(None)
        };
        let Some((left, division)) = find().map_err(take_over)? else { return Ok(None) };
        let thread = |Left { shared, queues, guardian, socket, .. }| LeftThread {
            shared,
            queues,
            from: From::Other(guardian, socket),
        };
        Ok(Some(Self { threads: left.into_iter().map(thread).collect(), division }))
    }

    /// The division of flows over its threads.
    pub(super) fn division(&self) -> Division {
        self.division
    }

    /// The file with the list of packets that a thread held.
    pub(super) fn list(&self, thread: usize) -> Arc<File> {
        Arc::clone(&self.threads[thread].shared.state)
    }

    pub(super) fn page(&self, thread: usize) -> Arc<Page> {
        Arc::clone(&self.threads[thread].shared.page)
    }

    /// The queues of each thread with their socket.
    pub(super) fn queues(&self, settings: &QueueSettings) -> Result<Vec<Bound>, StartError> {
        let cutting = QueueSettings { superpackets: Superpackets::Segmented, ..*settings };
        let adopt = |LeftThread { shared, queues, .. }: &LeftThread| {
            let [whole, cut] = *queues;
            let socket = shared.queue.try_clone().map_err(system("share the queue socket"))?;
            let adopted = QueueSocket::adopt(socket, &[(whole, *settings), (cut, cutting)]);
            let (socket, reports) = adopted.map_err(no_queue)?;
            Ok((socket, *queues, reports))
        };
        self.threads.iter().map(adopt).collect()
    }

    /// The rules, checked against `spec`.
    pub(super) fn rules(&self, spec: &Spec) -> Result<Rules, StartError> {
        let owner = self.threads[0].shared.rules.try_clone().map_err(system("share the socket of the rules"))?;
        Ok(Rules::adopt(owner, spec)?)
    }

    /// Ends it in order: held packets pass, later packets bypass the queues, then the rules are removed.
    pub(super) fn end(self, spec: &Spec) -> Result<(), StartError> {
        for LeftThread { shared, queues, .. } in &self.threads {
            let socket = shared.queue.try_clone().map_err(system("share the queue socket"))?;
            Releaser::new(socket, *queues).close(shared.page.received())?;
        }
        let (threads, divided_by) = (self.threads.len() as u16, self.division.by);
        let spec = Spec { queue: self.threads[0].queues[0], threads, divided_by, ..spec.clone() };
        let own: Vec<String> = self.socket_names().collect();
        let aside = Aside::ask(self.threads[0].from.directory(), "", &own);
        self.rules(&spec)?.remove()?;
        drop(aside);
        self.end_guardians();
        Ok(())
    }

    /// The names of the sockets of the guardians.
    pub(super) fn socket_names(&self) -> impl Iterator<Item = String> {
        self.threads.iter().map(|thread| thread.from.socket_name())
    }

    /// Ends the guardians, after the rules have been removed and no packet is held.
    pub(super) fn end_guardians(self) {
        for LeftThread { from, .. } in self.threads {
            match from {
                From::Other(peer, socket) => {
                    Left::relieve(peer);
                    // The next data path may have fewer guardians. Otherwise a name without a listener would remain.
                    let _ = fs::remove_file(socket);
                }
                From::Own(guardian) => guardian.end(),
            }
        }
    }
}

impl Queue {
    /// Leads packets to the queues, unless the rules of an earlier data path do, and has the threads receive them.
    ///
    /// # Errors
    /// When the packet filter takes no rules, or another instance shapes the interface.
    pub(in crate::shaping) fn begin(&mut self, running: &Running) -> Result<(), StartError> {
        if self.rules.is_none() {
            // The chains of the other direction are at another hook.
            let _aside = Aside::ask(self.directory.as_deref(), prefix(self.spec.direction), &[]);
            self.rules = Some(Rules::install(&self.spec).map_err(permission)?);
        }
        running.threads.iter().for_each(PathThread::begin);
        Ok(())
    }

    /// Starts the guardians, which replace those of an earlier data path.
    pub(in crate::shaping) fn start_guardians(&mut self, running: &Running, settings: &guardian::Settings) {
        let left = self.left.take();
        let mut left = left.map_or_else(Vec::new, |left| left.threads).into_iter();
        for (at, thread) in running.threads.iter().enumerate() {
            let left = left.next();
            let state = left.as_ref().map(|left| Arc::clone(&left.shared.state));
            let prepared = self.prepare_guardian(at, thread, settings, state);
            self.watch(at, thread, prepared, left.map(|left| left.from));
        }
    }

    /// Replaces the guardians by others, whose sockets have the present name of the interface.
    pub(super) fn rename_guardians(&mut self, running: &Running) {
        for (at, thread) in running.threads.iter().enumerate() {
            if let Some(guardian) = self.served[at].guardian.take() {
                let state = Some(Arc::clone(guardian.state()));
                let prepared = self.prepare_guardian(at, thread, guardian.settings(), state);
                self.watch(at, thread, prepared, Some(From::Own(Box::new(guardian))));
            }
        }
    }

    /// Has a guardian that is prepared watch a thread, in the place of an earlier one.
    fn watch(&mut self, at: usize, thread: &PathThread, prepared: io::Result<Guardian>, earlier: Option<From>) {
        if let Ok(guardian) = &prepared {
            guardian.watch(earlier.as_ref().and_then(From::connection));
        }
        match earlier {
            Some(From::Other(peer, _)) => Left::relieve(peer),
            Some(From::Own(earlier)) => earlier.replace(prepared.as_ref().ok()),
            None => {}
        }
        match prepared {
            Ok(guardian) => {
                guardian.take_name();
                thread.state.guarded.store(true, Ordering::Relaxed);
                self.served[at].guardian = Some(guardian);
            }
            Err(error) => self.unguarded = Some(error.to_string()),
        }
    }

    fn prepare_guardian(
        &self,
        at: usize,
        thread: &PathThread,
        settings: &guardian::Settings,
        state: Option<Arc<File>>,
    ) -> io::Result<Guardian> {
        let owner = match &self.rules {
            Some(rules) => rules.owner()?,
            None => return Err(io::Error::other("there are no rules")),
        };
        let queue = match &*lock(&thread.state.releaser) {
            Some(releaser) => releaser.as_fd().try_clone_to_owned()?,
            None => return Err(io::Error::other("the data path has ended")),
        };
        let state = match state {
            Some(state) => state,
            None => Arc::new(guardian::state_file()?),
        };
        let shared = Shared { queue, rules: owner, page: Arc::clone(&thread.state.page), state };
        let name = guardian::socket_name(&table_name(&self.spec.interfaces[0].name, self.spec.direction), at)?;
        Guardian::prepare(settings, shared, self.served[at].queues, self.division.key(), &name)
    }

    pub(super) fn guardians(&self) -> impl Iterator<Item = &Guardian> {
        self.served.iter().filter_map(|served| served.guardian.as_ref())
    }

    /// See [`Shaping::tend_guardian`].
    fn tend(&mut self, running: &Running) -> Condition {
        let mut worst = Condition::Watching;
        for (Served { guardian, .. }, thread) in self.served.iter_mut().zip(&running.threads) {
            let Some(guardian) = guardian else { continue };
            let condition = guardian.tend();
            thread.state.guarded.store(guardian.process().is_some(), Ordering::Relaxed);
            match &condition {
                Condition::Missing(why) => self.unguarded = Some(why.clone()),
                Condition::Restarted(_) => self.unguarded = None,
                Condition::Watching | Condition::Successor => {}
            }
            // A successor asks all of them, so that another guardian reports it again.
            let is_worse = match worst {
                Condition::Watching => true,
                Condition::Successor => matches!(condition, Condition::Missing(_) | Condition::Restarted(_)),
                Condition::Restarted(_) => matches!(condition, Condition::Missing(_)),
                Condition::Missing(_) => false,
            };
            if is_worse {
                worst = condition;
            }
        }
        worst
    }

    /// See [`Shaping::leave`].
    fn leave(&mut self, running: &mut Running, successor: Successor) -> Option<Inherited> {
        // A guardian that has ended or stopped is replaced first.
        self.tend(running);
        let is_there = |guardian: &Guardian| guardian.process().is_some();
        if self.guardians().filter(|guardian| is_there(guardian)).count() < running.threads.len() {
            return None;
        }
        // All at once: the packets of a thread wait from its end on.
        let list = |(served, thread): (&Served, &PathThread)| thread.list_held(served.guardian.as_ref()?.state());
        let listing: Vec<_> = match successor {
            Successor::Ready => self.served.iter().zip(&running.threads).map(list).collect(),
            Successor::Later => running.threads.iter().map(|_| None).collect(),
        };
        let listed: Vec<u64> = listing
            .into_iter()
            .map(|listing| listing.and_then(|length| length.recv_timeout(LAST_TURN).ok()).unwrap_or(0))
            .collect();
        for thread in &running.threads {
            thread.state.abandon();
            thread.wake();
        }
        let deadline = Instant::now() + LAST_TURN;
        let mut left = Vec::new();
        for ((mut thread, held), served) in running.threads.drain(..).zip(listed).zip(&mut self.served) {
            // A thread that does not end may go on with what it holds.
            let held = if thread.detach(deadline) { held } else { 0 };
            thread.state.page.leave(held);
            let guardian = served.guardian.take()?;
            guardian.notify();
            let shared = guardian.share().ok()?;
            left.push(LeftThread { shared, queues: served.queues, from: From::Own(Box::new(guardian)) });
        }
        if let Some(rules) = self.rules.take() {
            rules.leave();
        }
        Some(Inherited { threads: left, division: self.division })
    }
}

impl Shaping {
    /// The running guardians, in the order of the threads.
    pub fn guardians(&self) -> impl Iterator<Item = &Guardian> {
        self.backend.queue().into_iter().flat_map(Queue::guardians)
    }
    /// Why there is no guardian, although one was asked for.
    pub fn unguarded(&self) -> Option<&str> {
        self.backend.queue()?.unguarded.as_deref()
    }
    /// The page that each thread shares with its guardian.
    pub fn pages(&self) -> impl Iterator<Item = &Page> {
        self.running.threads.iter().map(|thread| &*thread.state.page)
    }

    /// Checks the guardians, and starts others in the place of those that have ended or stopped. Of several conditions the
    /// worst is returned.
    pub fn tend_guardian(&mut self) -> Condition {
        let Self { backend, running, .. } = self;
        backend.queue_mut().map_or(Condition::Watching, |queue| queue.tend(running))
    }

    /// Ends the data path and leaves its queues, with the packets in them, and its rules to another one; the guardians
    /// serve them meanwhile. Without a guardian of each thread shaping ends in order, and nothing is left.
    #[must_use]
    pub fn leave(mut self, successor: Successor) -> Option<Inherited> {
        let Self { backend, running, .. } = &mut self;
        backend.queue_mut()?.leave(running, successor)
    }

    /// Replaces the state that a successor finds by [`left_state`](Self::left_state).
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn set_state(&self, bytes: &[u8]) -> io::Result<()> {
        self.guardians().next().map_or(Ok(()), |guardian| write_state(guardian.state(), bytes))
    }

    /// The state that the predecessor left by [`set_state`](Self::set_state), if it is complete; until [`prove`](Self::prove).
    pub fn left_state(&self) -> Option<Vec<u8>> {
        read_state(&self.backend.queue()?.left.as_ref()?.list(0))
    }
}

/// The halves of the file of the state: one is written while the other is valid.
const HALF: u64 = 8 << 20;

/// The file begins with the number of the valid half, and each half with the length of its contents: a process that is
/// killed while it writes leaves the earlier half valid.
fn write_state(file: &File, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() as u64 > HALF - 8 {
        return Err(io::Error::other("it is longer than 8 MiB"));
    }
    let mut valid = [0; 1];
    let next = if file.read_at(&mut valid, 0)? == 1 && valid[0] == 1 { 2 } else { 1 };
    let at = 8 + u64::from(next - 1) * HALF;
    file.write_all_at(&(bytes.len() as u64).to_ne_bytes(), at)?;
    file.write_all_at(bytes, at + 8)?;
    file.write_all_at(&[next], 0)
}

fn read_state(file: &File) -> Option<Vec<u8>> {
    let (mut valid, mut length) = ([0; 1], [0; 8]);
    file.read_exact_at(&mut valid, 0).ok()?;
    let at = 8 + u64::from(valid[0].checked_sub(1)?) * HALF;
    file.read_exact_at(&mut length, at).ok()?;
    let length = u64::from_ne_bytes(length);
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length < HALF)?];
    file.read_exact_at(&mut bytes, at + 8).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_what_was_written_last_as_a_whole() {
        let file = guardian::state_file().unwrap();
        assert_eq!(read_state(&file), None);
        write_state(&file, b"one").unwrap();
        assert_eq!(read_state(&file).as_deref(), Some(&b"one"[..]));
        write_state(&file, b"two and more").unwrap();
        assert_eq!(read_state(&file).as_deref(), Some(&b"two and more"[..]));
        // Killed before the number of the half was written.
        file.write_all_at(b"torn", 16).unwrap();
        assert_eq!(read_state(&file).as_deref(), Some(&b"two and more"[..]));
        assert!(write_state(&file, &vec![0; HALF as usize]).is_err());
    }
}
