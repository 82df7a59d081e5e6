//! What the daemon looks at while it shapes, and what it does about it: rules that others change, packets that pass by,
//! interfaces that go, come and are renamed, a file that is edited.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use tidegate_config::shaper::Direction as Way;
use tidegate_live::rtnl::{LinkEvent, Rtnl};
use tidegate_live::shaping::{Passage, Shaping};

use super::{Daemon, DaemonError};
use crate::events::{Notice, Scene};
use crate::server::Outbound;
use crate::{promise, reserve, service};

impl Daemon {
    /// Reads the rules back; when somebody changed them, puts them back or says that shaping is off. Then compares what
    /// the interface carried with what came through the queue.
    ///
    /// What cannot be looked at, for want of a descriptor for instance, is looked at again: shaping goes on.
    pub(super) fn inspect(&mut self, at: usize) {
        let direction = &mut self.directions[at];
        let Some(shaping) = &mut direction.shaping else { return };
        let look = shaping.inspect().and_then(|inspection| {
            let passage = if inspection.is_sound() { shaping.passage()? } else { None };
            Ok((inspection, passage))
        });
        let (inspection, passage) = match look {
            Ok(seen) => seen,
            Err(error) => {
                if !std::mem::replace(&mut direction.unseen, true) {
                    let text = format!("{}: whether shaping is still in force cannot be seen: {error}", direction.name);
                    self.say(&format!("{text}; it goes on, and is looked at again"));
                }
                return;
            }
        };
        if std::mem::take(&mut direction.unseen) {
            let text = format!("{}: whether shaping is still in force can be seen again", direction.name);
            self.say(&text);
        }
        if inspection.is_sound() {
            self.judge(at, passage);
            return;
        }
        for difference in &inspection.differences {
            self.say(&format!("somebody changed our rules: {difference}"));
        }
        self.trouble = Some("somebody changed our rules".into());
        self.say("shaping is NOT in force; starting it again");
        if let Err(error) = self.restart(at) {
            self.outage(at, &error.to_string());
            return;
        }
        self.trouble = None;
        self.say(&format!("shaping {} is in force again", self.interface()));
    }

    /// Tries to prove what is not proven yet.
    pub(super) fn prove(&mut self, at: usize) {
        let direction = &mut self.directions[at];
        let Some(shaping) = &mut direction.shaping else { return };
        let (name, tried) = (direction.name.clone(), shaping.prove_again());
        match tried {
            Ok(proven) => {
                if !proven.is_empty()
                    && let Some(text) = direction.unproven.take()
                    && self.trouble.as_ref() == Some(&text)
                {
                    self.trouble = None;
                }
                for version in proven {
                    self.say(&format!("{name}: a packet of {version} came through the queue"));
                }
            }
            Err(error) => {
                let text = error.to_string();
                if direction.unproven.as_ref() != Some(&text) {
                    direction.unproven = Some(text.clone());
                    self.trouble = Some(text.clone());
                    self.say(&format!("{name}: {text}; it is tried again"));
                }
            }
        }
    }

    /// Says when most of what goes by the interface begins to pass the queue by, and when it comes through again.
    fn judge(&mut self, at: usize, passage: Option<Passage>) {
        let Some(passage) = passage else { return };
        let interface = self.interface().to_owned();
        let direction = &mut self.directions[at];
        let (goes, by) = match direction.config.interface.direction {
            Way::Egress => ("leaves", "a flow table or AF_PACKET, a bridge, VLAN or macvlan on top of it"),
            Way::Ingress => (
                "arrives",
                "XDP, a flow table, a bridge, VLAN or macvlan on top of it; or it is for others and the interface is promiscuous",
            ),
        };
        let name = direction.name.clone();
        if passage.is_past() && direction.past.is_none() {
            let text = format!("most of what {goes} by {interface} does not come through the queue");
            direction.past = Some(text.clone());
            self.trouble = Some(text.clone());
            service::notify(&format!("STATUS=not shaping: {text}"));
            self.say(&format!(
                "{name}: {text}, {} of {} kB: it is NOT shaped. What may take it: {by}. Shape what it is taken to, or take \
                 that away",
                passage.through / 1_000,
                passage.carried / 1_000
            ));
        } else if !passage.is_past()
            && let Some(text) = direction.past.take()
        {
            if self.trouble.as_ref() == Some(&text) {
                self.trouble = self.directions.iter().find_map(|direction| direction.past.clone());
            }
            if self.trouble.is_none() {
                service::notify("STATUS=shaping");
            }
            self.say(&format!("{name}: what {goes} by {interface} comes through the queue again"));
        }
    }

    /// Ends the shaping of a direction and starts it again.
    ///
    /// # Errors
    /// When it does not start; traffic passes unshaped then.
    pub fn restart(&mut self, at: usize) -> Result<(), DaemonError> {
        self.unguard(at);
        let direction = &mut self.directions[at];
        drop(direction.shaping.take());
        let shaping = Shaping::start(&direction.config, &self.settings.options)?;
        direction.shaping = Some(shaping);
        // That is for the new one to find out.
        if let Some(text) = direction.past.take()
            && self.trouble.as_ref() == Some(&text)
        {
            self.trouble = None;
        }
        self.guard(at)?;
        self.listen(at)?;
        promise::reinstate(self, at);
        reserve::reinstate(self, at);
        Ok(())
    }

    /// Has the events of a direction told to the server, with the names that they mean. After every start of a shaping,
    /// and when its classes change.
    ///
    /// # Errors
    /// When the data path has ended.
    pub fn listen(&mut self, at: usize) -> Result<(), DaemonError> {
        let (Some(server), direction) = (&self.server, &self.directions[at]) else { return Ok(()) };
        let Some(shaping) = &direction.shaping else { return Ok(()) };
        let scene = Scene { direction: direction.name.clone(), classes: shaping.class_names().to_vec() };
        server.say(Outbound::Scene(at, scene));
        let teller = server.teller().clone();
        shaping.listen(Box::new(move |time, news| !teller.is_heard() || teller.tell(Notice::new(at, time, news))))?;
        Ok(())
    }

    /// The classes of a direction are others from now on.
    pub(crate) fn scene_changed(&mut self, at: usize) {
        self.status_cache = None;
        let direction = &self.directions[at];
        if let (Some(server), Some(shaping)) = (&self.server, &direction.shaping) {
            let scene = Scene { direction: direction.name.clone(), classes: shaping.class_names().to_vec() };
            server.say(Outbound::Scene(at, scene));
        }
    }

    pub(super) fn links(&mut self) {
        let interface = self.interface().to_owned();
        let (mut renamed, mut missed) = (None, false);
        let mut said = Vec::new();
        if let Some(monitor) = &mut self.monitor {
            while let Ok(Some(event)) = monitor.event() {
                match event {
                    LinkEvent::Gone { ref name, .. } if *name == interface => {
                        said.push(format!("{interface} has vanished; the rules wait for it to come back"));
                    }
                    LinkEvent::Changed(ref link) if link.name == interface => {
                        said.push(format!("{interface} is {}", link.state));
                        // One that went away and came back has another number.
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
                Some(link) => (self.index, renamed) = (Some(link.index), None),
                None => {
                    let ours = links.into_iter().find(|link| Some(link.index) == self.index);
                    renamed = ours.map(|link| link.name);
                }
            }
        }
        said.iter().for_each(|text| self.say(text));
        if let Some(name) = renamed {
            self.follow(&name);
        }
    }

    /// The interface has another name: the rules go by names, so they are made anew.
    fn follow(&mut self, name: &str) {
        self.say(&format!("{} is called {name} now; shaping follows it", self.interface()));
        self.settings.options.interface = Some(name.to_owned());
        if let Some(Err(error)) = self.server.as_ref().map(|server| server.listening().follow(name)) {
            self.say(&format!("{error}; it is found by its old name"));
        }
        for at in 0..self.directions.len() {
            match self.restart(at) {
                Ok(()) => {
                    self.say(&format!("shaping {name} is in force"));
                    service::notify(&format!("STATUS=shaping {name}"));
                }
                Err(error) => self.outage(at, &error.to_string()),
            }
        }
    }

    pub(super) fn file_changed(&mut self) {
        let now = modified(&self.settings.file);
        if now.is_some() && now != self.settings.modified {
            self.settings.modified = now;
            self.say(&format!(
                "{} has changed; what runs is what was read at the start. Check it with `tidegate check`, then start \
                 again to use it",
                self.settings.file.display()
            ));
        }
    }
}

/// When a file was last changed; none for standard input.
pub fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
