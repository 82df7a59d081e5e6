//! The accounts of a chaos run: every missing packet against the counters, and the size of the shaper's processes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::chaos::Step;
use tidegate_testbed::dropped_between;

use super::stage::Stage;
use super::steps::Toll;
use super::traffic::{MEASURED, Measured, Packets, VIDEO};
use crate::running::PATIENCE;

/// The window in which a flow gets its rate; on a busy machine not the first one.
const WINDOW: Duration = Duration::from_millis(700);
/// Resident memory may grow by this from the first quarter of the run to the last.
const MORE_MEMORY: u64 = 32 << 20;
/// And the number of descriptors by this.
const MORE_DESCRIPTORS: usize = 16;

/// The place of the video flow that leaves.
const VIDEO_UP: usize = 2;

/// Counters at one time.
#[derive(Clone, Default)]
struct Counts {
    /// Of each measured flow.
    sent: [u64; MEASURED.len()],
    expected: [u64; MEASURED.len()],
    /// How many have come late.
    late: [usize; MEASURED.len()],
    /// The process that counts the following two.
    pid: u64,
    /// Drops of the kernel, by direction.
    kernel: BTreeMap<String, u64>,
    /// Packets of calls that the shaper has queued, by direction.
    calls: BTreeMap<String, u64>,
    /// Drops of the machine itself, what leaves and what arrives.
    machine: [u64; 2],
}

impl Counts {
    fn now(stage: &Stage) -> Self {
        let status = stage.status();
        let mut counts = Self { pid: status["pid"].as_u64().unwrap(), ..Self::default() };
        for (n, _) in MEASURED.iter().enumerate() {
            let report = stage.flows.report(n);
            (counts.sent[n], counts.expected[n], counts.late[n]) =
                (stage.flows.sent(n), report.expected(), report.late.len());
        }
        for direction in status["directions"].as_array().unwrap() {
            let name = direction["name"].as_str().unwrap().to_owned();
            // A class that every file has.
            let calls = direction["classes"].as_array().unwrap().iter().find(|class| class["name"] == "calls").unwrap();
            counts.calls.insert(name.clone(), calls["enqueued_packets"].as_u64().unwrap());
            counts.kernel.insert(name, direction["kernel_dropped_packets"].as_u64().unwrap());
        }
        let [here, there] = [&stage.pair.sender.namespace, &stage.pair.receiver.namespace];
        counts.machine = [dropped_between(here, there).unwrap(), dropped_between(there, here).unwrap()];
        counts
    }

    /// Whether another data path has begun in the same process, which found the one before to be stalled: on a busy machine a
    /// build for tests may be. It counts from zero, and what the other one had counted is gone.
    fn has_restarted(&self, now: &Self, way: &str) -> bool {
        self.pid == now.pid && now.calls.get(way) < self.calls.get(way)
    }
    /// How many more packets the kernel has dropped. Another process, or data path, has begun again at zero.
    fn kernel_drops(&self, now: &Self, way: &str) -> u64 {
        let at = |counts: &Self| counts.kernel.get(way).copied().unwrap_or(0);
        let is_new = self.pid != now.pid || self.has_restarted(now, way);
        at(now) - if is_new { 0 } else { at(self) }
    }
}

/// Drops of the video flow, which its rivals displace.
#[derive(Default)]
struct Displaced {
    /// The counts of the present process when they were read last.
    read: u64,
    /// Counted, and not known to be missing yet: packets before the next one that arrives.
    ahead: u64,
    /// Packets that a process may have dropped between its last counts and its end.
    uncounted: Vec<Range<u64>>,
}

/// The accounts.
pub struct Books {
    last: Counts,
    /// Memory in bytes, and descriptors, after each step.
    sizes: Vec<(u64, usize)>,
    packets: u64,
    missing: u64,
    overtaken: u64,
    displaced: Displaced,
}

impl Books {
    pub fn open(stage: &Stage) -> Self {
        Self {
            last: Counts::now(stage),
            sizes: Vec::new(),
            packets: 0,
            missing: 0,
            overtaken: 0,
            displaced: Displaced::default(),
        }
    }

    /// Waits until the flows get their rates, and accounts for what happened since the last time.
    pub fn check(&mut self, stage: &Stage, step: Step, toll: &Toll, is_video_safe: bool) {
        // The rivals of a video flow without a minimum may take its rate.
        let is_safe = |flow: &usize| is_video_safe || MEASURED[*flow].class != "media";
        get_their_rates(stage, (0..MEASURED.len()).filter(is_safe).collect());
        let now = Counts::now(stage);
        for (n, flow) in MEASURED.iter().enumerate() {
            let name = format!("{} ({}) after {step:?}", flow.name, flow.way);
            self.packets += now.sent[n] - self.last.sent[n];
            let report = stage.flows.report(n);
            let known = self.last.expected[n]..now.expected[n];
            let lost: Vec<u64> = report.lost.into_iter().flatten().filter(|one| known.contains(one)).collect();
            self.missing += lost.len() as u64;
            let within =
                |packets: &Option<Packets>, one: &u64| packets.as_ref().is_some_and(|all| all[n].contains(one));
            let excused = |one: &u64| within(&toll.unlinked, one) || within(&toll.killed, one);
            // Packets that wait behind the shaper until a neighbour's address is known are overtaken by the kernel.
            let late = report.late[self.last.late[n]..now.late[n]].to_vec();
            self.overtaken += late.len() as u64;
            let late: Vec<u64> = late.into_iter().filter(|one| !within(&toll.unlinked, one)).collect();
            assert!(late.is_empty(), "{name}: {late:?} were overtaken; {toll:?}");
            let is_contested = flow.port == VIDEO && flow.way == "up" && !is_video_safe;
            let (mut waited, mut others): (Vec<u64>, Vec<u64>) =
                lost.into_iter().filter(|one| !excused(one)).partition(|one| within(&toll.waited, one));
            let kernel = self.last.kernel_drops(&now, flow.way);
            assert!(kernel == 0 || toll.waited.is_some(), "{name}: the kernel dropped {kernel} packets");
            let way = usize::from(flow.way == "down");
            if is_contested {
                // Some of them were displaced by its rivals.
                others.extend(waited.drain(waited.len().min(kernel as usize)..));
            }
            // A new interface counts from zero.
            let machine = now.machine[way].saturating_sub(self.last.machine[way]);
            let restarted = self.last.has_restarted(&now, flow.way);
            if restarted {
                println!("chaos: {name}: another data path has begun");
            }
            assert!(
                restarted || waited.len() as u64 <= kernel + machine + toll.unnoticed,
                "{name}: of those that waited {waited:?} are missing; the kernel dropped {kernel}, the machine {machine}; {toll:?}"
            );
            if is_contested {
                if restarted {
                    self.displaced.read = 0;
                    self.displaced.uncounted.push(known.start..now.sent[n]);
                }
                self.check_displaced(stage, &name, others, (toll, machine), known.end);
            } else {
                assert!(
                    others.len() as u64 <= machine,
                    "{name}: {others:?} are missing; the machine dropped {machine}, this shaper {} of the flow; {toll:?}",
                    stage.dropped(flow.way, flow.port)
                );
            }
        }
        if is_video_safe {
            self.displaced = Displaced { read: stage.dropped("up", VIDEO), ..Displaced::default() };
        }
        self.last = now;
        self.sizes.extend(size(stage.pid()));
    }

    /// Accounts for packets of the video flow: each that is missing was counted, by this process or by the one before, but for
    /// those that this one may have dropped between its last counts and its end. All before `expected` is known.
    fn check_displaced(
        &mut self,
        stage: &Stage,
        name: &str,
        lost: Vec<u64>,
        (toll, machine): (&Toll, u64),
        expected: u64,
    ) {
        if let Some((packets, counted)) = &toll.uncounted {
            self.displaced.ahead += counted.saturating_sub(self.displaced.read);
            self.displaced.read = 0;
            self.displaced.uncounted.push(packets[VIDEO_UP].clone());
        }
        let uncounted = |one: &u64| self.displaced.uncounted.iter().any(|packets| packets.contains(one));
        let missing = lost.iter().filter(|one| !uncounted(one)).count() as u64;
        // One of them may be found missing seconds later, when the packet behind it has left the queue.
        self.displaced.uncounted.retain(|packets| packets.end > expected);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = stage.dropped("up", VIDEO);
            let counted = self.displaced.ahead + read.saturating_sub(self.displaced.read);
            if missing <= counted + machine {
                // A packet that was counted and has been found missing is accounted for once.
                // Packets that are counted by now were sent by now.
                let on_the_way = stage.flows.sent(VIDEO_UP).saturating_sub(expected);
                (self.displaced.read, self.displaced.ahead) = (read, counted.saturating_sub(missing).min(on_the_way));
                return;
            }
            // Counts of flows are read once a second.
            assert!(Instant::now() < deadline, "{}", {
                let report = stage.flows.report(VIDEO_UP);
                let late = lost.iter().filter(|one| !report.lost.iter().any(|range| range.contains(one))).count();
                format!(
                    "{name}: {lost:?} are missing, of which {late} came late; counted are {counted} of the flow, {machine} of \
                     the machine; {toll:?}"
                )
            });
            thread::sleep(Duration::from_millis(200));
        }
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
            "{} packets measured, {} missing and {} overtaken with a reason; {} to {} KiB of memory, {} to {} descriptors",
            self.packets,
            self.missing,
            self.overtaken,
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
