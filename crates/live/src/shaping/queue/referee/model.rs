//! [`Model`]: the queues of the kernel, their socket, the guardian and the clock, in virtual time.
//!
//! A packet has an id in its queue and waits in the kernel until there is a verdict for it; its message waits in the socket. A
//! verdict for a packet that does not wait any more is refused. A packet that goes to the second queue comes back as its
//! segments, each with an id of its own, behind what waits in the socket by then. Between any two messages to the kernel time may
//! pass, with all that happens in it.
//!
//! *Not in it*: memory that runs out, a second processor, and what the kernel does with a packet afterwards.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use tidegate_core::random::Stream;
use tidegate_units::{Instant, Span};

use super::super::kernel::Kernel;
use super::{Live, QUEUES};
use crate::guardian::{Page, Reason, Turn};
use crate::netlink::{Attributes, Builder, Error, Messages};
use crate::nfqueue::{BATCH, Ring, SocketCounters, Verdicts, release};
use crate::shaping::command::Command;
use crate::shaping::watchdog::WorkerState;

/// How long packets wait for the next data path, in nanoseconds.
const HOLD: u64 = 40_000_000;
/// The longest absence of the interface, in nanoseconds.
const LONGEST_ABSENCE: u64 = 150_000_000;
/// The most packets of a superpacket, and the bytes from which packets are put into one.
const MOST: u64 = 8;
const LARGE: u32 = 1_000;

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8;
const PACKET: u16 = SUBSYSTEM | libc::NFQNL_MSG_PACKET as u16;
const VERDICT: u16 = SUBSYSTEM | libc::NFQNL_MSG_VERDICT as u16;
const VERDICT_BATCH: u16 = SUBSYSTEM | libc::NFQNL_MSG_VERDICT_BATCH as u16;
const VERDICT_HDR: u16 = libc::NFQA_VERDICT_HDR as u16;

/// The faults of a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// Another program removes chains, and the kernel drops what waits.
    pub empty: bool,
    /// The interface vanishes, with the packets that wait for it, and returns with another index.
    pub vanish: bool,
    /// The guardian takes the turn.
    pub take: bool,
    /// The guardian asks for the turn.
    pub ask: bool,
    /// Shaping ends in order while packets arrive.
    pub end: bool,
    /// Another data path takes over while packets arrive.
    pub hand_over: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Accepted,
    Dropped,
    /// The kernel has dropped it with its queue.
    Emptied,
    /// There was no interface for it.
    Unlinked,
}

/// The result of a run.
pub struct Ends {
    pub of_each: Vec<End>,
    /// The packets that were accepted, in their order.
    pub accepted: Vec<usize>,
    pub emptied: u64,
    pub refused: u64,
    pub takeovers: u64,
    /// Packets that a data path has taken from the one before.
    pub adopted: u64,
    pub passed_by: u64,
}

/// A packet in a queue: the numbers of the packets that it is made of.
type Held = Vec<usize>;

/// A moment at which something happens to the queues.
#[derive(Clone, Copy)]
enum Event {
    Empty,
    Vanish,
    Take,
    Ask,
}

/// A data path that is to take over, and has not begun.
struct Next {
    state: Arc<WorkerState>,
    begins: Instant,
    /// Whether the guardian lets packets pass before.
    is_late: bool,
}

pub struct Model<'a> {
    live: &'a Live,
    random: Stream,
    now: Instant,
    /// The packets that are yet to arrive.
    coming: VecDeque<(Instant, Held)>,
    events: VecDeque<(Instant, Event)>,
    /// When shaping ends.
    ends: Option<Instant>,
    /// When another data path takes over, and the file for what this one holds.
    leaves: Option<Instant>,
    list: Arc<File>,
    /// The reply to the command to leave: how many packets are held.
    left: Option<Receiver<u64>>,
    next: Option<Next>,
    commands: Option<Sender<Command>>,
    /// The reply to the command that shaping ends.
    ended: Option<Receiver<()>>,
    command_waits: bool,
    page: Arc<Page>,
    /// Whether the guardian has asked for the turn, and has accepted nothing since.
    asked: bool,
    /// The index of the interface, and when it is there again.
    interface: u32,
    returns: Instant,
    /// For each queue the packets that wait, by their arrival; the last id; whether packets pass it by.
    held: [VecDeque<(u32, Held)>; 2],
    last: [u32; 2],
    closed: [bool; 2],
    /// Messages that wait in the socket: the queue, the id, and the packets.
    messages: VecDeque<(usize, u32, Held)>,
    pending: VecDeque<Vec<u8>>,
    of_each: Vec<Option<End>>,
    accepted: Vec<usize>,
    emptied: u64,
    passed_by: u64,
    counters: SocketCounters,
    wrong: Option<String>,
}

impl<'a> Model<'a> {
    pub fn new(
        live: &'a Live,
        flows: &[u64],
        mut random: Stream,
        faults: Faults,
        page: Arc<Page>,
        (commands, list): (Sender<Command>, Arc<File>),
    ) -> Self {
        let mut coming: VecDeque<(Instant, Held)> = VecDeque::new();
        for (number, packet) in live.packets.iter().enumerate() {
            // A sender hands over several packets of a flow at once.
            match coming.back_mut() {
                Some((begun, numbers))
                    if packet.length >= LARGE
                        && flows[numbers[0]] == flows[number]
                        && live.packets[numbers[0]].length >= LARGE
                        && packet.at.since(*begun) < Span::from_millis(2)
                        && (numbers.len() as u64) < random.below(MOST + 1) =>
                {
                    numbers.push(number);
                }
                _ => coming.push_back((packet.at, vec![number])),
            }
        }
        let (first, last) = (live.packets[0].at, live.packets[live.packets.len() - 1].at);
        let whole = last.since(first).as_nanos();
        let mut moments: Vec<(Instant, Event)> = [
            (faults.empty, Event::Empty),
            (faults.vanish, Event::Vanish),
            (faults.take, Event::Take),
            (faults.ask, Event::Ask),
        ]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .flat_map(|(_, event)| (0..random.below(4)).map(|_| (random.below(whole), event)).collect::<Vec<_>>())
        .map(|(nanos, event)| (first + Span::from_nanos(nanos), event))
        .collect();
        moments.sort_by_key(|(at, _)| *at);
        let mut moment = |wanted: bool| wanted.then(|| first + Span::from_nanos(random.below(whole)));
        let (ends, leaves) = (moment(faults.end), moment(faults.hand_over));
        Self {
            live,
            random,
            now: first,
            coming,
            events: moments.into(),
            ends,
            leaves,
            list,
            left: None,
            next: None,
            commands: Some(commands),
            ended: None,
            command_waits: false,
            page,
            asked: false,
            interface: 2,
            returns: first,
            held: Default::default(),
            last: [0; 2],
            closed: [false; 2],
            messages: VecDeque::new(),
            pending: VecDeque::new(),
            of_each: vec![None; live.packets.len()],
            accepted: Vec::new(),
            emptied: 0,
            passed_by: 0,
            counters: SocketCounters::default(),
            wrong: None,
        }
    }

    /// The result, once the data path has ended: what is yet to arrive passes.
    pub fn settle(mut self) -> Result<Ends, String> {
        while let Some((at, _)) = self.coming.front() {
            let at = *at;
            self.pass(at);
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.ended.is_some_and(|ended| ended.try_recv().is_err()) {
            return Err("it did not confirm the end of shaping".into());
        }
        let waits = self.of_each.iter().position(Option::is_none);
        Ok(Ends {
            of_each: match waits {
                None => self.of_each.into_iter().flatten().collect(),
                Some(number) => return Err(format!("packet {number} waits for ever")),
            },
            accepted: self.accepted,
            emptied: self.emptied,
            refused: self.counters.refused_verdicts,
            takeovers: self.page.takeovers(),
            adopted: self.page.adopted(),
            passed_by: self.passed_by,
        })
    }

    fn end(&mut self, numbers: &[usize], end: End) {
        for number in numbers {
            if let Some(before) = self.of_each[*number].replace(end) {
                self.wrong.get_or_insert_with(|| format!("packet {number} ended twice: {before:?}, {end:?}"));
            }
        }
        if end == End::Accepted {
            self.accepted.extend(numbers);
        }
    }

    /// A packet comes to a queue.
    fn queue(&mut self, at: usize, numbers: Held) {
        if self.closed[at] {
            self.passed_by += numbers.len() as u64;
            self.end(&numbers, End::Accepted);
            return;
        }
        self.last[at] += 1;
        self.held[at].push_back((self.last[at], numbers.clone()));
        self.messages.push_back((at, self.last[at], numbers));
        if self.page.turn() == Turn::Guardian && self.page.held() == 0 {
            self.guard();
        }
    }

    /// The data path has ended, and leaves what it holds to the next one, of which these are the commands and the state. That begins
    /// some time later; packets wait for it, or the guardian lets them pass.
    pub fn hand_over(&mut self, commands: Sender<Command>, state: Arc<WorkerState>) {
        let held = self.left.take().and_then(|left| left.try_recv().ok()).unwrap_or(0);
        if !self.page.leave(held) || held == 0 {
            self.let_pass();
        }
        (self.commands, self.ended, self.command_waits) = (Some(commands), None, false);
        let begins = self.now + Span::from_nanos(self.random.below(2 * HOLD));
        self.next = Some(Next { state, begins, is_late: self.random.below(2) == 0 });
    }

    /// The next data path begins, if it is time.
    fn begin_next(&mut self) {
        let Some(next) = self.next.take_if(|next| next.begins <= self.now) else { return };
        if next.is_late {
            self.page.take_held();
            self.let_pass();
        }
        next.state.begin();
        self.command_waits = true;
    }

    /// The guardian accepts all that waits, and what has arrived.
    fn let_pass(&mut self) {
        self.kernel(&release::accept_all(QUEUES, self.page.received()), false);
        self.guard();
    }

    /// The guardian accepts what has arrived.
    fn guard(&mut self) {
        for (at, id, _) in std::mem::take(&mut self.messages) {
            self.kernel(&release::accept_up_to(QUEUES[at], id), false);
        }
    }

    /// The guardian takes the turn, and accepts what waits.
    fn take_turn(&mut self) {
        if self.page.take(Reason::Silent) {
            self.let_pass();
        }
    }

    /// The kernel drops all that waits. Its messages, and verdicts for it, are still on their way.
    fn empty(&mut self) {
        for (_, numbers) in std::mem::take(&mut self.held).into_iter().flatten() {
            self.emptied += 1;
            self.end(&numbers, End::Emptied);
        }
    }

    /// Lets the time pass, with what happens in it.
    fn pass(&mut self, until: Instant) {
        loop {
            let arrival = self.coming.front().map(|(at, _)| *at).filter(|at| *at <= until);
            let event = self.events.front().map(|(at, _)| *at).filter(|at| *at <= until);
            let Some(next) = arrival.into_iter().chain(event).min() else { break };
            self.now = self.now.max(next);
            if event == Some(next) {
                match self.events.pop_front() {
                    Some((_, Event::Empty)) => self.empty(),
                    Some((_, Event::Vanish)) => {
                        self.empty();
                        self.interface += 1;
                        self.returns = self.now + Span::from_nanos(self.random.below(LONGEST_ABSENCE));
                    }
                    Some((_, Event::Ask)) => {
                        self.page.ask();
                        self.asked = true;
                    }
                    _ => self.take_turn(),
                }
            } else if let Some((_, numbers)) = self.coming.pop_front() {
                match self.now < self.returns {
                    true => self.end(&numbers, End::Unlinked),
                    false => self.queue(0, numbers),
                }
            }
        }
        self.now = self.now.max(until);
        self.begin_next();
        if self.leaves.take_if(|leaves| *leaves <= self.now).is_some()
            && let Some(commands) = &self.commands
        {
            let (held, left) = mpsc::channel();
            let _ = commands.send(Command::Leave(Arc::clone(&self.list), held));
            (self.left, self.command_waits) = (Some(left), true);
        }
        let is_over = self.coming.is_empty() && self.messages.is_empty();
        if is_over || self.ends.is_some_and(|ends| ends <= self.now) {
            self.end_shaping(is_over && self.ends.is_none());
        }
    }

    /// Ends shaping: in order, or when everything has left.
    fn end_shaping(&mut self, waits: bool) {
        if waits && self.held.iter().any(|held| !held.is_empty()) {
            return;
        }
        if let Some(commands) = self.commands.take() {
            let (confirm, ended) = mpsc::channel();
            let _ = (commands.send(Command::Pass(confirm)), commands.send(Command::Stop));
            (self.ended, self.command_waits) = (Some(ended), true);
        }
    }

    /// Takes up to so many nanoseconds.
    fn take(&mut self, most: u64) {
        let time = Span::from_nanos(self.random.below(most));
        self.pass(self.now + time);
    }

    /// Messages come to the kernel. Time passes between those of the data path.
    fn kernel(&mut self, bytes: &[u8], slow: bool) {
        for message in Messages::new(bytes) {
            if slow && self.random.below(8) == 0 {
                self.take(300_000);
            }
            let number = u16::from_be_bytes([message.body[2], message.body[3]]);
            let at = QUEUES.iter().position(|queue| *queue == number).expect("a queue of the data path");
            let header = Attributes::new(&message.body[4..]).find(VERDICT_HDR).map(|header| {
                let word = |at: usize| u32::from_be_bytes(*header.payload[at..].first_chunk().expect("two words"));
                (word(0), word(4))
            });
            match (message.kind, header) {
                (VERDICT, Some((verdict, id))) => self.verdict(at, verdict, id),
                (VERDICT_BATCH, Some((_, to))) => {
                    // In the order of arrival, all whose id is not after this one, modulo 2^32.
                    let is_after = |id: u32| (id.wrapping_sub(to) as i32).cmp(&0) == Ordering::Greater;
                    let all = std::mem::take(&mut self.held[at]);
                    for (id, numbers) in all {
                        match is_after(id) {
                            true => self.held[at].push_back((id, numbers)),
                            false => self.end(&numbers, End::Accepted),
                        }
                    }
                }
                // Every configuration that is sent here ends queueing.
                _ => self.closed[at] = true,
            }
        }
    }

    fn verdict(&mut self, at: usize, verdict: u32, id: u32) {
        self.counters.verdicts += 1;
        let Some(place) = self.held[at].iter().position(|(held, _)| *held == id) else {
            self.counters.refused_verdicts += 1;
            return;
        };
        let (_, numbers) = self.held[at].remove(place).expect("it is there");
        match (verdict & 0xff, verdict >> 16) {
            (0, _) => self.end(&numbers, End::Dropped),
            (1, _) => self.end(&numbers, End::Accepted),
            (3, to) if to == u32::from(QUEUES[1]) && at == 0 => {
                numbers.into_iter().for_each(|number| self.queue(1, vec![number]));
            }
            other => self.wrong = Some(format!("a verdict that is not known: {other:?} of queue {at}")),
        }
    }

    /// The message with which the kernel hands over a packet.
    fn message(&self, at: usize, id: u32, numbers: &[usize]) -> Vec<u8> {
        let (bytes, length) = self.live.joined(numbers);
        let mut builder = Builder::new();
        builder.message(PACKET, 0, 0, |m| {
            let protocol: u16 = if bytes[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            let [high, low] = QUEUES[at].to_be_bytes();
            let mut header = id.to_be_bytes().to_vec();
            header.extend(protocol.to_be_bytes());
            header.push(4);
            m.raw(&[0, 0, high, low]).attr(libc::NFQA_PACKET_HDR as u16, &header);
            m.be32(libc::NFQA_IFINDEX_OUTDEV as u16, self.interface);
            if numbers.len() > 1 {
                m.be32(libc::NFQA_SKB_INFO as u16, libc::NFQA_SKB_GSO as u32);
            }
            m.be32(libc::NFQA_CAP_LEN as u16, length).attr(libc::NFQA_PAYLOAD as u16, &bytes[..bytes.len().min(128)]);
        });
        builder.bytes().to_vec()
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let event = self.events.front().map(|(at, _)| *at);
        self.coming.front().map(|(at, _)| *at).into_iter().chain(event).chain(self.ends).min()
    }
}

impl Kernel for Model<'_> {
    fn time(&mut self) -> Instant {
        self.now
    }

    fn wait(&mut self, until: Instant) -> Result<bool, Error> {
        while self.messages.is_empty() && !self.command_waits && self.now < until {
            let next = self.next().filter(|next| *next > self.now).map_or(until, |next| next.min(until));
            self.pass(next);
        }
        // Another program has the processor, now and then for long.
        let late = if self.random.below(40) == 0 { 60_000_000 } else { 200_000 };
        self.take(late);
        Ok(self.command_waits)
    }
    fn wait_for_commands(&mut self, until: Instant) -> Result<(), Error> {
        if !self.command_waits {
            self.pass(until);
        }
        Ok(())
    }
    fn wait_for_packets(&mut self, until: Instant) -> Result<bool, Error> {
        if self.messages.is_empty() {
            self.pass(until);
        }
        Ok(self.messages.is_empty())
    }
    fn forget_commands(&mut self) {
        self.command_waits = false;
    }
    /// Who sleeps waits for the guardian.
    fn pause(&mut self, time: Span) {
        if std::mem::take(&mut self.asked) {
            // The data path has left the turn.
            self.let_pass();
        }
        self.pass(self.now + time);
        if self.random.below(4) == 0 {
            self.page.give_back();
        }
    }

    fn receive(&mut self, ring: &mut Ring) -> Result<usize, Error> {
        if self.next.is_some() {
            self.wrong.get_or_insert_with(|| "packets are received before the data path has begun".into());
        }
        let batch = self.messages.len().min(1 + self.random.below(BATCH as u64) as usize);
        let received: Vec<_> = self.messages.drain(..batch).collect();
        let messages: Vec<Vec<u8>> = received.iter().map(|(at, id, numbers)| self.message(*at, *id, numbers)).collect();
        self.pending.extend(messages);
        let count = ring.fill(&mut self.pending);
        self.counters.packets += count as u64;
        self.take(50_000);
        Ok(count)
    }
    fn send(&mut self, verdicts: &mut Verdicts) -> Result<(), Error> {
        while let Some((bytes, count)) = verdicts.next_chunk() {
            self.counters.verdicts += count;
            let bytes = bytes.to_vec();
            self.kernel(&bytes, true);
            verdicts.sent_chunk();
        }
        verdicts.discard();
        Ok(())
    }
    fn set_copy_range(&mut self, _: u16, _: u32) -> Result<(), Error> {
        Ok(())
    }
    fn close(&mut self, queues: [u16; 2], received: u32) -> Result<(), Error> {
        self.kernel(&release::close(queues, received), true);
        Ok(())
    }
    fn counters(&self) -> SocketCounters {
        self.counters
    }
}
