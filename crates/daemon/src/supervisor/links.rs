//! The interfaces: they may vanish, return, and be renamed, each for itself.

use tidegate_live::bypass::Bypass;
use tidegate_live::rtnl::{Link, LinkEvent, Rtnl};
use tidegate_live::shaping::{ShapedInterface, Shaping};

use super::{Grants, Supervisor};
use crate::directions::{ShapedDirection, interfaces};
use crate::notifier::Notifier;
use crate::service;

/// The shaped interfaces with their indices.
pub(super) fn of(directions: &[ShapedDirection]) -> Vec<(String, Option<u32>)> {
    let index = |name: &str| {
        let all = directions.iter().filter_map(ShapedDirection::shaping).flat_map(|shaping| shaping.interfaces());
        all.filter(|interface| interface.name() == name).find_map(ShapedInterface::index)
    };
    interfaces(directions).into_iter().map(|name| (name.to_owned(), index(name))).collect()
}

impl Supervisor {
    /// Handles what the kernel reported of interfaces.
    pub(super) fn follow_links(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>) {
        let mut changes: Vec<Change> = self.links.iter().map(|_| Change::None).collect();
        let mut missed = false;
        if let Some(monitor) = &mut self.monitor {
            while let Ok(Some(event)) = monitor.event() {
                self.above.has_changed = true;
                match event {
                    LinkEvent::Gone { name, is_elsewhere, .. } => {
                        if is_elsewhere {
                            self.above.moved.push(name.clone());
                        }
                        let Some(at) = self.links.iter().position(|(known, _)| *known == name) else { continue };
                        grants.notifier.log(&format!("{name} has vanished; the rules wait for it to come back"));
                        (self.links[at].1, changes[at]) = (None, Change::None);
                        let running = directions.iter_mut().filter_map(ShapedDirection::shaping_mut);
                        running.for_each(|shaping| shaping.vanished(&name));
                    }
                    LinkEvent::Changed(link) => {
                        if self.links.iter().any(|(known, _)| *known == link.name) {
                            follow_state(directions, grants.notifier, &link);
                        }
                        note(&mut self.links, &mut changes, &link);
                    }
                    LinkEvent::Missed => missed = true,
                }
            }
        }
        if missed && let Ok(links) = Rtnl::open().and_then(|mut rtnl| rtnl.links()) {
            links.iter().for_each(|link| note(&mut self.links, &mut changes, link));
        }
        for (at, change) in changes.into_iter().enumerate() {
            match (change, self.links[at].clone()) {
                (Change::Renamed(name), _) => self.follow_name(directions, grants, at, &name),
                (Change::Returned, (name, Some(index))) => {
                    // The rules hold by the name; with the index they will hold through a rename.
                    for direction in directions.iter_mut().filter(|direction| direction.has(&name)) {
                        if let Some(Err(error)) = direction.follow(&name, &name, index) {
                            let text = format!("{}: {error}; a rename will interrupt shaping", direction.name);
                            grants.notifier.log(&text);
                        }
                    }
                }
                (Change::Returned | Change::None, _) => {}
            }
        }
    }

    /// Looks at what is stacked on the interfaces now, if any link has changed, and logs what has come and gone since the start
    /// or the last time.
    pub(super) fn follow_stacks(&mut self, directions: &mut [ShapedDirection], notifier: &Notifier) {
        let looks = std::mem::take(&mut self.above.has_changed);
        let mut lines: Vec<String> = Vec::new();
        for (direction, state) in directions.iter_mut().zip(&mut self.states) {
            // Asked first, because a data path that may change is one whose status is read anew.
            if looks && direction.shaping().is_some_and(|shaping| shaping.in_kernel().is_none()) {
                let looked = direction.shaping_mut().map(Shaping::look_for_bypasses);
                // A kernel that does not answer now is asked again.
                self.above.has_changed |= matches!(looked, Some(Err(_)));
            }
            let Some(shaping) = direction.shaping() else { continue };
            let before = std::mem::replace(&mut state.bypasses, shaping.bypasses().to_vec());
            for (at, now) in state.bypasses.iter().enumerate() {
                let changes = now.changes(before.get(at).unwrap_or(&Bypass::default()), &self.above.moved);
                // Both directions of an interface have the same above them.
                lines.extend(changes.into_iter().filter(|line| !lines.contains(line)).collect::<Vec<_>>());
            }
        }
        if looks {
            self.above.moved.clear();
        }
        lines.iter().for_each(|line| notifier.log(line));
    }

    /// Interface number `link` was renamed. The rules hold by its index until they contain the new name, so no packet
    /// passes by them.
    fn follow_name(&mut self, directions: &mut [ShapedDirection], grants: &mut Grants<'_>, link: usize, name: &str) {
        let notifier = grants.notifier;
        let index = self.links[link].1;
        let before = std::mem::replace(&mut self.links[link].0, name.to_owned());
        notifier.log(&format!("{before} was renamed to {name}; shaping follows it"));
        // The control socket is named after the first.
        if link == 0
            && let Some(Err(error)) = notifier.server().map(|server| server.listening().follow(name))
        {
            notifier.log(&format!("{error}; it will be found by its old name"));
        }
        for at in 0..directions.len() {
            if !directions[at].has(&before) {
                continue;
            }
            let followed = index.and_then(|index| directions[at].follow(&before, name, index));
            let outcome = match followed {
                Some(Ok(())) => Ok(()),
                // A data path that cannot follow, or there is none: another one.
                Some(Err(_)) | None => self.restart(directions, grants, at),
            };
            match outcome {
                Ok(()) => {
                    let all = directions[at].interfaces().join(" + ");
                    notifier.log(&format!("shaping {all} is in force"));
                    service::notify(&format!("STATUS=shaping {all}"));
                }
                Err(error) => self.outage(notifier, at, &error.to_string()),
            }
        }
    }
}

/// Notes whether an interface is up, and logs it where that is another state than before: most changes of a link are no such.
fn follow_state(directions: &mut [ShapedDirection], notifier: &Notifier, link: &Link) {
    let is_down = link.state.is_down();
    let mut has_changed = false;
    for shaping in directions.iter_mut().filter_map(ShapedDirection::shaping_mut) {
        let before = shaping.interfaces().iter().find(|interface| interface.name() == link.name);
        has_changed |= before.is_some_and(|interface| interface.is_down() != is_down);
        shaping.set_down(&link.name, is_down);
    }
    if has_changed {
        notifier.log(&format!("{} is {}", link.name, link.state));
    }
}

/// The links that may be stacked on the interfaces, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Above {
    /// A link has come, gone or changed since they were looked at.
    has_changed: bool,
    /// The names of links that have gone to another network namespace since then.
    moved: Vec<String>,
}

/// A change of an interface.
#[derive(Debug)]
enum Change {
    None,
    /// It is there under its name, with an index that was not known.
    Returned,
    /// It has another name.
    Renamed(String),
}

/// Compares a link with those that are known, by its name first.
fn note(known: &mut [(String, Option<u32>)], changes: &mut [Change], link: &Link) {
    if let Some(at) = known.iter().position(|(name, _)| *name == link.name) {
        let is_new = known[at].1.replace(link.index) != Some(link.index);
        if is_new {
            changes[at] = Change::Returned;
        } else if matches!(changes[at], Change::Renamed(_)) {
            changes[at] = Change::None;
        }
    } else if let Some(at) = known.iter().position(|(_, index)| *index == Some(link.index)) {
        changes[at] = Change::Renamed(link.name.clone());
    }
}
