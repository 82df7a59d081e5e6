//! `tidegate run`: shape an interface, prove it, and stay until told to stop.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use comfy_table::{CellAlignment, Table, presets};
use tidegate_config::shaper::Config;
use tidegate_core::DropReason;
use tidegate_engine::ClassStatus;
use tidegate_live::nfqueue::Outcome;
use tidegate_live::rtnl::{LinkEvent, LinkMonitor};
use tidegate_live::shaping::{Options, Shaping, StartError};
use tidegate_live::timing::Priority;
use tidegate_units::Span;

use crate::Failure;
use crate::commands::check;

/// Shape what leaves by an interface, as a shaper file says
///
/// Says that shaping is in force only after reading its rules back and seeing a packet of each class and protocol come
/// through. Traffic passes unshaped if the program dies. Ends in order on Ctrl-C or SIGTERM, and prints what it did.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file; - for standard input
    file: PathBuf,
    /// The interface, instead of the one the file names
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// Stop after this long
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Packets leave in groups this far apart at the most; 0us for the finest spacing, at the cost of processor
    #[arg(long, value_name = "TIME", default_value = "50us")]
    quantum: Span,
    /// Watch the clock instead of sleeping for this long before a packet is due, at most 50us
    #[arg(long, value_name = "TIME", default_value = "0us")]
    spin: Span,
    /// Do not ask for real-time scheduling
    #[arg(long)]
    normal_priority: bool,
    /// Print the final counts as JSON
    #[arg(long)]
    json: bool,
}

/// How often the rules are read back.
const INSPECT: Duration = Duration::from_secs(2);
/// A data path that does not turn for this long is stalled: it turns at least once a second when idle.
const STALLED: Duration = Duration::from_secs(4);

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    // Before it is read, so that no change goes unnoticed.
    let modified = modified(&args.file);
    let config = check::load(&args.file)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let options = Options {
        interface: args.interface.clone(),
        quantum: args.quantum,
        spin: args.spin,
        priority: if args.normal_priority { Priority::Normal } else { Priority::RealTime },
        ..Options::default()
    };
    let shaping = Shaping::start(&config, &options).map_err(explain)?;
    announce(&shaping, args);
    let mut supervisor = Supervisor::new(args, &config, modified);
    let verdict = supervisor.watch(shaping, &stop, &options);
    verdict.and_then(|status| report(args, &status))
}

/// A wrong name is the user's; everything else is the machine's.
fn explain(error: StartError) -> Failure {
    match error {
        StartError::NoInterface | StartError::UnknownInterface { .. } => Failure::Usage(error.to_string()),
        StartError::Build(_) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

fn announce(shaping: &Shaping, args: &Args) {
    let proof = shaping.proof();
    eprintln!("shaping {} by {} is in force:", shaping.interface(), args.file.display());
    if let Some(installed) = shaping.installed() {
        eprintln!("  rules: {installed}; read back as meant");
    }
    for (class, versions) in &proof.seen {
        let versions: Vec<_> = versions.iter().map(|version| format!("{version:?}").replace('V', "IPv")).collect();
        eprintln!("  class {class}: a packet came through ({})", versions.join(", "));
    }
    for (class, why) in &proof.unprobed {
        eprintln!("  class {class}: not probed, {why}");
    }
    for (version, why) in &proof.not_carried {
        eprintln!("  {}: not carried by this interface ({why})", format!("{version:?}").replace('V', "IPv"));
    }
    let readiness = shaping.readiness();
    for (what, outcome, effect) in [
        ("real-time scheduling", &readiness.real_time, "on a busy machine rates may fall short"),
        ("exact timers", &readiness.timer_slack, "packets may leave up to 50us late"),
    ] {
        if let Outcome::Refused(why) = outcome {
            eprintln!("  {what}: refused ({why}); {effect}");
        }
    }
    for report in shaping.queue_reports() {
        if let Outcome::Refused(why) = &report.gso {
            eprintln!("  superpackets: refused ({why}); TCP costs more processor");
        }
        if let Outcome::Refused(why) = &report.fail_open {
            eprintln!("  fail-open: refused ({why}); a hung process would drop instead of letting pass");
        }
    }
}

/// Looks after a running shaper.
struct Supervisor {
    started: Instant,
    limit: Option<Duration>,
    file: PathBuf,
    modified: Option<SystemTime>,
    monitor: Option<LinkMonitor>,
    config: Config,
}

impl Supervisor {
    fn new(args: &Args, config: &Config, modified: Option<SystemTime>) -> Self {
        Self {
            started: Instant::now(),
            limit: args.duration.map(|span| Duration::from_nanos(span.as_nanos())),
            modified,
            file: args.file.clone(),
            monitor: LinkMonitor::open().ok(),
            config: config.clone(),
        }
    }

    /// Watches until told to stop, and gives the classes as they ended.
    fn watch(
        &mut self,
        mut shaping: Shaping,
        stop: &AtomicBool,
        options: &Options,
    ) -> Result<Vec<ClassStatus>, Failure> {
        let (mut inspected, mut beat) = (Instant::now(), (shaping.heartbeat(), Instant::now()));
        while !stop.load(Ordering::Relaxed) && self.limit.is_none_or(|limit| self.started.elapsed() < limit) {
            std::thread::sleep(Duration::from_millis(50));
            self.links(shaping.interface());
            if shaping.heartbeat() != beat.0 {
                beat = (shaping.heartbeat(), Instant::now());
            } else if beat.1.elapsed() > STALLED {
                return Err(Failure::Failed("the data path is stalled; traffic passes unshaped from here on".into()));
            }
            if inspected.elapsed() >= INSPECT {
                inspected = Instant::now();
                self.file_changed();
                shaping = self.inspect(shaping, options)?;
            }
        }
        let status = shaping.status().map_err(explain)?;
        let interface = shaping.interface().to_owned();
        shaping.stop().map_err(explain)?;
        eprintln!("shaping {interface} has ended; nothing is left behind");
        Ok(status)
    }

    /// Reads the rules back; when somebody changed them, puts them back or says that shaping is off.
    fn inspect(&self, mut shaping: Shaping, options: &Options) -> Result<Shaping, Failure> {
        let inspection = shaping.inspect().map_err(|error| Failure::Failed(error.to_string()))?;
        if inspection.is_sound() {
            return Ok(shaping);
        }
        for difference in &inspection.differences {
            eprintln!("tidegate: somebody changed our rules: {difference}");
        }
        eprintln!("tidegate: shaping is NOT in force; starting it again");
        drop(shaping);
        let shaping = Shaping::start(&self.config, options).map_err(explain)?;
        eprintln!("tidegate: shaping {} is in force again", shaping.interface());
        Ok(shaping)
    }

    fn links(&mut self, interface: &str) {
        let Some(monitor) = &mut self.monitor else { return };
        while let Ok(Some(event)) = monitor.event() {
            match event {
                LinkEvent::Gone { ref name, .. } if name == interface => {
                    eprintln!("tidegate: {interface} has vanished; the rules wait for it to come back");
                }
                LinkEvent::Changed(ref link) if link.name == interface => {
                    eprintln!("tidegate: {interface} is {:?}", link.state);
                }
                _ => {}
            }
        }
    }

    fn file_changed(&mut self) {
        let now = modified(&self.file);
        if now.is_some() && now != self.modified {
            eprintln!(
                "tidegate: {} has changed; what runs is what was read at the start. Check it with `tidegate check`, \
                 then start again to use it",
                self.file.display()
            );
            self.modified = now;
        }
    }
}

fn modified(file: &PathBuf) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

fn report(args: &Args, status: &[ClassStatus]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let classes: Vec<_> = status.iter().map(class_json).collect();
        writeln!(out, "{:#}", serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "classes": classes }))?;
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "class",
        "promised",
        "packets",
        "bytes",
        "dropped",
        "marked",
        "re-marked",
        "wait p50",
        "wait p99",
    ]);
    for class in status {
        let counts = &class.counts;
        table.add_row([
            class.name.clone(),
            class.rate.map_or("-".into(), |rate| rate.to_string()),
            counts.through.packets.to_string(),
            counts.through.bytes.as_u64().to_string(),
            counts.accounts.dropped_total().packets.to_string(),
            counts.marked.to_string(),
            counts.remarked.to_string(),
            micros(counts.waited_at(0.5)),
            micros(counts.waited_at(0.99)),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn micros(span: Span) -> String {
    format!("{:.1} us", span.as_nanos() as f64 / 1e3)
}

fn class_json(class: &ClassStatus) -> serde_json::Value {
    let counts = &class.counts;
    let dropped: serde_json::Map<_, _> = DropReason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), counts.accounts.dropped[*reason as usize].packets.into()))
        .collect();
    serde_json::json!({
        "name": class.name,
        "rate_bps": class.rate.map(|rate| rate.as_bps()),
        "flows": class.flows,
        "enqueued_packets": counts.accounts.enqueued.packets,
        "enqueued_bytes": counts.accounts.enqueued.bytes.as_u64(),
        "through_packets": counts.through.packets,
        "through_bytes": counts.through.bytes.as_u64(),
        "dequeued_packets": counts.accounts.dequeued.packets,
        "dequeued_bytes": counts.accounts.dequeued.bytes.as_u64(),
        "dropped_packets": dropped,
        "marked_packets": counts.marked,
        "remarked_packets": counts.remarked,
        "wait_p50_ns": counts.waited_at(0.5).as_nanos(),
        "wait_p99_ns": counts.waited_at(0.99).as_nanos(),
    })
}
