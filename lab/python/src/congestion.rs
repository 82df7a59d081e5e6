//! Congestion controls in Python: the kind `python` of `tcp.congestion`, and [`PythonControl`], which calls an object.
//!
//! An exception in a call ends the run, like an exception in a discipline.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use tidegate_config::{Diagnostics, Place, Spanned};
use tidegate_core::{Instant, Rate};
use tidegate_sim::scenario::congestion::{Kind, register};
use tidegate_sim::tcp::{Ack, CongestionControl, CongestionSignal, DeliverySample, LossRecovery};

use crate::failure;
use crate::function::Function;
use crate::paced::Paced;
use crate::qdisc::{Arguments, check_class, found};

tidegate_config::record! {
    /// A congestion control in Python: an object of a class with `on_ack`, `on_congestion`, `on_timeout` and `cwnd`, or a
    /// function that returns a pacing rate.
    pub struct PythonCongestion as "congestion control in Python" {
        /// The class or the function: `module:Name`, or a name under which it was registered.
        pub class: Spanned<String>,
        /// Further arguments of its constructor. Default none.
        pub arguments: Arguments,
    }
}

impl Kind for PythonCongestion {
    const KIND: &'static str = "python";

    fn check(&self, _place: Place, diagnostics: &mut Diagnostics) {
        check_class(&self.class, "congestion control", diagnostics);
    }
    fn make(&self, mss: u64, initial: u64) -> Box<dyn CongestionControl> {
        let made = Python::attach(|py| -> PyResult<Box<dyn CongestionControl>> {
            let (found, arguments) = (found(py, &self.class.value)?, self.arguments.keywords(py)?);
            if found.is_instance_of::<PyType>() {
                let control = found.call((mss, initial), Some(&arguments))?;
                return Ok(Box::new(PythonControl::new(&control)?));
            }
            if !arguments.is_empty() {
                return Err(PyTypeError::new_err(format!("{found} is a function: arguments are those of a class")));
            }
            Ok(Box::new(Paced::new(Function::new(&found)?, mss, initial)))
        });
        made.unwrap_or_else(|error| failure::unwind(error))
    }
}

/// Makes the kind `python` known to all scenarios that this process reads.
pub fn register_kind() {
    register::<PythonCongestion>();
}

/// An acknowledgement of new data, for a congestion control.
#[pyclass(frozen, name = "Ack", module = "tidegate._tidegate")]
pub struct PyAck(Ack);

#[pymethods]
impl PyAck {
    /// The arrival time in ns.
    #[getter]
    fn now(&self) -> u64 {
        self.0.now.as_nanos()
    }
    /// The number of bytes by which it advances SND.UNA.
    #[getter]
    fn acked(&self) -> u64 {
        self.0.acked
    }
    /// The bytes in flight before the acknowledgement.
    #[getter]
    fn flight_size(&self) -> u64 {
        self.0.flight_size
    }
    /// Whether the window limited the sender. A window that is not used must not grow (RFC 7661).
    #[getter]
    fn is_cwnd_limited(&self) -> bool {
        self.0.cwnd_limited
    }
    /// The RTT sample that it provides, in ns.
    #[getter]
    fn rtt_ns(&self) -> Option<u64> {
        self.0.rtt.map(|span| span.as_nanos())
    }
    /// The smoothed RTT (SRTT) in ns.
    #[getter]
    fn srtt_ns(&self) -> Option<u64> {
        self.0.srtt.map(|span| span.as_nanos())
    }
    /// Bytes delivered so far, cumulatively and selectively acknowledged.
    #[getter]
    fn delivered(&self) -> u64 {
        self.0.delivered
    }
    /// The loss recovery that was in progress before the acknowledgement: `"none"`, `"fast"` or `"timeout"`.
    #[getter]
    fn recovery(&self) -> &'static str {
        match self.0.recovery {
            LossRecovery::None => "none",
            LossRecovery::Fast => "fast",
            LossRecovery::Timeout => "timeout",
        }
    }
    /// SND.UNA after the acknowledgement.
    #[getter]
    fn una(&self) -> u64 {
        self.0.una
    }
    /// SND.NXT, in bytes: a round trip ends when this is acknowledged.
    #[getter]
    fn nxt(&self) -> u64 {
        self.0.nxt
    }
    /// The number of bytes delivered in ECN-capable packets so far.
    #[getter]
    fn ecn_capable(&self) -> u64 {
        self.0.ecn.capable
    }
    /// The number of these bytes that were marked "congestion experienced" (CE).
    #[getter]
    fn ecn_ce(&self) -> u64 {
        self.0.ecn.ce
    }
}

/// The data delivered by an acknowledgement, cumulative or selective.
#[pyclass(frozen, name = "DeliverySample", module = "tidegate._tidegate")]
pub struct PySample(DeliverySample);

#[pymethods]
impl PySample {
    /// The delivery rate in bit/s; `None` if the interval is shorter than the minimum RTT.
    #[getter]
    fn rate_bps(&self) -> Option<u64> {
        self.0.rate.map(|rate| rate.as_bps())
    }
    /// The number of bytes delivered in the interval.
    #[getter]
    fn delivered(&self) -> u64 {
        self.0.delivered
    }
    /// The number of bytes that had been delivered when the newest acknowledged segment was sent.
    #[getter]
    fn prior_delivered(&self) -> u64 {
        self.0.prior_delivered
    }
    /// The sampling interval in ns.
    #[getter]
    fn interval_ns(&self) -> u64 {
        self.0.interval.as_nanos()
    }
    /// The RTT of the newest segment in ns, unless it was retransmitted.
    #[getter]
    fn rtt_ns(&self) -> Option<u64> {
        self.0.rtt.map(|span| span.as_nanos())
    }
    /// The bytes in flight after the acknowledgement.
    #[getter]
    fn in_flight(&self) -> u64 {
        self.0.in_flight
    }
    /// Whether the sample was limited by the application, which had no more data to send.
    #[getter]
    fn is_app_limited(&self) -> bool {
        self.0.app_limited
    }
    /// Whether the newest segment was retransmitted.
    #[getter]
    fn is_retransmitted(&self) -> bool {
        self.0.retransmitted
    }
    /// The number of bytes that the acknowledgement newly delivers.
    #[getter]
    fn newly_acked(&self) -> u64 {
        self.0.newly_acked
    }
    /// The number of bytes that were considered lost since the newest segment was sent.
    #[getter]
    fn lost(&self) -> u64 {
        self.0.lost
    }
    /// The bytes in flight right after the newest segment was sent.
    #[getter]
    fn tx_in_flight(&self) -> u64 {
        self.0.tx_in_flight
    }
}

/// A congestion control that calls a Python object, and reads its `cwnd`, `ssthresh` and `pacing_bps` after each call.
pub struct PythonControl {
    object: Py<PyAny>,
    on_ack: Py<PyAny>,
    on_congestion: Py<PyAny>,
    on_timeout: Py<PyAny>,
    on_sample: Option<Py<PyAny>>,
    on_recovered: Option<Py<PyAny>>,
    on_idle: Option<Py<PyAny>>,
    exit_slow_start: Option<Py<PyAny>>,
    window: Window,
}

/// The values that the object has last decided on.
#[derive(Clone, Copy)]
struct Window {
    cwnd: u64,
    ssthresh: u64,
    pacing: Option<Rate>,
}

/// Reads an attribute that is a number of bytes or of bit/s. Infinity becomes the largest number.
fn whole(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<Option<u64>> {
    let Some(value) = object.getattr_opt(name)?.filter(|value| !value.is_none()) else { return Ok(None) };
    let value: f64 = value.extract()?;
    if value.is_nan() || value < 0.0 {
        return Err(PyValueError::new_err(format!("`{name}` of {object} is {value}: it is a number from 0")));
    }
    Ok(Some(value as u64))
}

impl Window {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let cwnd = whole(object, intern!(py, "cwnd"))?.filter(|cwnd| *cwnd > 0).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{object} has no `cwnd` above 0, so that it would never send: set it in bytes"
            ))
        })?;
        let ssthresh = whole(object, intern!(py, "ssthresh"))?.unwrap_or(u64::MAX);
        let pacing = whole(object, intern!(py, "pacing_bps"))?.filter(|bps| *bps > 0).map(Rate::from_bps);
        Ok(Self { cwnd, ssthresh, pacing })
    }
}

impl PythonControl {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            match object.getattr_opt(name)? {
                Some(method) if method.is_callable() => Ok(Some(method.unbind())),
                Some(_) => Err(PyTypeError::new_err(format!("`{name}` of {object} is no method"))),
                None => Ok(None),
            }
        };
        let needed =
            |name: &str| method(name)?.ok_or_else(|| PyTypeError::new_err(format!("{object} has no method `{name}`")));
        Ok(Self {
            object: object.clone().unbind(),
            on_ack: needed("on_ack")?,
            on_congestion: needed("on_congestion")?,
            on_timeout: needed("on_timeout")?,
            on_sample: method("on_sample")?,
            on_recovered: method("on_recovered")?,
            on_idle: method("on_idle")?,
            exit_slow_start: method("exit_slow_start")?,
            window: Window::of(object)?,
        })
    }

    /// Calls Python, and then reads the object's decision.
    fn call(&mut self, work: impl FnOnce(Python<'_>, &Self) -> PyResult<()>) {
        let window = Python::attach(|py| {
            work(py, self)?;
            Window::of(self.object.bind(py))
        });
        self.window = window.unwrap_or_else(|error| failure::unwind(error));
    }
}

impl CongestionControl for PythonControl {
    fn on_ack(&mut self, ack: &Ack) {
        let ack = PyAck(*ack);
        self.call(|py, this| this.on_ack.call1(py, (ack,)).map(drop));
    }
    fn on_sample(&mut self, now: Instant, sample: &DeliverySample) {
        if self.on_sample.is_some() {
            let sample = PySample(*sample);
            self.call(|py, this| match &this.on_sample {
                Some(method) => method.call1(py, (now.as_nanos(), sample)).map(drop),
                None => Ok(()),
            });
        }
    }
    fn exit_slow_start(&mut self) {
        self.call(|py, this| match &this.exit_slow_start {
            Some(method) => method.call0(py).map(drop),
            None => Ok(()),
        });
    }
    fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal) {
        let signal = match signal {
            CongestionSignal::Loss => "loss",
            CongestionSignal::Ecn => "ecn",
        };
        self.call(|py, this| this.on_congestion.call1(py, (now.as_nanos(), flight_size, signal)).map(drop));
    }
    fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool) {
        self.call(|py, this| this.on_timeout.call1(py, (now.as_nanos(), flight_size, first)).map(drop));
    }
    fn on_recovered(&mut self, now: Instant, flight_size: u64) {
        self.call(|py, this| match &this.on_recovered {
            Some(method) => method.call1(py, (now.as_nanos(), flight_size)).map(drop),
            None => Ok(()),
        });
    }
    fn on_idle(&mut self, restart: u64) {
        self.call(|py, this| match &this.on_idle {
            Some(method) => method.call1(py, (restart,)).map(drop),
            // The trait requires the window to be reduced after an idle period.
            None if this.window.cwnd > restart => this.object.setattr(py, intern!(py, "cwnd"), restart),
            None => Ok(()),
        });
    }
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn pacing(&self) -> Option<Rate> {
        self.window.pacing
    }
}
