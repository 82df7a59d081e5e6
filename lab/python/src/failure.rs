//! Converts errors and panics to Python exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};
use tidegate_config::{Diagnostics, Severity, Source};

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// The class `name` of the module `tidegate.errors`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("tidegate.errors").map(Bound::unbind))?;
    Ok(module.bind(py).getattr(name)?.cast_into::<PyType>()?)
}

/// Creates an exception `tidegate.NAME` with a text.
pub fn error(name: &str, text: impl Into<String>) -> PyErr {
    Python::attach(|py| match class(py, name) {
        Ok(class) => PyErr::from_type(class, (text.into(),)),
        Err(error) => error,
    })
}

/// Creates a `tidegate.ConfigError` with all diagnostics about `source`, as rendered text and as a list.
pub fn config(source: &Source, diagnostics: &Diagnostics) -> PyErr {
    let text = diagnostics.render(source).trim_end().to_owned();
    Python::attach(|py| {
        let make = || {
            let findings = PyList::empty(py);
            for found in diagnostics.iter().filter(|found| found.severity == Severity::Error) {
                let (line, column) = source.line_column(found.place.start);
                let entry = PyDict::new(py);
                entry.set_item("file", source.name())?;
                entry.set_item("line", line)?;
                entry.set_item("column", column)?;
                entry.set_item("message", &found.message)?;
                entry.set_item("label", found.label.as_deref())?;
                entry.set_item("help", found.help.as_deref())?;
                findings.append(entry)?;
            }
            Ok(PyErr::from_type(class(py, "ConfigError")?, (text, findings.unbind())))
        };
        make().unwrap_or_else(|error| error)
    })
}

/// Unwinds with a Python exception, which `guarded` returns. This is for errors in calls that cannot return an error,
/// such as those of disciplines in Python.
pub fn unwind(error: PyErr) -> ! {
    // Unlike a panic, this does not call the hook that writes to standard error.
    resume_unwind(Box::new(error))
}

/// Converts the payload that ended a run to an exception.
pub fn exception(payload: Payload) -> PyErr {
    match payload.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(payload) => {
            let text = match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
                (Some(text), _) => text.clone(),
                (None, Some(text)) => (*text).to_owned(),
                (None, None) => "it panicked".to_owned(),
            };
            error("InternalError", format!("{text}; this is a defect of Tidegate, please report it"))
        }
    }
}

/// Runs `work`. A panic is returned as the error.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Payload> {
    // State that a panic leaves inconsistent is dropped with `work`, or refuses further calls if it outlives it.
    catch_unwind(AssertUnwindSafe(work))
}

/// Runs `work` on a thread that was not created by the interpreter, so that calls into Python are cheap: the
/// interpreter's state of the thread is created once, and not for each call.
pub fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(work))
}

/// Runs `work` with the interpreter's lock (GIL) released. A panic becomes an exception.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| caught(work)).unwrap_or_else(|payload| Err(exception(payload)))
}
