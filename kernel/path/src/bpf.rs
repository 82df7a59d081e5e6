//! Programs for the kernel, in BPF, compiled ahead: [`Program`] loads one that implements operations of the kernel
//! (`struct_ops`), such as a queueing discipline, and those that see packets at tc beside it ([`Filters`]).
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
mod error;
mod limit;
mod memory;
mod object;
mod place;
mod program;
#[cfg(test)]
mod stack;

pub use error::LoadError;
pub use memory::Mapped;
pub use place::{Place, Variables};
pub use program::{Attached, Filters, Program};

use btf::{Btf, FUNCTION, STRUCT};
use tidegate_units::Bytes;

/// Where the kernel shows its own types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Reads the types of the running kernel.
fn kernel_types() -> Result<Btf, LoadError> {
    let bytes = std::fs::read(KERNEL_TYPES).map_err(|error| {
        LoadError::Unavailable(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("the kernel shows no types in {KERNEL_TYPES} (CONFIG_DEBUG_INFO_BTF)")
            }
            // With "Bad address", memory is missing.
            _ => format!("cannot read the types of the kernel in {KERNEL_TYPES}: {error}"),
        })
    })?;
    Btf::parse(bytes).map_err(|error| LoadError::Unavailable(format!("{KERNEL_TYPES}: {error}")))
}

/// Reads types as those of a kernel, each of them, and counts them.
///
/// # Errors
/// The fault of `bytes`.
pub fn check_types(bytes: Vec<u8>) -> Result<usize, &'static str> {
    let types = Btf::parse(bytes)?;
    for number in types.numbers() {
        let _ = (types.name(number), types.size(number), types.members(number).len(), types.plain(number));
    }
    Ok(types.numbers().count())
}

/// Checks that the control groups of this process leave it the memory that an object needs without some of its maps: for the
/// types of the kernel, and for its maps. To verify it takes some more.
///
/// # Errors
/// [`LoadError::Unavailable`] with the bytes that are left and the bytes that are needed.
pub fn check_memory(object: &[u8], without: &[&str]) -> Result<(), LoadError> {
    let Some(left) = limit::memory_left() else { return Ok(()) };
    let types = std::fs::metadata(KERNEL_TYPES).map_or(0, |of| of.len());
    // Beside them where each begins.
    let needed = types + types / 4 + Program::memory(object, without)?;
    if left >= needed {
        return Ok(());
    }
    let [left, needed] = [left, needed].map(|bytes| Bytes::new(bytes / 1_000 * 1_000));
    Err(LoadError::Unavailable(format!(
        "its control group leaves it {left} of memory (memory.max), and the program in BPF takes more than {needed}"
    )))
}

/// Requirements of a program on the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The struct of the operations that it implements.
    pub operations: &'static str,
    /// The functions that came with them.
    pub functions: &'static [&'static str],
    /// The first release that has them.
    pub since: (u32, u32),
    /// The option with which the kernel has to be built.
    pub option: &'static str,
}

/// Checks that the kernel meets the requirements of a program. Needs no privilege.
///
/// # Errors
/// The requirement that is missing, and why.
pub fn check_kernel(needs: &Needs) -> Result<(), LoadError> {
    let Needs { operations, functions, since, option } = *needs;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let missing = |what: String| Err(LoadError::Unavailable(what));
    if release_of(&release).is_some_and(|release| release < since) {
        return missing(format!("{operations} in BPF came with Linux {}.{}", since.0, since.1));
    }
    let types = kernel_types()?;
    if types.find(STRUCT, &wrapper(operations)).is_none() {
        return missing(format!("the kernel was built without {option}: it takes no {operations} in BPF"));
    }
    match functions.iter().find(|function| types.find(FUNCTION, function).is_none()) {
        Some(function) => missing(format!("the kernel has no function {function} for programs")),
        None => Ok(()),
    }
}

/// The first two numbers of a release.
fn release_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// The type of the value of a map of operations.
fn wrapper(operations: &str) -> String {
    format!("bpf_struct_ops_{operations}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_too_old_is_told_from_one_without_an_option() {
        let releases = ["6.16.0-rc1", "7.3-amd64", "x"].map(release_of);
        assert_eq!(releases, [Some((6, 16)), Some((7, 3)), None]);
        let needs = Needs { operations: "none_ops", functions: &[], since: (99, 1), option: "CONFIG_NONE" };
        assert_eq!(check_kernel(&needs).unwrap_err().to_string(), "none_ops in BPF came with Linux 99.1");
        let why = check_kernel(&Needs { since: (2, 6), ..needs }).unwrap_err().to_string();
        assert!(why.contains("CONFIG_NONE") || why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
    }
}
