//! The guardian of a data path, and what one data path leaves to the next.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_engine::guard::lock;

use super::error::{StartError, no_queue, permission, system};
use super::{Options, Shaping};
use crate::guardian::{self, Condition, Guardian, Left, Page, Reason, Shared};
use crate::nfqueue::{QueueReport, QueueSettings, QueueSocket, Superpackets};
use crate::rules::{Direction, Interface, Rules, Spec, table_name};

/// How long a data path may take to end its turn when it is replaced.
pub(super) const LAST_TURN: Duration = Duration::from_millis(200);

/// The queues and rules of a data path that has ended, served by its guardian until another data path takes them over.
/// When it is dropped the guardian waits for a successor for a while, and then removes the rules.
#[derive(Debug)]
pub struct Inherited {
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
    /// Of another one, whose guardian is at the other end.
    Other(OwnedFd),
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
                let name = guardian::socket_name(&table_name(interface, direction))?;
                if let Some(left) = Left::find(settings, &name)? {
                    return Ok(Some(left));
                }
            }
            Ok(None)
        };
        let Some(left) = find().map_err(take_over)? else { return Ok(None) };
        let (shared, queues, peer) = left.into_parts();
        Ok(Some(Self { shared, queues, from: From::Other(peer) }))
    }

    /// The file with the list of what was held.
    pub(super) fn list(&self) -> Arc<File> {
        Arc::clone(&self.shared.state)
    }

    pub(super) fn page(&self) -> Arc<Page> {
        Arc::clone(&self.shared.page)
    }

    /// The queues with their socket.
    pub(super) fn queues(
        &self,
        settings: &QueueSettings,
    ) -> Result<(QueueSocket, [u16; 2], Vec<QueueReport>), StartError> {
        let cutting = QueueSettings { superpackets: Superpackets::Segmented, ..*settings };
        let [whole, cut] = self.queues;
        let queue = self.shared.queue.try_clone().map_err(system("share the queue socket"))?;
        let (socket, reports) = QueueSocket::adopt(queue, &[(whole, *settings), (cut, cutting)]).map_err(no_queue)?;
        Ok((socket, self.queues, reports))
    }

    /// The rules, as `spec` has them.
    pub(super) fn rules(&self, spec: &Spec) -> Result<Rules, StartError> {
        let owner = self.shared.rules.try_clone().map_err(system("share the socket of the rules"))?;
        Ok(Rules::adopt(owner, spec)?)
    }
}

impl Shaping {
    /// Starts the guardian, or another one in the place of the one that served what was left.
    pub(super) fn guard(&mut self, settings: Option<&guardian::Settings>, left: Option<Inherited>) {
        let Some(settings) = settings else { return };
        let prepared = self.prepare(settings, left.as_ref().map(|left| Arc::clone(&left.shared.state)));
        match left.map(|left| left.from) {
            Some(From::Other(peer)) => Left::relieve(peer),
            Some(From::Own(earlier)) => earlier.replace(prepared.as_ref().ok()),
            None => {}
        }
        self.begin(prepared);
    }

    /// Has a guardian that is prepared watch.
    fn begin(&mut self, prepared: std::io::Result<Guardian>) {
        match prepared {
            Ok(guardian) => {
                guardian.watch();
                self.state.guarded.store(true, Ordering::Relaxed);
                self.guardian = Some(guardian);
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
        // A successor looks for a socket of the new name, which is that of the first interface.
        if name != earlier
            && at == 0
            && let Some(guardian) = self.guardian.take()
        {
            let prepared = self.prepare(guardian.settings(), Some(Arc::clone(guardian.state())));
            guardian.replace(prepared.as_ref().ok());
            self.begin(prepared);
        }
        Ok(())
    }

    fn prepare(&self, settings: &guardian::Settings, state: Option<Arc<File>>) -> std::io::Result<Guardian> {
        let owner = match &self.rules {
            Some(rules) => rules.owner()?,
            None => return Err(std::io::Error::other("there are no rules")),
        };
        let queue = match &*lock(&self.state.releaser) {
            Some(releaser) => releaser.as_fd().try_clone_to_owned()?,
            None => return Err(std::io::Error::other("the data path has ended")),
        };
        let state = match state {
            Some(state) => state,
            None => Arc::new(guardian::state_file()?),
        };
        let shared = Shared { queue, rules: owner, page: Arc::clone(&self.state.page), state };
        let name = guardian::socket_name(&table_name(self.interfaces[0].name(), self.direction))?;
        Guardian::prepare(settings, shared, self.queues, &name)
    }

    /// The guardian, if there is one.
    pub fn guardian(&self) -> Option<&Guardian> {
        self.guardian.as_ref()
    }
    /// Why there is no guardian, although one was asked for.
    pub fn unguarded(&self) -> Option<&str> {
        self.unguarded.as_deref()
    }
    /// What the guardian has done.
    pub fn page(&self) -> &Page {
        &self.state.page
    }

    /// Looks at the guardian, and starts another one in the place of one that has ended or stopped.
    pub fn tend_guardian(&mut self) -> Condition {
        let Some(guardian) = &mut self.guardian else { return Condition::Watching };
        let condition = guardian.tend();
        self.state.guarded.store(guardian.process().is_some(), Ordering::Relaxed);
        match &condition {
            Condition::Missing(why) => self.unguarded = Some(why.clone()),
            Condition::Restarted(_) => self.unguarded = None,
            Condition::Watching | Condition::Successor => {}
        }
        condition
    }

    /// Ends the data path and leaves its queues, with the packets in them, and its rules to another one; the guardian
    /// serves them meanwhile. Without a guardian shaping ends in order, and nothing is left.
    #[must_use]
    pub fn leave(mut self, successor: Successor) -> Option<Inherited> {
        // One that has ended or stopped is replaced first.
        self.tend_guardian();
        let guardian = self.guardian.take_if(|guardian| guardian.process().is_some())?;
        let listed = match successor {
            Successor::Ready => self.list_held(guardian.state()),
            Successor::Later => 0,
        };
        self.state.abandon();
        self.wake();
        let asked = Instant::now();
        let mut ended = false;
        while !ended && asked.elapsed() < LAST_TURN {
            ended = self.worker.as_ref().is_none_or(JoinHandle::is_finished);
            if !ended {
                thread::sleep(Duration::from_micros(100));
            }
        }
        // A thread that is stuck ends without touching a packet when it wakes.
        drop(self.worker.take());
        if ended {
            self.state.page.set_held(listed);
        }
        self.state.page.take(Reason::Asked);
        guardian.notify();
        if let Some(rules) = self.rules.take() {
            rules.leave();
        }
        let shared = guardian.share().ok()?;
        Some(Inherited { shared, queues: self.queues, from: From::Own(Box::new(guardian)) })
    }

    /// Replaces what a successor of this process will find, see [`left_state`](Self::left_state).
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn set_state(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.guardian.as_ref().map_or(Ok(()), |guardian| write_state(guardian.state(), bytes))
    }

    /// What the predecessor left by [`set_state`](Self::set_state), if it is whole.
    pub fn left_state(&self) -> Option<Vec<u8>> {
        read_state(self.guardian.as_ref()?.state())
    }
}

/// The halves of the file of the state: one is written while the other is valid.
const HALF: u64 = 8 << 20;

/// The file begins with the number of the valid half, and each half with the length of its contents: a process that is
/// killed while it writes leaves what it wrote before.
fn write_state(file: &File, bytes: &[u8]) -> std::io::Result<()> {
    if bytes.len() as u64 > HALF - 8 {
        return Err(std::io::Error::other("it is longer than 8 MiB"));
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
