//! Other programs that do the same work, measured in the same run: DPDK's `rte_sched` and `rte_meter`, ns-2, and the
//! kernel's HTB. For a peer that is not installed, the error names its package.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::traffic::Spread;

/// A peer and its task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Peer {
    /// DPDK's scheduler with this many pipes, a power of two, and packets of 64 bytes: `packet`, in ns.
    RteSched(u32),
    /// The same under the traffic of [`Traffic`](crate::traffic::Traffic): packets of mixed sizes, pipes drawn in this way, as
    /// many packets queued as there are pipes. Pipes are configured, so that none comes or goes.
    RteSchedMixed(u32, Spread),
    /// DPDK's meters: `srtcm`, `trtcm` and `rfc4115`, in ns a packet.
    RteMeter,
    /// ns-2 in the scenario of RFC 2963: `cpu`, in ns of processor time for the whole run.
    Ns2,
    /// ns-2 with this many flows over one bottleneck for so many seconds: `cpu` as above, without its set-up.
    Ns2Flows(u32, u32),
    /// The kernel's HTB over a veth pair: `udp` in packets a second, `tcp` in bit/s.
    Htb,
    /// Tidegate in the same set-up, the program at `target/release/tidegate`: also `cpu` in ns of processor time per
    /// packet, `start` and `status` in ms.
    Live,
    /// HTB with one class of 20, 100 and 500 Mbit/s and packets of 1,400 bytes: `gap-20` and so on, the 99th percentile
    /// of the deviation of gaps from the mean gap, in microseconds.
    HtbPaced,
    /// Tidegate in the same set-up: also `cpu-20` and so on, in percent of a processor.
    LivePaced,
    /// A gateway that shapes both directions with `tidegate` or `htb`, or with `nothing`: `system-100` and so on, the processor time
    /// of everything in percent, and `call-100`, the 99th percentile of the way of a call's packets in microseconds.
    Gateway(&'static str),
}

/// The root of the repository: every package is two levels below it.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What several rounds of a measurement gave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// The median, the upper of the middle two.
    pub median: f64,
    /// How far the rounds are apart: of many rounds the middle 80 %, otherwise all, in percent of the median.
    pub spread: f64,
}

impl Figure {
    /// Of `rounds`, in any order.
    pub fn of(mut rounds: Vec<f64>) -> Self {
        let median = median(&mut rounds);
        let at = |tenths: usize| rounds.get((rounds.len() * tenths / 10).min(rounds.len() - 1)).copied();
        let (least, most) = if rounds.len() < 10 { (at(0), at(10)) } else { (at(1), at(9)) };
        let spread = most.zip(least).map_or(0.0, |(most, least)| (most - least) / median * 100.0);
        Self { median, spread }
    }
    /// Whether the rounds agree well enough for their median to mean something.
    pub fn is_steady(self) -> bool {
        self.spread <= MOST_SPREAD
    }
}

/// A figure whose rounds are further apart, in percent of it, is not reported.
pub const MOST_SPREAD: f64 = 30.0;

/// How often something is measured whose rounds do not agree: other programs disturb a machine for some seconds.
const ATTEMPTS: usize = 5;

/// The first of some measurements that `is_steady`, or the last.
pub(crate) fn steady<T, E>(mut measure: impl FnMut() -> Result<T, E>, is_steady: impl Fn(&T) -> bool) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        let found = measure()?;
        if is_steady(&found) {
            return Ok(found);
        }
    }
    measure()
}

/// Runs the peer until its rounds agree, a few times at most, and returns its figures by name.
///
/// # Errors
/// States why it could not run, and the package to install.
pub fn measure(peer: Peer) -> Result<BTreeMap<String, Figure>, String> {
    steady(|| measure_once(peer), |figures| figures.values().all(|figure| figure.is_steady()))
}

fn measure_once(peer: Peer) -> Result<BTreeMap<String, Figure>, String> {
    match peer {
        Peer::RteSched(pipes) => rte_sched(pipes, "small"),
        Peer::RteSchedMixed(pipes, Spread::Uniform) => rte_sched(pipes, "uniform"),
        Peer::RteSchedMixed(pipes, Spread::Zipf) => rte_sched(pipes, "zipf"),
        Peer::RteMeter => {
            let program = compile("rte_meter")?;
            Ok(medians(&run(Command::new(program).args(["--no-huge", "-m", "512", "--no-pci"]))?))
        }
        Peer::Ns2 => ns2(&["rfc2963.tcl", "3"]),
        Peer::Ns2Flows(flows, seconds) => {
            let script = root().join("tools/benches/flows.tcl");
            let mut command = Command::new("ns");
            command.arg(script).args([flows.to_string(), seconds.to_string()]);
            run(&mut command).map(|output| medians(&output)).map_err(no_ns2)
        }
        Peer::Htb => Ok(medians(&live(&["flood", "htb"])?)),
        Peer::HtbPaced => Ok(medians(&live(&["paced", "htb"])?)),
        Peer::Live => Ok(medians(&live(&["flood", "tidegate", &tidegate()?])?)),
        Peer::LivePaced => Ok(medians(&live(&["paced", "tidegate", &tidegate()?])?)),
        Peer::Gateway(shaper) => {
            let program = if shaper == "tidegate" { tidegate()? } else { String::new() };
            Ok(medians(&run(Command::new(root().join("tools/benches/gateway.sh")).args([shaper, &program]))?))
        }
    }
}

fn rte_sched(pipes: u32, traffic: &str) -> Result<BTreeMap<String, Figure>, String> {
    let program = compile("rte_sched")?;
    let mut command = Command::new(program);
    command.args(["--no-huge", "-m", "3000", "--no-pci", "--", &pipes.to_string(), traffic]);
    run(&mut command).map(|output| medians(&output))
}

/// Compiles a program of `tools/benches/`, unless it is newer than its source.
fn compile(name: &str) -> Result<PathBuf, String> {
    let source = root().join("tools/benches").join(format!("{name}.c"));
    let folder = root().join("target/peers");
    let program = folder.join(name);
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if changed(&program).is_some_and(|at| Some(at) > changed(&source)) {
        return Ok(program);
    }
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]))
        .map_err(|_| "DPDK is not installed (Debian: libdpdk-dev, pkg-config)".to_owned())?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O3", "-march=native", "-o"]).arg(&program).arg(&source).args(flags.split_whitespace()).arg("-lm");
    run(&mut compiler).map(|_| program)
}

/// The path of the program.
fn tidegate() -> Result<String, String> {
    let program = root().join("target/release/tidegate");
    if !program.exists() {
        return Err("target/release/tidegate is missing: cargo build --profile bench -p tidegate".into());
    }
    Ok(program.to_string_lossy().into_owned())
}

fn ns2(arguments: &[&str]) -> Result<BTreeMap<String, Figure>, String> {
    let mut command = Command::new("sh");
    // The second line of `times` is the time of the children, user and system.
    command.args(["-c", "ns \"$@\" >/dev/null; code=$?; times; exit $code", "ns"]).args(arguments);
    let output = run(command.current_dir(root().join("tools/benches"))).map_err(no_ns2)?;
    let children = output.lines().nth(1).unwrap_or_default();
    let seconds = children.split_whitespace().filter_map(|time| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    });
    Ok(BTreeMap::from([("cpu".to_owned(), Figure::of(vec![seconds.sum::<f64>() * 1e9]))]))
}

fn no_ns2(error: String) -> String {
    format!("ns-2 is not installed (Debian: ns2), or failed: {error}")
}

fn live(arguments: &[&str]) -> Result<String, String> {
    run(Command::new(root().join("tools/benches/live.sh")).args(arguments))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed").trim();
    Err(format!("{}: {last}", command.get_program().display()))
}

/// The median of each figure that lines `NAME VALUE` report; other lines are left out.
fn medians(output: &str) -> BTreeMap<String, Figure> {
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in output.lines() {
        if let Some((name, value)) = line.split_once(' ')
            && let Ok(value) = value.parse()
        {
            figures.entry(name.to_owned()).or_default().push(value);
        }
    }
    figures.into_iter().map(|(name, values)| (name, Figure::of(values))).collect()
}

/// The median, the upper of the middle two.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unsteady_is_measured_again_a_few_times() {
        let measured = |steady_from: usize| {
            let mut rounds = 0;
            let mut next = || {
                rounds += 1;
                Ok::<_, String>(rounds)
            };
            steady(&mut next, |&round| round >= steady_from)
        };
        assert_eq!((measured(1), measured(3), measured(9)), (Ok(1), Ok(3), Ok(ATTEMPTS)));
        assert_eq!(steady(|| Err::<u32, _>("no peer"), |_| true), Err("no peer"));
    }
}
