//! The rates of a line, as an alternative to a shaper file.

use tidegate_config::Source;
use tidegate_config::preset::{self, L4s, LINKS, Line, LineRate};
use tidegate_core::cake::Wire;

use tidegate_live::rtnl::Rtnl;

use crate::Failure;

/// The rates of the line, instead of a shaper file.
#[derive(Debug, Clone, clap::Args)]
pub struct LineArgs {
    /// The upstream rate of the line, instead of a file: shapes egress with a preset. Of a line whose rate varies, as a mobile
    /// one's, both rates are needed as a range, such as 1mbit-20mbit, and are followed
    #[arg(long, value_name = "RATE", conflicts_with = "file")]
    up: Option<LineRate>,
    /// The downstream rate of the line, instead of a file: shapes ingress with a preset
    #[arg(long, value_name = "RATE", conflicts_with = "file")]
    down: Option<LineRate>,
    /// The type of the line, for its overhead per packet
    #[arg(long, value_name = "KIND", default_value = "unknown", value_parser = kinds(), conflicts_with = "file")]
    link: String,
    /// The overhead of the line per packet in bytes, if it differs from --link
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i16).range(0..=256), conflicts_with = "file")]
    overhead: Option<i16>,
    /// Mark packets of ECT(1), which scalable senders (L4S) send, from 1 ms of delay of their flow on
    #[arg(long, conflicts_with = "file")]
    l4s: bool,
}

/// The values of `--link`.
pub fn kinds() -> clap::builder::PossibleValuesParser {
    let kinds = LINKS.map(|(word, what, _)| clap::builder::PossibleValue::new(word).help(what));
    clap::builder::PossibleValuesParser::new(kinds)
}

/// The size of a packet on a line of the kind `link`, one of [`LINKS`], with `overhead` bytes a packet if given.
pub fn wire(link: &str, overhead: Option<i16>) -> Wire {
    // The parser accepts no other values.
    let wire = preset::wire_of(link).unwrap_or(LINKS[0].2);
    Wire { overhead: overhead.unwrap_or(wire.overhead), ..wire }
}

impl LineArgs {
    /// Whether there is a rate.
    pub const fn has_rates(&self) -> bool {
        self.up.is_some() || self.down.is_some()
    }
    /// Whether a rate varies, which the shaper follows.
    pub fn varies(&self) -> bool {
        [self.up, self.down].iter().any(|rate| matches!(rate, Some(LineRate::Varies { .. })))
    }
    /// The file that the rates stand for.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a rate of zero, and without a rate.
    pub fn source(&self, interfaces: &[String]) -> Result<Source, Failure> {
        source([self.up, self.down], &self.link, self.overhead, self.l4s, interfaces, mtu(interfaces))
    }
}

/// The largest MTU of those interfaces that are here.
pub fn mtu(interfaces: &[String]) -> Option<u32> {
    let mut rtnl = Rtnl::open().ok()?;
    interfaces.iter().filter_map(|name| rtnl.link(name).ok().flatten()).map(|link| link.mtu).max()
}

/// The file for the rates up and down of a line of that kind, with the MTU of its interfaces where it is known.
///
/// # Errors
/// [`Failure::Usage`] for a rate of zero, without a rate, and for a range beside no other.
pub fn source(
    [up, down]: [Option<LineRate>; 2],
    link: &str,
    overhead: Option<i16>,
    l4s: bool,
    interfaces: &[String],
    mtu: Option<u32>,
) -> Result<Source, Failure> {
    for (flag, rate) in [("--up", up), ("--down", down)] {
        if rate.is_some_and(LineRate::is_zero) {
            return Err(Failure::Usage(format!("{flag} 0: leave it out for a direction that is not to be shaped")));
        }
    }
    let varies = [up, down].map(|rate| matches!(rate, Some(LineRate::Varies { .. })));
    if varies.contains(&true) && varies.contains(&false) {
        let text = "a rate that varies is followed by the round trips of what passes both ways: give --up and --down as a range, such \
                    as 1mbit-20mbit";
        return Err(Failure::Usage(text.into()));
    }
    let line = Line {
        up,
        down,
        wire: wire(link, overhead),
        interfaces: interfaces.to_vec(),
        mtu,
        l4s: if l4s { L4s::On } else { L4s::Off },
    };
    let name = match (up, down) {
        (Some(_), Some(_)) => "preset for --up and --down",
        (Some(_), None) => "preset for --up",
        (None, _) => "preset for --down",
    };
    let text = line.text().ok_or_else(|| Failure::Usage("write --up or --down, or name a file".into()))?;
    Ok(Source::new(name, text))
}
