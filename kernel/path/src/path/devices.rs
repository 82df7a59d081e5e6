//! The devices where packets wait, and what an earlier run has left at an interface.

use tidegate_live::netlink::Error;
use tidegate_live::rtnl::{OnLink, RootQdisc, Rtnl};
use tidegate_live::shaping::backend::{
    DEVICE, DISCIPLINE, clear_root, device_name, has_discipline, is_device, remove_common_device, remove_device,
};
use tidegate_live::shaping::{StartError, wait_until_empty};

use super::Attachment;

/// Makes the device to which packets are led, and returns its index.
pub(super) fn make_device(rtnl: &mut Rtnl, to: &Attachment, first: u32) -> Result<u32, StartError> {
    let device = device_name(first, to.direction);
    if to.returns {
        rtnl.create_veth(&device, &other_end(&device))?;
    } else {
        rtnl.create(&device, DEVICE)?;
    }
    Ok(rtnl.link(&device)?.map_or(0, |link| link.index))
}

/// The name of the other end of a device that has two.
pub(super) fn other_end(device: &str) -> String {
    format!("{device}r")
}

/// Removes a device of ours, if it is there.
pub(super) fn remove_own_device(rtnl: &mut Rtnl, index: u32) -> Result<(), Error> {
    match rtnl.link_by_index(index)? {
        Some(device) if is_device(&device) => {
            wait_until_empty(rtnl, index);
            rtnl.delete_link(index)
        }
        _ => Ok(()),
    }
}

/// Lets what arrives by each interface pass, so that a device can be removed to which an earlier run has led it.
pub(super) fn lead_nowhere(rtnl: &mut Rtnl, to: &Attachment) -> Result<(), Error> {
    to.indices().try_for_each(|line| rtnl.remove_program(line, to.direction, DISCIPLINE))
}

/// Removes what an earlier run has left at an interface, for the direction of `to`. Returns a note for people.
pub(super) fn make_room(rtnl: &mut Rtnl, to: &Attachment, name: &str, line: u32) -> Result<Option<String>, StartError> {
    if to.direction == OnLink::Arriving {
        return Ok(remove_device(rtnl, line)?.map(|lost| taken_over(name, lost)));
    }
    let left = remove_common_device(rtnl, line)?;
    if has_discipline(rtnl, line)? {
        return Ok(Some(taken_over(name, clear_root(rtnl, line)?)));
    }
    match rtnl.root_qdisc(line)? {
        Some(RootQdisc { kind, handle, .. }) if handle != 0 && !to.has_device => {
            Err(StartError::RootConfigured { interface: name.into(), kind })
        }
        _ => Ok(left.map(|lost| taken_over(name, lost))),
    }
}

fn taken_over(name: &str, lost: u32) -> String {
    let lost = match lost {
        0 => String::new(),
        lost => format!(", and {lost} packets that waited there were dropped"),
    };
    format!(
        "the kernel went on shaping {name} as an earlier run had configured it, which ended without ending that; this one has taken \
         over{lost}"
    )
}
