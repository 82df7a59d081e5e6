//! [`Function`]: a function from five integers to a float, in Python or compiled.

use std::cell::Cell;
use std::io;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// The signature, as messages spell it.
const SIGNATURE: &str = "float64(uint64, uint64, uint64, uint64, uint64)";

/// Compiled code with this signature. Several threads may call it at the same time, and it does not unwind.
type Code = extern "C" fn(u64, u64, u64, u64, u64) -> f64;

/// A function of five unsigned integers that returns a float.
pub enum Function {
    /// A callable object, which is called with the interpreter's lock held.
    Python(Py<PyAny>),
    /// Machine code, which is called without the interpreter.
    Compiled {
        code: Code,
        /// Keeps the compiled code alive.
        _owner: Py<PyAny>,
    },
}

impl Function {
    /// Creates a function from `object`, which may be a `numba.cfunc` callback or a `ctypes` function with this
    /// signature, the address of such code, which must then stay valid, or any other callable.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
            let address: usize = object.extract()?;
            if !is_executable(address)? {
                let text = format!("there is no code at address {address:#x}: pass the compiled function itself");
                return Err(PyValueError::new_err(text));
            }
            return Self::compiled(address, object);
        }
        // A numba callback has its ctypes function as the attribute `ctypes`. Numpy arrays have something else there.
        let inside = object.getattr_opt("ctypes")?.filter(Bound::is_callable);
        let function = inside.as_ref().unwrap_or(object);
        if function.getattr_opt("argtypes")?.is_some() && function.getattr_opt("restype")?.is_some() {
            check_signature(function)?;
            let ctypes = object.py().import("ctypes")?;
            let pointer = ctypes.getattr("cast")?.call1((function, ctypes.getattr("c_void_p")?))?;
            return match pointer.getattr("value")?.extract::<Option<usize>>()? {
                Some(address) => Self::compiled(address, object),
                None => Err(PyValueError::new_err("the function is a null pointer")),
            };
        }
        if object.is_callable() {
            return Ok(Self::Python(object.clone().unbind()));
        }
        Err(PyTypeError::new_err(format!("{object} is no function of five integers")))
    }

    fn compiled(address: usize, owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::Compiled { code: code_at(owner.py(), address)?, _owner: owner.clone().unbind() })
    }

    /// Calls the function.
    ///
    /// # Errors
    /// The exception that the function raised, or a `TypeError` if it did not return a number. Compiled code cannot
    /// fail.
    #[inline]
    pub fn call(&self, arguments: [u64; 5]) -> PyResult<f64> {
        match self {
            Self::Compiled { code, .. } => {
                let [a, b, c, d, e] = arguments;
                Ok(code(a, b, c, d, e))
            }
            Self::Python(object) => Python::attach(|py| {
                let [a, b, c, d, e] = arguments;
                object.call1(py, (a, b, c, d, e))?.extract(py)
            }),
        }
    }
}

thread_local! {
    /// The code that was passed to [`receive_code`].
    static RECEIVED: Cell<Option<Code>> = const { Cell::new(None) };
}

/// Receives a C function from the module `ctypes`.
extern "C" fn receive_code(code: Option<Code>) {
    RECEIVED.set(code);
}

/// Returns the function whose code is at `address`.
///
/// Machine code does not reveal its signature, so safe Rust cannot convert an address to a function. `ctypes` can, on
/// the responsibility of the Python user who passes the address. So this calls [`receive_code`] through `ctypes`, with
/// the address in place of the function argument.
fn code_at(py: Python<'_>, address: usize) -> PyResult<Code> {
    let ctypes = py.import("ctypes")?;
    // `PYFUNCTYPE` keeps the interpreter's lock during the call, which stays on this thread.
    let receives = ctypes.getattr("PYFUNCTYPE")?.call1((py.None(), ctypes.getattr("c_void_p")?))?;
    receives.call1((receive_code as *const () as usize,))?.call1((address,))?;
    RECEIVED.take().ok_or_else(|| PyValueError::new_err("address 0 has no code"))
}

/// Whether `address` is in executable memory of this process. This rejects addresses that certainly are not functions.
fn is_executable(address: usize) -> io::Result<bool> {
    let maps = std::fs::read("/proc/self/maps")?;
    Ok(String::from_utf8_lossy(&maps).lines().any(|line| maps_code(line, address) == Some(true)))
}

/// Whether a line of proc_pid_maps(5) describes an executable mapping that contains `address`.
fn maps_code(line: &str, address: usize) -> Option<bool> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let bound = |text| usize::from_str_radix(text, 16).ok();
    Some((bound(begin)?..bound(end)?).contains(&address) && rest.as_bytes().get(2) == Some(&b'x'))
}

/// Checks that a `ctypes` function takes five 64-bit integers, signed or not, and returns a 64-bit float.
fn check_signature(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let ctypes = function.py().import("ctypes")?;
    let integers = [ctypes.getattr("c_uint64")?, ctypes.getattr("c_int64")?];
    let found: Vec<Bound<'_, PyAny>> = match function.getattr("argtypes")? {
        none if none.is_none() => Vec::new(),
        types => types.try_iter()?.collect::<PyResult<_>>()?,
    };
    let result = function.getattr("restype")?;
    let is_integer = |kind: &Bound<'_, PyAny>| integers.iter().any(|integer| kind.is(integer));
    if result.is(&ctypes.getattr("c_double")?) && found.len() == 5 && found.iter().all(is_integer) {
        return Ok(());
    }
    let name = |kind: &Bound<'_, PyAny>| match kind.getattr("__name__") {
        Ok(name) => name.to_string().trim_start_matches("c_").to_owned(),
        Err(_) => kind.to_string(),
    };
    let arguments: Vec<String> = found.iter().map(name).collect();
    Err(PyTypeError::new_err(format!(
        "the compiled function is {}({}): compile it as {SIGNATURE}, for example numba.cfunc({SIGNATURE:?})",
        name(&result),
        arguments.join(", ")
    )))
}
