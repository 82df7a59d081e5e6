//! [`Plan`]: the options of the program for a configuration.

use std::collections::BTreeSet;
use std::iter;

use tidegate_config::discipline::cbq::CbqQueue;
use tidegate_config::discipline::{Discipline, Site};
use tidegate_config::shaper::{
    Advice, Borrow, Class, Config, Direction, EcnFeedback, FairBy, FlowBy, Match, Root, Shaper, Sharing,
};
use tidegate_core::fbq::Ceilings;
use tidegate_core::reservation::Reservations;
use tidegate_core::{AnyPacket, Bytes, Instant, Rate, Span};

use super::classes::{CATCH_UP, Classes};
use super::discipline::{PACKETS, Place, options_of, tells_receivers};
use super::options::{CAKE, CBQ, CBQ_INNER, CBQ_LEAVES, FBQ, LINES, OWN, Options, TBF};
use super::reservations;
use super::tree;
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
    /// The tree of CBQ, whose leaves are the classes.
    pub tree: Option<Vec<u64>>,
    /// The names of the classes in their order; a single name where there are none.
    pub names: Vec<String>,
    /// For each of these the code point that its packets get.
    pub dscp: Vec<Option<u64>>,
    /// Whether a class advises rates to QUIC flows.
    pub advises: bool,
    /// Whether packets get code points by their colours, which a program writes behind the discipline.
    pub remarks: bool,
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
        let is_divided = config.interface.threads > 1;
        if is_divided {
            not_divisible(config).into_iter().for_each(&mut lack);
        }
        let names = config.interface.names.len();
        if names > LINES as usize {
            lack(format!("{names} interfaces under one total (up to {LINES} are possible)"));
        }
        let by_mark = matches!(&config.root, Root::Shaper(shaper) if shaper.flow_by == FlowBy::Mark);
        let unknown = config.rules.iter().filter_map(|rule| unknown(config, &rule.matches));
        let unknown: BTreeSet<_> = unknown.chain(by_mark.then(|| unknown_mark(config)).flatten()).collect();
        unknown.into_iter().for_each(|what| lack(what.into()));
        let burst = longest_packet(superpacket);
        let (mut notes, mut tree) = (Vec::new(), None);
        let (options, classes) = match &config.root {
            Root::Shaper(shaper) if is_divided || !is_token_bucket(config, shaper) => {
                let classes = Classes::new(config, shaper, burst, seed, &mut lack, &mut |text| notes.push(text));
                let marks = u64::from(shaper.classes.iter().any(marks) || classes.mark_inside());
                let all =
                    Options { kind: FBQ, limit_packets: PACKETS, limit_bytes: u64::MAX, marks, ..Options::default() };
                (Some(all), Some(classes))
            }
            root => match cbq_of(root) {
                Some(cbq) => {
                    let leaves = Classes::leaves(cbq, config.default_class, burst, seed, &mut lack, &mut |text| {
                        notes.push(text)
                    });
                    tree = tree_of(cbq, &mut lack);
                    let marks = u64::from(leaves.mark_inside());
                    let all = Options {
                        kind: CBQ,
                        limit_packets: PACKETS,
                        limit_bytes: u64::MAX,
                        marks,
                        ..Options::default()
                    };
                    (Some(all), Some(leaves))
                }
                None => (options(config, seed, &mut lack), None),
            },
        };
        if classes.is_none() && !config.rules.is_empty() {
            lack("rules without classes that have a queue for each flow".into());
        }
        let remarks =
            options.as_ref().is_some_and(Options::remarks) || classes.as_ref().is_some_and(Classes::remark_inside);
        if is_divided && (remarks || classes.as_ref().is_some_and(Classes::mark_inside)) {
            lack(format!("several threads with a discipline in a class that marks packets, {BEFORE_QUEUES}"));
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
            Root::Discipline(_) => match config.class_names() {
                names if names.is_empty() => (vec!["all".into()], vec![None]),
                names => {
                    let reserved = classes.as_ref().map_or(0, |classes| classes.reserved.end - classes.reserved.start);
                    let reserved = (0..reserved).map(reservations::account);
                    names.into_iter().map(String::from).chain(reserved).map(|name| (name, None)).unzip()
                }
            },
        };
        let advises = match &config.root {
            Root::Shaper(shaper) => shaper.classes.iter().any(|class| class.advice != Advice::None),
            Root::Discipline(_) => false,
        };
        let overhead = config.interface.overhead.as_u64();
        Ok(Self { options, classes, tree, names, dscp, advises, remarks, overhead, notes })
    }

    /// Whether packets are changed: they get code points, marks of congestion or rates.
    pub fn marks(&self) -> bool {
        self.advises || self.options.marks_any() || self.dscp.iter().any(Option::is_some)
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
    let (rate, longest) = match &config.root {
        Root::Shaper(shaper) => (Some(shaper.rate), LONGEST_SUPERPACKET),
        // CAKE is for short queues: what user space does not segment either passes whole.
        Root::Discipline(discipline) if is_cake(config) => (discipline.line(), LONGEST_WHOLE),
        root => (cbq_of(root).map(|cbq| cbq.link.value), LONGEST_SUPERPACKET),
    };
    if let Some(rate) = rate {
        let time = rate.time_for_ceil(Bytes::new(SUPERPACKET));
        // The kernel does not segment them.
        if time.is_none_or(|time| time > longest) {
            lacks.push(format!(
                "segmentation of superpackets, as one takes more than {longest} at {rate} (with data-path = \"kernel\" they pass \
                 whole)"
            ));
        }
    }
    if cbq_of(&config.root).is_some_and(bounds_delays) {
        lacks.push(
            "bounds on the delay of reservations as short as with segmented superpackets (with data-path = \"kernel\" they are longer)"
                .into(),
        );
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

/// Whether a class itself gives marks of congestion, by its feedback or its step.
fn marks(class: &Class) -> bool {
    class.l4s_step.is_some() || class.feedback.is_some_and(|feedback| feedback.ecn == EcnFeedback::Mark)
}

/// Why packets are not changed where there are several queues.
const BEFORE_QUEUES: &str = "by a program that sees them before their queue is chosen";

/// Lists the settings of a valid configuration that shards cannot have, each of which has the flows of a queue of the card.
fn not_divisible(config: &Config) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut lack = |is: bool, what: &str| lacks.extend(is.then(|| format!("several threads {what}")));
    lack(config.interface.direction == Direction::Ingress, "for what arrives, which waits at a device of one queue");
    lack(
        config.interface.names.len() > 1,
        "for several interfaces under one total, which wait at a device of one queue",
    );
    let Root::Shaper(shaper) = &config.root else {
        lack(true, "with a [discipline], which has one queue for all");
        return lacks;
    };
    lack(shaper.fair_by != FairBy::Flow, "with `fair-by`, as flows of a host go by several queues of the card");
    lack(
        shaper.flow_by != FlowBy::FiveTuple,
        "with `flow-by`, as packets of such a flow go by several queues of the card",
    );
    lack(
        shaper.classes.iter().any(|class| class.share == Sharing::Strict),
        "with share = \"strict\", whose flows would have to know each other",
    );
    lack(
        config.rules.iter().any(|rule| rule.minimum != Rate::ZERO),
        "with a minimum, for which each queue would hold rate",
    );
    lack(
        config.rules.iter().any(|rule| rule.displace.is_some()),
        "with `displace`, as a class has other rates in each queue",
    );
    let changes = |class: &Class| class.dscp.is_some() || class.advice != Advice::None || marks(class);
    lack(
        shaper.classes.iter().any(changes),
        &format!("with code points, marks or advice, which are written {BEFORE_QUEUES}"),
    );
    lacks
}

fn refused(lacks: &[String]) -> Result<(), StartError> {
    if lacks.is_empty() { Ok(()) } else { Err(StartError::NotInKernel { what: lacks.join("; ") }) }
}

/// CBQ, if it is the discipline of the interface.
pub(super) fn cbq_of(root: &Root) -> Option<&CbqQueue> {
    match root {
        Root::Discipline(discipline) => match &**discipline {
            Discipline::Cbq(cbq) => Some(cbq),
            _ => None,
        },
        Root::Shaper(_) => None,
    }
}

/// Whether a configuration needs the program that has CBQ, and nothing else.
pub(super) fn is_tree(config: &Config) -> bool {
    cbq_of(&config.root).is_some()
}

/// The tree of CBQ as numbers. What the program has no room for is reported to `lack`.
fn tree_of(cbq: &CbqQueue, lack: &mut dyn FnMut(String)) -> Option<Vec<u64>> {
    let leaves = cbq.leaves().count();
    let inner = cbq.class.len() - leaves;
    if inner >= CBQ_INNER as usize {
        lack(format!("{inner} classes with classes below them (up to {} are possible)", CBQ_INNER - 1));
        return None;
    }
    let reserved = cbq.reservations.as_ref().map_or(0, |section| section.flows.value);
    if leaves + reserved as usize > CBQ_LEAVES as usize {
        return None;
    }
    Some(tree::numbers(&cbq.build_tree::<AnyPacket>(&site()), leaves as u64, reserved.into(), CATCH_UP))
}

/// The site of a tree that is built for its parameters.
pub(super) fn site() -> Site {
    Site { seed: 0, name: String::new(), now: Instant::ZERO }
}

/// Whether delays of reservations are bounded.
fn bounds_delays(cbq: &CbqQueue) -> bool {
    let reservations = cbq.policy().and_then(|policy| Reservations::new(policy).ok());
    reservations.is_some_and(|reservations| reservations.bounds_delays(&cbq.build_tree::<AnyPacket>(&site())))
}

/// The bytes of the longest packet that passes whole, with the headers of its segments.
pub(super) fn longest_packet(superpacket: Option<u64>) -> u64 {
    let largest = superpacket.unwrap_or(SUPERPACKET).max(SUPERPACKET);
    largest + largest / 4
}

/// The one of these conditions that the program does not know.
pub(super) fn unknown(config: &Config, matches: &Match) -> Option<&'static str> {
    // The packet forgets by which interface it came in when it is led to the device of the total.
    let is_forgotten = config.interface.names.len() > 1 && !matches.from_interfaces.is_empty();
    let by_interface = is_forgotten.then_some("rules by `from-interface` beside several interfaces under one total");
    by_interface.or_else(|| unknown_mark(config).filter(|_| !matches.marks.is_empty()))
}

/// Marks, where packets do not have theirs yet.
fn unknown_mark(config: &Config) -> Option<&'static str> {
    (config.interface.direction == Direction::Ingress).then_some("marks of what arrives")
}

/// Whether arriving packets are told apart by their receivers.
fn by_receivers(config: &Config) -> bool {
    let by_receiver = |shaper: &Shaper| {
        matches!(shaper.flow_by, FlowBy::Destination | FlowBy::HostPair) || shaper.fair_by == FairBy::Destination
    };
    // Whoever reserves may name a receiver.
    let reserves = cbq_of(&config.root).is_some_and(|cbq| cbq.reservations.is_some());
    matches!(&config.root, Root::Shaper(shaper) if by_receiver(shaper))
        || reserves
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

/// Whether a configuration tells mice from elephants, which takes records of flows.
pub(super) fn measures(config: &Config) -> bool {
    let measures = |discipline: &Discipline| {
        matches!(discipline, Discipline::Mered(_) | Discipline::Meredt(_) | Discipline::IngressFilter(_))
    };
    disciplines(config).any(measures)
}

/// Whether a configuration needs the program with CAKE.
pub(super) fn is_cake(config: &Config) -> bool {
    disciplines(config).any(|discipline| matches!(discipline, Discipline::Cake(_)))
}

/// The discipline of the interface, or those in classes, each with what it has inside.
fn disciplines(config: &Config) -> impl Iterator<Item = &Discipline> {
    let (of_interface, classes) = match &config.root {
        Root::Discipline(discipline) => (Some(&**discipline), &[][..]),
        Root::Shaper(shaper) => (None, &shaper.classes[..]),
    };
    let leaves = cbq_of(&config.root).into_iter().flat_map(|cbq| &cbq.class);
    let of_leaves = leaves.filter_map(|class| Some(&*class.queue.as_ref()?.value.0));
    let outer =
        of_interface.into_iter().chain(of_leaves).chain(classes.iter().filter_map(|class| class.queue.as_ref()));
    outer.flat_map(|outer| iter::successors(Some(outer), |outer| inside(outer)))
}

/// The discipline inside another one.
fn inside(outer: &Discipline) -> Option<&Discipline> {
    match outer {
        Discipline::Marker(section) => Some(&*section.inside.as_ref()?.value.0),
        _ => None,
    }
}

/// The program in BPF that a discipline of another crate brings, if it is that of a configuration.
pub(super) fn own_program(config: &Config) -> Option<&'static [u8]> {
    let discipline = match &config.root {
        Root::Discipline(discipline) => discipline,
        Root::Shaper(shaper) => shaper.classes.iter().find_map(|class| class.queue.as_ref())?,
    };
    let Discipline::Outside(own) = discipline else { return None };
    own.kernel().map(|own| own.program)
}

#[cfg(test)]
pub(super) mod tests;
