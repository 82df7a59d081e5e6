//! Programs that are attached to a link by BPF (tcx), which rtnetlink does not list.

use std::io;

use crate::rtnl::OnLink;

/// The query's command and its attach types, of the kernel's `bpf.h`.
const PROG_QUERY: libc::c_long = 16;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;

/// The part of `union bpf_attr` for the query.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    attach_type: u32,
    flags: [u32; 2],
    programs: u64,
    count: u32,
    padding: u32,
    more: [u64; 4],
}

/// The number of programs attached to a link.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` before Linux 6.6, which has none.
pub fn programs(index: u32, direction: OnLink) -> io::Result<u32> {
    let attach_type = match direction {
        OnLink::Arriving => TCX_INGRESS,
        OnLink::Leaving => TCX_EGRESS,
    };
    let mut query = Query { target: index, attach_type, ..Query::default() };
    // SAFETY: the query is live for the call, of the given size, and has no buffer for program identifiers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, &raw mut query, size_of::<Query>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(query.count) }
}
