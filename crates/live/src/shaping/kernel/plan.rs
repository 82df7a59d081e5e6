//! [`Plan`]: what the program in the kernel is asked to do, from a configuration.

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::{Borrow, Config, Direction, Root};
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, codel};

use crate::shaping::error::StartError;

/// `enum twin_kind` of twin/single.h.
const FIFO: u64 = 0;
const TBF: u64 = 1;
const CODEL: u64 = 2;
/// The packets that wait at most: `SLOTS` of twin/chassis.bpf.c.
const SLOTS: u64 = 4_096;
/// Bytes of a superpacket where the link does not report a limit: the kernel's default.
const SUPERPACKET: u64 = 65_536;

/// What the program is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// `struct twin_options` of twin/single.h, up to its reserved numbers.
    pub options: [u64; 10],
    /// What the link adds to each packet, in bytes.
    pub overhead: u64,
    /// How it differs from the configuration.
    pub notes: Vec<String>,
}

/// What the program does with the packets of its one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Law {
    kind: u64,
    packets: u64,
    bytes: u64,
    rate: u64,
    burst: u64,
    codel: Option<codel::Params>,
}

impl Plan {
    /// The plan for `config` on a link whose superpackets have up to `superpacket` bytes.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] with everything that the program does not do.
    pub fn new(config: &Config, superpacket: Option<u64>) -> Result<Self, StartError> {
        let mut lacks = Vec::new();
        let mut lack = |what: String| lacks.push(what);
        if config.interface.direction == Direction::Ingress {
            lack("to shape what arrives".into());
        }
        if config.interface.names.len() > 1 {
            lack("several interfaces under one total".into());
        }
        if !config.rules.is_empty() {
            lack("rules".into());
        }
        let law = law(config, &mut lack);
        if !lacks.is_empty() {
            return Err(StartError::NotInKernel { what: lacks.join("; ") });
        }
        let (mut law, mut notes) = (law.unwrap_or_default(), Vec::new());
        let largest = superpacket.unwrap_or(SUPERPACKET).max(SUPERPACKET);
        // With the headers of its segments.
        let burst = largest + largest / 4;
        if law.kind == TBF && law.burst < burst {
            let (asked, now) = (Bytes::new(law.burst), Bytes::new(burst));
            notes.push(format!(
                "up to {now} may leave at once instead of {asked}: the kernel does not segment superpackets here"
            ));
            law.burst = burst;
        }
        if law.packets > SLOTS {
            if law.packets != u64::MAX || law.bytes > SLOTS * 64 {
                notes.push(format!("at most {SLOTS} packets wait, however small"));
            }
            law.packets = SLOTS;
        }
        let codel = law.codel.unwrap_or_default();
        Ok(Self {
            options: [
                law.kind,
                law.packets,
                law.bytes,
                law.rate,
                law.burst,
                codel.target.as_nanos(),
                codel.interval.as_nanos(),
                codel.mtu.as_u64(),
                codel.longest.map_or(0, |longest| longest.as_nanos()),
                // Packets are dropped instead of marked.
                0,
            ],
            overhead: config.interface.overhead.as_u64(),
            notes,
        })
    }
}

/// The queue of a configuration; `None`, and what is lacking, where the program has no such queue.
fn law(config: &Config, lack: &mut dyn FnMut(String)) -> Option<Law> {
    let shaper = match &config.root {
        Root::Discipline(discipline) => return queue(discipline, "[discipline]", lack),
        Root::Shaper(shaper) => shaper,
    };
    let [class] = &shaper.classes[..] else {
        lack(format!("{} classes", shaper.classes.len()));
        return None;
    };
    let name = &class.name;
    if class.dscp.is_some() {
        lack(format!("`dscp` of class `{name}`"));
    }
    let Some(discipline) = &class.queue else {
        lack(format!("a queue for each flow in class `{name}` (one for all is: queue = {{ kind = \"fifo\" }})"));
        return None;
    };
    let queue = queue(discipline, &format!("class `{name}`"), lack)?;
    if queue.kind != FIFO {
        lack(format!("kind = \"{}\" behind the rate of class `{name}` (`fifo` is possible)", discipline.kind()));
        return None;
    }
    let (rate, burst) = match class.borrow {
        Borrow::Allowed if class.rate < shaper.rate => (shaper.rate, shaper.burst),
        _ => (class.rate.min(shaper.rate), class.burst.min(shaper.burst)),
    };
    Some(Law { kind: TBF, rate: rate.as_bps(), burst: burst.as_u64(), ..queue })
}

fn queue(discipline: &Discipline, place: &str, lack: &mut dyn FnMut(String)) -> Option<Law> {
    match discipline {
        Discipline::Fifo(fifo) => {
            let packets = fifo.packets.map_or(u64::MAX, |packets| packets.value);
            Some(Law { kind: FIFO, packets, bytes: fifo.limit.value.as_u64(), ..Law::default() })
        }
        Discipline::CoDel(section) => {
            if section.signal == Signal::Mark {
                lack(format!("ECN of `codel` in {place} (write signal = \"drop\")"));
            }
            let codel = codel::Params {
                target: section.target.value,
                interval: section.interval.value,
                longest: section.longest.map(|longest| longest.value),
                ..codel::Params::default()
            };
            let bytes = section.limit.as_u64();
            Some(Law { kind: CODEL, packets: u64::MAX, bytes, codel: Some(codel), ..Law::default() })
        }
        other => {
            lack(format!("kind = \"{}\" in {place}", other.kind()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};

    fn plan(text: &str) -> Result<Plan, String> {
        let source = Source::new("kernel.toml", format!("version = 1\n{text}"));
        let mut diagnostics = Diagnostics::new();
        let config = shaper::load(&source, &mut diagnostics);
        let config = config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        Plan::new(&config, None).map_err(|error| error.to_string())
    }
    const FIFO_QUEUE: &str = "queue = { kind = \"fifo\", limit = \"100kB\", packets = 50 }\n";

    #[test]
    fn a_class_at_a_rate_is_a_token_bucket() {
        let text =
            format!("[[class]]\nname = \"all\"\nrate = \"20mbit\"\nburst = \"200kB\"\ndefault = true\n{FIFO_QUEUE}");
        let found = plan(&text).unwrap();
        assert_eq!(found.options[..5], [TBF, 50, 100_000, 20_000_000, 81_920]);
        // The total has its own, smaller burst.
        assert!(found.notes[0].contains("superpackets"), "{:?}", found.notes);
        let borrows = plan(&format!("[shaper]\nrate = \"30mbit\"\nburst = \"300kB\"\n{text}")).unwrap();
        assert_eq!((borrows.options[3], borrows.options[4], borrows.notes.len()), (30_000_000, 300_000, 0));
        let keeps = plan(&format!("[shaper]\nrate = \"30mbit\"\n{text}borrow = false\n")).unwrap();
        assert_eq!(keeps.options[3], 20_000_000);
    }

    #[test]
    fn a_discipline_is_that_of_the_program() {
        let text =
            "[interface]\noverhead = \"38B\"\n[discipline]\nkind = \"codel\"\nsignal = \"drop\"\nlongest = \"1s\"\n";
        let found = plan(text).unwrap();
        assert_eq!(found.options, [CODEL, 4_096, 1_000_000, 0, 0, 5_000_000, 100_000_000, 1_514, 1_000_000_000, 0]);
        assert_eq!(found.overhead, 38);
        let found = plan("[discipline]\nkind = \"fifo\"\npackets = 10\n").unwrap();
        assert_eq!((found.options[..3].to_vec(), found.notes.is_empty()), (vec![FIFO, 10, 1_000_000], true));
    }

    /// Each is refused, and the error names it.
    #[test]
    fn what_the_program_does_not_do_is_named() {
        let class = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
        for (text, named) in [
            ("[discipline]\nkind = \"codel\"\n".to_owned(), "ECN of `codel` in [discipline]"),
            ("[discipline]\nkind = \"fq-codel\"\n".to_owned(), "kind = \"fq-codel\""),
            ("[interface]\ndirection = \"ingress\"\n[discipline]\nkind = \"fifo\"\n".to_owned(), "what arrives"),
            ("[interface]\nname = [\"a\", \"b\"]\n[discipline]\nkind = \"fifo\"\n".to_owned(), "several interfaces"),
            (class.to_owned(), "a queue for each flow in class `all`"),
            (format!("{class}dscp = \"ef\"\n{FIFO_QUEUE}"), "`dscp` of class `all`"),
            (format!("{class}queue = {{ kind = \"codel\", signal = \"drop\" }}\n"), "behind the rate of class `all`"),
            (format!("{class}{FIFO_QUEUE}[[class]]\nname = \"b\"\nrate = \"1mbit\"\n"), "2 classes"),
            (format!("{class}{FIFO_QUEUE}[[rule]]\nclass = \"all\"\nprotocol = \"udp\"\n"), "rules"),
        ] {
            let error = plan(&text).expect_err(&text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
