//! `tidegate top`: classes and flows of a running shaper.

mod columns;
pub mod coupled;
mod history;
pub mod hosts;
mod programs;
pub mod show;
mod steer;
mod view;

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_control::calls::{FlowSort, Flows, Observation};
use tidegate_control::{Client, ClientError};
use tidegate_units::Span;

use crate::Failure;
use crate::commands::connect::{self, Connect};
use crate::output::width;
use programs::{Names, Programs};

/// Watch classes and flows of a running tidegate, with their programs
///
/// The first lines state whether calls, games, web and bulk work, and who takes the line. Each line of the lower table is a
/// flow: its program where you may see it (root sees all), rate, share, what it borrows, its queue, its waits, and its drops.
/// With --hosts, or the key g, it is a host, with both of its directions; behind a gateway hosts come first. The key ? shows all
/// keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// The sort order: rate, bytes, queue, delay, drops or recent
    #[arg(long, short, value_name = "BY", default_value_t = FlowSort::Rate)]
    sort: FlowSort,
    /// Only flows with this text in their line: an address, a port, a class, a rule, a program, a user
    #[arg(long, short, value_name = "TEXT")]
    filter: Option<String>,
    /// The most flows to request
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// The interval between updates
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Span,
    /// Show hosts instead of flows: what each behind this gateway sends and receives
    #[arg(long)]
    hosts: bool,
    /// Print one table and exit, as when the output is not a terminal
    #[arg(long)]
    once: bool,
    /// Print JSON, one line per update; with --once one line only
    #[arg(long)]
    json: bool,
}

/// A message to the view: an update, or why there is none.
enum Update {
    Observation(Box<(Observation, Names)>),
    Lost(String),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.every < Span::from_millis(100) {
        return Err(Failure::Usage("--every must be at least 100ms; the daemon does not update more often".into()));
    }
    let mut poller = Poller::open(args)?;
    let interactive = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.json || args.once || !interactive {
        return plain(args, &mut poller);
    }
    let (updates, received) = mpsc::sync_channel(1);
    let first = poller.look()?;
    let users = Programs::of_process(None);
    let watcher = args.clone_for_thread();
    thread::Builder::new().name("top".into()).spawn(move || watch(&watcher, poller, &updates))?;
    let steering = steer::Steering::new(Some(args.connect.clone()));
    // Behind a gateway it is hosts that people ask about first.
    let hosts = args.hosts || (args.filter.is_none() && first.0.is_gateway());
    view::run(first, &received, users, args.sort, args.filter.clone().unwrap_or_default(), hosts, steering)
}

impl Args {
    fn clone_for_thread(&self) -> Self {
        Self { connect: self.connect.clone(), filter: self.filter.clone(), ..*self }
    }
}

/// A connection, and the known programs.
struct Poller {
    client: Client,
    programs: Programs,
    query: Flows,
}

impl Poller {
    fn open(args: &Args) -> Result<Self, Failure> {
        let client = args.connect.open()?;
        // The sockets belong to the network namespace of the daemon, which may be another than ours.
        let process = connect::process(&client).map(i32::unsigned_abs);
        let query = Flows { sort: args.sort, limit: Some(args.limit), ..Flows::default() };
        Ok(Self { client, programs: Programs::of_process(process), query })
    }

    fn look(&mut self) -> Result<(Observation, Names), ClientError> {
        let seen = self.client.flows(&self.query)?;
        let flows = || seen.directions.iter().flat_map(|direction| &direction.flows).map(|flow| &flow.flow);
        self.programs.refresh(flows());
        let named = flows().filter_map(|flow| {
            let program = self.programs.of(flow)?;
            Some((flow.key.clone(), (program.name.clone(), program.pid)))
        });
        let names = named.collect();
        Ok((seen, names))
    }
}

/// Requests updates on a thread of its own, so that keys are handled while the daemon is slow.
fn watch(args: &Args, mut poller: Poller, updates: &SyncSender<Update>) {
    let pause = Duration::from_nanos(args.every.as_nanos());
    loop {
        thread::sleep(pause);
        let update = match poller.look() {
            Ok(seen) => Update::Observation(Box::new(seen)),
            Err(error) => {
                if let Ok(new) = Poller::open(args) {
                    poller = new;
                }
                Update::Lost(error.to_string())
            }
        };
        if updates.send(update).is_err() {
            return;
        }
    }
}

fn plain(args: &Args, poller: &mut Poller) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    let filter = args.filter.clone().unwrap_or_default();
    loop {
        let (mut seen, names) = poller.look()?;
        for direction in &mut seen.directions {
            direction.flows.retain(|flow| show::matches(flow, &names, &poller.programs, &filter));
        }
        if args.json {
            let text = serde_json::to_string(&json(&seen, &names)?).map_err(std::io::Error::other)?;
            writeln!(out, "{text}")?;
        } else if args.hosts {
            // Flows that do not match the filter are gone already.
            hosts::table(&mut out, &seen, &hosts::of(&seen, &filter, |_| true), width())?;
        } else {
            for direction in seen.directions.iter_mut().filter(|_| filter.is_empty()) {
                direction.flows = show::live_first(std::mem::take(&mut direction.flows));
            }
            show::table(&mut out, &seen, &names, &poller.programs, width())?;
        }
        out.flush()?;
        if args.once || !args.json {
            return Ok(());
        }
        thread::sleep(Duration::from_nanos(args.every.as_nanos()));
    }
}

/// The response of the socket, with `program` and `pid` in each flow where known.
fn json(seen: &Observation, names: &Names) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(seen).map_err(std::io::Error::other)?;
    for direction in value["directions"].as_array_mut().into_iter().flatten() {
        for flow in direction["flows"].as_array_mut().into_iter().flatten() {
            let known = flow["flow"]["key"].as_str().and_then(|key| names.get(key));
            if let Some((program, pid)) = known {
                flow["program"] = program.as_str().into();
                flow["pid"] = (*pid).into();
            }
        }
    }
    Ok(value)
}

/// The newest message, without waiting.
fn newest(received: &Receiver<Update>) -> Option<Update> {
    received.try_iter().last()
}
