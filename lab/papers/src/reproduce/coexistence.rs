//! Two flows over one bottleneck, of Prague, BBRv3 and CUBIC: the share of the first beside what others have measured on real
//! machines. The README is `lab/papers/coexistence/README.md`.

use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::Scenario;

use super::item::{Bound, Sample, spread};
use super::{Item, Options, in_parallel};
use crate::Failure;

/// The shares that others have published, with the sources.
const PUBLISHED: &str = include_str!("../../coexistence/published.csv");

/// A row: two flows, their line and their queue.
#[derive(Clone, Debug)]
struct Row {
    id: String,
    controls: [&'static str; 2],
    mbit: u64,
    milliseconds: u64,
    queue: String,
    what: String,
    /// The published share of the first flow, and its standard deviation over trials.
    published: Option<(f64, f64)>,
}

const CONTROLS: [&str; 3] = ["prague", "bbr", "cubic"];

impl Row {
    /// A line of [`PUBLISHED`]. Queues are in multiples of the path's capacity: tail drop by bytes, and CoDel, PIE and FQ-CoDel with a
    /// target of 5 ms and the parameters of the kernel. ECN is Prague's alone.
    fn read(line: &str) -> Option<Self> {
        let [first, second, mbit, rtt, kind, bdp, share, deviation, _] =
            <[&str; 9]>::try_from(line.split(',').collect::<Vec<_>>()).ok()?;
        let control = |name: &str| CONTROLS.into_iter().find(|known| *known == name);
        let (mbit, milliseconds): (u64, u64) = (mbit.parse().ok()?, rtt.parse().ok()?);
        let bytes = (bdp.parse::<f64>().ok()? * (mbit * milliseconds * 125) as f64) as u64;
        // The kernel counts packets of 1514 B.
        let packets = (bytes / 1500 + 1) * 1514;
        let keys = match kind {
            "fifo" => format!("limit = \"{bytes}B\""),
            "pie" => format!("limit = \"{packets}B\", target = \"5ms\", signal = \"drop\""),
            "codel" => format!("limit = \"{packets}B\", signal = \"drop\""),
            "fq-codel" => format!("limit = \"{packets}B\", l4s-step = \"1ms\""),
            "drr" => format!("limit = \"{packets}B\", l4s-step = \"5ms\""),
            "dualpi2" => "limit = \"15MB\", target = \"5ms\", protection = false".to_owned(),
            _ => return None,
        };
        let room = if kind == "dualpi2" { String::new() } else { format!(", room for {bdp} capacities") };
        Some(Self {
            id: format!("{first}-{second}.{mbit}-{milliseconds}.{kind}.{bdp}"),
            controls: [control(first)?, control(second)?],
            mbit,
            milliseconds,
            queue: format!("{{ kind = \"{kind}\", {keys} }}"),
            what: format!("share of {first} beside {second}, {mbit} Mbit/s, {milliseconds} ms, {kind}{room}"),
            published: Some((share.parse().ok()?, deviation.parse().ok()?)),
        })
    }

    /// The row of DualPI2 with the parameters of RFC 9332 and queue protection, which nobody has published.
    fn with_defaults(&self) -> Self {
        let [first, second] = self.controls;
        Self {
            id: format!("{first}-{second}.{}-{}.dualpi2.rfc", self.mbit, self.milliseconds),
            queue: "{ kind = \"dualpi2\" }".to_owned(),
            what: format!(
                "share of {first} beside {second}, {} Mbit/s, {} ms, dualpi2 with the defaults of RFC 9332",
                self.mbit, self.milliseconds
            ),
            published: None,
            ..self.clone()
        }
    }

    /// How long both flows were measured there: whole runs.
    fn seconds(&self) -> u64 {
        if self.controls[0] == "bbr" { 240 } else { 60 }
    }

    /// The scenario: each flow has its own host, and what systems have today.
    fn text(&self) -> String {
        let Self { mbit, milliseconds, queue, .. } = self;
        let mut text = format!(
            "version = 1\nduration = \"{}s\"\nmeasure = [\"goodput\"]\n\
             hosts = [\"a1\", \"a2\", \"b1\", \"b2\"]\nrouters = [\"r\", \"s\"]\n\
             [[link]]\nfrom = \"a{{1..2}}\"\nto = \"r\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n\
             jitter = {{ delay = {{ kind = \"uniform\", low = \"0s\", high = \"{}us\" }} }}\n\
             [[link]]\nfrom = \"r\"\nto = \"s\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\nqueue = {queue}\n\
             [[link]]\nfrom = \"s\"\nto = \"b{{1..2}}\"\nrate = \"10gbit\"\ndelay = \"0s\"\nlimit = 100000\n",
            self.seconds(),
            // A packet of the line, as real hosts have: without it shares have phase effects.
            12_000 / mbit,
            milliseconds * 500,
        );
        for (number, control) in (1..).zip(self.controls) {
            text += &format!(
                "[[flow]]\nname = \"{number}\"\nfrom = \"a{number}\"\nto = \"b{number}\"\njitter = \"100ms\"\n\
                 workload = {{ kind = \"bulk\" }}\n\
                 tcp = {{ congestion = \"{control}\", recovery = \"rack\", timestamps = true, d-sack = true, \
                 hystart = true, prr = true, window = \"64MiB\", min-rto = \"200ms\" }}\n"
            );
        }
        text
    }

    /// The share of the first flow in the goodput of both.
    fn share(&self, seed: u64) -> f64 {
        let text = self.text();
        let (source, mut diagnostics) = (Source::new("coexistence.toml", &text), Diagnostics::new());
        let scenario = Scenario::load(&source, None, &mut diagnostics);
        let scenario = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source)));
        let outcome = scenario.run(seed, |_| ());
        let goodput = |flow: &str| {
            let of = outcome.values.iter().find(|value| value.subject == flow && value.measure == "goodput");
            of.map_or(0.0, |value| value.value)
        };
        let (first, second) = (goodput("flow 1"), goodput("flow 2"));
        first / (first + second)
    }
}

fn rows() -> Vec<Row> {
    let lines = PUBLISHED.lines().filter(|line| !line.starts_with('#')).skip(1);
    let published: Vec<Row> = lines.map(|line| Row::read(line).expect("a row of the table")).collect();
    let defaults: Vec<Row> =
        published.iter().filter(|row| row.id.contains(".dualpi2.")).map(Row::with_defaults).collect();
    published.into_iter().chain(defaults).collect()
}

/// Runs each row under each seed.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let wanted: Vec<Row> = rows().into_iter().filter(|row| options.wants(&row.id)).collect();
    let seeds: Vec<u64> = (options.seed..options.seed + u64::from(options.runs)).collect();
    let runs: Vec<(&Row, u64)> = wanted.iter().flat_map(|row| seeds.iter().map(move |seed| (row, *seed))).collect();
    let shares = in_parallel(&runs, |(row, seed)| row.share(*seed));
    let of_rows = wanted.iter().zip(shares.chunks(seeds.len()));
    let item = |(row, shares): (&Row, &[f64])| {
        let item = Item::sampled(row.id.clone(), row.what.clone(), "1", Sample::of(shares.iter().copied()));
        let Some((share, deviation)) = row.published else { return item };
        let basis = spread("three standard deviations over their trials, and at least a tenth");
        item.paper(share).bound(Bound::around(share, (3.0 * deviation).max(0.1), basis))
    };
    Ok(of_rows.map(item).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_read_and_dualpi2_has_one_with_the_defaults() {
        let rows = rows();
        assert_eq!(rows.iter().filter(|row| row.published.is_some()).count(), 40);
        let defaults: Vec<&Row> = rows.iter().filter(|row| row.published.is_none()).collect();
        let ids: Vec<&str> = defaults.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["prague-cubic.100-10.dualpi2.rfc", "prague-bbr.100-10.dualpi2.rfc"]);
        assert!(defaults.iter().all(|row| row.text().contains("queue = { kind = \"dualpi2\" }")));
    }
}
