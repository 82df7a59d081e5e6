//! `tidegate demo`: real traffic, shaped, with no set-up and no change to the host.

mod beside;
mod scene;
mod stage;
mod table;
mod view;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use tidegate_live::netns;

use crate::Failure;
use stage::{Moment, Stage};

/// Shape real traffic between two throwaway namespaces and show it, changing nothing on this machine
///
/// The same ten flows are sent twice over a wire of 100 Mbit/s: first unshaped, then through the end-system shaper with
/// a Premium class of 10, an Assured class of 30 and a Best Effort class of 40 Mbit/s. On the way one flow is preferred,
/// another asks for a minimum rate, and one is moved to another class because its share fell below its threshold. Works
/// as root, and without where the kernel allows unprivileged user namespaces. Keys: q ends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to run, in seconds, both parts together
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(4..=3600))]
    seconds: u64,
    /// Print the final table as JSON
    #[arg(long)]
    json: bool,
    /// Print the shaper file that the demonstration uses, and stop
    #[arg(long)]
    print_config: bool,
    /// Shape four transfers and a call by this file instead; several are run one after the other and compared
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Plain lines on standard error instead of a live view, as when there is no terminal
    #[arg(long)]
    plain: bool,
}

/// Runs the command. Must be called before the process has threads.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.print_config {
        std::io::stdout().write_all(scene::SHAPER.as_bytes())?;
        return Ok(());
    }
    if !args.with.is_empty() {
        return beside::run(&args.with, args.seconds, args.json);
    }
    let way = netns::enter().map_err(|error| Failure::Failed(error.to_string()))?;
    let stage = Stage::build()?;
    let unshaped = Duration::from_secs_f64((args.seconds as f64 / 5.0).clamp(1.5, 6.0));
    let shaped = Duration::from_secs(args.seconds).saturating_sub(unshaped);
    let live = !args.plain && !args.json && std::io::stdout().is_terminal();
    let (before, after) = if live {
        let mut screen = view::Screen::open()?;
        let mut watch = |moment: &Moment| screen.draw(moment);
        let before = stage.play(false, unshaped, &mut watch)?;
        let after = stage.play(true, shaped, &mut watch)?;
        (before, after)
    } else {
        let mut lines = Lines::default();
        say!("two hosts in namespaces of their own ({way:?}), a wire of {}", scene::WIRE);
        let mut watch = |moment: &Moment| lines.draw(moment);
        (stage.play(false, unshaped, &mut watch)?, stage.play(true, shaped, &mut watch)?)
    };
    let rows = table::rows(stage.cast(), &before, &after);
    let mut out = std::io::stdout().lock();
    if args.json {
        table::json(&mut out, &rows, unshaped, shaped, stage.open_wire.as_deref())
    } else {
        if let Some(why) = &stage.open_wire {
            say!("the wire could not be limited ({why}): the unshaped part had no bottleneck");
        }
        table::print(&mut out, &rows)
    }
}

/// A line a second for whoever has no terminal.
#[derive(Default)]
struct Lines {
    notes: usize,
    next: f64,
    phase: &'static str,
}

impl Lines {
    fn draw(&mut self, moment: &Moment) -> Result<bool, Failure> {
        if self.phase != moment.phase {
            (self.phase, self.next, self.notes) = (moment.phase, 1.0, 0);
        }
        for note in &moment.notes[self.notes..] {
            say!("{:8} {:5.1} s  {note}", moment.phase, moment.elapsed);
        }
        self.notes = moment.notes.len();
        if moment.elapsed >= self.next {
            self.next += 1.0;
            let list = |items: &mut dyn Iterator<Item = (&str, f64)>| {
                items.map(|(name, rate)| format!("{name} {:.1}", rate / 1e6)).collect::<Vec<_>>().join("  ")
            };
            let text = if moment.classes.is_empty() {
                list(&mut moment.flows.iter().map(|flow| (flow.name.as_str(), flow.rate)))
            } else {
                list(&mut moment.classes.iter().map(|class| (class.name.as_str(), class.rate)))
            };
            say!("{:8} {:5.1} s  Mbit/s: {text}", moment.phase, moment.elapsed);
        }
        Ok(true)
    }
}
