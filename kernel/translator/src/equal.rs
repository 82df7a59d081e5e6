//! The C, compiled for this machine, against the core: the same operations, and every decision compared.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tidegate_core::random::Stream;
use tidegate_kernel::options::{
    CAKE, CBQ, DRR, DUALPI2, FBQ, FIFO, FQ_CODEL, FQ_PIE, OWN, Options, PIE, RAS, RECORDS, RIO, SFQ, SLOTS, SPACE, TBF,
    WRED,
};

use super::classes::{Classes, NUMBERS};
use super::more::{cake, coloured, coupled, metered, shaping, stepped};
use super::packets;
use super::reference::{
    BEGIN, CALL, DECISION, DEQUEUE, Decision, ENQUEUE, LEAF, Operation, Reference, SET_RATE, Structure,
};
use super::script::{GRID, Script, grid};
use super::trees::Tree;

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
        options: Option<&Options>,
        structure: Option<Structure<'_>>,
        operations: &[Operation],
    ) -> io::Result<Vec<Decision>> {
        let mut bytes = Vec::with_capacity(operations.len() * 48 + 8_192);
        let mut put =
            |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_ne_bytes()));
        if let Some(options) = options {
            put(&[BEGIN, 0, 0, 0, 0, 0]);
            put(&options.numbers());
            put(&structure.map_or_else(Vec::new, |structure| structure.record()));
        }
        for operation in operations {
            put(operation);
            // The limits of a class follow from its rate by what the C has not.
            if let (SET_RATE | LEAF, Some(Structure::Tree(tree))) = (operation[0], structure) {
                put(&tree.class_numbers(*operation));
            }
        }
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
        let [what, now, size, service, ..] = operation;
        let packet = format!(", a packet of {size} B{}", if service & 3 != 0 { " that can be marked" } else { "" });
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
    let interval =
        spread(random, if matches!(kind, PIE | FQ_PIE | DUALPI2) { 10_000_000 } else { 1_000 }, 4_000_000_000);
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
        above_max: random.below(3),
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
    let options = match kind {
        DUALPI2 => coupled(random, options),
        WRED | RIO => coloured(random, options),
        CAKE => cake(random, options),
        RAS => shaping(random, options),
        FQ_CODEL => stepped(random, options),
        // Its packets come a thousand nanoseconds apart.
        DRR => stepped(random, Options { interval: 20_000, ..options }),
        _ => options,
    };
    let has_none = [TBF, FBQ, OWN, RAS].contains(&kind);
    if has_none || random.below(if [WRED, RIO].contains(&kind) { 2 } else { 6 }) != 0 {
        options
    } else {
        metered(random, options)
    }
}

/// Compares `operations` random operations of all kinds in turn. The first difference ends it.
pub fn compare(program: &Path, operations: u64, seed: u64) -> io::Result<Option<Difference>> {
    // A queue without a decider needs the fewest.
    let next = |kind, random: &mut Stream| match kind {
        FBQ => CBQ,
        CAKE if random.below(4) == 0 => FIFO,
        CAKE => TBF,
        kind => kind + 1,
    };
    compare_kinds(program, operations, Stream::named(seed, "twin"), FIFO, next)
}

/// Compares operations of one kind alone.
pub fn compare_kind(program: &Path, kind: u64, operations: u64, seed: u64) -> io::Result<Option<Difference>> {
    compare_kinds(program, operations, Stream::named(seed, "kind"), kind, |_, _| kind)
}

/// Compares scripts from one for `kind` on, each for the kind that is `next`.
fn compare_kinds(
    program: &Path,
    operations: u64,
    mut random: Stream,
    mut kind: u64,
    next: impl Fn(u64, &mut Stream) -> u64,
) -> io::Result<Option<Difference>> {
    let mut host = Host::start(program)?;
    let mut done = 0;
    while done < operations {
        let mut options = options(&mut random, kind);
        kind = next(kind, &mut random);
        if options.kind == CBQ {
            // Trees need a part of the rate for each class.
            options.rate = options.rate.max(1 << 20);
        }
        let typical = (12_000_000_000_000 / options.rate.max(1)).max(1);
        let classes = (options.kind == FBQ).then(|| Classes::random(&mut random, options.rate, typical));
        let tree = (options.kind == CBQ).then(|| Tree::random(&mut random, options.rate, typical));
        let structure = classes.as_ref().map(Structure::Classes).or(tree.as_ref().map(Structure::Tree));
        let reference = Reference::new(&options, structure).map_err(io::Error::other)?;
        let (found, counts) = run_script(&mut host, &mut random, &options, structure, reference, operations - done)?;
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
    structure: Option<Structure<'_>>,
    mut reference: Reference,
    most: u64,
) -> io::Result<(Option<Difference>, Compared)> {
    let mut script = Script::new(random, options, structure);
    let (end, mut counts, mut first) = (SCRIPT.min(most), Compared::default(), Some(options));
    while counts.calls < end {
        let count = usize::try_from(end - counts.calls).unwrap_or(BLOCK).min(BLOCK);
        let block: Vec<Operation> = (0..count).map(|_| script.next()).collect();
        for (operation, theirs) in block.iter().zip(host.ask(first.take(), structure, &block)?) {
            let ours = reference.apply(*operation);
            if ours != theirs {
                let mut found = difference(options, counts.calls, *operation, theirs, ours);
                if let Some(structure) = structure {
                    found.0 += &format!("\n    {structure:?}");
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

/// `trees`: writes the trees for `kernel/equal-in-kernel` to a folder: of each the options, what its leaves have, and the tree, and
/// the same with other rates.
pub fn trees(folder: &Path) -> io::Result<Vec<String>> {
    let write = |name: &str, numbers: &[u64]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        fs::write(folder.join(name), bytes)
    };
    for name in Tree::PRESETS {
        for (number, tree) in Tree::preset(name).into_iter().flatten().enumerate() {
            let name = if number == 0 { name.to_owned() } else { format!("{name}-other") };
            let options = Options { changes: 2 * number as u64, ..Tree::options() };
            write(&name, &options.numbers())?;
            write(&format!("{name}-classes"), &tree.record()[..NUMBERS])?;
            write(&format!("{name}-tree"), &tree.numbers())?;
        }
    }
    Ok(Vec::new())
}

/// `calls`: compares calls that the kernel made, as `kernel/equal-in-kernel` records them: the options, then for each call the
/// operation and the decision. For CBQ `tree` is the name of the tree, of which the record has what the kernel had.
pub fn calls(path: &Path, tree: Option<&str>) -> io::Result<Vec<String>> {
    let bytes = fs::read(path)?;
    let mut numbers = bytes.chunks_exact(8).map(number);
    let options = Options::of_numbers(std::array::from_fn(|_| numbers.next().unwrap_or_default()));
    let is_fbq = options.kind == FBQ;
    let classes = is_fbq.then(|| Classes::of_record(&std::array::from_fn(|_| numbers.next().unwrap_or_default())));
    let tree = tree.map(|name| Tree::preset(name).ok_or_else(|| io::Error::other(format!("there is no tree {name}"))));
    let tree = tree.transpose()?.map(|[first, _]| first);
    let structure = classes.as_ref().map(Structure::Classes).or(tree.as_ref().map(Structure::Tree));
    if let Some(tree) = &tree
        && !tree.record().into_iter().eq(numbers.by_ref().take(NUMBERS + tidegate_kernel::tree::NUMBERS))
    {
        return Err(io::Error::other("the record is of another tree"));
    }
    let nested = structure.map_or(0, |structure| structure.record().len());
    let (begin, each) = ((Options::NUMBERS + nested) * 8, CALL * 8);
    if bytes.len() < begin || bytes.len() % each != begin % each {
        return Err(io::Error::other("the file is not a record of calls: kernel/equal-in-kernel makes one"));
    }
    let mut reference = Reference::new(&options, structure).map_err(io::Error::other)?;
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
