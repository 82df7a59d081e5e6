//! The guardian of a data path, and what one data path leaves to the next.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_engine::guard::lock;

use super::division::{Bound, Division};
use super::error::{StartError, no_queue, permission, system};
use super::thread::PathThread;
use super::{Options, Shaping};
use crate::guardian::{self, Condition, Guardian, Left, Page, Reason, Shared};
use crate::nfqueue::{QueueSettings, QueueSocket, Releaser, Superpackets};
use crate::rules::{Direction, Interface, Rules, Spec, table_name};

/// How long a data path may take to end its turn when it is replaced.
pub(super) const LAST_TURN: Duration = Duration::from_millis(200);

/// The queues and rules of a data path that has ended, served by its guardians until another data path takes them over.
/// When it is dropped the guardians wait for a successor for a while, and then remove the rules.
#[derive(Debug)]
pub struct Inherited {
    /// Of each thread.
    threads: Vec<LeftThread>,
    division: Division,
}

#[derive(Debug)]
struct LeftThread {
    shared: Shared,
    queues: [u16; 2],
    from: From,
}

/// When the next data path comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Successor {
    /// At once: packets wait for it, for 40 ms at most.
    Ready,
    /// Later, or never: packets pass meanwhile.
    Later,
}

/// Whose data path it was.
#[derive(Debug)]
enum From {
    /// Of this process.
    Own(Box<Guardian>),
    /// Of another one, whose guardian is at the other end and has a socket of this path.
    Other(OwnedFd, PathBuf),
}

impl Inherited {
    /// What an earlier shaper of one of the interfaces has left.
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

    /// How flows are divided over its threads.
    pub(super) fn division(&self) -> Division {
        self.division
    }

    /// The file with the list of what a thread held.
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

    /// The rules, as `spec` has them.
    pub(super) fn rules(&self, spec: &Spec) -> Result<Rules, StartError> {
        let owner = self.threads[0].shared.rules.try_clone().map_err(system("share the socket of the rules"))?;
        Ok(Rules::adopt(owner, spec)?)
    }

    /// Ends it in order: what is held passes, later packets pass the queues by, then the rules are removed.
    pub(super) fn end(self, spec: &Spec) -> Result<(), StartError> {
        for LeftThread { shared, queues, .. } in &self.threads {
            let socket = shared.queue.try_clone().map_err(system("share the queue socket"))?;
            Releaser::new(socket, *queues).close(shared.page.received())?;
        }
        let (threads, divided_by) = (self.threads.len() as u16, self.division.by);
        let spec = Spec { queue: self.threads[0].queues[0], threads, divided_by, ..spec.clone() };
        self.rules(&spec)?.remove()?;
        for LeftThread { from, .. } in self.threads {
            match from {
                From::Other(peer, socket) => {
                    Left::relieve(peer);
                    // Those of the next data path may be fewer. What remains otherwise is a name without a listener.
                    let _ = fs::remove_file(socket);
                }
                From::Own(guardian) => guardian.end(),
            }
        }
        Ok(())
    }
}

impl Shaping {
    /// Starts the guardians, or others in the place of those that served what was left.
    pub(super) fn guard(&mut self, settings: Option<&guardian::Settings>, left: Option<Inherited>) {
        let Some(settings) = settings else { return };
        let mut left = left.map_or_else(Vec::new, |left| left.threads).into_iter();
        for at in 0..self.threads.len() {
            let left = left.next();
            let prepared = self.prepare(at, settings, left.as_ref().map(|left| Arc::clone(&left.shared.state)));
            match left.map(|left| left.from) {
                Some(From::Other(peer, _)) => Left::relieve(peer),
                Some(From::Own(earlier)) => earlier.replace(prepared.as_ref().ok()),
                None => {}
            }
            self.begin(at, prepared);
        }
    }

    /// Has a guardian that is prepared watch a thread.
    fn begin(&mut self, at: usize, prepared: io::Result<Guardian>) {
        match prepared {
            Ok(guardian) => {
                guardian.watch();
                self.threads[at].state.guarded.store(true, Ordering::Relaxed);
                self.threads[at].guardian = Some(guardian);
            }
            Err(error) => self.unguarded = Some(error.to_string()),
        }
    }

    /// Follows the interface that was called `earlier`, which has another name or another index since, while packets are
    /// shaped as before. Does nothing if that is not one of these interfaces.
    ///
    /// # Errors
    /// See [`RulesError`](crate::rules::RulesError): the rules are as before then.
    pub fn follow(&mut self, earlier: &str, name: &str, index: u32) -> Result<(), StartError> {
        let Some(at) = self.interfaces.iter().position(|interface| interface.name() == earlier) else { return Ok(()) };
        if let Some(path) = &mut self.kernel {
            path.follow(name, index, &self.config)?;
        }
        let mut spec = self.spec.clone();
        spec.interfaces[at] = Interface { name: name.into(), index };
        self.rules.as_mut().map_or(Ok(()), |rules| rules.follow(&spec)).map_err(permission)?;
        self.spec = spec;
        self.interfaces[at].rename(name);
        self.interfaces[at].set_index(Some(index));
        // A successor looks for sockets of the new name, which is that of the first interface.
        for thread in 0..self.threads.len() {
            if name != earlier
                && at == 0
                && let Some(guardian) = self.threads[thread].guardian.take()
            {
                let prepared = self.prepare(thread, guardian.settings(), Some(Arc::clone(guardian.state())));
                guardian.replace(prepared.as_ref().ok());
                self.begin(thread, prepared);
            }
        }
        Ok(())
    }

    fn prepare(&self, at: usize, settings: &guardian::Settings, state: Option<Arc<File>>) -> io::Result<Guardian> {
        let thread = &self.threads[at];
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
        let name = guardian::socket_name(&table_name(self.interfaces[0].name(), self.direction), at)?;
        Guardian::prepare(settings, shared, thread.queues, Division::of(&self.config).key(), &name)
    }

    /// The guardians that there are, of the threads in their order.
    pub fn guardians(&self) -> impl Iterator<Item = &Guardian> {
        self.threads.iter().filter_map(|thread| thread.guardian.as_ref())
    }
    /// Why there is no guardian, although one was asked for.
    pub fn unguarded(&self) -> Option<&str> {
        self.unguarded.as_deref()
    }
    /// What the guardian of each thread has done.
    pub fn pages(&self) -> impl Iterator<Item = &Page> {
        self.threads.iter().map(|thread| &*thread.state.page)
    }

    /// Looks at the guardians, and starts others in the place of those that have ended or stopped. Of several conditions the
    /// worst is returned.
    pub fn tend_guardian(&mut self) -> Condition {
        let mut worst = Condition::Watching;
        for PathThread { guardian, state, .. } in &mut self.threads {
            let Some(guardian) = guardian else { continue };
            let condition = guardian.tend();
            state.guarded.store(guardian.process().is_some(), Ordering::Relaxed);
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

    /// Ends the data path and leaves its queues, with the packets in them, and its rules to another one; the guardians
    /// serve them meanwhile. Without a guardian of each thread shaping ends in order, and nothing is left.
    #[must_use]
    pub fn leave(mut self, successor: Successor) -> Option<Inherited> {
        // One that has ended or stopped is replaced first.
        self.tend_guardian();
        let is_there = |guardian: &Guardian| guardian.process().is_some();
        if self.guardians().filter(|guardian| is_there(guardian)).count() < self.threads.len() {
            return None;
        }
        let division = Division::of(&self.config);
        // All at once: what a thread holds waits from its end on.
        let list = |thread: &PathThread| thread.list_held(thread.guardian.as_ref()?.state());
        let listing: Vec<_> = match successor {
            Successor::Ready => self.threads.iter().map(list).collect(),
            Successor::Later => self.threads.iter().map(|_| None).collect(),
        };
        let listed: Vec<u64> = listing
            .into_iter()
            .map(|listing| listing.and_then(|length| length.recv_timeout(LAST_TURN).ok()).unwrap_or(0))
            .collect();
        for thread in &self.threads {
            thread.state.abandon();
            thread.wake();
        }
        let deadline = Instant::now() + LAST_TURN;
        let mut left = Vec::new();
        for (mut thread, held) in self.threads.drain(..).zip(listed) {
            if thread.detach(deadline) {
                thread.state.page.set_held(held);
            }
            thread.state.page.take(Reason::Asked);
            let guardian = thread.guardian.take()?;
            guardian.notify();
            let shared = guardian.share().ok()?;
            left.push(LeftThread { shared, queues: thread.queues, from: From::Own(Box::new(guardian)) });
        }
        if let Some(rules) = self.rules.take() {
            rules.leave();
        }
        Some(Inherited { threads: left, division })
    }

    /// Replaces what a successor of this process will find, see [`left_state`](Self::left_state).
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn set_state(&self, bytes: &[u8]) -> io::Result<()> {
        self.guardians().next().map_or(Ok(()), |guardian| write_state(guardian.state(), bytes))
    }

    /// What the predecessor left by [`set_state`](Self::set_state), if it is whole.
    pub fn left_state(&self) -> Option<Vec<u8>> {
        read_state(self.guardians().next()?.state())
    }
}

/// The halves of the file of the state: one is written while the other is valid.
const HALF: u64 = 8 << 20;

/// The file begins with the number of the valid half, and each half with the length of its contents: a process that is
/// killed while it writes leaves what it wrote before.
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
