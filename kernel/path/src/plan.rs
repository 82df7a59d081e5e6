//! [`Plan`]: the options of the program for a configuration.

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::{Advice, Borrow, Class, Config, Direction, EcnFeedback, FairBy, FlowBy, Root, Shaper};
use tidegate_core::fbq::Ceilings;
use tidegate_core::{Bytes, Span};

use super::classes::Classes;
use super::discipline::{PACKETS, Place, options_of, tells_receivers};
use super::options::{CAKE, FBQ, LINES, OWN, Options, TBF};
use tidegate_engine::LONGEST_WHOLE;
use tidegate_live::shaping::StartError;

/// Bytes of a superpacket where the link does not report a limit: the kernel's default.
const SUPERPACKET: u64 = 65_536;
/// The time of a superpacket at the rate of a shaper up to which the kernel is chosen without being asked for.
const LONGEST_SUPERPACKET: Span = Span::from_millis(10);

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
        // A trial in Linux 7.3 lost two thirds of a call's packets there, for a reason that is not known yet.
        if names > 1 && config.interface.direction == Direction::Ingress {
            lack("what arrives by several interfaces".into());
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
                let classes = Classes::new(config, shaper, burst, seed, &mut lack, &mut |text| notes.push(text));
                let feeds_back =
                    |class: &Class| class.feedback.is_some_and(|feedback| feedback.ecn == EcnFeedback::Mark);
                let marks = |class: &Class| feeds_back(class) || class.l4s_step.is_some();
                let marks = u64::from(shaper.classes.iter().any(marks) || classes.mark_inside());
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
        // The line of CAKE goes into debt for a superpacket.
        if options.rate != 0 && options.kind != CAKE && options.burst < burst {
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
    // CAKE is for short queues: what user space does not segment either passes whole.
    let (rate, longest) = match &config.root {
        Root::Shaper(shaper) => (Some(shaper.rate), LONGEST_SUPERPACKET),
        Root::Discipline(discipline) => (discipline.line().filter(|_| is_cake(config)), LONGEST_WHOLE),
    };
    if let Some(rate) = rate {
        let time = rate.time_for_ceil(Bytes::new(SUPERPACKET));
        // The kernel does not segment them.
        if time.is_none_or(|time| time > longest) {
            lacks.push(format!(
                "to segment superpackets, of which one takes more than {longest} at {rate} (data-path = \"kernel\" has them pass \
                 whole)"
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
        || disciplines(config).any(tells_receivers)
        || config.rules.iter().map(|rule| &rule.matches).any(|matches| {
            !matches.destinations.is_empty()
                || !matches.hosts.is_empty()
                || !matches.macs.is_empty()
                || !matches.host_names.is_empty()
                || matches.both_ways && !matches.sources.is_empty()
        })
}

/// Whether it is a token bucket before one queue: one class with a discipline of another crate, or with `fifo` and neither ceilings nor
/// rules.
fn is_token_bucket(config: &Config, shaper: &Shaper) -> bool {
    let [class] = &shaper.classes[..] else { return false };
    match &class.queue {
        Some(Discipline::Fifo(_)) => class.at_most == Ceilings::default() && config.rules.is_empty(),
        Some(Discipline::Outside(_)) => true,
        _ => false,
    }
}

/// The options for the queue of a configuration. `None` if the program has no such queue, which is reported to `lack`.
fn options(config: &Config, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    let shaper = match &config.root {
        Root::Discipline(discipline) => return options_of(discipline, &Place::interface(seed), lack),
        Root::Shaper(shaper) => shaper,
    };
    let class = shaper.classes.first()?;
    let (name, discipline) = (&class.name, class.queue.as_ref()?);
    let queue = options_of(discipline, &Place { stream: "root", ..Place::class(name, seed) }, lack)?;
    // One with `fifo` is no token bucket.
    if class.at_most != Ceilings::default() {
        lack(format!("a ceiling of class `{name}`, which has kind = \"{}\"", discipline.kind()));
    }
    let kind = if queue.kind == OWN { OWN } else { TBF };
    let (rate, burst) = match class.borrow {
        Borrow::Allowed if class.rate < shaper.rate => (shaper.rate, shaper.burst),
        _ => (class.rate.min(shaper.rate), class.burst.min(shaper.burst)),
    };
    Some(Options { kind, rate: rate.as_bps(), burst: burst.as_u64(), ..queue })
}

/// The flows that a configuration tells apart; 0 where it has no classes.
pub(super) fn flows(config: &Config) -> u64 {
    match &config.root {
        Root::Shaper(shaper) if shaper.classes.iter().any(|class| class.queue.is_none()) => shaper.flows.into(),
        _ => 0,
    }
}

/// Whether a configuration needs what only MERED does.
pub(super) fn is_mered(config: &Config) -> bool {
    disciplines(config).any(|discipline| matches!(discipline, Discipline::Mered(_) | Discipline::Meredt(_)))
}

/// Whether a configuration needs the program with CAKE.
pub(super) fn is_cake(config: &Config) -> bool {
    disciplines(config).any(|discipline| matches!(discipline, Discipline::Cake(_)))
}

/// The discipline of the interface, or those in classes.
fn disciplines(config: &Config) -> impl Iterator<Item = &Discipline> {
    let (of_interface, classes) = match &config.root {
        Root::Discipline(discipline) => (Some(&**discipline), &[][..]),
        Root::Shaper(shaper) => (None, &shaper.classes[..]),
    };
    of_interface.into_iter().chain(classes.iter().filter_map(|class| class.queue.as_ref()))
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::options::{ARED, CODEL, DRR, FQ_CODEL, FQ_PIE, MERED, PIE, RED, SFQ};
    use tidegate_config::discipline::InKernel;
    use tidegate_config::discipline::{Kind, Site};
    use tidegate_config::shaper::DataPath;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::fifo::{Fifo, Limit};
    use tidegate_core::random::Stream;
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
        assert_eq!((found.points, found.values[..2].to_vec()), (2, vec![30_000, 1 << 48 | 30_001]));
        let found = plan(
            "[discipline]\nkind = \"meredt\"\nlink = \"10mbit\"\nvalue = [{ length = \"50kB\", value = 0 }, { length = \"1MB\", value = 7 }]\n",
        );
        let found = found.unwrap().options;
        assert_eq!((found.kind, found.longest_mouse, found.points, found.fairness), (MERED, 50_000, 2, 1 << 32));
        assert_eq!(found.values[..3], [50_000, 7 << 48 | 1_000_000, 0]);
        assert!(found.pair_threshold > 50_000 && found.pair_rate >= 256_000, "{found:?}");
        let found = plan("[discipline]\nkind = \"fq-pie\"\nqueues = 64\n").unwrap().options;
        assert_eq!((found.kind, found.queues, found.quantum, found.target), (FQ_PIE, 64, 1_514, 15_000_000));
        assert_eq!((found.marks, found.random), (1, Stream::named(7, "root").parts()));
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

    #[test]
    fn cake_is_that_of_the_file() {
        let text = "[discipline]\nkind = \"cake\"\nrate = \"600mbit\"\noverhead = 44\nleast = \"84B\"\nframing = \"ptm\"\n\
                    tins = \"diffserv4\"\nack-filter = \"on\"\n";
        let found = plan(text).unwrap();
        // A superpacket takes less than a millisecond, and the line goes into debt for it.
        assert!(found.notes.is_empty() && found.marks(), "{:?}", found.notes);
        let found = found.options;
        // What the rate carries in the lateness of 1 ms.
        assert_eq!((found.kind, found.rate, found.burst, found.limit_packets), (CAKE, 600_000_000, 75_000, 10_240));
        assert_eq!((found.queues, found.quantum, found.target, found.interval), (1_024, 1_514, 5_000_000, 100_000_000));
        assert_eq!((found.overhead, found.least, found.framing, found.hosts, found.ack_filter), (44, 84, 2, 1, 1));
        assert_eq!((found.tins, found.tin), (4, [1, 16, 8 << 32 | 8, 4 << 32 | 4]));
        // CS1 is bulk, EF voice, CS2 video, and 63 best effort.
        assert_eq!([8, 46, 16, 63].map(|point: usize| found.tin_of[point / 32] >> (point % 32 * 2) & 3), [0, 3, 2, 1]);
        assert_eq!(found.random, Stream::named(7, "root").parts());
        let bare = plan("[discipline]\nkind = \"cake\"\nhosts = \"flows\"\nsignal = \"drop\"\n").unwrap().options;
        assert_eq!((bare.rate, bare.burst, bare.hosts, bare.tins, bare.marks), (0, 0, 0, 3, 0));
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
            ("[discipline]\nkind = \"dualpi2\"\n".to_owned(), "kind = \"dualpi2\""),
            (
                "[discipline]\nkind = \"cake\"\nrate = \"500mbit\"\n".to_owned(),
                "to segment superpackets, of which one takes more than 1ms at 500mbit",
            ),
            (
                "[discipline]\nkind = \"cake\"\nrate = \"1gbit\"\nl4s-step = \"1ms\"\n".to_owned(),
                "`l4s-step` in [discipline]",
            ),
            (
                "[interface]\ndirection = \"ingress\"\n[discipline]\nkind = \"cake\"\nhosts = \"destination\"\n"
                    .to_owned(),
                "addresses of receivers",
            ),
            ("[discipline]\nkind = \"drr\"\nl4s-step = \"1ms\"\n".to_owned(), "`l4s-step` in [discipline]"),
            ("[discipline]\nkind = \"sfq\"\nqueues = 9000\n".to_owned(), "9000 queues of `sfq`"),
            (
                format!("[interface]\ndirection = \"ingress\"\n{class}[[rule]]\nclass = \"all\"\nmark = \"0x10\"\n"),
                "marks of what arrives",
            ),
            (format!("[interface]\nthreads = 2\n{class}"), "several threads"),
            (
                format!("[interface]\nname = [\"a\", \"b\"]\ndirection = \"ingress\"\n{class}"),
                "what arrives by several interfaces",
            ),
            (
                format!(
                    "[interface]\nname = [\"a\", \"b\"]\n{class}[[rule]]\nclass = \"all\"\nfrom-interface = \"c\"\n"
                ),
                "`from-interface` beside several interfaces",
            ),
            (
                format!(
                    "[interface]\ndirection = \"ingress\"\n{}queue = {{ kind = \"mered\", link = \"90mbit\" }}\n",
                    class.replace("20mbit", "90mbit")
                ),
                "addresses of receivers",
            ),
            (format!("{class}queue = {{ kind = \"dualpi2\" }}\n"), "kind = \"dualpi2\" in class `all`"),
            (
                format!(
                    "[interface]\ndirection = \"ingress\"\n[shaper]\nrate = \"60mbit\"\n{class}[[rule]]\nclass = \"all\"\n\
                     mac = \"02:00:5e:00:53:01\"\n"
                ),
                "addresses of receivers",
            ),
        ] {
            let error = plan(&text).expect_err(&text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
