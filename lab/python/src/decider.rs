//! Deciders: a FIFO that drops or marks packets as a function, in Python or compiled, or a number that Python sets
//! tells it to.
//!
//! The queue is in Rust. With a number or a compiled function Python is never called, so simulations run in parallel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_config::decode::mismatch;
use tidegate_config::discipline::{Kind, Site, register};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Schemas};
use tidegate_core::random::Stream;
use tidegate_core::{
    AnyPacket, Backlog, Deadline, DropReason, Event, Instant, Outlet, Packet as _, Qdisc, Queued, Span,
};

use crate::failure;
use crate::function::Function;

/// The source of the probability.
enum Source {
    /// The bits of a float that Python sets.
    Number(AtomicU64),
    Function(Function),
}

/// All deciders that are alive, by the number with which a file refers to them.
static ALIVE: Mutex<BTreeMap<u64, Weak<Source>>> = Mutex::new(BTreeMap::new());

/// The decider of a section, which lives as long as the scenario.
#[derive(Clone)]
pub struct Handle(Arc<Source>);

/// Handles are equal that are of one decider.
impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a decider in Python")
    }
}

impl Decode for Handle {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let help = "put a tidegate.Decider into the scenario, which writes its number";
        let Value::Integer(Some(number)) = &node.value else {
            mismatch(node, "the number of a decider", help, diagnostics);
            return None;
        };
        let alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = alive.get(&number.cast_unsigned()).and_then(Weak::upgrade).map(Self);
        if found.is_none() {
            let text = format!("decider {number} is not in this process, or is no more");
            diagnostics.error(node.place, text).label("no decider").help(help);
        }
        found
    }
    fn example() -> String {
        "1".into()
    }
    fn schema(_schemas: &mut Schemas) -> serde_json::Value {
        serde_json::json!({ "type": "integer" })
    }
}

tidegate_config::record! {
    /// A FIFO whose packets are dropped or marked by a decision of Python.
    pub struct DeciderQueue as "decider in Python" {
        /// The number of the decider, which `tidegate.Decider` writes.
        pub decider: Handle,
        /// Packets that may wait. Default 1000.
        pub packets: u64 = 1000,
        /// Whether packets whose transport can react are marked instead of dropped. Default no.
        pub mark: bool = false,
        /// How long a decision holds. Default 0: each packet has its own.
        pub every: Span = "0ns",
    }
}

impl Kind for DeciderQueue {
    const KIND: &'static str = "decider";

    fn check(&self, _place: Place, _diagnostics: &mut Diagnostics) {}
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        let (Handle(source), random) = (self.decider.clone(), Stream::named(site.seed, &site.name));
        Box::new(Decided {
            source,
            random,
            limit: self.packets,
            mark: self.mark,
            every: self.every,
            held: None,
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            delay_ns: 0,
        })
    }
}

/// Registers the kind `decider` for all files that this process reads.
pub fn register_kind() {
    // With a second interpreter in the process, the kind is registered already.
    let _ = register::<DeciderQueue>();
}

/// A decision about each arriving packet of a FIFO: the probability with which it is dropped or marked.
///
/// By a function `f(now_ns, queue_packets, queue_bytes, delay_ns, size_bytes) -> float`, where `delay_ns` is the queueing
/// delay of the packet that left last; or by the number `probability`, which can be set while simulations run. It is the
/// `queue` of a link in this process: `net.link("r", "b", rate="10mbit", queue=Decider(f))`. `packets` may wait; with `mark`
/// packets whose transport can react are marked instead of dropped. With `every_ns` a decision of the function holds for that
/// long, as the probability of PIE does: the function is called at most once in that time.
///
/// A function that was compiled for C is called by its address, without the interpreter and at the speed of one in Rust:
/// `numba.cfunc("float64(uint64, uint64, uint64, uint64, uint64)")`, or a function of `ctypes` with these types; integers may
/// be signed. Its types are checked (`TypeError`), and it is kept alive. Simulations on several processors call it at the same
/// time; an exception in it is printed and ignored, as numba does it. An `int` is the address of such code: whoever passes
/// one answers for its types, and for the code to stay. What `numba.njit` compiled is called through the interpreter.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Decider {
    number: u64,
    source: Arc<Source>,
    packets: u64,
    mark: bool,
    every_ns: u64,
}

fn checked(probability: f64) -> PyResult<f64> {
    if (0.0..=1.0).contains(&probability) {
        Ok(probability)
    } else {
        Err(PyValueError::new_err(format!("a probability is between 0 and 1, and not {probability}")))
    }
}

#[pymethods]
impl Decider {
    #[new]
    #[pyo3(signature = (function=None, *, probability=0.0, packets=1000, mark=false, every_ns=0))]
    fn new(
        function: Option<Bound<'_, PyAny>>,
        probability: f64,
        packets: u64,
        mark: bool,
        every_ns: u64,
    ) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let source = Arc::new(match function {
            Some(function) => Source::Function(Function::new(&function)?),
            None => Source::Number(AtomicU64::new(checked(probability)?.to_bits())),
        });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|_, source| source.strong_count() > 0);
        alive.insert(number, Arc::downgrade(&source));
        Ok(Self { number, source, packets, mark, every_ns })
    }

    /// The probability, if it is a number and not a function.
    #[getter]
    fn probability(&self) -> Option<f64> {
        match &*self.source {
            Source::Number(bits) => Some(f64::from_bits(bits.load(Ordering::Relaxed))),
            Source::Function(_) => None,
        }
    }
    #[setter]
    fn set_probability(&self, probability: f64) -> PyResult<()> {
        match &*self.source {
            Source::Number(bits) => {
                bits.store(checked(probability)?.to_bits(), Ordering::Relaxed);
                Ok(())
            }
            Source::Function(_) => Err(PyValueError::new_err("a function decides; it has no probability to set")),
        }
    }

    /// The section for the queue of a link, as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let table = pyo3::types::PyDict::new(py);
        table.set_item("kind", DeciderQueue::KIND)?;
        table.set_item("decider", self.number)?;
        table.set_item("packets", self.packets)?;
        table.set_item("mark", self.mark)?;
        table.set_item("every", format!("{}ns", self.every_ns))?;
        Ok(table)
    }
}

/// The FIFO.
struct Decided {
    source: Arc<Source>,
    random: Stream,
    limit: u64,
    mark: bool,
    every: Span,
    /// The last decision of a function, and the time until which it holds.
    held: Option<(Instant, f64)>,
    /// The queued packets with their arrival times.
    queue: VecDeque<(Instant, AnyPacket)>,
    backlog: Backlog,
    /// The queueing delay of the packet that left last.
    delay_ns: u64,
}

impl Decided {
    fn probability(&mut self, now: Instant, size: u64) -> f64 {
        match (&*self.source, self.held) {
            (Source::Number(bits), _) => f64::from_bits(bits.load(Ordering::Relaxed)),
            (Source::Function(_), Some((until, held))) if now < until => held,
            (Source::Function(function), _) => {
                let state = [now.as_nanos(), self.backlog.packets, self.backlog.bytes.as_u64(), self.delay_ns, size];
                let decided = function.call(state).and_then(checked).unwrap_or_else(|error| failure::unwind(error));
                self.held = Some((now + self.every, decided));
                decided
            }
        }
    }
}

impl Qdisc<AnyPacket> for Decided {
    fn enqueue(&mut self, now: Instant, mut packet: AnyPacket, out: &mut dyn Outlet<AnyPacket>) -> Queued {
        if self.backlog.packets >= self.limit {
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.random.unit() < self.probability(now, packet.size().as_u64()) {
            if !(self.mark && packet.mark_ce()) {
                return out.refused(packet, DropReason::Early);
            }
            out.event(Event::Marked { flow: packet.flow().flow });
        }
        self.backlog.add(packet.size());
        self.queue.push_back((now, packet));
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<AnyPacket>) -> Option<AnyPacket> {
        let (arrived, packet) = self.queue.pop_front()?;
        self.backlog.remove(packet.size());
        self.delay_ns = now.since(arrived).as_nanos();
        Some(packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.queue.is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
