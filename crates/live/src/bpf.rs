//! Programs for the kernel, in BPF, compiled ahead: [`Program`] loads one that implements operations of the kernel
//! (`struct_ops`), such as a queueing discipline.
//!
//! The object is what clang writes for BPF: an ELF file with the programs, their types (BTF) and the places that depend on the
//! kernel (CO-RE). The kernel itself adapts these places when it loads a program, since Linux 5.17; the loader links
//! subprograms, creates maps, finds functions and types of the kernel by their names, and needs neither a compiler nor a header.
//!
//! *Source*: bpf(2), `include/uapi/linux/bpf.h`, `include/uapi/linux/btf.h`, and the kernel's documentation of BTF and of the
//! format of objects (RFC 9669 for instructions). Only what such a program uses is supported: one array for variables that begin
//! as zero, array maps, functions of the kernel itself (not of modules), a little-endian machine.
//!
//! *Cost*: the types of the kernel, 5 to 10 MB, are read once: some tens of milliseconds.

mod btf;
mod memory;
mod object;
mod program;
mod system;

pub use memory::Mapped;
pub use program::{Attached, LoadError, Program};

use btf::{Btf, FUNCTION, STRUCT};

/// Where the kernel shows its own types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Reads the types of the running kernel.
fn kernel_types() -> Result<Btf, LoadError> {
    let bytes = std::fs::read(KERNEL_TYPES).map_err(|error| {
        LoadError::Unavailable(format!("the kernel shows no types in {KERNEL_TYPES} (CONFIG_DEBUG_INFO_BTF): {error}"))
    })?;
    Btf::parse(bytes).map_err(|error| LoadError::Unavailable(format!("{KERNEL_TYPES}: {error}")))
}

/// Checks, without a privilege, that the kernel takes programs that implement `operations` and has the functions `functions`.
///
/// # Errors
/// What is missing.
pub fn check_kernel(operations: &str, functions: &[&str]) -> Result<(), LoadError> {
    let types = kernel_types()?;
    let missing = |what: String| Err(LoadError::Unavailable(what));
    if types.find(STRUCT, &wrapper(operations)).is_none() {
        return missing(format!("the kernel takes no {operations} in BPF"));
    }
    match functions.iter().find(|function| types.find(FUNCTION, function).is_none()) {
        Some(function) => missing(format!("the kernel has no function {function} for programs")),
        None => Ok(()),
    }
}

/// The type of the value of a map of operations.
fn wrapper(operations: &str) -> String {
    format!("bpf_struct_ops_{operations}")
}
