//! The rates of a line, as an alternative to a shaper file.

use tidegate_config::preset::{self, LINKS, Line};
use tidegate_config::shaper::Direction;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_units::Rate;

use super::check;
use crate::Failure;

/// The rates of the line, instead of a shaper file.
#[derive(Debug, Clone, clap::Args)]
pub struct LineArgs {
    /// The upstream rate of the line, instead of a file: shapes egress with a preset
    #[arg(long, value_name = "RATE", conflicts_with = "file")]
    up: Option<Rate>,
    /// The downstream rate of the line, instead of a file: shapes ingress with a preset
    #[arg(long, value_name = "RATE", conflicts_with = "file")]
    down: Option<Rate>,
    /// The type of the line, for its overhead per packet
    #[arg(long, value_name = "KIND", default_value = "unknown", value_parser = kinds(), conflicts_with = "file")]
    link: String,
    /// The overhead of the line per packet in bytes, if it differs from --link
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=256), conflicts_with = "file")]
    overhead: Option<u32>,
}

fn kinds() -> clap::builder::PossibleValuesParser {
    let kinds = LINKS.map(|(word, what, _)| clap::builder::PossibleValue::new(word).help(what));
    clap::builder::PossibleValuesParser::new(kinds)
}

impl LineArgs {
    /// The files that the rates stand for; empty without rates.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a rate of zero.
    pub fn sources(&self, interface: Option<&str>) -> Result<Vec<(Direction, Source)>, Failure> {
        for (flag, rate) in [("--up", self.up), ("--down", self.down)] {
            if rate.is_some_and(Rate::is_zero) {
                return Err(Failure::Usage(format!("{flag} 0: leave it out for a direction that is not to be shaped")));
            }
        }
        // The parser accepts no other values.
        let framing = preset::framing(&self.link).unwrap_or(LINKS[0].2);
        let framing = preset::Framing { overhead: self.overhead.unwrap_or(framing.overhead), ..framing };
        let line = Line { up: self.up, down: self.down, framing, interface: interface.map(str::to_owned) };
        let name = |direction| match direction {
            Direction::Egress => "preset for --up",
            Direction::Ingress => "preset for --down",
        };
        let source = |direction| line.file(direction).map(|text| (direction, Source::new(name(direction), text)));
        Ok(line.directions().filter_map(source).collect())
    }
}

/// The configuration of a preset.
///
/// # Errors
/// [`Failure::Usage`] when a rate exceeds the limit of a discipline; diagnostics go to standard error.
pub fn load(source: &Source) -> Result<shaper::Config, Failure> {
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(source, &mut diagnostics);
    check::say(&diagnostics, source);
    config.ok_or_else(|| check::refusal(&diagnostics, source))
}
