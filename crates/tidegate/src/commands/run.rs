//! `tidegate run`: shapes an interface, proves it, and runs until stopped.

mod announce;
#[cfg(feature = "lab")]
mod kept;
#[cfg(feature = "lab")]
mod record;
#[cfg(feature = "lab")]
mod watch;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidegate_config::Source;
use tidegate_config::shaper::{Config, DataPath, MOST_INTERFACES};
use tidegate_control::view::ClassQuantity;
use tidegate_control::{EventKind, calls, words};
use tidegate_core::DropReason;
use tidegate_daemon::lookup::Lookup;
use tidegate_daemon::web::{Reach, WebError, WebSettings};
use tidegate_daemon::{ControlSocket, Daemon, DaemonError, HistoryPlace, Settings, ShaperFile, class_status};
use tidegate_engine::ClassStatus;
use tidegate_kernel::KernelPrograms;
use tidegate_live::guardian;
use tidegate_live::nfqueue::Outcome;
use tidegate_live::privileges::{self, Calls, Capabilities, Restriction, SHAPER, Scope};
use tidegate_live::rules::Direction;
use tidegate_live::shaping::{Options, StartError};
use tidegate_live::timing::Priority;
use tidegate_units::Span;

use crate::Failure;
use crate::commands::events::logged;
use crate::commands::line::LineArgs;
use crate::commands::{check, interfaces};
use crate::output::{self, width};

/// Shape egress or ingress of an interface, or both, by a shaper file
///
/// Several files, each of which names an interface, are for several uplinks, each with its own rate.
///
/// Without a file, `--up` and `--down` shape both directions with a preset: hosts and connections share evenly,
/// queues stay short. `tidegate check --up RATE --down RATE` prints the file that is generated from them.
///
/// Reports that shaping is in force only after reading its rules back and seeing a packet of each class and protocol
/// come through. Traffic passes unshaped if the program dies. Ctrl-C or SIGTERM ends it in order, and it prints the
/// totals.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file, or - for standard input; several files are for several uplinks
    file: Vec<PathBuf>,
    #[command(flatten)]
    line: LineArgs,
    /// The interface, instead of the one in the file; several interfaces, separated by commas, share the rates
    #[arg(long, short, value_name = "NAME", value_delimiter = ',')]
    interface: Vec<String>,
    /// Wait for the interface where it is not there yet, as a service does
    #[arg(long)]
    wait: bool,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// The longest interval between groups of departing packets; 0us for the finest spacing, at the cost of processor
    /// time; at most 5ms. Default: 50us, and up to 1ms while packets arrive singly and faster than that
    #[arg(long, value_name = "TIME", value_parser = quantum)]
    quantum: Option<Span>,
    /// Poll the clock instead of sleeping for this long before a packet is due, at most 50us
    #[arg(long, value_name = "TIME", default_value = "0us")]
    spin: Span,
    /// The control socket: a path, or `off`; default /run/tidegate/INTERFACE.sock
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve metrics (/metrics) and a web page (/) at this address, on loopback: for example 127.0.0.1:9435;
    /// overrides [metrics] in the file
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<std::net::SocketAddr>,
    /// Permit an address for --metrics that other machines can reach: they can then see the addresses of all flows
    #[arg(long, requires = "metrics")]
    metrics_anywhere: bool,
    /// Keep the history of the last day, which the page shows, and the use of quotas in this directory, or `off` for the history
    /// in memory alone; by default the directory of the service, or /var/lib/tidegate for root
    #[arg(long, value_name = "DIRECTORY")]
    history: Option<PathBuf>,
    /// Ask the resolver for the names of hosts that are in no lease and no file, like reverse-lookup in [statistics]
    #[arg(long)]
    reverse_lookup: bool,
    /// Run this program on events, with the details in its environment
    #[arg(long, value_name = "PROGRAM")]
    hook: Option<PathBuf>,
    /// The kinds of events for --hook, as in `tidegate events`; default: trouble, and promises that wait or end
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "hook")]
    hook_event: Vec<EventKind>,
    /// Take over from the tidegate that shapes the interface, which then ends; on SIGTERM, leave queues, promises and
    /// reservations to a successor for 10 s. No packet is lost or reordered
    #[arg(long)]
    hand_over: bool,
    /// Queue packets in the kernel (Linux 6.16 and later) or not at all, as data-path = "kernel" in the file does; by default they are
    /// queued there where this machine and the file allow it
    #[arg(long)]
    in_kernel: bool,
    /// Do not request real-time scheduling
    #[arg(long)]
    normal_priority: bool,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    kept: kept::Args,
    /// Print the final counts as JSON
    #[arg(long)]
    json: bool,
    /// Inject a fault into the data path, for tests: KIND:AFTER[:LENGTH]
    // Tests run a build with assertions, and releases and packages have none: the product takes no such option.
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "FAULT", value_parser = tidegate_live::shaping::Injection::parse)]
    inject: Option<tidegate_live::shaping::Injection>,
}

/// This program, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| "write an address with its port, for example 127.0.0.1:9435 or [::1]:9435".into())
}

/// Lateness beyond [`Options::catch_up`] is not compensated: with a longer quantum rates would fall short, down to a
/// packet or two per hour.
fn quantum(text: &str) -> Result<Span, String> {
    let (span, longest): (Span, _) = (text.parse().map_err(|error| format!("{error}"))?, Options::default().catch_up);
    if span > longest {
        return Err(format!("bursts longer than {longest} cannot keep the rates; use at most that"));
    }
    Ok(span)
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<(), Failure> {
    #[cfg_attr(not(feature = "lab"), expect(unused_variables, reason = "reports quote them"))]
    let (files, sources) = read(&args)?;
    let none = files.iter().flat_map(|file| &file.configs).all(|config| config.interface.names.is_empty());
    if args.interface.is_empty() && none {
        args.interface.push(interfaces::ask(&std::env::args().skip(1).collect::<Vec<_>>())?);
    }
    let args = &args;
    check_interfaces(args, &files)?;
    let configs: Vec<Config> = files.iter().flat_map(|file| file.configs.clone()).collect();
    if args.hook.is_some() && args.control.as_ref().is_some_and(|path| path.as_os_str() == "off") {
        return Err(Failure::Usage("--hook needs the control socket; leave out --control off".into()));
    }
    #[cfg(feature = "lab")]
    args.kept.try_them(&args.file)?;
    let signals = Signals::catch(args)?;
    let (programs, scope) = load_for_kernel(args, &configs)?;
    let options = options(args, &configs, programs);
    let sockets = look_up_sockets(args);
    restrict(args, &configs, options.priority, scope)?;
    #[cfg(feature = "lab")]
    let (kept, options) = args.kept.start(&args.file, options)?;
    if args.wait {
        let written = configs.iter().flat_map(|config| &config.interface.names);
        let mut names = args.interface.iter().chain(written.filter(|_| args.interface.is_empty()));
        if !names.all(|name| tidegate_daemon::wait_for_interface(name, &signals.stop, |line| message!("{line}"))) {
            return Ok(());
        }
    }
    let stop = Arc::clone(&signals.stop);
    let daemon = Daemon::start(files, settings(args, signals, options, sockets), |line| message!("{}", logged(line)))
        .map_err(explain)?;
    announce::announce(&daemon, args);
    #[cfg(feature = "lab")]
    let (mut kept, daemon) = kept.observe(daemon);
    let ended = daemon.run(&stop);
    #[cfg(feature = "lab")]
    let recorded = kept.finish_recording();
    let ended = ended.map_err(explain)?;
    #[cfg(feature = "lab")]
    kept.write(&ended, &sources)?;
    report(args, &ended)?;
    #[cfg(feature = "lab")]
    recorded?;
    Ok(())
}

/// Flags that signals set.
struct Signals {
    /// Ends the run.
    stop: Arc<AtomicBool>,
    /// Ends the run and leaves its state to a successor.
    leave: Arc<AtomicBool>,
    /// Reads the file again.
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn catch(args: &Args) -> Result<Self, Failure> {
        let [stop, leave, reload] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        if args.hand_over {
            // Before `stop`: flags are set in the order in which they are registered.
            signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&leave))?;
        }
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        // These ask other programs for a report; here they would end the process with packets in its queue.
        for signal in [signal_hook::consts::SIGUSR1, signal_hook::consts::SIGUSR2] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        // SIGHUP from a terminal that closes ends the command; otherwise it means: read the file again.
        let hung_up = if args.file.is_empty() || std::io::stderr().is_terminal() { &stop } else { &reload };
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(hung_up))?;
        Ok(Self { stop, leave, reload })
    }
}

/// The options of the data paths.
fn options(args: &Args, configs: &[Config], programs: KernelPrograms) -> Options {
    let defaults = Options::default();
    Options {
        interfaces: args.interface.clone(),
        quantum: args.quantum.unwrap_or(defaults.quantum),
        rest: args.quantum.unwrap_or(defaults.rest),
        spin: args.spin,
        priority: if args.normal_priority { Priority::Normal } else { Priority::RealTime },
        guardian: Some(guardian(args, configs)),
        data_path: args.in_kernel.then_some(DataPath::Kernel),
        offload: Some(Arc::new(programs)),
        #[cfg(debug_assertions)]
        inject: args.inject,
        ..defaults
    }
}

fn settings(
    args: &Args,
    Signals { leave, reload, .. }: Signals,
    options: Options,
    sockets: Option<Lookup>,
) -> Settings {
    Settings {
        limit: args.duration.map(|span| Duration::from_nanos(span.as_nanos())),
        options,
        reload,
        leave,
        control: match &args.control {
            None => ControlSocket::Default,
            Some(path) if path.as_os_str() == "off" => ControlSocket::Off,
            Some(path) => ControlSocket::Path(path.clone()),
        },
        web: args.metrics.map(|address| WebSettings {
            address,
            reach: if args.metrics_anywhere { Reach::Anywhere } else { Reach::Loopback },
        }),
        hook: args.hook.as_ref().map(|program| tidegate_config::shaper::Hook {
            program: program.clone(),
            events: args.hook_event.iter().map(|kind| kind.name().to_owned()).collect(),
            rate: 10,
        }),
        reverse_lookup: args.reverse_lookup,
        history: match &args.history {
            None => HistoryPlace::Default,
            Some(path) if path.as_os_str() == "off" => HistoryPlace::Memory,
            Some(path) => HistoryPlace::Directory(path.clone()),
        },
        sockets,
    }
}

/// Reads the files, or makes the one that the rates stand for; and their texts for the report, as they were read, even if
/// a file changes.
fn read(args: &Args) -> Result<(Vec<ShaperFile>, Vec<Source>), Failure> {
    let (mut files, mut sources) = (Vec::new(), Vec::new());
    let mut add = |path: &Path, modified, source: Source| {
        files.push(ShaperFile { path: path.into(), modified, configs: check::load_all(&source)? });
        sources.push(source);
        Ok::<_, Failure>(())
    };
    for path in &args.file {
        // Before it is read, so that no modification is missed.
        let modified = tidegate_daemon::modified(path);
        add(path, modified, check::open(path)?)?;
    }
    if args.file.is_empty() && !args.line.has_rates() {
        let example = ["run", "--up", "20mbit", "--down", "100mbit"].map(str::to_owned);
        let missing =
            "write the rates of the line, or name a file; `tidegate setup` asks for the rates or measures them";
        return Err(Failure::Usage(format!("{missing}\n{}", interfaces::which(&example))));
    }
    if args.file.is_empty() {
        if args.in_kernel && args.line.varies() {
            let text = "in the kernel nothing passes this process by which a rate could follow the line: leave --in-kernel out";
            return Err(Failure::Usage(text.into()));
        }
        add(Path::new("-"), None, args.line.source(&args.interface)?)?;
    }
    Ok((files, sources))
}

/// Sees to it that each direction of an interface is shaped by one file.
fn check_interfaces(args: &Args, files: &[ShaperFile]) -> Result<(), Failure> {
    let usage = |text: String| Err(Failure::Usage(text));
    let configs = || files.iter().flat_map(|file| file.configs.iter().map(move |config| (file, config)));
    let again = args.interface.iter().enumerate().find(|(at, name)| args.interface[..*at].contains(name));
    if let Some((_, name)) = again {
        return usage(format!("the interface `{name}` is named twice in --interface; name it once"));
    }
    if args.interface.len() > MOST_INTERFACES {
        return usage(format!("--interface names more than {MOST_INTERFACES}; shape what carries all of them instead"));
    }
    if files.len() > 1 && !args.interface.is_empty() {
        return usage("--interface beside several files; each of them names its own, as in name = \"wan0\"".into());
    }
    let mut known: Vec<(&Path, Direction, &str)> = Vec::new();
    for (ShaperFile { path, .. }, config) in configs().filter(|_| files.len() > 1) {
        if config.interface.names.is_empty() {
            let file = path.display();
            return usage(format!(
                "{file} names no interface; with several files each must have `name` under [interface]"
            ));
        }
        for name in &config.interface.names {
            let direction = config.interface.direction;
            if let Some((other, ..)) = known.iter().find(|(_, way, other)| *way == direction && *other == name) {
                let (way, other, file) = (direction.word(), other.display(), path.display());
                return usage(format!("{file} and {other} both shape {way} of {name}; one file can have both rates"));
            }
            known.push((path.as_path(), direction, name.as_str()));
        }
    }
    Ok(())
}

/// Loads what data paths in the kernel need: afterwards the process has no privilege to do so. With `auto` a thread loads it, which
/// keeps the privilege until then, while packets are queued in user space already. Returns which threads are left to be restricted.
fn load_for_kernel(args: &Args, configs: &[Config]) -> Result<(KernelPrograms, Scope), Failure> {
    let (programs, mut later) = (KernelPrograms::default(), Vec::new());
    #[cfg(feature = "lab")]
    let records = args.kept.records();
    #[cfg(not(feature = "lab"))]
    let records = false;
    let wanted_by = |config: &Config| if args.in_kernel { DataPath::Kernel } else { config.interface.data_path };
    // Otherwise a data path that may be in the kernel could take the program of one that must.
    let all_first = configs.iter().any(|config| wanted_by(config) == DataPath::Kernel);
    for config in configs {
        let wanted = wanted_by(config);
        if wanted == DataPath::UserSpace || wanted == DataPath::Auto && (args.hand_over || records) {
            continue;
        }
        let mut config = config.clone();
        config.interface.data_path = wanted;
        if config.interface.threads > 1 && !args.interface.is_empty() {
            // How many queues it has is to be looked up.
            config.interface.names.clone_from(&args.interface);
        }
        let checked = tidegate_kernel::check(&config);
        if all_first {
            let loaded = checked
                .and_then(|()| programs.load(&config).map_err(|error| StartError::NoKernelProgram(error.to_string())));
            // With `auto` the data path reports it.
            if let Err(error) = loaded
                && wanted == DataPath::Kernel
            {
                return Err(explain(error.into()));
            }
        } else if checked.is_ok() && programs.check(&config).is_ok() {
            // Otherwise the data path reports why not.
            later.push(config);
        }
    }
    let has_loader = !later.is_empty() && programs.load_later(later).is_ok();
    Ok((programs, if has_loader { Scope::Thread } else { Scope::Process }))
}

/// Starts the process that reads the sockets of other users' processes, for promises to these. It keeps `CAP_SYS_PTRACE`, which this
/// process gives up.
fn look_up_sockets(args: &Args) -> Option<Lookup> {
    if args.control.as_ref().is_some_and(|path| path.as_os_str() == "off") {
        return None;
    }
    match Lookup::start(Path::new(OWN_PROGRAM), "lookup") {
        Ok(lookup) => Some(lookup),
        Err(error) => {
            message!(
                "  sockets of processes: cannot start the process that reads them ({error}); promises to processes of others are refused"
            );
            None
        }
    }
}

/// Gives up the privileges that this run does not need. Called before there is a second thread, but for the one that loads programs and
/// restricts itself: capabilities are those of a thread.
fn restrict(args: &Args, configs: &[Config], priority: Priority, scope: Scope) -> Result<(), Failure> {
    for message in privileges::raise_limits(priority) {
        message!("  {message}");
    }
    let hooks = configs.iter().filter_map(|config| config.control.hook.as_ref()).map(|hook| &hook.program);
    let reads: Vec<&Path> = args.file.iter().chain(&args.hook).chain(hooks).map(PathBuf::as_path).collect();
    #[cfg(feature = "lab")]
    let kept = args.kept.paths();
    #[cfg(not(feature = "lab"))]
    let kept: Vec<PathBuf> = Vec::new();
    let control = args.control.as_deref().filter(|path| path.as_os_str() != "off");
    let writes: Vec<&Path> = kept.iter().map(PathBuf::as_path).chain(control).collect();
    let mut keep = SHAPER | privileges::needed(&reads, &writes, priority)?;
    let listens = configs.iter().filter_map(|config| config.metrics.map(|metrics| metrics.listen));
    if args.metrics.into_iter().chain(listens).any(|address| address.port() < 1_024) {
        keep = keep | Capabilities::NET_BIND_SERVICE;
    }
    let restricted = privileges::restrict(&Restriction { keep, calls: Calls::Program, scope });
    for (what, outcome, effect) in [
        ("giving up capabilities", &restricted.capabilities, "it keeps what it was started with"),
        ("no_new_privs", &restricted.no_new_privs, "a program that it runs may gain privileges"),
        ("a filter of system calls", &restricted.calls, "it may make every system call"),
    ] {
        if let Outcome::Refused(why) = outcome {
            message!("  {what}: refused ({why}); {effect}");
        }
    }
    Ok(())
}

/// The guardian is this program, with another subcommand. Its socket and its log lie beside the control socket.
fn guardian(args: &Args, configs: &[Config]) -> guardian::Settings {
    let beside = args.control.as_ref().filter(|path| path.as_os_str() != "off");
    let directory = match beside {
        Some(path) => path.parent().map(|parent| std::path::absolute(parent).unwrap_or_else(|_| parent.into())),
        None => tidegate_control::directories().into_iter().next(),
    };
    let written = configs.iter().flat_map(|config| &config.interface.names);
    let interface = args.interface.iter().chain(written).next();
    let log = match (beside, &args.control) {
        (Some(path), _) => Some(words::log_of(&std::path::absolute(path).unwrap_or_else(|_| path.clone()))),
        // Without a control socket nobody looks for it.
        (None, Some(_)) => None,
        (None, None) => {
            interface.zip(directory.as_ref()).map(|(name, directory)| directory.join(words::log_name(name)))
        }
    };
    guardian::Settings {
        program: OWN_PROGRAM.into(),
        arguments: vec!["guardian".into()],
        directory,
        linger: Duration::from_secs(10),
        take_over: args.hand_over,
        log,
    }
}

/// An invalid name is a usage error; everything else is a failure.
fn explain(error: DaemonError) -> Failure {
    match error {
        DaemonError::Start(
            StartError::NoInterface
            | StartError::UnknownInterface { .. }
            | StartError::Build(_)
            | StartError::NotInKernel { .. }
            | StartError::Divided(_),
        ) => Failure::Usage(error.to_string()),
        DaemonError::Web(error @ WebError::NotLoopback(_)) => {
            Failure::Usage(format!("{error}; use 127.0.0.1, or add --metrics-anywhere"))
        }
        error => Failure::Failed(error.to_string()),
    }
}

fn report(args: &Args, ended: &[(String, Vec<ClassStatus>)]) -> Result<(), Failure> {
    let status = || ended.iter().flat_map(|(way, classes)| classes.iter().map(move |class| (way.as_str(), class)));
    let mut out = output::stdout();
    if args.json {
        let classes: Vec<_> = status().map(|(way, class)| class_json(way, class)).collect();
        writeln!(out, "{:#}", serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "classes": classes }))?;
        return Ok(());
    }
    write!(out, "{}", totals(ended, width()))?;
    Ok(())
}

const TOTALS: [(&str, ClassQuantity); 9] = [
    ("class", ClassQuantity::Name),
    (">promised", ClassQuantity::Promised),
    (">packets", ClassQuantity::SentPackets),
    (">bytes", ClassQuantity::SentBytes),
    (">dropped", ClassQuantity::Dropped),
    (">marked", ClassQuantity::Marked),
    (">re-marked", ClassQuantity::Remarked),
    (">wait p50", ClassQuantity::WaitP50),
    (">wait p99", ClassQuantity::WaitP99),
];

/// The final counts of the classes of each direction.
fn totals(ended: &[(String, Vec<ClassStatus>)], width: Option<usize>) -> String {
    let classes = ended.iter().flat_map(|(way, classes)| classes.iter().map(move |class| (way, class_status(class))));
    let named = classes.map(|(way, class)| match ended.len() {
        0 | 1 => class,
        _ => calls::ClassStatus { name: format!("{way}: {}", class.name), ..class },
    });
    let table = output::table(&TOTALS, &named.collect::<Vec<_>>(), output::shown)
        .optional(["re-marked", "bytes", "marked", "wait p50", "promised"])
        .shorten("class", 12);
    table.text(width)
}

fn class_json(way: &str, class: &ClassStatus) -> serde_json::Value {
    let counts = &class.counts;
    let dropped: serde_json::Map<_, _> = DropReason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), counts.accounts.dropped[*reason as usize].packets.into()))
        .collect();
    serde_json::json!({
        "direction": way,
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::accounts::Account;
    use tidegate_engine::ClassCounts;
    use tidegate_units::{Bytes, Rate};

    #[test]
    fn the_totals_fit_the_terminal() {
        let class = |name: &str, rate: Option<u64>, packets: u64| {
            let mut counts = ClassCounts::default();
            (counts.marked, counts.remarked) = (packets / 100, packets / 7);
            counts.through = Account { packets, bytes: Bytes::new(packets * 1_400) };
            counts.accounts.dropped[0] = Account { packets: packets / 50, bytes: Bytes::new(packets * 28) };
            ClassStatus { name: name.into(), rate: rate.map(Rate::from_kbit), flows: None, borrowed: None, counts }
        };
        let up =
            vec![class("calls", Some(2_500), 41_530), class("video-conferences-of-the-office", Some(3_200), 8_123_456)];
        let ended = [("up".to_owned(), up), ("down".to_owned(), vec![class("all", None, 75_222_104)])];
        crate::snapshots::check("run", |columns| totals(&ended, Some(columns.into())));
    }
}
