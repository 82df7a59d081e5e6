//! `[control]`: who may do what over the control socket.

use std::path::PathBuf;

use tidegate_core::{Rate, Span};

use crate::decode::{Many, Spanned};
use crate::diagnostic::Diagnostics;
use crate::suggest;
use crate::values::{Mode, User};

crate::record! {
    /// Permissions on the control socket. Root and the user that runs Tidegate may do everything; any other user who
    /// may connect can read. The keys below set what other users may do for their own flows.
    pub struct ControlSection as "control" {
        /// The mode of the socket in the file system: who may connect. Default 666: every user, to read.
        pub mode: Mode = "666",
        /// The largest sum of minimum rates promised to one user. Default: nothing.
        pub minimum: Option<Spanned<Rate>>,
        /// Steps of preference that a user may have for a flow. Default 0: none.
        pub preference: u32 = 0,
        /// Classes to which a user may have own flows displaced. Default: none, since a class may be worth more than
        /// the one they are in.
        pub displace_to: Many<Spanned<String>>,
        /// The number of promises that one user may hold. Default 16.
        pub promises: u32 = 16,
        /// The number of reservations that one user may hold. Default 4, so that one user cannot take all of CBQ's.
        pub reservations: u32 = 4,
        /// The largest sum of rates that one user may reserve. Default: half of what is free or reserved by that user.
        pub reserved: Option<Spanned<Rate>>,
        /// The longest time for which a promise or a reservation outlives the connection it was requested over. Default 1 h.
        pub lease: Span = "1h",
        /// Users with other bounds than these.
        pub user: Vec<Spanned<ControlUserSection>>,
        /// A program to run on events. Default: none.
        pub hook: Option<HookSection>,
    }
}

crate::record! {
    /// The bounds of one user.
    pub struct ControlUserSection as "user of control" {
        /// The user, by name or number.
        pub uid: Spanned<User>,
        /// The largest sum of minimum rates promised to this user. Default: that of all users.
        pub minimum: Option<Spanned<Rate>>,
        /// Steps of preference. Default: those of all users.
        pub preference: Option<u32>,
        /// The number of promises. Default: that of all users.
        pub promises: Option<u32>,
        /// The number of reservations. Default: that of all users.
        pub reservations: Option<u32>,
        /// The largest sum of rates that this user may reserve. Default: that of all users.
        pub reserved: Option<Spanned<Rate>>,
    }
}

crate::record! {
    /// A program to run on events. The facts are in its environment.
    pub struct HookSection as "hook" {
        /// The program, by its full path. It is run as the user that runs Tidegate, without a shell.
        pub program: Spanned<String>,
        /// The kinds of events, as `tidegate events` names them. Default: trouble, and promises that wait or end.
        pub events: Many<Spanned<String>>,
        /// The largest number of runs per second; further events are counted only. Default 10.
        pub rate: Spanned<u32> = 10,
    }
}

/// Permissions on the control socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// The mode of the socket.
    pub mode: u32,
    /// The permissions of users who are not named.
    pub bounds: Bounds,
    /// Classes, by number, to which users may have flows displaced.
    pub displace_to: Vec<u32>,
    /// For how long a promise or a reservation may outlive its connection.
    pub lease: Span,
    /// The permissions of named users.
    pub users: Vec<(User, Bounds)>,
    /// The program to run on events.
    pub hook: Option<Hook>,
}

impl Default for Control {
    /// Every user may read, root may do everything: the default of a file without the section.
    fn default() -> Self {
        Self {
            mode: 0o666,
            bounds: Bounds { minimum: Rate::ZERO, preference: 0, promises: 16, reservations: 4, reserved: None },
            displace_to: Vec::new(),
            lease: Span::from_secs(3_600),
            users: Vec::new(),
            hook: None,
        }
    }
}

/// The permissions of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The largest sum of minimum rates.
    pub minimum: Rate,
    /// Steps of preference for a flow.
    pub preference: u32,
    /// The largest number of promises.
    pub promises: u32,
    /// The largest number of reservations.
    pub reservations: u32,
    /// The largest sum of reserved rates; with `None`, half of what is free or reserved by the user.
    pub reserved: Option<Rate>,
}

/// The kinds of events on which a program may be run; the control protocol describes them.
pub const EVENTS: [&str; 17] = [
    "flow-started",
    "flow-ended",
    "queue-above",
    "queue-below",
    "moved",
    "marked",
    "sanctioned",
    "released",
    "rate",
    "dropped",
    "delay-above",
    "delay-below",
    "promised",
    "waiting",
    "promise-ended",
    "line-rate",
    "log",
];

/// A program to run on events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hook {
    /// Runs with the fields of an event in its environment, `TIDEGATE_EVENT` and others.
    pub program: PathBuf,
    /// Kinds of events by their names; none for the default.
    pub events: Vec<String>,
    /// The largest number of runs per second.
    pub rate: u32,
}

pub(super) fn control(
    section: Option<&ControlSection>,
    classes: &[String],
    elsewhere: &[String],
    diagnostics: &mut Diagnostics,
) -> Control {
    let Some(section) = section else { return Control::default() };
    let bounds = Bounds {
        minimum: section.minimum.map_or(Rate::ZERO, |minimum| minimum.value),
        preference: section.preference,
        promises: section.promises,
        reservations: section.reservations,
        reserved: section.reserved.map(|reserved| reserved.value),
    };
    let mut displace_to = Vec::new();
    for name in section.displace_to.iter() {
        match classes.iter().position(|class| *class == name.value) {
            Some(at) => displace_to.push(at as u32),
            None if elsewhere.contains(&name.value) => {}
            None => {
                let listed: Vec<&str> = classes.iter().map(String::as_str).collect();
                diagnostics
                    .error(name.place, format!("there is no class `{}`", name.value))
                    .label("unknown class")
                    .help(suggest::help(&name.value, &listed));
            }
        }
    }
    for (at, user) in section.user.iter().enumerate() {
        let first = section.user[..at].iter().find(|first| first.value.uid.value == user.value.uid.value);
        if let Some(first) = first {
            diagnostics
                .error(user.value.uid.place, format!("user `{}` has bounds already", user.value.uid.value))
                .label("for the second time")
                .related(first.value.uid.place, "the first")
                .help("write all bounds of a user in one [[control.user]]");
        }
    }
    let of_user = |user: &Spanned<ControlUserSection>| {
        let user = &user.value;
        let own = Bounds {
            minimum: user.minimum.map_or(bounds.minimum, |minimum| minimum.value),
            preference: user.preference.unwrap_or(bounds.preference),
            promises: user.promises.unwrap_or(bounds.promises),
            reservations: user.reservations.unwrap_or(bounds.reservations),
            reserved: user.reserved.map(|reserved| reserved.value).or(bounds.reserved),
        };
        (user.uid.value.clone(), own)
    };
    Control {
        mode: section.mode.0,
        bounds,
        displace_to,
        lease: section.lease,
        users: section.user.iter().map(of_user).collect(),
        hook: section.hook.as_ref().map(|section| hook(section, diagnostics)),
    }
}

fn hook(hook: &HookSection, diagnostics: &mut Diagnostics) -> Hook {
    if !hook.program.starts_with('/') {
        diagnostics
            .error(hook.program.place, format!("`{}` is not a full path", hook.program.value))
            .label("a relative path depends on the working directory")
            .help("write for example program = \"/usr/local/bin/on-tidegate\"");
    }
    if !(1..=1_000).contains(&hook.rate.value) {
        diagnostics
            .error(hook.rate.place, format!("a program cannot be run {} times a second", hook.rate.value))
            .label("not between 1 and 1000")
            .help("write for example rate = 10");
    }
    for event in hook.events.iter().filter(|event| !EVENTS.contains(&event.value.as_str())) {
        diagnostics
            .error(event.place, format!("there is no event `{}`", event.value))
            .label("unknown event")
            .help(suggest::help(&event.value, &EVENTS));
    }
    Hook {
        program: PathBuf::from(&hook.program.value),
        events: hook.events.iter().map(|event| event.value.clone()).collect(),
        rate: hook.rate.value,
    }
}
