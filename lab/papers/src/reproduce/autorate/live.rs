//! The controller on this machine: a line that is played from its capacity between namespaces, `tidegate run` before it, and the
//! simulator's figures for the same line beside.

use std::io;
use std::time::Duration;

use tidegate_control::Client;
use tidegate_core::Rate;
use tidegate_live::netns;
use tidegate_live::rtnl::{Route, sysctl};
use tidegate_testbed::delay::Capacity as Played;
use tidegate_testbed::{Chain, FlowSpec, Senders, Sink};
use tidegate_units::Bytes;

use super::super::faults::Shaper;
use super::lines::{Capacity, LINES, Line};
use super::rig::{self, Load, MEASURED, Outcome, WARM_UP, Waits};
use super::systems::{ROUND_TRIP, System};
use super::{Item, MEASURES, Options, WAYS};
use crate::reproduce::item::{Bound, theory};

/// The lines and loads that are played, those with the greatest and the least changes, and recorded ones.
const PLAYED: [(&str, Load); 4] =
    [("constant", Load::BulkDown), ("steps", Load::BulkUp), ("verizon", Load::BulkUp), ("verizon", Load::BulkDown)];
/// The measures that are compared with the simulator's, and by how much they may differ from it: as a part, or in their own unit.
const COMPARED: [(&str, f64, f64); 2] = [("p95", 0.15, 10.0), ("used", 0.15, 0.0)];

/// The items of the group `live`.
pub fn run(options: &Options) -> Vec<Item> {
    let cells: Vec<(&Line, Load, String)> = PLAYED
        .into_iter()
        .filter_map(|(name, load)| {
            let line = LINES.iter().find(|line| line.name == name)?;
            let way = WAYS[load.directions()[0]];
            let id = format!("live.{name}.{}.{way}", load.name());
            options.wants(&id).then_some((line, load, id))
        })
        .collect();
    let silent = options.wants("live.silent");
    if cells.is_empty() && !silent {
        return Vec::new();
    }
    let unmeasured = |id: &str, why: &str| Item::unmeasured(id, "a played line on this machine", why);
    if let Err(error) = netns::enter() {
        return cells.iter().map(|(_, _, id)| unmeasured(id, &error.to_string())).collect();
    }
    let mut items = Vec::new();
    for (line, load, id) in &cells {
        let (outcome, processor) = match played(line, *load, options.seed, Rates::Followed) {
            Ok(played) => played,
            Err(error) => {
                items.push(unmeasured(id, &error.to_string()));
                continue;
            }
        };
        items.extend(beside_the_simulator(id, line, *load, &outcome, options.seed));
        let what = "processor time of the whole shaper, of one processor";
        items.push(Item::measured(format!("{id}.processor"), what, "%", processor * 100.0));
        if line.name == "constant"
            && let Ok((_, fixed)) = played(line, *load, options.seed, Rates::Fixed)
        {
            let what = "the same with a fixed rate of 97 % of the line: the rest is what following costs";
            items.push(Item::measured(format!("{id}.processor-fixed"), what, "%", fixed * 100.0));
        }
    }
    if silent {
        items.push(blind().unwrap_or_else(|error| unmeasured("live.silent.base", &error.to_string())));
    }
    items
}

fn beside_the_simulator(id: &str, line: &Line, load: Load, outcome: &Outcome, seed: u64) -> Vec<Item> {
    let simulated = rig::run(line, System::Tidegate, load, seed).ok().and_then(|all| all.into_iter().next());
    let item = |(key, what, unit, of): super::Measure| {
        let item = Item::measured(format!("{id}.{key}"), format!("{what}, played, {}", line.what), unit, of(outcome));
        let compared = COMPARED.iter().find(|(compared, ..)| *compared == key);
        match (simulated.as_ref().map(of), compared) {
            (Some(simulated), Some((_, part, own))) => {
                let off = (simulated * part).max(*own);
                let basis = theory("the simulator's figure for the same line, within 15 % (or 10 ms)");
                item.bound(Bound::between(simulated - off, simulated + off, basis))
            }
            _ => item,
        }
    };
    MEASURES.into_iter().map(item).collect()
}

/// The rates of the shaper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rates {
    Followed,
    /// 97 % of a line that does not change.
    Fixed,
    /// Followed with two peers for probes, of which none answers.
    Silent,
}

impl Rates {
    /// The shaper file of a line.
    fn file(self, capacities: &[Capacity; 2]) -> String {
        let mut text = "version = 1\n[interface]\nname = \"tgr1\"\n".to_owned();
        for (way, capacity) in WAYS.iter().zip(capacities) {
            let bounds = capacity.bounds();
            let [least, base, most] = [bounds.least, bounds.base, bounds.most].map(Rate::as_bps);
            let fixed = capacity.between(0, 1_000) * 8 * 97 / 100;
            let (rate, follow) = match self {
                Self::Followed => (base, format!("follow = {{ from = \"{least}bit\", to = \"{most}bit\" }}")),
                Self::Fixed => (fixed, String::new()),
                Self::Silent => {
                    let peers = "[\"192.0.2.1\", \"192.0.2.2\"]";
                    (base, format!("follow = {{ from = \"{least}bit\", to = \"{most}bit\", peers = {peers} }}"))
                }
            };
            text += &format!(
                "[{way}.shaper]\nrate = \"{rate}bit\"\n{follow}\n[[{way}.class]]\nname = \"all\"\nrate = \"{rate}bit\"\n\
                 default = true\nqueue = {{ kind = \"fq-codel\" }}\n"
            );
        }
        text
    }
}

/// A chain with the line, and a shaper before it in its router.
struct Bench {
    chain: Chain,
    shaper: Shaper,
    directory: std::path::PathBuf,
}

impl Bench {
    fn new(capacities: &[Capacity; 2], rates: Rates) -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("tidegate-line-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("shaper.toml"), rates.file(capacities))?;
        let played = capacities.each_ref().map(|capacity| Played { bytes: capacity.millis(), room: 1_000 });
        let chain = Chain::create_with_line(Duration::from_nanos(ROUND_TRIP.as_nanos() / 2), played)?;
        for host in [&chain.server, &chain.client] {
            // The simulated senders have it. A namespace without privileges may be refused it, and has Reno.
            let _ = host.namespace.run(|| sysctl::write("ipv4/tcp_congestion_control", "cubic"))?;
        }
        if rates == Rates::Silent {
            // Probes may be sent by anybody, and leave by the line.
            let _ = chain.router.namespace.run(|| sysctl::write("ipv4/ping_group_range", "0 2147483647"))?;
            let via = Some(chain.client.v4.into());
            chain.at_router(|rtnl, _| rtnl.add_route(Route { to: None, via, index: None }))?;
        }
        let mut command = chain.router.namespace.command(std::env::current_exe()?)?;
        command.arg("run").arg(directory.join("shaper.toml")).args(["--history", "off"]);
        command.arg("--control").arg(directory.join("control"));
        let shaper = Shaper::start(command)?;
        Ok(Self { chain, shaper, directory })
    }
    fn control(&self) -> std::path::PathBuf {
        self.directory.join("control")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shaper.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Plays a line under a load. Returns the outcome, and the part of a processor that the shaper took.
fn played(line: &Line, load: Load, seed: u64, rates: Rates) -> io::Result<(Outcome, f64)> {
    let capacities = [line.capacity(0, seed), line.capacity(1, seed)];
    let bench = Bench::new(&capacities, rates)?;
    let way = load.directions()[0];
    let flows = if way == 0 { 2 } else { 4 };
    let flows: Vec<_> = (0..flows).map(|n| FlowSpec::tcp(format!("bulk {n}"), 9_000 + n, 0)).collect();
    let (from, to) = match way {
        0 => (&bench.chain.server, &bench.chain.client),
        _ => (&bench.chain.client, &bench.chain.server),
    };
    let sink = Sink::start(to, &flows)?;
    let line = bench.chain.line.as_ref().ok_or_else(|| io::Error::other("the chain was made with a line"))?;
    line.restart();
    let senders = Senders::start(from, to, &flows)?;
    std::thread::sleep(Duration::from_secs(WARM_UP));
    let before = processor_time(bench.shaper.process())?;
    std::thread::sleep(Duration::from_secs(MEASURED));
    let used = processor_time(bench.shaper.process())? - before;
    let [up, down] = line.carried();
    senders.stop();
    drop(sink);
    let mut waits = Waits::default();
    for one in if way == 0 { up } else { down } {
        waits.record(one.at.as_nanos() as u64, one.wait.as_nanos() as u64, one.bytes as u64);
    }
    let offered = capacities[way].between(WARM_UP * 1_000, (WARM_UP + MEASURED) * 1_000);
    Ok((rig::measure(&waits, offered, &[]), used.as_secs_f64() / MEASURED as f64))
}

/// The processor time that a process has taken.
fn processor_time(process: u32) -> io::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path)?;
    // The name, in brackets, may contain anything. In the ticks of the system, user's and system's time (proc_pid_stat(5)).
    let rest = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let ticks: Option<u64> = rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks.map(|ticks| Duration::from_millis(ticks * 10)).ok_or_else(|| io::Error::other(format!("{path} has no times")))
}

/// Nothing passes from which a round trip can be seen, and no peer answers: the rate is the base.
fn blind() -> io::Result<Item> {
    let line = LINES.iter().find(|line| line.name == "constant").ok_or_else(|| io::Error::other("no such line"))?;
    let capacities = [line.capacity(0, 1), line.capacity(1, 1)];
    let bench = Bench::new(&capacities, Rates::Silent)?;
    let flow = [FlowSpec::udp("datagrams", 9_000, 0, Rate::from_mbit(20), Bytes::new(1_200))];
    let _sink = Sink::start(&bench.chain.client, &flow)?;
    let senders = Senders::start(&bench.chain.server, &bench.chain.client, &flow)?;
    std::thread::sleep(Duration::from_secs(6));
    let status = Client::connect(&bench.control()).and_then(|mut client| client.status()).map_err(io::Error::other)?;
    senders.stop();
    let follow = status.directions.into_iter().find(|direction| direction.name == "up").and_then(|one| one.follow);
    let follow = follow.ok_or_else(|| io::Error::other("the rate does not follow"))?;
    let base = capacities[0].bounds().base;
    let what = format!("allowed over the base while all peers are silent; {} probes were sent", follow.probes);
    let ratio = follow.allowed.as_bps() as f64 / base.as_bps() as f64;
    let basis = theory("without any signal for 2 s the rate is the base");
    Ok(Item::measured("live.silent.base", what, "ratio", ratio).bound(Bound::between(0.99, 1.01, basis)))
}
