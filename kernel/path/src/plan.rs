//! [`Plan`]: the options of the program for a configuration.

use tidegate_config::discipline::outside::Outside;
use tidegate_config::discipline::{Discipline, InKernel};
use tidegate_config::shaper::{Advice, Borrow, Class, Config, Direction, EcnFeedback, FairBy, FlowBy, Root, Shaper};
use tidegate_core::elephants::{self, Measure};
use tidegate_core::fbq::Ceilings;
use tidegate_core::fifo::Limit;
use tidegate_core::random::Stream;
use tidegate_core::red::{AboveMax, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::{Bytes, Span, codel, mered, pie, red};

use super::classes::Classes;
use super::options::{
    ARED, CODEL, DRR, FBQ, FIFO, FQ_CODEL, LINES, MERED, OWN, OWN_NUMBERS, Options, PIE, QUEUES, RECORDS, RED, SFQ,
    SLOTS, TBF,
};
use tidegate_live::shaping::StartError;

/// The most packets that are queued: the arriving packet needs a slot too, before another is dropped for it.
const PACKETS: u64 = SLOTS - 1;
/// Bytes of a superpacket where the link does not report a limit: the kernel's default.
const SUPERPACKET: u64 = 65_536;
/// The time of a superpacket at the rate of a shaper up to which the kernel is chosen without being asked for.
const LONGEST_SUPERPACKET: Span = Span::from_millis(10);
/// The name of the random stream, as that of the engine.
const STREAM: &str = "root";

/// The options of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub options: Options,
    /// The classes, where there are several or where their flows have queues of their own.
    pub classes: Option<Classes>,
    /// The names of the classes in their order; a single name where there are none.
    pub names: Vec<String>,
    /// For each of these the code point that its packets get.
    pub dscp: Vec<Option<u64>>,
    /// Whether a class advises rates to QUIC flows.
    pub advises: bool,
    /// The overhead of the link for each packet, in bytes.
    pub overhead: u64,
    /// Differences from the configuration, for people.
    pub notes: Vec<String>,
}

impl Plan {
    /// The plan for `config` on a link whose superpackets have up to `superpacket` bytes. Random streams are derived from
    /// `seed`.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] with everything that the program does not do.
    pub fn new(config: &Config, superpacket: Option<u64>, seed: u64) -> Result<Self, StartError> {
        let mut lacks = Vec::new();
        let mut lack = |what: String| lacks.push(what);
        if config.interface.direction == Direction::Ingress && by_marks(config) {
            lack("marks of what arrives".into());
        }
        if config.interface.threads > 1 {
            lack("several threads".into());
        }
        let names = config.interface.names.len();
        if names > LINES as usize {
            lack(format!("{names} interfaces under one total (up to {LINES} are possible)"));
        }
        // The packet forgets by which interface it came in when it is led to the device of the total.
        if names > 1 && config.rules.iter().any(|rule| !rule.matches.from_interfaces.is_empty()) {
            lack("rules by `from-interface` beside several interfaces under one total".into());
        }
        let largest = superpacket.unwrap_or(SUPERPACKET).max(SUPERPACKET);
        // With the headers of its segments.
        let burst = largest + largest / 4;
        let mut notes = Vec::new();
        let (options, classes) = match &config.root {
            Root::Shaper(shaper) if !is_token_bucket(config, shaper) => {
                let classes = Classes::new(config, shaper, burst, &mut lack, &mut |text| notes.push(text));
                let feeds_back =
                    |class: &Class| class.feedback.is_some_and(|feedback| feedback.ecn == EcnFeedback::Mark);
                let marks = |class: &Class| feeds_back(class) || class.l4s_step.is_some();
                let marks = u64::from(shaper.classes.iter().any(marks));
                let all =
                    Options { kind: FBQ, limit_packets: PACKETS, limit_bytes: u64::MAX, marks, ..Options::default() };
                (Some(all), Some(classes))
            }
            _ => (options(config, seed, &mut lack), None),
        };
        if classes.is_none() && !config.rules.is_empty() {
            lack("rules without classes that have a queue for each flow".into());
        }
        refused(&lacks)?;
        let mut options = options.unwrap_or_default();
        if options.rate != 0 && options.burst < burst {
            let (asked, now) = (Bytes::new(options.burst), Bytes::new(burst));
            notes.push(format!(
                "up to {now} may leave at once instead of {asked}: the kernel does not segment superpackets here"
            ));
            options.burst = burst;
        }
        if options.limit_packets > PACKETS {
            if options.limit_packets != u64::MAX || options.limit_bytes > PACKETS * 64 {
                notes.push(format!("at most {PACKETS} packets wait, however small"));
            }
            options.limit_packets = PACKETS;
        }
        let (names, dscp) = match &config.root {
            Root::Shaper(shaper) => {
                let one = |class: &Class| (class.name.clone(), class.dscp.map(|dscp| u64::from(dscp.value())));
                shaper.classes.iter().map(one).unzip()
            }
            Root::Discipline(_) => (vec!["all".into()], vec![None]),
        };
        let advises = match &config.root {
            Root::Shaper(shaper) => shaper.classes.iter().any(|class| class.advice != Advice::None),
            Root::Discipline(_) => false,
        };
        Ok(Self { options, classes, names, dscp, advises, overhead: config.interface.overhead.as_u64(), notes })
    }

    /// Whether packets are changed: they get code points, marks of congestion or rates.
    pub fn marks(&self) -> bool {
        self.advises || self.options.marks != 0 || self.dscp.iter().any(Option::is_some)
    }

    /// Fits the plan to a program that tells up to `queues` flows apart.
    pub fn within(mut self, queues: u64) -> Self {
        let notes = &mut self.notes;
        self.classes = self.classes.map(|classes| classes.within(queues, &mut |text| notes.push(text)));
        self
    }
}

/// Whether the kernel may be chosen for `config` without being asked for: what it does then is what user space does.
///
/// # Errors
/// [`StartError::NotInKernel`] with everything that would differ.
pub(super) fn examine_choice(config: &Config) -> Result<(), StartError> {
    let mut lacks = Vec::new();
    if let Root::Shaper(shaper) = &config.root {
        let time = shaper.rate.time_for_ceil(Bytes::new(SUPERPACKET));
        // The kernel does not segment them.
        if time.is_none_or(|time| time > LONGEST_SUPERPACKET) {
            lacks.push(format!(
                "to segment superpackets, of which one takes more than {LONGEST_SUPERPACKET} at {} (data-path = \"kernel\" has \
                 them pass whole)",
                shaper.rate
            ));
        }
    }
    if config.follow().is_some() {
        lacks.push("the round trips of what passes, by which a rate follows the line".into());
    }
    // The program sees packets before the packet filter does.
    if config.interface.direction == Direction::Ingress && by_receivers(config) {
        lacks.push(
            "addresses of receivers behind address translation, before which packets are seen (with data-path = \"kernel\" they \
             are taken as they are)"
                .into(),
        );
    }
    refused(&lacks)
}

fn refused(lacks: &[String]) -> Result<(), StartError> {
    if lacks.is_empty() { Ok(()) } else { Err(StartError::NotInKernel { what: lacks.join("; ") }) }
}

/// Whether packets are told apart by their marks.
fn by_marks(config: &Config) -> bool {
    let by_mark = matches!(&config.root, Root::Shaper(shaper) if shaper.flow_by == FlowBy::Mark);
    by_mark || config.rules.iter().any(|rule| !rule.matches.marks.is_empty())
}

/// Whether arriving packets are told apart by their receivers.
fn by_receivers(config: &Config) -> bool {
    let by_receiver = |shaper: &Shaper| {
        matches!(shaper.flow_by, FlowBy::Destination | FlowBy::HostPair) || shaper.fair_by == FairBy::Destination
    };
    matches!(&config.root, Root::Shaper(shaper) if by_receiver(shaper))
        || config.rules.iter().map(|rule| &rule.matches).any(|matches| {
            !matches.destinations.is_empty()
                || !matches.hosts.is_empty()
                || !matches.macs.is_empty()
                || !matches.host_names.is_empty()
                || matches.both_ways && !matches.sources.is_empty()
        })
}

/// Whether it is a token bucket before one queue: one class with a discipline, and for `fifo` neither ceilings nor rules, which a class
/// with one queue can have.
fn is_token_bucket(config: &Config, shaper: &Shaper) -> bool {
    let [class] = &shaper.classes[..] else { return false };
    match &class.queue {
        None => false,
        Some(Discipline::Fifo(_)) => class.at_most == Ceilings::default() && config.rules.is_empty(),
        Some(_) => true,
    }
}

/// The options for the queue of a configuration. `None` if the program has no such queue, which is reported to `lack`.
fn options(config: &Config, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let shaper = match &config.root {
        Root::Discipline(discipline) => return queue(discipline, "[discipline]", seed, lack),
        Root::Shaper(shaper) => shaper,
    };
    let class = shaper.classes.first()?;
    let (name, discipline) = (&class.name, class.queue.as_ref()?);
    let queue = queue(discipline, &format!("class `{name}`"), seed, lack)?;
    // One with `fifo` is no token bucket.
    if class.at_most != Ceilings::default() {
        lack(format!("a ceiling of class `{name}`, which has kind = \"{}\"", discipline.kind()));
    }
    let kind = match queue.kind {
        FIFO => TBF,
        OWN => OWN,
        _ => {
            lack(format!("kind = \"{}\" behind the rate of class `{name}` (`fifo` is possible)", discipline.kind()));
            return None;
        }
    };
    let (rate, burst) = match class.borrow {
        Borrow::Allowed if class.rate < shaper.rate => (shaper.rate, shaper.burst),
        _ => (class.rate.min(shaper.rate), class.burst.min(shaper.burst)),
    };
    Some(Options { kind, rate: rate.as_bps(), burst: burst.as_u64(), ..queue })
}

/// The flows that a configuration tells apart; 0 where it has no classes.
pub(super) fn flows(config: &Config) -> u64 {
    match &config.root {
        Root::Shaper(shaper) if !is_token_bucket(config, shaper) => shaper.flows.into(),
        _ => 0,
    }
}

/// Whether a configuration needs what only MERED does.
pub(super) fn is_mered(config: &Config) -> bool {
    matches!(&config.root, Root::Discipline(discipline) if matches!(**discipline, Discipline::Mered(_)))
}

/// The program in BPF that alone has the discipline of a configuration: that of another crate.
pub(super) fn own_program(config: &Config) -> Option<&'static [u8]> {
    let discipline = match &config.root {
        Root::Discipline(discipline) => discipline,
        Root::Shaper(shaper) => shaper.classes.iter().find_map(|class| class.queue.as_ref())?,
    };
    let Discipline::Outside(own) = discipline else { return None };
    own.kernel().map(|own| own.program)
}

/// The options of a discipline of another crate, if it has a decider for the kernel.
fn own(section: &Outside, kind: &str, place: &str, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let mut own = [0; OWN_NUMBERS as usize];
    let lacks = match section.kernel() {
        None => "which has no decider for the kernel (tidegate new-qdisc --kernel writes a crate that has one)".into(),
        Some(InKernel { program: [], .. }) => {
            "which was built without clang (install clang and libbpf-dev, and build it again)".into()
        }
        Some(InKernel { numbers, .. }) => match own.get_mut(..numbers.len()) {
            Some(taken) => {
                taken.copy_from_slice(&numbers);
                let random = Stream::named(seed, STREAM).parts();
                return Some(Options { kind: OWN, own, random, ..Options::default() }.within(Limit::packets(PACKETS)));
            }
            None => format!("whose decider has more than {} parameters", own.len()),
        },
    };
    lack(format!("kind = \"{kind}\" in {place}, {lacks}"));
    None
}

fn queue(discipline: &Discipline, place: &str, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let none = Options::default();
    let (options, signal) = match discipline {
        Discipline::Fifo(fifo) => (Options { kind: FIFO, ..none }.within(fifo.limit()), Signal::Drop),
        Discipline::CoDel(section) => controlled(CODEL, &section.params()),
        Discipline::Red(section) => {
            let options = Options { random: Stream::named(seed, STREAM).parts(), ..early(&section.params()) };
            (Options { kind: RED, ..options.within(Limit::bytes(section.limit)) }, section.params().early.signal)
        }
        Discipline::Ared(section) => {
            let params = section.params();
            let options = Options { random: Stream::named(seed, STREAM).parts(), ..early(&params.red().ok()?) };
            let options = Options { kind: ARED, interval: params.interval.as_nanos(), ..options };
            (options.within(Limit::bytes(section.limit)), params.signal)
        }
        Discipline::Mered(section) => {
            let params = section.params();
            (mered(&params, place, seed, lack)?, params.ared.signal)
        }
        Discipline::Pie(section) => {
            let params = section.params();
            (pie(&params, seed), params.signal)
        }
        Discipline::Drr(section) => {
            let params = section.params();
            if params.step.is_some() {
                lack(format!("`l4s-step` in {place}"));
            }
            (Options { kind: DRR, quantum: params.quantum.as_u64(), ..none }.within(params.limit), Signal::Drop)
        }
        Discipline::Sfq(section) => {
            let params = section.params(seed);
            let options = Options {
                kind: SFQ,
                quantum: params.quantum.as_u64(),
                queues: params.queues.into(),
                perturb: params.perturb.map_or(0, Span::as_nanos),
                seed: params.seed,
                ..none
            };
            (options.within(params.limit), Signal::Drop)
        }
        Discipline::FqCodel(section) => {
            let params = section.params();
            if params.step.is_some() {
                lack(format!("`l4s-step` in {place}"));
            }
            let (options, signal) = controlled(FQ_CODEL, &params.codel);
            (Options { quantum: params.quantum.as_u64(), queues: params.queues.into(), ..options }, signal)
        }
        Discipline::Outside(section) => (own(section, discipline.kind(), place, seed, lack)?, Signal::Drop),
        other => {
            lack(format!("kind = \"{}\" in {place}", other.kind()));
            return None;
        }
    };
    if options.queues > QUEUES {
        lack(format!("{} queues of `{}` in {place} (up to {QUEUES} are possible)", options.queues, discipline.kind()));
    }
    Some(Options { marks: u64::from(signal == Signal::Mark), ..options })
}

impl Options {
    fn within(self, limit: Limit) -> Self {
        Self { limit_packets: limit.packets, limit_bytes: limit.bytes.as_u64(), ..self }
    }
}

fn mered(params: &mered::Params, place: &str, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let mut missing = |what: &str, remedy: &str| lack(format!("{what} of `mered` in {place} (write {remedy})"));
    if params.pair.is_some() {
        missing("the rule of pairs of hosts", "pair-rule = \"off\" under memory");
    }
    if params.flow_by == elephants::FlowBy::HostPair {
        missing("flows by pairs of hosts", "flow-by = \"flow\" under memory");
    }
    let records = u64::from(params.table.capacity);
    if records > RECORDS {
        missing(&format!("{records} records"), &format!("up to {RECORDS}"));
    }
    let options = Options {
        kind: MERED,
        interval: params.ared.interval.as_nanos(),
        random: Stream::named(seed, STREAM).parts(),
        longest_mouse: params.threshold.as_u64(),
        counts_packets: u64::from(params.measure == Measure::Packets),
        records,
        idle: params.table.idle.as_nanos(),
        elephant_limit: params.elephant_limit.as_u64(),
        floor: params.floor.bits(),
        floor_credit: params.floor_credit.as_u64(),
        ..early(&params.ared.red().ok()?)
    };
    Some(options.within(params.limit))
}

fn pie(params: &pie::Params, seed: u64) -> Options {
    let options = Options {
        kind: PIE,
        target: params.target.as_nanos(),
        interval: params.update.as_nanos(),
        allowance: params.burst.as_nanos(),
        alpha: params.alpha.into(),
        beta: params.beta.into(),
        least_queue_mean: params.mean.as_u64(),
        mean: mean(params.sizing),
        most_marked: params.most_marked.bits(),
        random: Stream::named(seed, STREAM).parts(),
        ..Options::default()
    };
    options.within(params.limit)
}

fn controlled(kind: u64, params: &codel::Params) -> (Options, Signal) {
    let options = Options {
        kind,
        target: params.target.as_nanos(),
        interval: params.interval.as_nanos(),
        mtu: params.mtu.as_u64(),
        longest: params.longest.map_or(0, Span::as_nanos),
        ..Options::default()
    };
    (options.within(params.limit), params.signal)
}

fn early(params: &red::Params) -> Options {
    let (min, max, in_bytes) = match params.profile.thresholds {
        Thresholds::Packets { min, max } => (min, max, 0),
        Thresholds::Bytes { min, max } => (min.as_u64(), max.as_u64(), 1),
    };
    Options {
        min,
        max,
        in_bytes,
        max_p: params.profile.max_p.bits(),
        weight: params.early.weight.bits(),
        above_max: u64::from(params.early.above_max == AboveMax::Gentle),
        spacing: u64::from(params.early.spacing == Spacing::Geometric),
        idle_packet: params.early.idle_packet.as_nanos(),
        mean: mean(params.early.sizing),
        ..Options::default()
    }
}

fn mean(sizing: Sizing) -> u64 {
    match sizing {
        Sizing::PerPacket => 0,
        Sizing::PerByte { mean } => mean.as_u64(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tidegate_config::discipline::{Kind, Site};
    use tidegate_config::shaper::DataPath;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::fifo::Fifo;
    use tidegate_core::{AnyPacket, Qdisc};

    pub fn config(text: &str) -> Config {
        let source = Source::new("kernel.toml", format!("version = 1\n{text}"));
        let mut diagnostics = Diagnostics::new();
        shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
    }
    pub fn plan(text: &str) -> Result<Plan, String> {
        let config = config(text);
        let plan = Plan::new(&config, None, 7);
        let is_auto = config.interface.data_path == DataPath::Auto;
        let plan = plan.and_then(|plan| if is_auto { examine_choice(&config).map(|()| plan) } else { Ok(plan) });
        plan.map_err(|error| error.to_string())
    }
    /// As [`plan`], for the kernel.
    fn planned(text: &str) -> Plan {
        plan(&format!("[interface]\ndata-path = \"kernel\"\n{text}")).unwrap()
    }
    const FIFO_QUEUE: &str = "queue = { kind = \"fifo\", limit = \"100kB\", packets = 50 }\n";

    tidegate_config::record! {
        /// A discipline of another crate.
        struct Own as "own" {
            /// Numbers of its decider, none without one.
            numbers: u64 = 2,
            /// Whether its crate was built where there is a compiler.
            compiled: bool = true,
        }
    }

    impl Kind for Own {
        const KIND: &'static str = "own";

        fn kernel(&self) -> Option<InKernel> {
            let program: &[u8] = if self.compiled { b"own" } else { b"" };
            let numbers = (0..self.numbers).map(|number| 7 + number).collect();
            Some(InKernel { program, numbers }).filter(|_| self.numbers > 0)
        }
        fn build(&self, _: &Site) -> Box<dyn Qdisc<AnyPacket>> {
            Box::new(Fifo::new(Limit::packets(1)))
        }
    }

    #[test]
    fn a_discipline_of_another_crate_brings_its_decider() {
        tidegate_config::discipline::register::<Own>().unwrap();
        let class = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
        let behind = planned(&format!("{class}queue = {{ kind = \"own\" }}\n")).options;
        assert_eq!(
            (behind.kind, behind.rate, behind.limit_packets, behind.own[..3].to_vec()),
            (OWN, 20_000_000, PACKETS, vec![7, 8, 0])
        );
        let alone = plan("[discipline]\nkind = \"own\"\n").unwrap().options;
        assert_eq!(alone, Options { rate: 0, burst: 0, ..behind });
        for (keys, told) in
            [("numbers = 0", "no decider"), ("numbers = 17", "more than 16"), ("compiled = false", "without clang")]
        {
            let error = plan(&format!("[discipline]\nkind = \"own\"\n{keys}\n")).expect_err(keys);
            assert!(error.contains("kind = \"own\" in [discipline], ") && error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_class_at_a_rate_is_a_token_bucket() {
        let text =
            format!("[[class]]\nname = \"all\"\nrate = \"20mbit\"\nburst = \"200kB\"\ndefault = true\n{FIFO_QUEUE}");
        let found = planned(&text);
        assert_eq!(found.options.numbers()[..5], [TBF, 50, 100_000, 20_000_000, 81_920]);
        // The total has its own, smaller burst.
        assert!(found.notes[0].contains("superpackets"), "{:?}", found.notes);
        let borrows = planned(&format!("[shaper]\nrate = \"30mbit\"\nburst = \"300kB\"\n{text}"));
        assert_eq!((borrows.options.rate, borrows.options.burst, borrows.notes.len()), (30_000_000, 300_000, 0));
        let keeps = planned(&format!("[shaper]\nrate = \"30mbit\"\n{text}borrow = false\n"));
        assert_eq!(keeps.options.rate, 20_000_000);
    }

    #[test]
    fn a_discipline_is_that_of_the_program() {
        let text =
            "[interface]\noverhead = \"38B\"\n[discipline]\nkind = \"codel\"\nsignal = \"drop\"\nlongest = \"1s\"\n";
        let found = plan(text).unwrap();
        assert_eq!(
            found.options.numbers()[..10],
            [CODEL, 65_535, 1_000_000, 0, 0, 5_000_000, 100_000_000, 1_514, 1_000_000_000, 0]
        );
        assert_eq!(found.overhead, 38);
        let found = plan("[discipline]\nkind = \"codel\"\n").unwrap();
        assert_eq!((found.options.marks, found.marks()), (1, true));
        let text = "[[class]]\nname = \"all\"\nrate = \"2mbit\"\ndefault = true\ndscp = \"ef\"\n";
        assert_eq!((planned(text).marks(), planned(text).dscp), (true, vec![Some(46)]));
        let found = plan("[discipline]\nkind = \"fifo\"\npackets = 10\n").unwrap();
        assert_eq!(
            (found.options.limit_packets, found.options.limit_bytes, found.notes.is_empty()),
            (10, 1_000_000, true)
        );
        let found = plan("[discipline]\nkind = \"fq-codel\"\nqueues = 64\nsignal = \"drop\"\n").unwrap().options;
        assert_eq!((found.kind, found.queues, found.quantum, found.target), (FQ_CODEL, 64, 1_514, 5_000_000));
        let found = plan(
            "[discipline]\nkind = \"mered\"\nlink = \"10mbit\"\nsignal = \"drop\"\nthreshold = \"30kB\"\n\
             memory = { pair-rule = \"off\" }\n",
        );
        let found = found.unwrap().options;
        assert_eq!((found.kind, found.longest_mouse, found.records), (MERED, 30_000, 65_536));
        assert_eq!((found.limit_packets, found.elephant_limit, found.counts_packets), (1_000, 750_000, 0));
        let found = plan("[discipline]\nkind = \"sfq\"\nqueues = 16\nlimit = \"9kB\"\n").unwrap().options;
        let expected =
            Options { kind: SFQ, queues: 16, quantum: 1_514, perturb: 10_000_000_000, seed: 7, ..Options::default() };
        assert_eq!(found, Options { limit_packets: 65_535, limit_bytes: 9_000, ..expected });
        let found = plan("[discipline]\nkind = \"drr\"\n").unwrap().options;
        assert_eq!((found.kind, found.quantum), (DRR, 1_514));
        let early = "min-th = \"5 packets\"\nmax-th = \"15 packets\"\nearly = { signal = \"drop\" }\n";
        let found = plan(&format!("[discipline]\nkind = \"red\"\n{early}")).unwrap().options;
        assert_eq!((found.kind, found.min, found.max, found.in_bytes, found.above_max), (RED, 5, 15, 0, 1));
        // The core draws the same.
        assert_eq!(found.random, Stream::named(7, "root").parts());
        let found = plan("[discipline]\nkind = \"ared\"\nlink = \"15mbit\"\nsignal = \"drop\"\n").unwrap().options;
        assert_eq!((found.kind, found.min, found.max, found.interval), (ARED, 5, 15, 500_000_000));
        let found = plan("[discipline]\nkind = \"pie\"\nsignal = \"drop\"\n").unwrap().options;
        assert_eq!((found.kind, found.target, found.interval), (PIE, 15_000_000, 15_000_000));
    }

    /// Each is refused, and the error names it.
    #[test]
    fn what_the_program_does_not_do_is_named() {
        let class = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
        for (text, named) in [
            (class.to_owned(), "to segment superpackets, of which one takes more than 10ms at 20mbit"),
            (
                format!("[shaper]\nrate = \"90mbit\"\nfollow = {{ from = \"60mbit\", to = \"100mbit\" }}\n{class}"),
                "round trips of what passes",
            ),
            ("[discipline]\nkind = \"fq-pie\"\n".to_owned(), "kind = \"fq-pie\""),
            ("[discipline]\nkind = \"dualpi2\"\n".to_owned(), "kind = \"dualpi2\""),
            ("[discipline]\nkind = \"drr\"\nl4s-step = \"1ms\"\n".to_owned(), "`l4s-step` in [discipline]"),
            ("[discipline]\nkind = \"sfq\"\nqueues = 5000\n".to_owned(), "5000 queues of `sfq`"),
            (
                format!("[interface]\ndirection = \"ingress\"\n{class}[[rule]]\nclass = \"all\"\nmark = \"0x10\"\n"),
                "marks of what arrives",
            ),
            (format!("[interface]\nthreads = 2\n{class}"), "several threads"),
            (
                format!(
                    "[interface]\nname = [\"a\", \"b\"]\n{class}[[rule]]\nclass = \"all\"\nfrom-interface = \"c\"\n"
                ),
                "`from-interface` beside several interfaces",
            ),
            (format!("{class}queue = {{ kind = \"codel\", signal = \"drop\" }}\n"), "behind the rate of class `all`"),
            (
                format!("{class}queue = {{ kind = \"codel\" }}\n[[class]]\nname = \"b\"\nrate = \"1mbit\"\n"),
                "kind = \"codel\" in class `all`",
            ),
            (
                format!(
                    "[interface]\ndirection = \"ingress\"\n[shaper]\nrate = \"60mbit\"\n{class}[[rule]]\nclass = \"all\"\n\
                     mac = \"02:00:5e:00:53:01\"\n"
                ),
                "addresses of receivers",
            ),
            ("[discipline]\nkind = \"mered\"\nlink = \"10mbit\"\n".to_owned(), "pair-rule = \"off\""),
        ] {
            let error = plan(&text).expect_err(&text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
