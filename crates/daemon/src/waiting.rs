//! Waiting for an interface that is not there yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use tidegate_live::rtnl::{LinkMonitor, Rtnl};

use crate::service;

/// The longest time between two looks at `stop`.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until there is an interface `name`, or `stop` is set; returns whether it is there. `print` receives a message at
/// the begin and at the end, and the service manager a notification that the service runs: it need not wait.
///
/// Without permission to be notified of links it is looked for repeatedly.
pub fn wait_for_interface(name: &str, stop: &AtomicBool, print: fn(&str)) -> bool {
    // Subscribed before the first look, so that no link is missed.
    let mut monitor = LinkMonitor::open().ok();
    let is_there = || Rtnl::open().and_then(|mut rtnl| rtnl.index(name)).is_ok();
    if is_there() {
        return true;
    }
    print(&format!("waiting for the interface {name}, which is not there yet; shaping begins when it appears"));
    service::notify(&format!("READY=1\nSTATUS=waiting for the interface {name}"));
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let timeout = LOOK.try_into().ok();
        match &monitor {
            Some(monitor) => drop(poll(&mut [PollFd::new(monitor, PollFlags::IN)], timeout.as_ref())),
            None => std::thread::sleep(LOOK),
        }
        // Only the fact that something has changed matters here.
        if let Some(monitor) = &mut monitor {
            while let Ok(Some(_)) = monitor.event() {}
        }
        service::notify("WATCHDOG=1");
        if is_there() {
            print(&format!("the interface {name} has appeared"));
            return true;
        }
    }
}
