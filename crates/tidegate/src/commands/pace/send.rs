//! The sender: one schedule, a source, destinations.

mod outlet;

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tidegate_pace::sender::{Destination, Protocol};
use tidegate_pace::udp::Multicast;
use tidegate_pace::{Admission, Clock, MonotonicClock, Params, Recorder, wait_until};
use tidegate_units::{Bytes, Instant, Rate, Span};

use outlet::{Engine, Outlet};

use super::control_socket::{ControlSocket, Standing};
use super::progress::{Progress, View};
use super::source::{Cut, Piece, Source};
use super::{Args, KernelUse, Share, measure};
use crate::Failure;

/// The interval at which a wait checks for changes.
const LOOK: Span = Span::from_millis(50);
/// How long before it is due a datagram is passed to a queueing discipline that holds it.
const LEAD: Span = Span::from_millis(2);
/// The duration of the data that is written to a stream at once.
const WRITE: Span = Span::from_millis(2);
/// Below this interval between datagrams, one system call for each is the bottleneck.
const SINGLE: Span = Span::from_micros(5);
/// The duration of the data that is then sent at once.
const BATCH: Span = Span::from_micros(20);

/// Sends as the arguments specify.
pub fn run(args: &Args, params: &Params) -> Result<(), Failure> {
    let input = match &args.file {
        Some(path) => File::open(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
        None => File::from(io::stdin().as_fd().try_clone_to_owned()?),
    };
    if input.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::Usage("a directory cannot be sent; name a file".into()));
    }
    let control = ControlSocket::new(params.rate);
    let step = Rate::from_bps((u128::from(params.rate.as_bps()) * u128::from(args.step) / 100).max(1) as u64);
    control.obey_signals(step)?;
    let mut destinations = Vec::new();
    let interface = args.multicast_interface.as_deref().map_or(Ok(Multicast::SYSTEM), Multicast::by);
    let interface = interface.map_err(|error| Failure::Usage(format!("--multicast-interface {}", plain(&error))))?;
    let multicast = Multicast { ttl: args.ttl, loopback: args.no_multicast_loop.then_some(false), ..interface };
    let patience = Duration::from_nanos(args.patience.as_nanos().max(1));
    for target in &args.to {
        let destination = Destination::connect_with(target, patience, &multicast)
            .map_err(|error| Failure::Failed(format!("{target}: {}; nothing was sent", plain(&error))))?;
        destinations.push(Outlet::new(destination));
    }
    if destinations.is_empty() {
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        destinations.push(Outlet::new(Destination::stream("standard output", output)));
    }
    let _socket = args.control.as_deref().map(|path| control.obey_socket(path)).transpose()?;
    let mut sender = Sender::new(args, params, input, destinations, control)?;
    let outcome = sender.go();
    sender.end(outcome)
}

/// The text of an error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Why the transfer ended.
enum Ending {
    /// Everything is sent.
    Ended,
    /// Every destination failed or closed.
    Deserted,
    /// A signal.
    Stopped(i32),
    /// The source cannot be read.
    Unreadable(io::Error),
}

/// The signal that ended a wait.
struct Stop(i32);

struct Sender<'a> {
    args: &'a Args,
    clock: MonotonicClock,
    engine: Engine,
    source: Source,
    outlets: Vec<Outlet>,
    turn: usize,
    control: Arc<ControlSocket>,
    seen: u64,
    paused: bool,
    due: Instant,
    /// Whether the algorithm requested a wait whose end was not reported yet.
    asked: bool,
    /// The size of a datagram; `None` for streams.
    datagram: Option<usize>,
    segment: Option<u16>,
    recorder: Recorder,
    progress: Progress,
    published: Instant,
    started: Instant,
    handed: u64,
    pieces: u64,
    dropped_bytes: u64,
}

impl<'a> Sender<'a> {
    fn new(
        args: &'a Args,
        params: &Params,
        input: File,
        mut outlets: Vec<Outlet>,
        control: Arc<ControlSocket>,
    ) -> Result<Self, Failure> {
        let mut clock = MonotonicClock::new();
        let now = clock.now();
        let engine = Engine::new(args, params, now).map_err(|error| Failure::Usage(error.to_string()))?;
        if args.kernel == KernelUse::Auto {
            for outlet in &mut outlets {
                for line in outlet.destination.seek_help(params.rate) {
                    if args.verbose {
                        message!("tidegate: {}: {line}", outlet.destination.name());
                    }
                }
            }
        }
        let datagrams = args.to.iter().any(|target| target.protocol == Protocol::Udp);
        let size = args.packet_size.map(|size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX));
        let datagram = (datagrams && !args.lines).then(|| size.unwrap_or(1400));
        let mut sender = Self {
            args,
            clock,
            engine,
            source: Source::new(input, Cut::UpTo(1)),
            outlets,
            turn: 0,
            control,
            seen: 0,
            paused: false,
            due: now,
            asked: false,
            datagram,
            segment: None,
            recorder: Recorder::new(Some(params.rate)),
            progress: Progress::new(args.progress, args.quiet, now),
            published: now,
            started: now,
            handed: 0,
            pieces: 0,
            dropped_bytes: 0,
        };
        sender.cut(params.rate);
        if args.verbose {
            sender.report_choice(params);
        }
        Ok(sender)
    }

    /// The division of the source into writes at `rate`.
    fn cut(&mut self, rate: Rate) {
        let cut = match (self.args.lines, self.datagram, self.args.packet_size) {
            (true, _, _) => {
                Cut::Lines { with_end: !self.outlets.iter().any(|outlet| outlet.destination.is_datagram()) }
            }
            (_, Some(size), _) => {
                let segments = self.segments(rate, size);
                self.segment = (segments > 1).then_some(size as u16);
                Cut::Exactly(size * segments)
            }
            (_, None, Some(size)) => Cut::Exactly(usize::try_from(size.as_u64()).unwrap_or(usize::MAX).min(1 << 26)),
            (_, None, None) => Cut::UpTo((rate.bytes_in_floor(WRITE).as_u64() as usize).clamp(256, 1 << 16)),
        };
        self.source.set_cut(cut);
    }
    /// The number of datagrams per system call: more than one only at rates at which one call for each is too slow,
    /// or where a burst was explicitly allowed; never more than the cap allows at once.
    fn segments(&self, rate: Rate, size: usize) -> usize {
        let all_can = self.outlets.iter().all(|outlet| outlet.destination.help().segmentation());
        let holds = self.outlets.iter().any(|outlet| outlet.destination.help().transmit_clock().is_some());
        let each = rate.time_for_ceil(Bytes::new(size as u64)).unwrap_or(Span::MAX);
        if !all_can || holds || size == 0 || (each >= SINGLE && self.args.burst.is_none()) {
            return 1;
        }
        let most = self.args.burst.unwrap_or_else(|| rate.bytes_in_floor(BATCH));
        let most = usize::try_from(most.as_u64()).unwrap_or(usize::MAX).min(65_000);
        (most / size).clamp(1, 64)
    }
    fn report_choice(&self, params: &Params) {
        let cap = params.cap().map_or("no burst cap".into(), |(rate, allowance)| {
            format!("no run of packets above {} but for {allowance} at once", measure::rate(rate.as_bps() as f64))
        });
        message!(
            "tidegate: {} at {}, {cap}, spinning at most {} % of a core",
            self.args.algorithm,
            params.rate,
            self.args.spin
        );
        match (self.datagram, self.segment) {
            (Some(size), None) => message!("tidegate: datagrams of {size} B, one system call each"),
            (Some(size), Some(_)) => {
                let segments = self.segments(params.rate, size);
                message!("tidegate: datagrams of {size} B, {segments} of them in one system call (UDP GSO)");
            }
            (None, _) => {}
        }
    }

    fn go(&mut self) -> Ending {
        loop {
            let reading = self.clock.now();
            let mut waited = false;
            let piece = loop {
                match self.source.next(if waited { LOOK } else { Span::ZERO }) {
                    Ok(Piece::NotYet) => {
                        waited = true;
                        if let Err(Stop(signal)) = self.look() {
                            return Ending::Stopped(signal);
                        }
                    }
                    Ok(Piece::End) => return Ending::Ended,
                    Ok(Piece::Bytes(range)) => break range,
                    Err(error) => return Ending::Unreadable(error),
                }
            };
            if waited {
                let now = self.clock.now();
                let since = reading.max(self.due);
                if now > since {
                    self.report_wait(now);
                    self.engine.algorithm().refilled(since, now);
                }
            }
            if let Err(Stop(signal)) = self.wait() {
                return Ending::Stopped(signal);
            }
            let size = Bytes::new(piece.len() as u64);
            if let Engine::Pacer(pacer) = &mut self.engine
                && pacer.admit(self.clock.now(), size) == Admission::Drop
            {
                self.due = pacer.due();
                self.dropped_bytes += size.as_u64();
                continue;
            }
            if let Err(Stop(signal)) = self.hand_over(&piece) {
                return Ending::Stopped(signal);
            }
            if !self.outlets.iter().any(Outlet::is_alive) {
                return Ending::Deserted;
            }
            // A packet that a queueing discipline holds leaves when it is due.
            let now = self.clock.now();
            let left = if self.lead().is_zero() { now } else { now.max(self.due) };
            if self.asked {
                // The queueing discipline did the waiting.
                self.engine.algorithm().woke(left);
            }
            self.recorder.record(left, size);
            self.handed += size.as_u64();
            self.pieces += 1;
            self.due = self.engine.algorithm().next(left, size);
            self.asked = self.due > left;
            if self.progress.is_due(now) || now.since(self.published) > LOOK {
                self.publish(now);
            }
        }
    }

    /// How long before it is due a packet is passed on.
    fn lead(&self) -> Span {
        let held = self.outlets.iter().all(|outlet| outlet.destination.help().transmit_clock().is_some());
        if held { LEAD } else { Span::ZERO }
    }
    /// Reports to the algorithm a wait that ended while there was nothing to send.
    fn report_wait(&mut self, now: Instant) {
        if self.asked && self.due <= now {
            let due = self.due;
            self.due = self.engine.algorithm().woke(due);
            self.asked = false;
        }
    }
    /// Waits until the next packet is due, handling changes meanwhile.
    fn wait(&mut self) -> Result<(), Stop> {
        loop {
            self.look_quickly()?;
            let now = self.clock.now();
            if self.paused {
                self.clock.sleep_until(now + LOOK);
                self.look()?;
                continue;
            }
            let due = self.due.saturating_sub(self.lead());
            if due <= now {
                self.report_wait(now);
                if self.due.saturating_sub(self.lead()) <= now {
                    return Ok(());
                }
            } else if due.since(now) > LOOK {
                self.clock.sleep_until(now + LOOK);
                self.look()?;
            } else if due < self.due {
                self.clock.sleep_until(due);
            } else {
                wait_until(&mut self.clock, self.engine.algorithm(), due);
                self.asked = false;
                return Ok(());
            }
        }
    }
    /// Checks for a change.
    fn look_quickly(&mut self) -> Result<(), Stop> {
        if self.control.changes() == self.seen { Ok(()) } else { self.look() }
    }
    fn look(&mut self) -> Result<(), Stop> {
        let now = self.clock.now();
        self.publish(now);
        let changes = self.control.changes();
        if changes == self.seen {
            return Ok(());
        }
        self.seen = changes;
        let wanted = self.control.wanted();
        if let Some(signal) = wanted.stop {
            return Err(Stop(signal));
        }
        if wanted.rate != self.engine.algorithm().rate() {
            self.change_rate(now, wanted.rate);
        }
        if wanted.paused != self.paused {
            self.paused = wanted.paused;
            if !wanted.paused {
                self.due = self.engine.algorithm().resume(now);
                self.asked = self.due > now;
            } else if let Engine::Pacer(pacer) = &mut self.engine {
                pacer.pause(now);
            }
        }
        Ok(())
    }
    fn change_rate(&mut self, now: Instant, rate: Rate) {
        let changed = self.engine.set_rate(now, rate, self.args.burst_rate);
        // The control socket rejects a rate of zero, and no other rate is refused.
        let Ok(due) = changed else { return };
        self.due = due;
        self.asked = due > now;
        self.recorder.set_rate(rate);
        for outlet in &mut self.outlets {
            outlet.destination.set_rate(rate);
        }
        self.cut(rate);
        if self.args.verbose {
            self.progress.end();
            message!("tidegate: {rate} from now on");
        }
    }
    fn publish(&mut self, now: Instant) {
        self.published = now;
        let rate = self.engine.algorithm().rate();
        let (late, dropped) = match &self.engine {
            Engine::Pacer(pacer) => {
                let status = pacer.status(now);
                (status.late, status.dropped)
            }
            Engine::Paper(_) | Engine::Capped(_) => (Span::ZERO, 0),
        };
        let (gap_p50, gap_p99) = (self.recorder.gap(500), self.recorder.gap(990));
        self.control.publish(Standing {
            rate_bps: rate.as_bps(),
            paused: self.paused,
            bytes: self.handed,
            packets: self.pieces,
            dropped_packets: dropped,
            elapsed_ns: now.since(self.started).as_nanos(),
            late_ns: late.as_nanos(),
            gap_p50_ns: gap_p50.as_nanos(),
            gap_p99_ns: gap_p99.as_nanos(),
        });
        if self.progress.is_due(now) {
            let view = self.view();
            self.progress.show(now, &view);
        }
    }

    fn view(&mut self) -> View {
        View {
            bytes: self.handed,
            total: self.source.size(),
            rate_bps: self.engine.algorithm().rate().as_bps(),
            paused: self.paused,
            gap_p50: self.recorder.gap(500),
            gap_p99: self.recorder.gap(990),
            dropped: self.dropped(),
        }
    }
    fn dropped(&self) -> u64 {
        match &self.engine {
            Engine::Pacer(pacer) => pacer.status(self.published).dropped,
            Engine::Paper(_) | Engine::Capped(_) => 0,
        }
    }

    /// Sends a piece to its destinations.
    fn hand_over(&mut self, piece: &Range<usize>) -> Result<(), Stop> {
        let alive: Vec<usize> = match self.args.share {
            _ if self.outlets.len() == 1 => return self.give(0, piece),
            Share::Copy => (0..self.outlets.len()).filter(|index| self.outlets[*index].is_alive()).collect(),
            Share::Turn => {
                let next = (0..self.outlets.len()).map(|n| (self.turn + n) % self.outlets.len());
                next.filter(|index| self.outlets[*index].is_alive()).take(1).collect()
            }
        };
        for index in alive {
            self.turn = index + 1;
            self.give(index, piece)?;
        }
        Ok(())
    }
    /// Sends a piece to one destination, however long it takes.
    fn give(&mut self, index: usize, piece: &Range<usize>) -> Result<(), Stop> {
        let at = (!self.lead().is_zero()).then_some(self.due);
        let (mut sent, mut idle_since) = (0, None);
        let is_datagram = self.outlets[index].destination.is_datagram();
        loop {
            let outlet = &mut self.outlets[index];
            let data = &self.source.bytes(piece)[sent..];
            let segment = self.segment.filter(|segment| data.len() > usize::from(*segment));
            let whole = segment.is_some() && outlet.destination.help().segmentation();
            let data = match self.datagram {
                Some(size) if is_datagram && !whole => &data[..data.len().min(size)],
                _ => data,
            };
            match outlet.destination.send(data, segment.filter(|_| whole), at) {
                Ok(taken) => {
                    idle_since = None;
                    sent += taken;
                    if is_datagram {
                        outlet.datagrams +=
                            segment.filter(|_| whole).map_or(1, |one| taken.div_ceil(one.into()) as u64);
                    }
                    if sent >= piece.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock || is_out_of_buffers(&error) => {
                    let now = self.clock.now();
                    let since = *idle_since.get_or_insert(now);
                    if now.since(since) >= self.args.patience {
                        let patience = measure::time(self.args.patience);
                        outlet.failed = Some(format!("accepted nothing for {patience}"));
                        return Ok(());
                    }
                    if is_out_of_buffers(&error) {
                        self.clock.sleep_until(now + Span::from_micros(100));
                    } else if let Err(error) = outlet.destination.wait_for_room(LOOK) {
                        outlet.failed = Some(plain(&error));
                        return Ok(());
                    }
                    self.look()?;
                }
                // A device without checksum offload refuses segments: send them one by one.
                Err(error) if whole && error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    outlet.destination.forgo_segmentation();
                    if self.args.verbose {
                        message!(
                            "tidegate: {}: the kernel refused UDP GSO; datagrams are sent one by one",
                            outlet.destination.name()
                        );
                    }
                }
                Err(error) => {
                    if error.kind() == ErrorKind::BrokenPipe && self.args.to.is_empty() {
                        outlet.reader_left = true;
                    } else if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
                        outlet.failed = Some(format!("a datagram of {} B is too long for it", data.len()));
                    } else {
                        outlet.failed = Some(plain(&error));
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Finishes the destinations and reports the result.
    fn end(mut self, outcome: Ending) -> Result<(), Failure> {
        let stopped = matches!(outcome, Ending::Stopped(_));
        let control = Arc::clone(&self.control);
        for outlet in self.outlets.iter_mut().filter(|outlet| outlet.is_alive()) {
            // An ICMP error for the last datagram arrives at once from this machine, and soon from a near one.
            if outlet.destination.is_datagram() && outlet.datagrams > 0 {
                std::thread::sleep(Duration::from_millis(5));
                outlet.failed = outlet.destination.late_error().as_ref().map(plain);
                continue;
            }
            let patience = if stopped { Span::from_millis(200) } else { self.args.patience };
            match outlet.destination.finish(patience, || stopped || control.wanted().stop.is_none()) {
                Ok(true) => {}
                Ok(false) => outlet.failed = Some("did not acknowledge everything".into()),
                Err(error) => outlet.failed = Some(plain(&error)),
            }
        }
        let (now, view) = (self.clock.now(), self.view());
        self.progress.conclude(self.started, now, &view);
        self.report_distribution()?;
        let dropped = view.dropped;
        let mut troubles = Vec::new();
        for outlet in &self.outlets {
            let (name, account) = (outlet.destination.name(), outlet.account());
            match &outlet.failed {
                Some(why) => troubles.push(format!("{name}: {why}; {account}")),
                None if outlet.reader_left => message!("tidegate: the reader closed it; {account}"),
                None if self.args.verbose || stopped || self.outlets.len() > 1 && !troubles.is_empty() => {
                    message!("tidegate: {name}: {account}");
                }
                None => {}
            }
        }
        if dropped > 0 {
            message!("tidegate: {dropped} packets of {} B in all were late and dropped", self.dropped_bytes);
        }
        match outcome {
            Ending::Stopped(signal) => {
                let name = if signal == signal_hook::consts::SIGINT { "an interrupt" } else { "a signal to terminate" };
                troubles.push(format!("stopped by {name} after {} B", self.handed));
            }
            Ending::Unreadable(error) => {
                troubles.push(format!("cannot read further: {}; {} B were sent", plain(&error), self.handed));
            }
            Ending::Ended | Ending::Deserted => {}
        }
        if troubles.is_empty() { Ok(()) } else { Err(Failure::Failed(troubles.join("\ntidegate: "))) }
    }
    fn report_distribution(&self) -> Result<(), Failure> {
        if !self.args.measure && !self.args.json {
            return Ok(());
        }
        let mut out: Box<dyn Write> =
            if self.args.to.is_empty() { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
        let report = self.recorder.report();
        if self.args.json {
            measure::json(&mut out, &report, None)?;
        } else {
            if self.segment.is_some() && io::stdout().is_terminal() {
                writeln!(out, "(a packet here is the data of one system call: several datagrams)")?;
            }
            measure::text(&mut out, &report, None)?;
        }
        Ok(())
    }
}

/// Whether the queue of the device is full, for which there is no event to poll.
fn is_out_of_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}
