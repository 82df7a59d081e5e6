//! [`LoadError`]: why a program cannot be loaded.

use std::io;

/// Why a program cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel does not meet the requirements.
    #[error("{0}")]
    Unavailable(String),
    /// The process lacks a privilege.
    #[error(
        "not allowed to {0}: run as root of the machine, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; root of a user \
         namespace may not"
    )]
    Permission(String),
    /// The kernel refused something.
    #[error("cannot {operation}: {source}{}", .log.as_ref().map(|log| format!("; the kernel writes:\n{log}")).unwrap_or_default())]
    Refused {
        /// The operation that failed.
        operation: String,
        /// The error of the kernel.
        source: io::Error,
        /// The end of what the kernel wrote about it.
        log: Option<String>,
    },
    /// The object cannot be loaded by this loader.
    #[error("the program in BPF cannot be read: {0}")]
    Object(String),
}

impl LoadError {
    /// Whether something else has the name already.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.raw_os_error() == Some(libc::EEXIST))
    }
}

/// The error of an operation that the kernel refuses.
pub(super) fn refused(operation: impl Into<String>) -> impl FnOnce(io::Error) -> LoadError {
    let operation = operation.into();
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LoadError::Permission(operation),
        _ => LoadError::Refused { operation, source, log: None },
    }
}
