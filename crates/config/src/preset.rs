//! Shaper files for users who know only the rates of their line: `tidegate run --up 20mbit --down 100mbit`.
//!
//! A preset is the text of a file, so that it can be read, kept and changed. It is one CAKE for each direction, below a rate that
//! follows the line where that varies: hosts
//! share the line evenly, and the connections of a host share its part, so that neither a host with fifty downloads nor
//! one of many downloads crowds out a call. COBALT keeps queues short, and the per-packet overhead of the line is
//! counted. It needs to know nothing about the traffic.
//!
//! The queue must build up here and not in the modem or at the provider, so we use a little less than the line carries:
//! 95 % of it upstream, where we decide what the line gets, and 90 % downstream, where packets have passed the line
//! already and the senders react to the queue only a round trip later.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use tidegate_core::cake::{Framing, Wire};
use tidegate_core::{Bytes, Rate, Span};

use crate::shaper::Direction;

/// The used part of the line, in percent.
const UP_PERCENT: u64 = 95;
const DOWN_PERCENT: u64 = 90;
/// Acknowledgements are thinned out upstream if the line carries this many times more downstream: one acknowledgement
/// of about 70 B for two packets of 1500 B takes a forty-third of the rate that it acknowledges.
const ASYMMETRIC: u64 = 15;

/// The header of Ethernet, which an MTU leaves out.
const HEADER: u32 = 14;
/// The MTU that files count with where they do not say one.
const USUAL_MTU: u32 = 1_500;

/// The kinds of lines: the value of `--link`, a description, and the size of a packet on the line.
pub const LINKS: [(&str, &str, Wire); 6] = [
    // Right or slightly too large nearly everywhere: 3 % of a large packet.
    ("unknown", "44 B a packet, safe on nearly every line", wire(44, 84, Framing::None)),
    ("ethernet", "fibre or a leased Ethernet: 38 B", wire(38, 84, Framing::None)),
    ("docsis", "a cable modem: 18 B", wire(18, 64, Framing::None)),
    ("vdsl", "VDSL2 with PPPoE: 30 B, 64/65 coding", wire(30, 68, Framing::Ptm)),
    ("adsl", "ADSL with PPPoE: 44 B, ATM cells", wire(44, 0, Framing::Atm)),
    ("ip", "rates are those of IP packets", wire(0, 0, Framing::None)),
];

const fn wire(overhead: i16, least: u64, framing: Framing) -> Wire {
    Wire { overhead, least: Bytes::new(least), framing }
}

/// The rate of a line in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineRate {
    /// Always the same.
    Constant(Rate),
    /// It varies between these, as that of a mobile or satellite line does: the rate of the shaper follows it.
    Varies {
        /// At its worst.
        from: Rate,
        /// At its best.
        to: Rate,
    },
}

impl LineRate {
    /// The rate at which a shaper begins: the whole of a constant one, else the geometric mean in two digits.
    pub fn base(self) -> Rate {
        match self {
            Self::Constant(rate) => rate,
            Self::Varies { from, to } => {
                let mean = (u128::from(from.as_bps()) * u128::from(to.as_bps())).isqrt() as u64;
                let step = 10_u64.pow(mean.checked_ilog10().unwrap_or(0).saturating_sub(1));
                // Rounded down it may be less than the least.
                Rate::from_bps(mean / step * step).max(from)
            }
        }
    }
    /// Whether it is zero, at its worst.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Constant(rate) => rate.is_zero(),
            Self::Varies { from, .. } => from.is_zero(),
        }
    }
}

impl fmt::Display for LineRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => rate.fmt(f),
            Self::Varies { from, to } => write!(f, "{from}-{to}"),
        }
    }
}

impl FromStr for LineRate {
    type Err = String;
    /// A rate, such as `20mbit`, or two with `-` between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |text: &str| text.trim().parse::<Rate>().map_err(|error| error.to_string());
        let Some((from, to)) = text.split_once('-') else { return rate(text).map(Self::Constant) };
        match (rate(from)?, rate(to)?) {
            (from, to) if from < to => Ok(Self::Varies { from, to }),
            _ => Err(format!("`{text}`: a line that varies has its lower rate first, such as 1mbit-20mbit")),
        }
    }
}

/// Whether scalable senders get the short queue that they ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum L4s {
    /// Packets of ECT(1) are treated as all others.
    #[default]
    Off,
    /// They are marked from 1 ms of delay on.
    On,
}

/// The properties of a line that a user knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The rate of the line upstream.
    pub up: Option<LineRate>,
    /// The rate of the line downstream.
    pub down: Option<LineRate>,
    /// The size of a packet on the line.
    pub wire: Wire,
    /// The interfaces that share the rates, if the file is to name them.
    pub interfaces: Vec<String>,
    /// The largest MTU of these interfaces, where it is known.
    pub mtu: Option<u32>,
    /// Whether packets of ECT(1) are marked at a short delay.
    pub l4s: L4s,
}

impl Line {
    /// The directions that are shaped: those whose rate is known.
    pub fn directions(&self) -> impl Iterator<Item = Direction> {
        let up = self.up.map(|_| Direction::Egress);
        up.into_iter().chain(self.down.map(|_| Direction::Ingress))
    }

    /// The file for all directions whose rate is known; `None` without a rate.
    pub fn text(&self) -> Option<String> {
        match (self.file(Direction::Egress), self.file(Direction::Ingress)) {
            (Some(up), Some(down)) => crate::shaper::join(&up, &down),
            (up, down) => up.or(down),
        }
    }

    /// The file for a direction; `None` when its rate is not known.
    pub fn file(&self, direction: Direction) -> Option<String> {
        let (rate, percent, why, hosts, tins) = match direction {
            Direction::Egress => {
                (self.up?, UP_PERCENT, "so that the queue is here and not in the modem", "source", "diffserv3")
            }
            Direction::Ingress => (
                self.down?,
                DOWN_PERCENT,
                "what arrives has used the line already. With\n\
                 # more room the queue is here and not at the provider",
                "destination",
                // Code points that foreign networks set have no meaning here.
                "besteffort",
            ),
        };
        let framing = match self.wire.framing {
            Framing::None => "none",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        };
        let rate = match rate {
            LineRate::Constant(rate) => rate,
            LineRate::Varies { from, to } => {
                return Some(self.following(direction, rate.base(), from, to, hosts, tins));
            }
        };
        // Never down to zero.
        let part = Rate::from_bps((u128::from(rate.as_bps()) * u128::from(percent) / 100).max(1) as u64);
        let (word, what) = (direction.word(), verb(direction));
        let mut text =
            format!("# What {what}, for a line of {rate}.\nversion = 1\n\n[interface]\n{}", self.interface());
        let _ = write!(
            text,
            "direction = \"{word}\"\n\n\
             # Hosts share evenly, and the connections of a host share what it has; queues stay short.\n\
             [discipline]\nkind = \"cake\"\n# {percent} % of the line: {why}.\nrate = \"{part}\"\nline-rate = \"{rate}\"\n\
             # Bytes that the line adds to each packet, and how it cuts them up.\noverhead = {}\nleast = \"{}B\"\nframing = \"{framing}\"\n\
             hosts = \"{hosts}\"\ntins = \"{tins}\"\n",
            self.wire.overhead,
            self.wire.least.as_u64(),
        );
        if let Some(mtu) = self.large_mtu() {
            let _ = write!(text, "# The largest packet with its header.\nmtu = \"{}B\"\n", mtu + HEADER);
        }
        if direction == Direction::Egress && self.is_asymmetric() {
            text.push_str("# Acknowledgements of all that comes down would fill the way up.\nack-filter = \"on\"\n");
        }
        if self.l4s == L4s::On {
            text.push_str("# Marks for scalable senders (L4S) by the queue of their flow alone.\nl4s-step = \"1ms\"\n");
        }
        let _ = writeln!(
            text,
            "# A wake-up that comes late is made up for, up to here.\nlateness = \"{}\"",
            Span::from_millis(2)
        );
        Some(text)
    }

    /// The interfaces and their MTU as lines of a file, where it is to name them and they need it.
    fn interface(&self) -> String {
        let mut text = match &self.interfaces[..] {
            [] => String::new(),
            [name] => format!("name = {name:?}\n"),
            names => format!("name = {names:?}\n"),
        };
        if let Some(mtu) = self.large_mtu() {
            let _ = writeln!(text, "mtu = \"{mtu}B\"");
        }
        text
    }

    /// The MTU where it is above that of Ethernet, within what a packet may have. A smaller one needs nothing.
    fn large_mtu(&self) -> Option<u32> {
        self.mtu.filter(|mtu| *mtu > USUAL_MTU).map(|mtu| mtu.min(65_535))
    }

    /// The file for a direction whose rate follows the line.
    fn following(&self, direction: Direction, base: Rate, from: Rate, to: Rate, hosts: &str, tins: &str) -> String {
        let (word, what) = (direction.word(), verb(direction));
        let mut text = format!(
            "# What {what}, for a line of {from} to {to}.\nversion = 1\n\n[interface]\n{}direction = \"{word}\"\n\
             # Bytes that the line adds to each packet.\noverhead = \"{}B\"\n\n\
             # The rate follows the line between these; here it begins, and rests when there is little traffic.\n\
             [shaper]\nrate = \"{base}\"\nfollow = {{ from = \"{from}\", to = \"{to}\" }}\n\n\
             # Hosts share evenly, and the connections of a host share what it has; queues stay short.\n\
             [[class]]\nname = \"all\"\nrate = \"{base}\"\ndefault = true\n\
             queue = {{ kind = \"cake\", hosts = \"{hosts}\", tins = \"{tins}\"",
            self.interface(),
            self.wire.overhead.max(0),
        );
        if let Some(mtu) = self.large_mtu() {
            let _ = write!(text, ", mtu = \"{}B\"", mtu + HEADER);
        }
        if direction == Direction::Egress && self.is_asymmetric() {
            text.push_str(", ack-filter = \"on\"");
        }
        if self.l4s == L4s::On {
            text.push_str(", l4s-step = \"1ms\"");
        }
        text + " }\n"
    }

    fn is_asymmetric(&self) -> bool {
        match (self.up, self.down) {
            (Some(up), Some(down)) => down.base().as_bps() / ASYMMETRIC > up.base().as_bps(),
            _ => false,
        }
    }
}

/// The verb for packets of a direction, at the interface.
const fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "leaves",
        Direction::Ingress => "arrives",
    }
}

/// The size of a packet on a line of the kind `link`, if that is one of [`LINKS`].
pub fn wire_of(link: &str) -> Option<Wire> {
    LINKS.iter().find(|(name, ..)| *name == link).map(|(.., wire)| *wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::Discipline;
    use crate::shaper::{Root, load, load_all};
    use crate::{Diagnostics, Source};

    fn line(up: u64, down: u64, wire: Wire) -> Line {
        let rate = |kbit| (kbit > 0).then(|| LineRate::Constant(Rate::from_kbit(kbit)));
        Line { up: rate(up), down: rate(down), wire, interfaces: vec!["wan0".into()], mtu: None, l4s: L4s::Off }
    }

    #[test]
    fn every_preset_is_a_valid_file_below_the_line() {
        for (_, _, wire) in LINKS {
            for (up, down) in [(56, 56), (1_000, 16_000), (20_000, 100_000), (40_001, 250_007), (1_000_000, 1_000_000)]
            {
                let line = line(up, down, wire);
                for (direction, rate) in [(Direction::Egress, up * 950), (Direction::Ingress, down * 900)] {
                    let text = line.file(direction).unwrap();
                    let (source, mut diagnostics) = (Source::new("preset", &text), Diagnostics::new());
                    let config = load(&source, &mut diagnostics);
                    assert!(diagnostics.is_empty(), "{}\n{text}", diagnostics.render(&source));
                    let config = config.unwrap();
                    assert_eq!(config.interface.direction, direction);
                    assert_eq!(config.interface.names, ["wan0"]);
                    let Root::Discipline(discipline) = config.root else { panic!("{text}") };
                    assert_eq!(discipline.line(), Some(Rate::from_bps(rate)), "{text}");
                    assert!(matches!(*discipline, Discipline::Cake(_)));
                    let whole = if direction == Direction::Egress { up } else { down };
                    assert_eq!(discipline.wire(), (wire, Some(Rate::from_kbit(whole))), "{text}");
                }
            }
        }
    }

    #[test]
    fn large_packets_are_counted_with() {
        let varies = |text: &str| text.parse::<LineRate>().unwrap();
        let constant = line(4_000, 8_000, LINKS[0].2);
        let following =
            Line { up: Some(varies("1mbit-16mbit")), down: Some(varies("4mbit-100mbit")), ..constant.clone() };
        for line in [constant, following] {
            assert_eq!(Line { mtu: Some(1_492), ..line.clone() }.text(), line.text());
            for (mtu, written) in [(9_000, 9_000), (65_536, 65_535)] {
                let text = Line { mtu: Some(mtu), ..line.clone() }.text().unwrap();
                let (source, mut diagnostics) = (Source::new("preset", &text), Diagnostics::new());
                let configs = load_all(&source, &mut diagnostics);
                assert!(diagnostics.is_empty(), "{}\n{text}", diagnostics.render(&source));
                for config in configs.unwrap() {
                    assert_eq!(config.interface.mtu, Bytes::new(written));
                }
                assert_eq!(text.matches(&format!("mtu = \"{}B\"", written + 14)).count(), 2, "{text}");
            }
        }
    }

    #[test]
    fn the_preset_of_a_line_that_varies_follows_it() {
        let varies = |text: &str| text.parse::<LineRate>().unwrap();
        let (up, down) = (varies("1mbit-16mbit"), varies("4mbit - 100mbit"));
        for (wire, l4s) in [(LINKS[0].2, L4s::Off), (LINKS[4].2, L4s::On)] {
            let line = Line { up: Some(up), down: Some(down), l4s, ..line(0, 0, wire) };
            let source = Source::new("preset", line.text().expect("two rates"));
            let mut diagnostics = Diagnostics::new();
            let configs = load_all(&source, &mut diagnostics);
            assert!(diagnostics.is_empty(), "{}", diagnostics.render(&source));
            let configs = configs.unwrap();
            let bases = configs.iter().map(|config| match &config.root {
                Root::Shaper(shaper) => (shaper.rate.as_bps(), config.interface.overhead.as_u64()),
                Root::Discipline(_) => panic!("classes"),
            });
            let overhead = wire.overhead as u64;
            assert_eq!(bases.collect::<Vec<_>>(), [(4_000_000, overhead), (20_000_000, overhead)]);
            assert_eq!(source.text().matches("follow = {").count(), 2);
            assert_eq!(source.text().contains("l4s-step"), l4s == L4s::On);
        }
        assert_eq!(varies("20mbit"), LineRate::Constant(Rate::from_mbit(20)));
        assert_eq!(up.to_string(), "1mbit-16mbit");
        for wrong in ["20mbit-1mbit", "1mbit-", "fast", "1mbit-1mbit"] {
            assert!(wrong.parse::<LineRate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_is_one_file_for_both_directions() {
        let text = line(20_000, 100_000, wire_of("vdsl").unwrap()).text().unwrap();
        let (source, mut diagnostics) = (Source::new("preset", &text), Diagnostics::new());
        let configs = load_all(&source, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{}\n{text}", diagnostics.render(&source));
        let configs = configs.unwrap();
        assert_eq!(
            configs.iter().map(|config| config.interface.direction.word()).collect::<Vec<_>>(),
            ["egress", "ingress"]
        );
        assert!(text.contains("[up.discipline]") && text.contains("[down.discipline]"), "{text}");
        // The comments are there, in the file and in the text of each direction.
        for text in [&text, &configs[0].text.to_string()] {
            assert!(text.contains("95 % of the line") && text.contains("What leaves, for a line of 20mbit"), "{text}");
        }
        assert!(
            configs[1].text.contains("What arrives") && !configs[1].text.contains("What leaves"),
            "{}",
            configs[1].text
        );
    }

    #[test]
    fn only_what_is_known_is_shaped() {
        let plain = wire_of("ip").unwrap();
        assert_eq!(line(1, 0, plain).directions().collect::<Vec<_>>(), [Direction::Egress]);
        assert_eq!(line(0, 1, plain).directions().collect::<Vec<_>>(), [Direction::Ingress]);
        assert_eq!(line(1, 0, plain).file(Direction::Ingress), None);
        // 1/16 of the way down: the acknowledgements matter; 1/5: they do not.
        assert!(line(1_000, 16_000, plain).file(Direction::Egress).unwrap().contains("ack-filter = \"on\""));
        assert!(!line(20_000, 100_000, plain).file(Direction::Egress).unwrap().contains("ack-filter"));
        assert_eq!(wire_of("token-ring"), None);
        // L4S only where it is asked for, in both directions.
        let with = Line { l4s: L4s::On, ..line(20_000, 100_000, plain) };
        assert_eq!(with.text().unwrap().matches("l4s-step = \"1ms\"").count(), 2);
        assert!(load_all(&Source::new("l4s", with.text().unwrap()), &mut Diagnostics::new()).is_some());
        assert!(!line(20_000, 100_000, plain).text().unwrap().contains("l4s"));
    }
}
