//! System calls, memory maps and processes: the unsafe code of Tidegate, behind safe functions.
//!
//! A call is here when neither the standard library nor rustix has a safe function for it, or when theirs is not sound for
//! every result of the kernel. Each block states why it is sound, and each function checks at run time what a caller could
//! get wrong, so that no caller needs `unsafe`. Every other crate forbids it, but for the C interface of `tidegate-pace`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`net`] | batches of netlink messages, socket options, requests to network devices |
//! | [`map`] | memory that is shared with another process or with the kernel |
//! | [`process`] | forks, steps between fork and exec, scheduling, the filter of system calls |
//! | [`bpf`] | maps, types and programs of bpf(2) |
//! | [`time`] | waiting for descriptors, the processor time of a thread |
//! | [`memory`] | an allocator that counts, for tests |

#![cfg(target_os = "linux")]

use std::io;

pub mod bpf;
pub mod map;
pub mod memory;
pub mod net;
pub mod process;
pub mod time;

/// The result of a system call, or its error if that is negative.
#[inline]
fn checked(result: impl Into<i64>) -> io::Result<i64> {
    let result = result.into();
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
