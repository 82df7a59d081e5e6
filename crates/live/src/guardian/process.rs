//! The process of the guardian.
//!
//! After its preparation it allocates nothing and opens nothing; of packets it reads the queue and the id.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::SocketFlags;
use tidegate_sys::net::receive_netlink;
use tidegate_sys::process::take_stdin;
use tidegate_sys::time::Readable;
use tidegate_units::{Instant, Span};

use super::message::{self, ASIDE, GO, HELD, Kept, LONGEST, READY, REPLACED, SUCCESSOR, TAKE};
use super::page::{Ending, Page, Reason, Turn};
use super::preparation::{become_independent, prepare, restrict};
use super::speaker::{LONGEST_LINE, Speaker};
use crate::netlink::send_bytes;
use crate::nfqueue::release;
use crate::privileges::Capabilities;
use crate::timing;

/// The interval between checks of the shaper's progress.
const CHECK: Span = Span::from_millis(50);
/// The checks without progress after which the shaper has stopped. Checks are counted, not time: a machine that was
/// suspended has checked once. A data path that runs makes a turn every 100 ms, see
/// [`LONGEST_WAIT`](super::LONGEST_WAIT).
const CHECKS: u32 = 7;
/// The longest wait while packets pass.
const PASSING: Span = Span::from_millis(5);
/// How long packets wait for the next data path before they pass.
const HOLD: Span = Span::from_millis(40);

/// How often to look whether the shaper has left the turn to the guardian that asked for it.
const YIELDING: Span = Span::from_micros(500);
/// How long another data path that adds or removes a chain waits for it: an idle shaper makes a turn every 100 ms.
const LONGEST_ANSWER: Span = Span::from_millis(120);
/// How long packets pass at most while another data path does so: it takes some 20 ms, and more on a busy machine.
const LONGEST_ASIDE: Span = Span::from_millis(500);

/// How long an earlier guardian may take to end when the shaper has ended: it was told so before that, or it goes on.
const ENDING: Span = Span::from_millis(500);

/// The time in which all guardians of a shaper have ended queueing when no successor came. They begin within some milliseconds of each
/// other.
const ALL_END: Span = Span::from_millis(600);
const _: () = assert!(ALL_END.as_nanos() > release::LONGEST_BURST.as_nanos());

/// A pause between packets in which queueing ends.
const PAUSE: Duration = Duration::from_millis(1);

/// The packets of one system call.
const BATCH: usize = 64;
/// The bytes that are read of a packet's message: its headers and the first attribute, which has the packet's id.
const HEADERS: usize = 32;
const MSG_PACKET: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8 | libc::NFQNL_MSG_PACKET as u16;

/// Runs the guardian of the shaper at the other end of standard input. Returns when it has nothing to guard any more.
///
/// # Errors
/// When standard input is not the socket of a shaper.
pub fn run() -> io::Result<()> {
    become_independent();
    let control = take_stdin()?;
    let mut setup = [0; LONGEST];
    let mut descriptors = [const { None }; HELD + 1];
    let length = message::receive(control.as_fd(), &mut setup, &mut descriptors)?;
    let missing = || io::Error::other("it is started by `tidegate run`, not by hand");
    let kept = Kept::decode(&setup[..length]).ok_or_else(missing)?;
    let [queue, rules, page, state, listener] = descriptors;
    let (Some(queue), Some(rules), Some(page), Some(state)) = (queue, rules, page, state) else {
        return Err(missing());
    };
    // Mapped before memory is locked and the limit of locked memory applies again.
    let page = Page::open(page)?;
    // The first look at the clock finds out how, which cannot be done any more later; so it is with the own number.
    let (checked, own) = (timing::now(), std::process::id());
    let shaper = process_of(control.as_fd());
    // Before the privileges go that starting a thread takes.
    let speaker = Speaker::start(|| restrict(Capabilities::NONE));
    let (speaker, is_restricted) = speaker.map_or((None, true), |(speaker, restricted)| (Some(speaker), restricted));
    let granted = prepare(kept.queues[0]);
    let dropped = granted.dropped && is_restricted;
    let mut guard = Guard {
        page,
        queue,
        rules,
        state,
        listener,
        kept,
        setup,
        length,
        control: Some(control),
        caller: None,
        successor: None,
        other: None,
        begun: false,
        holding: None,
        beats: 0,
        quiet: 0,
        checked,
        gone: None,
        own,
        shaper,
        passed: 0,
        speaker,
    };
    guard.send_control(&[READY, granted.locked.into(), granted.real_time.into(), dropped.into()]);
    // Otherwise the shaper has ended or has changed its mind.
    if guard.begins() {
        guard.say(format_args!("watches process {}", guard.shaper));
        guard.watch();
    }
    // Whoever waits for the end of this guardian does not wait for its log.
    let speaker = guard.speaker.take();
    drop(guard);
    if let Some(speaker) = speaker {
        speaker.end();
    }
    Ok(())
}

struct Guard {
    page: Page,
    queue: OwnedFd,
    /// The socket that owns the rules: they last as long as it.
    rules: OwnedFd,
    /// The state of the shaper for its successor. The guardian does not read it.
    state: OwnedFd,
    listener: Option<OwnedFd>,
    kept: Kept,
    /// The message that this guardian was set up with, for a successor.
    setup: [u8; LONGEST],
    length: usize,
    /// The shaper, until it ends.
    control: Option<OwnedFd>,
    /// A peer that has connected and has not said yet what it wants.
    caller: Option<OwnedFd>,
    /// A successor that waits for the end of the shaper.
    successor: Option<OwnedFd>,
    /// Another data path that adds or removes a chain. The turn is not given back before it has.
    other: Option<Other>,
    /// Whether the packets that were held at the beginning of this turn have been accepted.
    begun: bool,
    /// Since when packets wait for the next data path.
    holding: Option<Instant>,
    beats: u64,
    quiet: u32,
    checked: Instant,
    gone: Option<Instant>,
    /// The number of this process.
    own: u32,
    /// The number of the shaper's process; 0 where that is of another namespace.
    shaper: i32,
    /// How many packets had passed when the shaper last had the turn.
    passed: u64,
    /// Writes the log, where a thread could be had for it.
    speaker: Option<Speaker>,
}

/// Another data path that waits for this one to have let pass what it holds.
struct Other {
    peer: OwnedFd,
    since: Instant,
    answered: bool,
}

impl Guard {
    /// Waits until the shaper has it watch and an earlier guardian has ended; returns whether it watches then.
    fn begins(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let (mut first, mut earlier) = ([0; 1], [None]);
        let received = message::receive(control.as_fd(), &mut first, &mut earlier);
        if !matches!(received, Ok(1)) || first[0] != GO {
            return false;
        }
        let [earlier] = earlier;
        if earlier.is_some_and(|earlier| !has_ended(earlier.as_fd(), control.as_fd())) {
            return false;
        }
        // Until now a successor reached the earlier one. There may be none, and the shaper may have done it.
        if let Some(next) = super::next_path(self.kept.path()) {
            let flags = rustix::fs::RenameFlags::empty();
            let _ = rustix::fs::renameat_with(rustix::fs::CWD, &next, rustix::fs::CWD, self.kept.path(), flags);
        }
        true
    }

    fn watch(&mut self) {
        loop {
            let [control, listener, caller, successor, other] = self.wait();
            self.page.guardian_beat();
            if control && self.read_control() {
                return;
            }
            // Nothing that they send now matters, nor that they have ended.
            if successor {
                self.successor = None;
            }
            if other {
                self.go_on();
            }
            if caller {
                self.read_caller();
            }
            if listener {
                self.accept();
            }
            self.check();
            match self.page.turn() {
                Turn::Shaper | Turn::Yield => {
                    (self.begun, self.holding, self.passed) = (false, None, self.page.passed());
                }
                Turn::Guardian => self.pass_unless_held(),
                Turn::Return if self.other.is_some() => self.pass(),
                Turn::Return => {
                    if !self.begun && self.page.held() == 0 {
                        self.pass();
                    }
                    let given = self.page.give_back();
                    (self.begun, self.quiet) = (!given, 0);
                    if given {
                        let packets = self.page.passed() - self.passed;
                        self.say(format_args!(
                            "process {} shapes again; {packets} packets passed unshaped",
                            self.shaper
                        ));
                    }
                }
            }
            self.answer_other();
            // Without a socket no successor can come, and the rules would keep one from starting.
            let linger = self.listener.as_ref().map_or(0, |_| self.kept.linger_millis);
            let linger = Span::from_millis(linger.into());
            if self.gone.is_some_and(|gone| timing::now().since(gone) >= linger) && self.finish() {
                return;
            }
        }
    }

    /// Appends a line to the log, which is standard error. Nothing is allocated; what does not fit is cut off.
    fn say(&self, text: std::fmt::Arguments<'_>) {
        let Some(speaker) = &self.speaker else { return };
        let mut line = [b'\n'; LONGEST_LINE];
        let room = line.len() - 1;
        let mut rest = &mut line[..room];
        let _ = write!(rest, "{} guardian {} {text}", timing::now().as_nanos(), self.own);
        let used = room - rest.len();
        line[used] = b'\n';
        speaker.say(&line[..=used]);
    }

    /// Takes the turn, and says so; returns whether the shaper had it.
    fn take(&self, reason: Reason, why: &str) -> bool {
        let taken = self.page.take(reason);
        if taken {
            self.say(format_args!("process {} {why}; packets pass unshaped", self.shaper));
        }
        taken
    }

    fn send_control(&self, bytes: &[u8]) {
        if let Some(control) = &self.control {
            // What is not received is noticed as the end of the connection.
            let _ = message::send(control.as_fd(), bytes, &[]);
        }
    }

    /// Waits for the next check, for packets while they pass, and for the others. Returns which of control, listener,
    /// caller, successor and the one that adds or removes a chain are ready.
    fn wait(&self) -> [bool; 5] {
        let passing = matches!(self.page.turn(), Turn::Guardian | Turn::Return);
        let queue = (passing && self.page.held() == 0).then_some(&self.queue);
        let peers = [&self.control, &self.listener, &self.caller, &self.successor].map(Option::as_ref);
        let other = self.other.as_ref().map(|other| &other.peer);
        let all = peers.into_iter().chain([other, queue]);
        let mut readable = Readable::<6>::new(all.map(|descriptor| descriptor.map(AsFd::as_fd)));
        let wait = match (passing, &self.other) {
            (true, _) => PASSING,
            (false, Some(_)) => YIELDING,
            (false, None) => CHECK,
        };
        // None is ready when a signal has arrived.
        let ready = readable.wait(Duration::from_nanos(wait.as_nanos())).unwrap_or(0);
        [0, 1, 2, 3, 4].map(|at| ready >> at & 1 != 0)
    }

    /// Reads a message of the shaper; returns whether the guardian ends.
    fn read_control(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let mut byte = [0; 1];
        match message::receive(control.as_fd(), &mut byte, &mut []) {
            Ok(1) => byte[0] == REPLACED,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => false,
            _ => {
                self.control = None;
                if self.page.ending() == Ending::Orderly {
                    return true;
                }
                self.gone = Some(timing::now());
                let before = self.page.reason();
                if !self.take(Reason::Gone, "has ended unexpectedly") {
                    let how = match before {
                        Some(Reason::Asked) => "and left its queues",
                        _ => "unexpectedly",
                    };
                    self.say(format_args!("process {} has ended {how}; packets pass unshaped", self.shaper));
                }
                if self.listener.is_some() {
                    self.say(format_args!("waits {} ms for a successor", self.kept.linger_millis));
                }
                // Packets first, then the successor, unless it takes them.
                self.pass_unless_held();
                self.give();
                false
            }
        }
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(peer) = rustix::net::accept_with(listener, flags) else { return };
        // One at a time; the last one, because an earlier one may have given up.
        if super::is_trusted(peer.as_fd()) {
            self.caller = Some(peer);
        }
    }

    fn read_caller(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        let mut byte = [0; 1];
        match message::receive(caller.as_fd(), &mut byte, &mut []) {
            Ok(1) if byte[0] == ASIDE => self.step_aside(caller),
            Ok(1) if self.control.is_none() => {
                self.successor = Some(caller);
                self.give();
            }
            Ok(1) if byte[0] == TAKE => {
                // The last one, here too.
                self.successor = Some(caller);
                self.send_control(&[SUCCESSOR]);
            }
            // Of a shaper that runs nothing is left.
            _ => {}
        }
    }

    /// Asks the shaper for the turn, to let packets pass until the connection ends.
    fn step_aside(&mut self, peer: OwnedFd) {
        // Taken from a shaper that runs, a packet whose verdict the kernel is about would leave behind later ones.
        self.page.ask();
        self.say(format_args!(
            "another data path changes the packet filter; packets that process {} holds pass",
            self.shaper
        ));
        self.other = Some(Other { peer, since: timing::now(), answered: false });
    }

    /// Replies to another data path that adds or removes a chain once what was held has passed, and forgets it when it takes too long.
    fn answer_other(&mut self) {
        let Some(other) = &mut self.other else { return };
        let waited = timing::now().since(other.since);
        // A shaper that does not run is not waited for.
        if !other.answered && (self.begun || waited >= LONGEST_ANSWER) {
            other.answered = true;
            let _ = message::send(other.peer.as_fd(), &[READY], &[]);
        }
        if waited >= LONGEST_ASIDE {
            self.go_on();
        }
    }

    /// The chain is there or gone, or its data path is too slow.
    fn go_on(&mut self) {
        self.other = None;
        self.page.withdraw();
    }

    /// Gives everything that is held to the successor, which is the shaper from then on.
    fn give(&mut self) {
        let Some(successor) = self.successor.take() else { return };
        let held = [self.queue.as_fd(), self.rules.as_fd(), self.page.as_fd(), self.state.as_fd()];
        if message::send(successor.as_fd(), &self.setup[..self.length], &held).is_ok() {
            self.shaper = process_of(successor.as_fd());
            self.say(format_args!("process {} takes over", self.shaper));
            (self.control, self.gone, self.quiet) = (Some(successor), None, 0);
        }
    }

    /// Takes the turn when the shaper has made no progress.
    fn check(&mut self) {
        let now = timing::now();
        let shapes = self.page.turn().is_of_shaper();
        if self.control.is_none() || !shapes || now.since(self.checked) < CHECK {
            return;
        }
        self.checked = now;
        let beats = self.page.beats();
        if beats == self.beats {
            self.quiet += 1;
        } else {
            (self.beats, self.quiet) = (beats, 0);
        }
        if self.quiet >= CHECKS {
            self.take(Reason::Silent, "makes no progress");
        }
    }

    /// Lets packets pass, unless the shaper has left them to the next data path, which comes at once.
    fn pass_unless_held(&mut self) {
        if self.page.held() > 0 {
            let since = *self.holding.get_or_insert_with(timing::now);
            if timing::now().since(since) < HOLD {
                return;
            }
            self.page.take_held();
        }
        self.pass();
    }

    /// Accepts what was held at the beginning of the turn, then what has arrived since, in order.
    fn pass(&mut self) {
        if !self.begun {
            let all = release::accept_all(self.kept.queues, self.page.received());
            // The kernel may have no memory for it now: everything again in the next turn of the loop.
            self.begun = send_bytes(self.queue.as_fd(), &all).is_ok();
        }
        // Messages of packets that were accepted above are removed here, so that the shaper does not receive them later.
        loop {
            let mut buffers = [[0; HEADERS]; BATCH];
            let (count, from_kernel) = receive(self.queue.as_fd(), &mut buffers);
            if count == 0 {
                return;
            }
            let (mut last, mut packets) = ([None; 2], 0);
            for (buffer, _) in buffers[..count].iter().zip(from_kernel).filter(|(_, from_kernel)| *from_kernel) {
                if let Some((queue, id)) = queue_and_id(buffer)
                    && let Some(at) = self.kept.queues.iter().position(|&of| of == queue)
                {
                    (last[at], packets) = (Some(id), packets + 1);
                }
            }
            for (queue, last) in self.kept.queues.into_iter().zip(last).rev() {
                if let Some(id) = last {
                    self.accept_up_to(queue, id);
                }
            }
            self.page.add_passed(packets);
        }
    }

    /// Accepts what waits in a queue up to an id, in order.
    fn accept_up_to(&mut self, queue: u16, id: u32) {
        if send_bytes(self.queue.as_fd(), &release::accept_up_to(queue, id)).is_err() {
            self.begun = false;
        }
    }

    /// No successor has come: packets pass the queues by, and the kernel removes the rules when their socket is closed. Returns whether
    /// it is so: a successor may come at the last moment.
    fn finish(&mut self) -> bool {
        let began = timing::now();
        loop {
            self.pass();
            let ready = Readable::<1>::new([Some(self.queue.as_fd())]).wait(PAUSE);
            if matches!(ready, Ok(0)) || timing::now().since(began) > release::LONGEST_BURST {
                break;
            }
        }
        let _ = release::end_queueing(self.queue.as_fd(), self.kept.queues, self.page.received());
        // When these rules go, the kernel drops what waits in other queues.
        while timing::now().since(began) < ALL_END {
            let [_, listener, caller, ..] = self.wait();
            if caller {
                self.read_caller();
            }
            if listener {
                self.accept();
            }
            if self.control.is_some() {
                return false;
            }
            self.pass();
        }
        self.say(format_args!("no successor came; the rules go, and traffic goes on unshaped"));
        if self.listener.is_some() {
            let _ = rustix::fs::unlink(self.kept.path());
        }
        true
    }
}

/// The process at the other end of a socket; 0 where it is of another namespace.
fn process_of(socket: BorrowedFd<'_>) -> i32 {
    tidegate_sys::net::peer(socket).map_or(0, |peer| peer.pid)
}

/// Waits until an earlier guardian, at the other end of its connection with the shaper, has ended; returns whether it has. It goes on
/// when the shaper has ended before that one was told to end.
fn has_ended(earlier: BorrowedFd<'_>, control: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    let mut gone = None;
    loop {
        let from_shaper = gone.is_none().then_some(control);
        let ready = Readable::<2>::new([Some(earlier), from_shaper]).wait(PAUSE * 10).unwrap_or(0);
        // Nobody else reads what it may have sent.
        if ready & 1 != 0 && !matches!(message::receive(earlier, &mut byte, &mut []), Ok(1..)) {
            return true;
        }
        if ready & 2 != 0 {
            match message::receive(control, &mut byte, &mut []) {
                Ok(1) if byte[0] == REPLACED => return false,
                Ok(1..) => {}
                _ => gone = Some(timing::now()),
            }
        }
        if gone.is_some_and(|gone| timing::now().since(gone) > ENDING) {
            return false;
        }
    }
}

/// The queue and the id of the packet that a message is about.
fn queue_and_id(bytes: &[u8; HEADERS]) -> Option<(u16, u32)> {
    let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let is_packet = short(4) == MSG_PACKET && short(22) == libc::NFQA_PACKET_HDR as u16;
    let queue = u16::from_be_bytes([bytes[18], bytes[19]]);
    is_packet.then(|| (queue, u32::from_be_bytes([bytes[24], bytes[25], bytes[26], bytes[27]])))
}

/// Reads bytes as the beginning of a message about a packet; for fuzzing.
pub(super) fn read_packet(bytes: &[u8]) {
    let mut headers = [0; HEADERS];
    let length = bytes.len().min(HEADERS);
    headers[..length].copy_from_slice(&bytes[..length]);
    let _ = queue_and_id(&headers);
}

/// Receives the beginnings of messages; returns how many, and which are from the kernel.
fn receive(from: BorrowedFd<'_>, buffers: &mut [[u8; HEADERS]; BATCH]) -> (usize, [bool; BATCH]) {
    let mut from_kernel = [false; BATCH];
    loop {
        let received = receive_netlink::<BATCH>(from, buffers.as_flattened_mut(), HEADERS, |at, datagram| {
            from_kernel[at] = datagram.is_from_kernel;
        });
        match received {
            Ok(count) => return (count, from_kernel),
            Err(error) => match error.raw_os_error() {
                // Packets whose messages found no room have passed already.
                Some(libc::ENOBUFS | libc::EINTR) => {}
                _ => return (0, from_kernel),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_of_a_packet_has_an_id() {
        let mut bytes = [0; HEADERS];
        bytes[4..6].copy_from_slice(&MSG_PACKET.to_ne_bytes());
        bytes[18..20].copy_from_slice(&7_400_u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&(libc::NFQA_PACKET_HDR as u16).to_ne_bytes());
        bytes[24..28].copy_from_slice(&77_u32.to_be_bytes());
        assert_eq!(queue_and_id(&bytes), Some((7_400, 77)));
        bytes[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        assert_eq!(queue_and_id(&bytes), None);
    }
}
