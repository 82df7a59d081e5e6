//! Errors and panics as Python exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};
use tidegate_config::{Diagnostics, Severity, Source};

/// The payload of an unwinding.
pub type Payload = Box<dyn Any + Send>;

/// The class `name` of the module `tidegate.errors`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("tidegate.errors").map(Bound::unbind))?;
    Ok(module.bind(py).getattr(name)?.cast_into::<PyType>()?)
}

/// An exception `tidegate.NAME` with a text.
pub fn error(name: &str, text: impl Into<String>) -> PyErr {
    Python::attach(|py| match class(py, name) {
        Ok(class) => PyErr::from_type(class, (text.into(),)),
        Err(error) => error,
    })
}

/// `tidegate.ConfigError` with all that was found in `source`: rendered with marks as its text, and as a list.
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

/// Ends what runs with a Python exception: `guarded` returns it. For errors inside of calls that cannot return one, those
/// of disciplines in Python.
pub fn unwind(error: PyErr) -> ! {
    // Not a panic: the hook that writes to standard error is not called.
    resume_unwind(Box::new(error))
}

/// The exception for what ended a run.
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

/// Runs `work`; a panic is its error.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Payload> {
    // What a panic leaves behind is dropped with `work` or, where it lives on, refuses further calls.
    catch_unwind(AssertUnwindSafe(work))
}

/// Runs `work` on a thread that the interpreter has not made, so that calls of Python in it are cheap: the state that the
/// interpreter keeps of a thread is made once, and not for each call.
pub fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(work))
}

/// Runs `work` with the interpreter's lock released; a panic is an exception.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| caught(work)).unwrap_or_else(|payload| Err(exception(payload)))
}
