//! Programs that are attached to a link by BPF (tcx), which rtnetlink does not list.

use std::io;

use tidegate_sys::bpf::{Tcx, attached_programs};

use crate::rtnl::OnLink;

/// The number of programs attached to a link.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` before Linux 6.6, which has none.
pub fn programs(index: u32, direction: OnLink) -> io::Result<u32> {
    let at = match direction {
        OnLink::Arriving => Tcx::Ingress,
        OnLink::Leaving => Tcx::Egress,
    };
    attached_programs(index, at)
}
