//! The data path in the kernel: a queueing discipline in BPF at the root of the interface, and the counters that are read of it.
//! The C is beside this crate, in `kernel/`, which also shows that it decides as the core does.
//!
//! *Law*: where a start returns, the kernel has confirmed that the discipline is at the root.
//! *Notes*: the program is loaded and registered before the process gives up privileges ([`KernelPrograms`]). Afterwards its
//! maps are memory of this process, and the interface is changed over rtnetlink: bpf(2) is not called any more. An attached
//! discipline lasts as long as it is attached, whatever becomes of the process; with
//! [`Unattended::Pass`](tidegate_config::shaper::Unattended::Pass) it passes packets unless a lease is renewed every few seconds.
//!
//! | module | contents |
//! | --- | --- |
//! | [`bpf`] | the loader: objects, types, maps |
//! | `programs` | our program, as it is loaded and written to |
//! | `plan`, `classes`, `tree`, `discipline`, `promises`, `reservations` | the program's options for a configuration |
//! | `path` | the discipline at the root of an interface: a [`Backend`](tidegate_live::shaping::backend::Backend) |
//! | `shards` | the programs of a data path, one for each queue of the interface, and the division of rates over them |
//! | `counters`, `flows` | the counters: an [`Offload`](tidegate_engine::Offload) |
//! | [`options`] | the program's numbers as Rust, generated from the headers |

#![cfg(target_os = "linux")]

pub mod bpf;
mod classes;
mod counters;
mod discipline;
mod doctor;
mod flows;
mod matched;
#[allow(missing_docs, reason = "the headers describe them")]
#[rustfmt::skip]
pub mod options;
mod path;
mod plan;
mod programs;
mod promises;
mod reservations;
mod shards;
#[doc(hidden)]
pub mod tree;

pub use doctor::finding;
pub use path::check;
pub use programs::KernelPrograms;
