//! Disciplines in Python: the kind `python` of files, and [`PythonQdisc`], which calls an object.
//!
//! The trait's methods cannot return an exception. So an exception in a call unwinds ([`failure::unwind`]), which ends
//! the run, and the function that started the run raises it.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tidegate_config::decode::mismatch;
use tidegate_config::discipline::{Kind, Site, register};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Schemas, Spanned};
use tidegate_core::random::Stream;
use tidegate_core::{
    AnyPacket, Backlog, ClassId, Colour, Deadline, DropReason, Dscp, Event, Instant, Outlet, Packet as _, Qdisc, Queued,
};

use crate::failure;
use crate::scenario::json;

tidegate_config::record! {
    /// A discipline in Python: an object of a class with `enqueue`, `dequeue` and, unless it always has a packet to send
    /// while it holds one, `deadline`.
    pub struct PythonQueue as "discipline in Python" {
        /// The class: `module:Name`, or a name under which it was registered.
        pub class: Spanned<String>,
        /// The arguments of its constructor. Default none.
        pub arguments: Arguments,
    }
}

/// Keys and values of any kind, as JSON.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments(serde_json::Value);

impl Decode for Arguments {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Value::Table(_) = &node.value else {
            mismatch(node, "a table of arguments", "write for example { limit = 100 }", diagnostics);
            return None;
        };
        Some(Self(json(node)))
    }
    fn absent() -> Option<Self> {
        Some(Self(serde_json::Value::Object(Default::default())))
    }
    fn example() -> String {
        "{ limit = 100 }".into()
    }
    fn schema(_schemas: &mut Schemas) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }
}

impl Arguments {
    /// Converts them to the keyword arguments of a call.
    pub fn keywords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(py.import("json")?.getattr("loads")?.call1((self.0.to_string(),))?.cast_into::<PyDict>()?)
    }
}

/// Finds the class with this name.
pub fn found<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("tidegate.qdisc")?.getattr("_found")?.call1((name,))
}

/// Checks that there is a class with this name.
pub fn check_class(class: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) {
    if let Err(error) = Python::attach(|py| found(py, &class.value).map(drop)) {
        let help = "name a class of a module that can be imported, `module:Name`, or register it";
        diagnostics.error(class.place, error.to_string()).label(format!("no {what} in Python")).help(help);
    }
}

impl PythonQueue {
    fn object(&self, py: Python<'_>, site: &Site) -> PyResult<PythonQdisc> {
        let keywords = self.arguments.keywords(py)?;
        let object = found(py, &self.class.value)?.call((), Some(&keywords))?;
        let seed = Stream::named(site.seed, &site.name).below(u64::MAX);
        PythonQdisc::new(&object, site.now, seed)
    }
}

impl Kind for PythonQueue {
    const KIND: &'static str = "python";

    fn check(&self, _place: Place, diagnostics: &mut Diagnostics) {
        check_class(&self.class, "discipline", diagnostics);
    }
    fn build(&self, site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        match Python::attach(|py| self.object(py, site)) {
            Ok(qdisc) => Box::new(qdisc),
            Err(error) => failure::unwind(error),
        }
    }
}

/// Registers the kind `python` for all files that this process reads.
pub fn register_kind() {
    // With a second interpreter in the process, the kind is registered already.
    let _ = register::<PythonQueue>();
}

/// A packet held by a discipline in Python. The discipline gives it up exactly once, by returning it from `dequeue` or
/// passing it to `out.drop`.
#[pyclass(module = "tidegate._tidegate")]
pub struct Packet {
    inner: Option<AnyPacket>,
}

fn gone() -> PyErr {
    PyRuntimeError::new_err("this packet has left or was dropped already; forget it when it leaves")
}

impl Packet {
    fn there(&self) -> PyResult<&AnyPacket> {
        self.inner.as_ref().ok_or_else(gone)
    }
    fn there_mut(&mut self) -> PyResult<&mut AnyPacket> {
        self.inner.as_mut().ok_or_else(gone)
    }
}

#[pymethods]
impl Packet {
    /// The size on the link in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.there()?.size().as_u64())
    }
    /// The key of its flow, which is the same for all packets of the flow.
    #[getter]
    fn flow(&self) -> PyResult<u64> {
        Ok(self.there()?.flow().flow)
    }
    /// A hash of the source address.
    #[getter]
    fn source(&self) -> PyResult<u64> {
        Ok(self.there()?.flow().source)
    }
    /// A hash of the destination address.
    #[getter]
    fn destination(&self) -> PyResult<u64> {
        Ok(self.there()?.flow().destination)
    }
    /// The number of its class.
    #[getter]
    fn class_id(&self) -> PyResult<u32> {
        Ok(self.there()?.class().0)
    }
    /// The number of the rule that matched, from 1; 0 for none.
    #[getter]
    fn profile(&self) -> PyResult<u32> {
        Ok(self.there()?.profile())
    }
    /// The DSCP, 0 to 63.
    #[getter]
    fn dscp(&self) -> PyResult<u8> {
        Ok(self.there()?.dscp().value())
    }
    #[setter]
    fn set_dscp(&mut self, value: u8) -> PyResult<()> {
        let dscp = Dscp::new(value).ok_or_else(|| PyValueError::new_err("a code point is between 0 and 63"))?;
        self.there_mut()?.set_dscp(dscp);
        Ok(())
    }
    /// The two bits of the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 congestion experienced (CE).
    #[getter]
    fn ecn(&self) -> PyResult<u8> {
        Ok(self.there()?.ecn().bits())
    }
    /// The colour: `"green"`, `"yellow"` or `"red"`.
    #[getter]
    fn colour(&self) -> PyResult<&'static str> {
        Ok(self.there()?.colour().name())
    }
    #[setter]
    fn set_colour(&mut self, name: &str) -> PyResult<()> {
        let colour = match name {
            "green" => Colour::Green,
            "yellow" => Colour::Yellow,
            "red" => Colour::Red,
            _ => return Err(PyValueError::new_err("a colour is \"green\", \"yellow\" or \"red\"")),
        };
        self.there_mut()?.set_colour(colour);
        Ok(())
    }
    /// The number of packets on the wire that it represents, which is more than one for a GSO packet.
    #[getter]
    fn segments(&self) -> PyResult<u32> {
        Ok(self.there()?.segments())
    }
    /// Whether it is a pure TCP acknowledgement, without data.
    #[getter]
    fn is_pure_ack(&self) -> PyResult<bool> {
        Ok(self.there()?.is_pure_ack())
    }
    /// The number of bytes that its flow has yet to send after this packet, if known.
    #[getter]
    fn remaining(&self) -> PyResult<Option<u64>> {
        Ok(self.there()?.remaining().map(|bytes| bytes.as_u64()))
    }
    /// Whether the discipline still holds the packet.
    #[getter]
    fn is_here(&self) -> bool {
        self.inner.is_some()
    }
    /// Records that the packet leaves through this class.
    fn leaves_by(&mut self, class_id: u32) -> PyResult<()> {
        self.there_mut()?.leaves_by(ClassId(class_id));
        Ok(())
    }
    fn __repr__(&self) -> String {
        match &self.inner {
            Some(packet) => {
                format!("<tidegate.Packet of {} bytes, flow {:x}>", packet.size().as_u64(), packet.flow().flow)
            }
            None => "<tidegate.Packet that has left>".into(),
        }
    }
}

/// The object through which a discipline in Python drops and marks packets during a call.
#[pyclass(name = "Outlet", module = "tidegate._tidegate")]
#[derive(Default)]
pub struct PyOutlet {
    dropped: Vec<(AnyPacket, DropReason)>,
    events: Vec<Event>,
    during: bool,
}

impl PyOutlet {
    fn open(&self) -> PyResult<()> {
        if self.during { Ok(()) } else { Err(PyRuntimeError::new_err("an outlet is valid during the call only")) }
    }
}

#[pymethods]
impl PyOutlet {
    /// Drops a packet, with a reason of `tidegate.qdisc.REASONS`.
    #[pyo3(signature = (packet, reason="queue-limit"))]
    fn drop(&mut self, mut packet: PyRefMut<'_, Packet>, reason: &str) -> PyResult<()> {
        self.open()?;
        let plain = reason.replace('-', "_");
        let Some(reason) = DropReason::ALL.into_iter().find(|known| known.name() == plain) else {
            let all: Vec<String> = DropReason::ALL.iter().map(|known| known.name().replace('_', "-")).collect();
            return Err(PyValueError::new_err(format!("{reason:?} is no reason; there are {}", all.join(", "))));
        };
        self.dropped.push((packet.inner.take().ok_or_else(gone)?, reason));
        Ok(())
    }
    /// Marks a packet as "congestion experienced" (CE) if its transport is ECN-capable. Returns whether it is.
    fn mark(&mut self, mut packet: PyRefMut<'_, Packet>) -> PyResult<bool> {
        self.open()?;
        let packet = packet.there_mut()?;
        let marked = packet.mark_ce();
        if marked {
            self.events.push(Event::Marked { flow: packet.flow().flow });
        }
        Ok(marked)
    }
}

/// A discipline that calls a Python object.
pub struct PythonQdisc {
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    /// The method `deadline`. Without it the discipline is work-conserving.
    deadline: Option<Py<PyAny>>,
    outlet: Py<PyOutlet>,
    backlog: Backlog,
    /// The latest time of any call. The object is never passed an earlier one (law 2).
    latest: Instant,
}

impl PythonQdisc {
    /// Creates a discipline that calls `object`, which must hold no packets. If it has a method `begin(now, seed)`,
    /// that is called first.
    pub fn new(object: &Bound<'_, PyAny>, now: Instant, seed: u64) -> PyResult<Self> {
        let py = object.py();
        let method = |name: &Bound<'_, PyString>| -> PyResult<Option<Py<PyAny>>> {
            match object.getattr_opt(name)? {
                Some(method) if method.is_callable() => Ok(Some(method.unbind())),
                Some(_) => Err(PyTypeError::new_err(format!("`{name}` of {object} is no method"))),
                None => Ok(None),
            }
        };
        let needed = |name: &Bound<'_, PyString>| {
            method(name)?.ok_or_else(|| PyTypeError::new_err(format!("{object} has no method `{name}`")))
        };
        let (enqueue, dequeue) = (needed(intern!(py, "enqueue"))?, needed(intern!(py, "dequeue"))?);
        let deadline = method(intern!(py, "deadline"))?;
        if let Some(begin) = method(intern!(py, "begin"))? {
            begin.call1(py, (now.as_nanos(), seed))?;
        }
        let outlet = Py::new(py, PyOutlet::default())?;
        Ok(Self { enqueue, dequeue, deadline, outlet, backlog: Backlog::default(), latest: now })
    }

    /// Calls a method with the outlet, and passes the packets that it dropped on to `out`.
    fn call<T>(&mut self, out: &mut dyn Outlet<AnyPacket>, work: impl FnOnce(Python<'_>, &Self) -> PyResult<T>) -> T {
        Python::attach(|py| {
            let outlet = self.outlet.bind(py);
            outlet.borrow_mut().during = true;
            let done = work(py, self);
            let mut outlet = outlet.borrow_mut();
            outlet.during = false;
            for (packet, reason) in outlet.dropped.drain(..) {
                self.backlog.remove(packet.size());
                out.dropped(packet, reason);
            }
            outlet.events.drain(..).for_each(|event| out.event(event));
            done.unwrap_or_else(|error| failure::unwind(error))
        })
    }
}

impl Qdisc<AnyPacket> for PythonQdisc {
    fn enqueue(&mut self, now: Instant, packet: AnyPacket, out: &mut dyn Outlet<AnyPacket>) -> Queued {
        self.latest = self.latest.max(now);
        self.backlog.add(packet.size());
        let now = self.latest.as_nanos();
        self.call(out, |py, this| {
            let packet = Py::new(py, Packet { inner: Some(packet) })?;
            this.enqueue.call1(py, (now, packet, &this.outlet)).map(drop)
        });
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<AnyPacket>) -> Option<AnyPacket> {
        self.latest = self.latest.max(now);
        let now = self.latest.as_nanos();
        let packet = self.call(out, |py, this| {
            let returned = this.dequeue.call1(py, (now, &this.outlet))?;
            if returned.is_none(py) {
                return Ok(None);
            }
            let mut packet = returned.bind(py).cast::<Packet>()?.borrow_mut();
            Ok(Some(packet.inner.take().ok_or_else(gone)?))
        })?;
        self.backlog.remove(packet.size());
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = self.latest.max(now);
        let Some(deadline) = &self.deadline else {
            return if self.backlog.is_empty() { Deadline::Idle } else { Deadline::Now };
        };
        let found = Python::attach(|py| deadline.call1(py, (now.as_nanos(),))?.extract::<Option<u64>>(py));
        match found {
            Ok(Some(nanos)) => Deadline::at(Instant::from_nanos(nanos), now),
            Ok(None) => Deadline::Idle,
            Err(error) => failure::unwind(error),
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
