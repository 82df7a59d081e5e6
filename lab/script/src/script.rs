//! A parsed [`Script`] and its parts.

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::Config;
use tidegate_config::{Place, Source};
use tidegate_core::{Instant, Rate, Span};

use crate::expect::Expectation;
use crate::packet::Header;

/// Limits of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest number of packets that a script may send.
    pub packets: usize,
    /// The largest number of calls of the discipline in a run.
    pub calls: u64,
}

impl Default for Limits {
    /// A million packets, which a run keeps in memory, and twenty calls for each of them.
    fn default() -> Self {
        Self { packets: 1_000_000, calls: 20_000_000 }
    }
}

/// [`Files`] for scripts that refer to no files.
///
/// # Errors
/// Always: a script may not refer to files here.
pub fn no_files(name: &str) -> Result<Source, String> {
    Err(format!("`{name}` cannot be read here: this script may not name files"))
}

/// Opens a file to which a script refers; the error is the reason why it cannot be read.
pub type Files<'a> = dyn FnMut(&str) -> Result<Source, String> + 'a;

/// The subject of a script: a discipline or a configuration.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A single discipline: packets specify their class.
    Discipline(Box<Discipline>),
    /// A shaper file: its rules determine the class.
    Config(Box<Config>),
}

/// How packets are dequeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// A link that dequeues the next packet when the one before has been sent at this rate.
    Rate(Rate),
    /// Every packet is dequeued as soon as it may leave.
    Open,
    /// Only `take` dequeues.
    Closed,
}

/// A flow: a name, and the fields of its packets.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// The number of the header of its packets.
    pub(crate) header: usize,
}

/// An action of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Enqueues a packet of the flow, with header number `header`.
    Send { flow: usize, header: usize },
    /// Dequeues this number of times.
    Take(u64),
    /// Dequeues what may leave now.
    Serve,
    /// Makes the next call with a `now` that is this much earlier.
    Back(Span),
    /// Applies the configuration with this number.
    Reconfigure(usize),
    /// Changes the link.
    Link { link: Link, late: Span },
    /// Checks the state against the expectation with this number.
    CheckState(usize),
    /// Only advances the time.
    Pass,
}

/// An action and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) time: Instant,
    pub(crate) place: Place,
    pub(crate) action: Action,
}

/// A script without errors.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) source: Source,
    /// The subject of the run, if specified.
    pub subject: Option<Subject>,
    pub(crate) subject_place: Place,
    pub(crate) seed: u64,
    pub(crate) flows: Vec<Flow>,
    pub(crate) headers: Vec<Header>,
    pub(crate) steps: Vec<Step>,
    /// The configurations to which it changes.
    pub(crate) configs: Vec<Config>,
    pub(crate) until: Option<Instant>,
    pub(crate) expectations: Vec<Expectation>,
    pub(crate) limits: Limits,
}

impl Script {
    /// The name of the script.
    pub fn name(&self) -> &str {
        self.source.name()
    }
    /// The number of expectations.
    pub fn expectations(&self) -> usize {
        self.expectations.len()
    }
}
