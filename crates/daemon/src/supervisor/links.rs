//! The interface: it may vanish, return, and be renamed.

use tidegate_live::rtnl::{LinkEvent, Rtnl};

use super::{Grants, Supervisor};
use crate::directions::ShapedDirection;
use crate::service;

impl Supervisor {
    /// Handles what the kernel reported of interfaces.
    pub(super) fn follow_links(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>) {
        let interface = self.interface(directions).to_owned();
        let (mut renamed, mut returned, mut missed) = (None, false, false);
        if let Some(monitor) = &mut self.monitor {
            while let Ok(Some(event)) = monitor.event() {
                match event {
                    LinkEvent::Gone { ref name, .. } if *name == interface => {
                        grants.notifier.log(&format!("{interface} has vanished; the rules wait for it to come back"));
                    }
                    LinkEvent::Changed(ref link) if link.name == interface => {
                        grants.notifier.log(&format!("{interface} is {}", link.state));
                        returned |= Some(link.index) != self.index;
                        (self.index, renamed) = (Some(link.index), None);
                    }
                    LinkEvent::Changed(link) if Some(link.index) == self.index => renamed = Some(link.name),
                    LinkEvent::Missed => missed = true,
                    _ => {}
                }
            }
        }
        if missed && let Ok(links) = Rtnl::open().and_then(|mut rtnl| rtnl.links()) {
            match links.iter().find(|link| link.name == interface) {
                Some(link) => {
                    returned |= Some(link.index) != self.index;
                    (self.index, renamed) = (Some(link.index), None);
                }
                None => {
                    let ours = links.into_iter().find(|link| Some(link.index) == self.index);
                    renamed = ours.map(|link| link.name);
                }
            }
        }
        if let Some(name) = renamed {
            self.follow_name(directions, grants, &name);
        } else if let Some(index) = self.index.filter(|_| returned) {
            // The rules hold by the name; with the index they will hold through a rename.
            for direction in directions.iter_mut() {
                if let Some(Err(error)) = direction.follow(&interface, index) {
                    grants.notifier.log(&format!("{}: {error}; a rename will interrupt shaping", direction.name));
                }
            }
        }
    }

    /// The interface was renamed. The rules hold by its index until they contain the new name, so no packet passes by them.
    fn follow_name(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>, name: &str) {
        let notifier = grants.notifier;
        notifier.log(&format!("{} is called {name} now; shaping follows it", self.interface(directions)));
        self.options.interface = Some(name.to_owned());
        if let Some(Err(error)) = notifier.server().map(|server| server.listening().follow(name)) {
            notifier.log(&format!("{error}; it is found by its old name"));
        }
        for at in 0..directions.len() {
            let followed = self.index.and_then(|index| directions[at].follow(name, index));
            let outcome = match followed {
                Some(Ok(())) => Ok(()),
                // A data path that cannot follow, or there is none: another one.
                Some(Err(_)) | None => self.restart(directions, grants, at),
            };
            match outcome {
                Ok(()) => {
                    notifier.log(&format!("shaping {name} is in force"));
                    service::notify(&format!("STATUS=shaping {name}"));
                }
                Err(error) => self.outage(notifier, at, &error.to_string()),
            }
        }
    }
}
