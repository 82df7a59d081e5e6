//! `tidegate top`: classes and flows, live.

mod programs;
mod show;
mod view;

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_control::calls::{FlowSort, Flows, Seen};
use tidegate_control::{Client, ClientError};
use tidegate_units::Span;

use crate::Failure;
use crate::commands::connect::Connect;
use programs::Programs;

/// Watch classes and flows of a running tidegate, with the programs that they belong to
///
/// Each line of the lower table is a flow: its program where you may see it (root sees all), rate, share, what it
/// borrows, what waits, how long packets waited, and what was dropped. Keys: ? shows them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// What comes first: rate, bytes, queue, delay, drops or recent
    #[arg(long, short, value_name = "BY", default_value_t = FlowSort::Rate)]
    sort: FlowSort,
    /// Only what has this in its line: an address, a port, a class, a rule, a program, a user
    #[arg(long, short, value_name = "TEXT")]
    filter: Option<String>,
    /// How many flows to ask for
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Span,
    /// Print one table and end, as when the output is no terminal
    #[arg(long)]
    once: bool,
    /// Print JSON, one line for each look; with --once one line only
    #[arg(long)]
    json: bool,
}

/// What the view shows: a look, or why there is none.
enum News {
    Seen(Box<(Seen, Names)>),
    Lost(String),
}

/// What flows are called: by key, the program and its process.
pub(crate) type Names = std::collections::HashMap<String, (String, u32)>;

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.every < Span::from_millis(100) {
        return Err(Failure::Usage("--every is 100ms or more; what is seen is not newer than that".into()));
    }
    let mut eye = Eye::open(args)?;
    let interactive = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.json || args.once || !interactive {
        return plain(args, &mut eye);
    }
    let (news, told) = mpsc::sync_channel(1);
    let first = eye.look()?;
    let users = Programs::of_process(None);
    let watcher = args.clone_for_thread();
    thread::Builder::new().name("top".into()).spawn(move || watch(&watcher, eye, &news))?;
    view::run(first, &told, users, args.sort, args.filter.clone().unwrap_or_default())
}

impl Args {
    fn clone_for_thread(&self) -> Self {
        Self { connect: self.connect.clone(), filter: self.filter.clone(), ..*self }
    }
}

/// A connection, and what is known of programs.
struct Eye {
    client: Client,
    programs: Programs,
    query: Flows,
}

impl Eye {
    fn open(args: &Args) -> Result<Self, Failure> {
        let client = args.connect.open()?;
        // The sockets are those of its network namespace, which may be another than ours.
        let peer = rustix::net::sockopt::socket_peercred(client.stream()).ok();
        let process = peer.map(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs());
        let query = Flows { sort: args.sort, limit: Some(args.limit), ..Flows::default() };
        Ok(Self { client, programs: Programs::of_process(process), query })
    }

    fn look(&mut self) -> Result<(Seen, Names), ClientError> {
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

/// Looks again and again, on a thread of its own, so that keys are heard while the daemon is slow.
fn watch(args: &Args, mut eye: Eye, news: &SyncSender<News>) {
    let pause = Duration::from_nanos(args.every.as_nanos());
    loop {
        thread::sleep(pause);
        let word = match eye.look() {
            Ok(seen) => News::Seen(Box::new(seen)),
            Err(error) => {
                if let Ok(new) = Eye::open(args) {
                    eye = new;
                }
                News::Lost(error.to_string())
            }
        };
        if news.send(word).is_err() {
            return;
        }
    }
}

fn plain(args: &Args, eye: &mut Eye) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let filter = args.filter.clone().unwrap_or_default();
    loop {
        let (mut seen, names) = eye.look()?;
        for direction in &mut seen.directions {
            direction.flows.retain(|flow| show::matches(flow, &names, &eye.programs, &filter));
        }
        if args.json {
            let text = serde_json::to_string(&json(&seen, &names)?).map_err(std::io::Error::other)?;
            writeln!(out, "{text}")?;
        } else {
            show::table(&mut out, &seen, &names, &eye.programs)?;
        }
        out.flush()?;
        if args.once || !args.json {
            return Ok(());
        }
        thread::sleep(Duration::from_nanos(args.every.as_nanos()));
    }
}

/// What the socket gave, with `program` and `pid` in each flow where they are known.
fn json(seen: &Seen, names: &Names) -> Result<Value, Failure> {
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

/// The newest of what was told, without waiting.
fn newest(told: &Receiver<News>) -> Option<News> {
    told.try_iter().last()
}
