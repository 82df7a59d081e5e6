//! The C, compiled for this machine, against the core: the same operations, and every decision compared.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tidegate_core::cake::Tins;
use tidegate_core::random::Stream;
use tidegate_core::{Rate, Span};
use tidegate_kernel::options::{
    ARED, CAKE, CODEL, DRR, FBQ, FIFO, FQ_CODEL, FQ_PIE, MERED, OWN, Options, PIE, RECORDS, RED, SFQ, SLOTS, SPACE, TBF,
};

use super::classes::{Classes, NUMBERS};
use super::packets;
use super::promises::Draw;
use super::reference::{BEGIN, CALL, DECISION, DEQUEUE, Decision, ENQUEUE, Operation, Reference, SET_RATE};

/// Operations of one script.
const SCRIPT: u64 = 4_000;
/// Operations that are sent before their decisions are read. Both fit the buffer of a pipe, so that neither side waits.
const BLOCK: usize = 1_000;
/// The packets that a queue of the host is for, at most.
const MOST_PACKETS: u64 = SLOTS - 1;

/// The compiler, or why there is none.
pub fn compiler() -> Result<String, String> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    match Command::new(&name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(name),
        _ => Err(format!("there is no C compiler `{name}`: install gcc or clang, or set CC")),
    }
}

/// Compiles `host.c` of the folder `from` to `to`, with what it includes from there or from `kernel`.
pub fn compile(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let kernel = root.join("kernel");
    compile_with(&["-Werror"], &[from, &kernel, &kernel.join("generated")], &from.join("host.c"), to)
}

/// Compiles `host.c` with the decider of a user's own, whose C is in the folder `own`.
pub fn compile_own(root: &Path, own: &Path, to: &Path) -> io::Result<()> {
    let kernel = root.join("kernel");
    compile_with(&["-DTWIN_WITH_OWN"], &[own, &kernel], &kernel.join("host.c"), to)
}

fn compile_with(options: &[&str], folders: &[&Path], file: &Path, to: &Path) -> io::Result<()> {
    let mut command = Command::new(compiler().map_err(io::Error::other)?);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra"]).args(options);
    for folder in folders {
        command.arg("-I").arg(folder);
    }
    let output = command.arg(file).arg("-o").arg(to).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// A folder of this process that is removed in the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty folder among those of the system for temporary files.
    pub fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The C as a process.
pub struct Host {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Host {
    /// Starts a program.
    pub fn start(program: &Path) -> io::Result<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { child, input, output }),
            _ => Err(io::Error::other("no pipe to the compiled program")),
        }
    }
    /// Sends operations, the first of a script after its options. Returns the decisions.
    fn ask(
        &mut self,
        options: Option<(&Options, Option<&Classes>)>,
        operations: &[Operation],
    ) -> io::Result<Vec<Decision>> {
        let mut bytes = Vec::with_capacity(operations.len() * 48 + 8_192);
        let mut put =
            |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_ne_bytes()));
        if let Some((options, classes)) = options {
            put(&[BEGIN, 0, 0, 0, 0, 0]);
            put(&options.numbers());
            put(&classes.map_or_else(Vec::new, Classes::record));
        }
        operations.iter().for_each(|operation| put(operation));
        self.send(bytes, operations.len())
    }
    /// Sends records that end in `decisions`, which are returned.
    pub fn send(&mut self, mut bytes: Vec<u8>, decisions: usize) -> io::Result<Vec<Decision>> {
        // An empty operation: what is decided so far is written.
        bytes.extend([0; 48]);
        self.input.write_all(&bytes)?;
        let mut answer = vec![0; decisions * DECISION * 8];
        self.output.read_exact(&mut answer).map_err(|error| {
            let status = self.child.try_wait().ok().flatten();
            io::Error::new(error.kind(), format!("the compiled program ended: {error}; {status:?}"))
        })?;
        Ok(answer.chunks_exact(DECISION * 8).map(decision).collect())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default()
}

fn decision(bytes: &[u8]) -> Decision {
    std::array::from_fn(|at| number(&bytes[at * 8..at * 8 + 8]))
}

/// A decision in which the compiled program and the core differ.
pub struct Difference(pub String);

fn difference(options: &Options, at: u64, operation: Operation, theirs: Decision, ours: Decision) -> Difference {
    let show = |[result, drops, which, deadline, packets, bytes]: Decision| {
        let marked = if drops % 2 == 1 { ", marked" } else { "" };
        let drops = drops / 2;
        format!(
            "result {result}{marked}, {drops} dropped ({which}), deadline {deadline}, {packets} packets of {bytes} B"
        )
    };
    let (of, name) = if options.kind == OWN {
        let [what, now, size, capable, ..] = operation;
        let packet = format!(", a packet of {size} B{}", if capable == 1 { " that can be marked" } else { "" });
        let call = if what == ENQUEUE { ("enqueue", packet) } else { ("dequeue", String::new()) };
        (format!("{} at {now} ns{}", call.0, call.1), "Rust")
    } else {
        (format!("{operation:?} of {options:?}"), "core")
    };
    Difference(format!("operation {at}, {of}:\n    the C:    {}\n    the {name}: {}", show(theirs), show(ours)))
}

/// Numbers over many orders of magnitude, the small ones as often as the large.
pub fn spread(random: &mut Stream, least: u64, most: u64) -> u64 {
    let bits = u64::from((most / least.max(1)).max(1).ilog2()) + 1;
    let top = least.max(1).saturating_mul(2_u64.saturating_pow(random.below(bits + 1) as u32)).min(most);
    least + random.below(top.max(least) - least + 1)
}

/// The options of a random script.
fn options(random: &mut Stream, kind: u64) -> Options {
    // In short intervals PIE's probability hardly moves.
    let interval = spread(random, if matches!(kind, PIE | FQ_PIE) { 10_000_000 } else { 1_000 }, 4_000_000_000);
    options_within(random, kind, interval)
}

/// Random options of a kind, of which a discipline decides within `interval`.
pub fn options_within(random: &mut Stream, kind: u64, interval: u64) -> Options {
    // On the grid of the script, or anywhere.
    let target = match random.below(2) {
        0 => random.below(interval),
        _ => grid(interval) * random.below(GRID),
    };
    let in_bytes = random.below(2);
    // Thresholds that an average reaches, and passes, and weights with which it does.
    let unit = if in_bytes == 1 { spread(random, 60, 40_000) } else { 1 };
    let min = random.below(20) * unit;
    let max = min + spread(random, 1, 40 * unit);
    let one = 1 << 32;
    let largest_mean = if random.below(50) == 0 { 1 << 40 } else { 5_000 };
    let mean = if random.below(2) == 0 { 0 } else { spread(random, 1, largest_mean) };
    let is_fair = matches!(kind, DRR | SFQ | FQ_CODEL | FQ_PIE | CAKE);
    let largest_limit = if random.below(4) == 0 { MOST_PACKETS } else { 300 };
    let limit_packets = spread(random, 1, largest_limit);
    let parts = Stream::named(random.next_u64(), "packets").parts();
    // Flows that become elephants, several of them, and a bucket that is emptied and filled again meanwhile.
    let longest_mouse = spread(random, 60, 300_000);
    let pair_threshold = longest_mouse + spread(random, 1, 1 << 20);
    let pair_rate = (u128::from(pair_threshold) * 80_000_000_000 / u128::from(interval)).min(1 << 40) as u64;
    // A step at the length of the longest mouse, or more points beyond it.
    let mut points = vec![(longest_mouse, 0), (longest_mouse + 1, 1)];
    if random.below(2) == 0 {
        for _ in 0..random.below(14) {
            let (length, value) = points[points.len() - 1];
            points.push((length + spread(random, 1, 1 << 20), (value + random.below(300)).min(65_535)));
        }
    }
    let mut values = [0; 16];
    for (to, (length, value)) in values.iter_mut().zip(&points) {
        *to = value << 48 | length;
    }
    let most_records = if random.below(4) == 0 { 3_000 } else { 30 };
    let records = (limit_packets.max(7) + spread(random, 1, most_records)).min(RECORDS);
    let options = Options {
        kind,
        limit_packets: if is_fair && random.below(50) == 0 { 0 } else { limit_packets },
        limit_bytes: if random.below(4) == 0 { u64::MAX } else { spread(random, 100, 10_000_000) },
        marks: random.below(2),
        rate: spread(random, 1, 1 << 40),
        burst: spread(random, 1, 1 << 31),
        target: if matches!(kind, PIE | FQ_PIE) { target.max(1) } else { target },
        interval,
        mtu: spread(random, 1, 100_000),
        longest: if random.below(2) == 0 { 0 } else { target + spread(random, 1, interval * 2) },
        min,
        max,
        in_bytes,
        max_p: if random.below(10) == 0 { one } else { spread(random, 1, one) },
        weight: if random.below(2) == 0 { one >> random.below(8) } else { spread(random, 1, one) },
        above_max: random.below(2),
        spacing: random.below(2),
        idle_packet: if random.below(10) == 0 { 0 } else { spread(random, 1, 2_000_000_000) },
        mean,
        allowance: random.below(3) * spread(random, 1, interval * 20),
        alpha: if random.below(2) == 0 { 1_600 } else { spread(random, 0, 1_600) },
        beta: if random.below(2) == 0 { 1_600 } else { spread(random, 0, 1_600) },
        least_queue_mean: spread(random, 1, 2_000),
        most_marked: spread(random, 0, one),
        quantum: 64 + random.below(2_000) * random.below(2),
        queues: match random.below(3) {
            // More than there are flows with packets.
            _ if kind == DRR => (limit_packets + 2).min(SPACE),
            0 => 1_024,
            _ => spread(random, 1, SPACE),
        },
        perturb: if random.below(3) == 0 { 0 } else { interval },
        seed: random.next_u64(),
        random: parts,
        longest_mouse,
        counts_packets: random.below(4) / 3,
        by_pair: random.below(4) / 3,
        records,
        idle: interval.saturating_mul(spread(random, 1, 1_000)),
        pair_threshold: if random.below(2) == 0 { 0 } else { pair_threshold },
        pair_rate: spread(random, 1, pair_rate.max(1)),
        elephant_limit: if random.below(2) == 0 { u64::MAX } else { spread(random, 100, 10_000_000) },
        floor: if random.below(4) == 0 { spread(random, 0, one - 1) } else { one / (2 + random.below(8)) },
        floor_credit: random.below(2) * spread(random, 1, 1 << 18),
        points: points.len() as u64,
        values,
        fairness: random.below(2) * spread(random, 0, one),
        ..Options::default()
    };
    if kind == CAKE { cake(random, options) } else { options }
}

/// The most queues of CAKE.
const CAKE_QUEUES: [u64; 4] = [8, 16, 64, 1_024];

/// Random options of CAKE, with the law of a queue of these.
fn cake(random: &mut Stream, options: Options) -> Options {
    let tins = [Tins::BestEffort, Tins::Diffserv3, Tins::Diffserv4][random.below(3) as usize];
    // Up to a byte a nanosecond: the reference finds the lateness by the depth.
    let rate = Rate::from_bps((random.below(4).min(1)) * spread(random, 100_000, 8_000_000_000));
    let lateness = Span::from_nanos(random.below(2) * random.below(20_000_000));
    Options {
        rate: rate.as_bps(),
        burst: rate.bytes_in_floor(lateness).as_u64(),
        queues: CAKE_QUEUES[random.below(CAKE_QUEUES.len() as u64) as usize],
        overhead: if random.below(4) == 0 { 0_u64.wrapping_sub(random.below(65)) } else { random.below(257) },
        least: random.below(2) * random.below(200),
        framing: random.below(3),
        hosts: random.below(4),
        ack_filter: random.below(2),
        ..options
    }
    .with_tins(tins)
}

/// Steps of time in an interval of CoDel, in a script whose times are multiples of a step: so that a delay is its target.
const GRID: u64 = 16;

fn grid(interval: u64) -> u64 {
    (interval / GRID).max(1)
}

/// Makes the operations of a script, with bursts, pauses, and times that run back.
struct Script<'a> {
    random: &'a mut Stream,
    now: u64,
    /// The usual time between two operations, and a pause in which queues fill.
    step: u64,
    pause: u64,
    /// About the time of a packet.
    typical: u64,
    /// All times are multiples of it.
    grid: u64,
    arrivals: u64,
    /// The sizes of packets, up to the largest or all alike.
    sizes: u64,
    alike: bool,
    /// A sum of sizes beyond 64 bits is beyond every machine, and of a quantum's turns the largest packet takes many.
    largest: u64,
    /// Flows that packets arrive of, and how many of the packets are of the first few.
    flows: u64,
    few: u64,
    /// Pairs of hosts.
    pairs: u64,
    classes: Option<&'a Classes>,
    promises: Draw,
    /// An operation that follows the last one.
    pending: Option<Operation>,
    /// The largest rate that a class gets.
    most: u64,
    is_cake: bool,
    /// How many code points most packets have, up to 8.
    points: u64,
}

impl<'a> Script<'a> {
    fn new(random: &'a mut Stream, options: &Options, classes: Option<&'a Classes>) -> Self {
        let has_codel = matches!(options.kind, CODEL | FQ_CODEL | CAKE);
        // Packets of one MTU leave exactly that behind, and flows of classes are next at one time.
        let alike = (has_codel || matches!(options.kind, MERED | FBQ)) && random.below(2) == 0;
        let sizes = if alike { options.mtu } else { spread(random, 60, 70_000) };
        // About the time of a packet, so that queues build up and run empty.
        let typical = match options.kind {
            TBF | FBQ | CAKE if options.rate > 0 => {
                (sizes as u128 * 8_000_000_000 / u128::from(options.rate.max(1))).min(1 << 44) as u64
            }
            RED | ARED | MERED if random.below(2) == 0 => options.idle_packet.max(1),
            CODEL | FQ_CODEL | RED | ARED | MERED | PIE | FQ_PIE | SFQ | CAKE => options.interval / 20,
            OWN => spread(random, 1_000, 20_000_000),
            _ => 1_000,
        };
        let on_grid = has_codel && random.below(2) == 0;
        let grid = if on_grid { grid(options.interval) } else { 1 };
        let step = spread(random, 1, typical.saturating_mul(4).max(1));
        let (now, arrivals) = (random.below(1 << 40), 20 + random.below(60));
        Self {
            now: now / grid * grid,
            step,
            typical,
            pause: typical.saturating_mul(10).max(1),
            grid,
            arrivals,
            sizes,
            alike,
            largest: if matches!(options.kind, FQ_CODEL | FQ_PIE | CAKE) { 1 << 17 } else { 1 << 48 },
            flows: spread(random, 1, if options.kind == MERED { 60 } else { 2_000 }),
            few: random.below(100),
            // Of few hosts each has many flows.
            pairs: spread(random, 1, if options.kind == CAKE { 8 } else { 60 }),
            is_cake: options.kind == CAKE,
            points: 1 + random.below(8),
            most: classes.map_or(1 << 40, |classes| options.rate / classes.count() * 2),
            classes,
            promises: Draw::default(),
            pending: None,
            random,
        }
    }
    /// A time of up to `most`, in steps of the grid.
    fn time(&mut self, most: u64) -> u64 {
        self.random.below(most / self.grid + 2) * self.grid
    }
    /// The second argument of the arrival of a packet of `flow` for CAKE: mostly the flow has one code point, of the first few.
    fn cake_traits(&mut self, flow: u64) -> u64 {
        const POINTS: [u64; 8] = [46, 0, 8, 34, 1, 48, 16, 10];
        let point =
            if self.random.below(40) == 0 { self.random.below(64) } else { POINTS[(flow % self.points) as usize] };
        let is_ack = u64::from(flow % 3 == 0 && self.random.below(3) != 0);
        let segments = if self.random.below(4) == 0 { self.random.below(45) } else { 1 };
        self.random.below(2) | point << 8 | is_ack << 14 | segments << 32
    }
    fn next(&mut self) -> Operation {
        if let Some(operation) = self.pending.take() {
            return operation;
        }
        self.now = match self.random.below(400) {
            0 => self.now + spread(self.random, 1, 1 << 40) / self.grid * self.grid,
            1 => {
                let back = self.time(self.step.saturating_mul(10));
                self.now.saturating_sub(back)
            }
            2 => {
                // Bursts of new flows, and queues that run empty, are what CAKE decides by.
                self.arrivals = if self.is_cake { 5 + self.random.below(95) } else { 20 + self.random.below(60) };
                // Packets that wait, or ones that are alone.
                if self.classes.is_some() || self.is_cake {
                    let most = if self.random.below(2) == 0 { 4 } else { 100 };
                    self.step = spread(self.random, 1, self.typical.saturating_mul(most).max(1));
                }
                self.now
            }
            3..=8 => self.now + self.time(self.pause),
            9..=120 => self.now,
            _ => self.now + self.time(self.step.saturating_mul(2)),
        };
        match (self.random.below(100), self.classes) {
            (1, Some(classes)) if self.random.below(2) == 0 => {
                let [terms, promise] = self.promises.change(self.random, self.now, classes.count(), self.most);
                self.pending = Some(promise);
                terms
            }
            (0, _) if self.classes.is_some() || self.random.below(20) == 0 => {
                let class = self.classes.map_or(0, |classes| self.random.below(classes.count() + 1));
                let most = if class == 0 { self.most.saturating_mul(40) } else { self.most };
                [SET_RATE, self.now, spread(self.random, 1, most.min(1 << 40)), class, 0, 0]
            }
            (draw, _) if draw < self.arrivals => {
                let size = if self.alike {
                    self.sizes
                } else if self.random.below(1_000) == 0 {
                    self.random.next_u64() >> self.random.below(64)
                } else {
                    1 + self.random.below(self.sizes)
                };
                let few = self.random.below(100) < self.few;
                let flow = self.random.below(if few { self.flows.min(4) } else { self.flows });
                let (second, fourth) = match self.classes {
                    Some(classes) => {
                        let (class, profile) = classes.of_flow(self.random, flow);
                        let host = flow % self.pairs;
                        (class | host << 32, profile | self.promises.of_flow(flow) << 32)
                    }
                    None if self.is_cake => (self.cake_traits(flow), flow % self.pairs),
                    None => (self.random.below(2), flow % self.pairs),
                };
                [ENQUEUE, self.now, size.clamp(1, self.largest), second, flow, fourth]
            }
            _ => [DEQUEUE, self.now, 0, 0, 0, 0],
        }
    }
}

/// Compares `operations` random operations. The first difference ends it.
pub fn compare(program: &Path, operations: u64, seed: u64) -> io::Result<Option<Difference>> {
    let mut host = Host::start(program)?;
    let mut random = Stream::named(seed, "twin");
    let (mut done, mut kind) = (0, FIFO);
    while done < operations {
        let options = options(&mut random, kind);
        // A queue without a decider needs the fewest.
        kind = match kind {
            FBQ => CAKE,
            CAKE if random.below(4) == 0 => FIFO,
            CAKE => TBF,
            kind => kind + 1,
        };
        let typical = (12_000_000_000_000 / options.rate.max(1)).max(1);
        let classes = (options.kind == FBQ).then(|| Classes::random(&mut random, options.rate, typical));
        let reference = Reference::new(&options, classes.as_ref()).map_err(io::Error::other)?;
        let (found, counts) =
            run_script(&mut host, &mut random, &options, classes.as_ref(), reference, operations - done)?;
        if found.is_some() {
            return Ok(found);
        }
        done += counts.calls;
    }
    Ok(None)
}

/// Calls that were compared, and what became of packets in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Calls.
    pub calls: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that were marked.
    pub marked: u64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, sent, dropped, marked } = self;
        write!(f, "{calls} calls decide the same in C: {sent} packets left, {dropped} were dropped, {marked} marked")
    }
}

/// Compares a script, of at most `most` operations, with `reference`. The first difference ends it.
pub fn run_script(
    host: &mut Host,
    random: &mut Stream,
    options: &Options,
    classes: Option<&Classes>,
    mut reference: Reference,
    most: u64,
) -> io::Result<(Option<Difference>, Compared)> {
    let mut script = Script::new(random, options, classes);
    let (end, mut counts, mut first) = (SCRIPT.min(most), Compared::default(), Some((options, classes)));
    while counts.calls < end {
        let count = usize::try_from(end - counts.calls).unwrap_or(BLOCK).min(BLOCK);
        let block: Vec<Operation> = (0..count).map(|_| script.next()).collect();
        for (operation, theirs) in block.iter().zip(host.ask(first.take(), &block)?) {
            let ours = reference.apply(*operation);
            if ours != theirs {
                let mut found = difference(options, counts.calls, *operation, theirs, ours);
                if let Some(classes) = classes {
                    found.0 += &format!("\n    {classes:?}");
                }
                return Ok((Some(found), counts));
            }
            counts.calls += 1;
            counts.sent += u64::from(operation[0] == DEQUEUE && ours[0] != 0);
            counts.dropped += ours[1] / 2;
            counts.marked += ours[1] % 2;
        }
    }
    Ok((None, counts))
}

/// `equal`: compiles the C of this tree and compares.
pub fn equal(root: &Path, operations: u64, seed: u64) -> io::Result<Vec<String>> {
    let scratch = Scratch::new("twin-equal")?;
    let program = scratch.0.join("host");
    compile(root, &root.join("kernel"), &program)?;
    let mut found = compare(&program, operations, seed)?;
    if found.is_none() {
        println!("{operations} operations of seed {seed}: every decision is equal");
        // A tenth of them: rules cost more to build than disciplines.
        let (difference, counts) = packets::compare(&program, operations / 10, seed)?;
        found =
            difference.or_else(|| (!counts.are_mixed()).then(|| Difference(format!("too few of a kind: {counts}"))));
        println!("{counts}");
    }
    Ok(found.into_iter().map(|Difference(text)| text).collect())
}

/// `calls`: compares calls that the kernel made, as `kernel/equal-in-kernel` records them: the options, then for each call the
/// operation and the decision.
pub fn calls(path: &Path) -> io::Result<Vec<String>> {
    let bytes = fs::read(path)?;
    let mut numbers = bytes.chunks_exact(8).map(number);
    let options = Options::of_numbers(std::array::from_fn(|_| numbers.next().unwrap_or_default()));
    let is_fbq = options.kind == FBQ;
    let classes = is_fbq.then(|| Classes::of_record(&std::array::from_fn(|_| numbers.next().unwrap_or_default())));
    let (begin, each) = ((Options::NUMBERS + if is_fbq { NUMBERS } else { 0 }) * 8, CALL * 8);
    if bytes.len() < begin || bytes.len() % each != begin % each {
        return Err(io::Error::other("the file is not a record of calls: kernel/equal-in-kernel makes one"));
    }
    let mut reference = Reference::new(&options, classes.as_ref()).map_err(io::Error::other)?;
    let (mut counts, mut dropped) = ([0_u64; 4], 0);
    for (at, call) in bytes[begin..].chunks_exact(each).enumerate() {
        let operation: Operation = std::array::from_fn(|at| number(&call[at * 8..at * 8 + 8]));
        let theirs = decision(&call[each - DECISION * 8..]);
        let ours = reference.apply(operation);
        if ours != theirs {
            return Ok(vec![difference(&options, at as u64, operation, theirs, ours).0]);
        }
        counts[operation[0].min(3) as usize] += 1;
        dropped += ours[1] / 2;
    }
    println!(
        "{} calls of the kernel are equal: {} enqueued, {} dequeued, {} changes of rate; {dropped} packets dropped",
        counts.iter().sum::<u64>(),
        counts[ENQUEUE as usize],
        counts[DEQUEUE as usize],
        counts[SET_RATE as usize]
    );
    Ok(Vec::new())
}
