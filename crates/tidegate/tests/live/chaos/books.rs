//! The accounts of a chaos run: every missing packet against the counters, and the size of the shaper's processes.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::chaos::Step;
use tidegate_testbed::dropped_between;

use super::stage::Stage;
use super::traffic::{MEASURED, Measured};
use crate::running::PATIENCE;

/// The window in which a flow gets its rate; on a busy machine not the first one.
const WINDOW: Duration = Duration::from_millis(700);
/// Resident memory may grow by this from the first quarter of the run to the last.
const MORE_MEMORY: u64 = 32 << 20;
/// And the number of descriptors by this.
const MORE_DESCRIPTORS: usize = 16;

/// Counters at one time.
#[derive(Clone, Default)]
struct Counts {
    /// Of each measured flow.
    sent: [u64; MEASURED.len()],
    missing: [u64; MEASURED.len()],
    reordered: [u64; MEASURED.len()],
    /// The process that counts the following two.
    pid: u64,
    /// Drops of the kernel, by direction.
    kernel: BTreeMap<String, u64>,
    /// Drops by direction and class.
    dropped: BTreeMap<(String, String), u64>,
    /// Drops of the machine itself, what leaves and what arrives.
    machine: [u64; 2],
}

impl Counts {
    fn now(stage: &Stage) -> Self {
        let status = stage.status();
        let mut counts = Self { pid: status["pid"].as_u64().unwrap(), ..Self::default() };
        for (n, _) in MEASURED.iter().enumerate() {
            let report = stage.flows.report(n);
            (counts.sent[n], counts.missing[n], counts.reordered[n]) =
                (stage.flows.sent(n), report.missing, report.reordered);
        }
        for direction in status["directions"].as_array().unwrap() {
            let name = direction["name"].as_str().unwrap().to_owned();
            counts.kernel.insert(name.clone(), direction["kernel_dropped_packets"].as_u64().unwrap());
            for class in direction["classes"].as_array().unwrap() {
                let drops = class["dropped"].as_array().unwrap().iter();
                let drops = drops.map(|reason| reason["packets"].as_u64().unwrap()).sum();
                counts.dropped.insert((name.clone(), class["name"].as_str().unwrap().to_owned()), drops);
            }
        }
        let [here, there] = [&stage.pair.sender.namespace, &stage.pair.receiver.namespace];
        counts.machine = [dropped_between(here, there).unwrap(), dropped_between(there, here).unwrap()];
        counts
    }

    /// How much a counter of the shaper has grown. Another process may have begun again at zero.
    fn grown<K: Ord>(&self, now: &Self, of: impl Fn(&Self) -> &BTreeMap<K, u64>, key: &K) -> u64 {
        let at = |counts: &Self| of(counts).get(key).copied().unwrap_or(0);
        if self.pid == now.pid || at(now) >= at(self) { at(now).saturating_sub(at(self)) } else { at(now) }
    }
}

/// The accounts.
pub struct Books {
    last: Counts,
    /// Memory in bytes, and descriptors, after each step.
    sizes: Vec<(u64, usize)>,
    packets: u64,
    missing: u64,
    /// Drops of the video flow's class since it has been offered more than its rate.
    displaced: u64,
}

impl Books {
    pub fn open(stage: &Stage) -> Self {
        Self { last: Counts::now(stage), sizes: Vec::new(), packets: 0, missing: 0, displaced: 0 }
    }

    /// Waits until the flows get their rates, and accounts for what happened since the last time.
    pub fn check(&mut self, stage: &Stage, step: Step, is_video_safe: bool) {
        // The rivals of a video flow without a minimum may take its rate.
        let is_safe = |flow: &usize| is_video_safe || MEASURED[*flow].class != "media";
        get_their_rates(stage, (0..MEASURED.len()).filter(is_safe).collect());
        let now = Counts::now(stage);
        for (n, flow) in MEASURED.iter().enumerate() {
            let since = |of: fn(&Counts) -> &[u64; MEASURED.len()]| of(&now)[n].saturating_sub(of(&self.last)[n]);
            let (missing, reordered) = (since(|counts| &counts.missing), since(|counts| &counts.reordered));
            self.packets += since(|counts| &counts.sent);
            self.missing += missing;
            match step {
                // The kernel discards what is sent meanwhile, and finds the neighbour anew.
                Step::Down { .. } | Step::Vanish { .. } => continue,
                // What they held is lost: at most the limit of a flow.
                Step::KillBoth => {
                    assert_eq!(reordered, 0, "{} ({}) after {step:?}", flow.name, flow.way);
                    continue;
                }
                _ => {}
            }
            let way = flow.way.to_owned();
            let kernel = self.last.grown(&now, |counts| &counts.kernel, &way);
            let machine = usize::from(flow.way == "down");
            let machine = now.machine[machine] - self.last.machine[machine];
            let class = self.last.grown(&now, |counts| &counts.dropped, &(way, flow.class.to_owned()));
            let class = if flow.way == "up" && flow.class == "media" && !is_video_safe {
                // Its packets are dropped before those that show that they are missing arrive. A process that has ended took
                // with it what it dropped since the last time.
                self.displaced =
                    if self.last.pid == now.pid { self.displaced.saturating_add(class) } else { u64::MAX >> 1 };
                self.displaced
            } else {
                0
            };
            if is_video_safe {
                self.displaced = 0;
            }
            let name = format!("{} ({}) after {step:?}", flow.name, flow.way);
            assert!(
                missing <= kernel + class + machine,
                "{name}: {missing} packets are missing; counted are {kernel} of the kernel, {class} of the class, {machine} of the machine"
            );
            assert_eq!(reordered, 0, "{name}: packets were reordered");
            assert!(kernel == 0 || matches!(step, Step::Chain), "{name}: the kernel dropped {kernel} packets");
        }
        self.last = now;
        self.sizes.extend(size(stage.pid()));
    }

    /// What was measured; fails when memory or descriptors have grown.
    pub fn summary(&self) -> String {
        let quarter = self.sizes.len() / 4;
        let most = |part: &[(u64, usize)]| {
            part.iter().fold((0, 0), |most: (u64, usize), one| (most.0.max(one.0), most.1.max(one.1)))
        };
        let (first, last) = (most(&self.sizes[..quarter]), most(&self.sizes[self.sizes.len() - quarter..]));
        if quarter > 2 {
            assert!(last.0 <= first.0 + MORE_MEMORY, "memory grew from {} to {} bytes", first.0, last.0);
            assert!(last.1 <= first.1 + MORE_DESCRIPTORS, "descriptors grew from {} to {}", first.1, last.1);
        }
        format!(
            "{} packets measured, {} missing with a reason; {} to {} KiB of memory, {} to {} descriptors",
            self.packets,
            self.missing,
            first.0 >> 10,
            last.0 >> 10,
            first.1,
            last.1
        )
    }
}

/// Waits until there was a window for each flow in which as much of it arrived as was sent.
fn get_their_rates(stage: &Stage, mut waiting: Vec<usize>) {
    let deadline = Instant::now() + PATIENCE;
    let at = || (0..MEASURED.len()).map(|n| (stage.flows.sent(n), stage.flows.arrived(n))).collect::<Vec<_>>();
    loop {
        let before = at();
        thread::sleep(WINDOW);
        let after = at();
        let between = |n: usize| (after[n].0 - before[n].0, after[n].1 - before[n].1);
        // What is on the way at the end, and a sender without processor time.
        waiting.retain(|flow| {
            let (sent, arrived) = between(*flow);
            sent < 10 || arrived + 4 < sent * 9 / 10
        });
        let Some(first) = waiting.first() else { return };
        let Measured { name, way, .. } = MEASURED[*first];
        let (sent, arrived) = between(*first);
        assert!(Instant::now() < deadline, "{name} ({way}): {arrived} of {sent} packets arrive");
    }
}

/// Resident memory in bytes and the number of descriptors of a process, where they may be read.
fn size(pid: u32) -> Option<(u64, usize)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kib << 10, std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()))
}
