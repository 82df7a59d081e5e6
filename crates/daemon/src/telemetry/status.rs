//! `status`: the counts of every class, at most 20 ms old however many clients request it.

use std::time::{Duration, Instant};

use tidegate_control::calls::{ClassStatus, ControlStatus, DirectionStatus, PrivilegeStatus, Status};
use tidegate_control::own_namespace;
use tidegate_core::ClassId;
use tidegate_live::bypass::Bypass;
use tidegate_live::privileges::Privileges;
use tidegate_live::shaping::{LiveEngine, Shaping};
use tidegate_units::Span;

use super::observer::Health;
use super::reading::{ceilings, class_status, coupled, held, held_by, interfaces, shared_class};
use crate::directions::ShapedDirection;

/// The age up to which a reply is reused: the data path is interrupted at most this often.
const FRESH: Duration = Duration::from_millis(20);

/// The last reply of `status`.
#[derive(Debug, Default)]
pub(crate) struct StatusCache(Option<(Instant, u64, Vec<DirectionStatus>, Option<PrivilegeStatus>)>);

impl StatusCache {
    /// The counts of every direction, at most [`FRESH`] old and of the present classes; and the privileges, as old.
    fn read(&mut self, directions: &[ShapedDirection]) -> (Vec<DirectionStatus>, Option<PrivilegeStatus>) {
        let generation = directions.iter().map(ShapedDirection::generation).sum();
        match &self.0 {
            Some((time, of, known, privileges)) if time.elapsed() < FRESH && *of == generation => {
                (known.clone(), privileges.clone())
            }
            _ => {
                let (read, privileges): (Vec<_>, _) = (directions.iter().map(direction).collect(), privileges());
                self.0 = Some((Instant::now(), generation, read.clone(), privileges.clone()));
                (read, privileges)
            }
        }
    }

    /// Answers `status`.
    pub fn answer(
        &mut self,
        directions: &[ShapedDirection],
        health: &Health<'_>,
        file: String,
        trial: Option<Span>,
        control: ControlStatus,
    ) -> Status {
        let (directions, privileges) = self.read(directions);
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            network_namespace: own_namespace(),
            interface: health.interface.into(),
            file,
            uptime: health.uptime(),
            in_force: health.trouble.is_none(),
            trouble: health.trouble.map(Into::into),
            trial,
            privileges,
            directions,
            control,
        }
    }
}

/// Reads the privileges of this process from a few small files.
fn privileges() -> Option<PrivilegeStatus> {
    let Privileges { capabilities, bounding_set, no_new_privs, filtered } = Privileges::in_force().ok()?;
    let (capabilities, mut obtainable) = (capabilities.names(), bounding_set.names());
    obtainable.retain(|name| !capabilities.contains(name));
    Some(PrivilegeStatus { capabilities, obtainable, no_new_privs, filtered })
}

/// Without classes while there is no data path; `trouble` has the reason.
fn direction(direction: &ShapedDirection) -> DirectionStatus {
    let classes = direction.running().ok().and_then(|shaping| shaping.status().ok()).unwrap_or_default();
    let count = classes.len() as u32;
    let read = || {
        move |engine: &mut LiveEngine, now| {
            let shared: Vec<_> = engine.shared_classes(now).iter().map(|row| shared_class(row, now)).collect();
            let queues: Vec<_> = (0..count).map(|class| engine.coupled(ClassId(class), now)).collect();
            (engine.class_views(), shared, queues)
        }
    };
    let mut shards = direction.ask_each(read).unwrap_or_default().into_iter();
    // The shards have the rates in common, and each has queues of its own.
    let (views, shared_classes, mut queues) = shards.next().unwrap_or_default();
    for (.., of_shard) in shards {
        for (sum, one) in queues.iter_mut().zip(&of_shard) {
            if let (Some(sum), Some(one)) = (sum, one) {
                sum.add(one);
            }
        }
    }
    let classes = classes.iter().enumerate().map(|(n, status)| {
        let view = views.get(n);
        let (class, known) = (ClassId(n as u32), view.and_then(|view| view.held_by).map(held_by));
        ClassStatus {
            unpromised: view.map(|view| view.unpromised),
            held_by: held(&direction.config, class, known, status.counts.backlog.packets),
            ceilings: ceilings(&direction.config, class),
            coupled: queues.get(n).and_then(Option::as_ref).map(coupled),
            ..class_status(status)
        }
    });
    let classes = classes.collect();
    let follow = direction.following.clone();
    let rate = follow.as_ref().map(|follow| follow.allowed).or_else(|| direction.config.limit());
    let each = direction.interfaces_running();
    let unproven = each.iter().flat_map(|interface| {
        // With a single interface there is no need to name it.
        let name = if each.len() > 1 { format!("{} ", interface.name()) } else { String::new() };
        let awaited = interface.proof().awaited.iter();
        awaited.map(move |(version, reason)| format!("{name}{version}: {reason}"))
    });
    let (unproven, interfaces) = (unproven.collect(), interfaces(direction));
    let unshaped = direction.shaping().map_or(&[][..], Shaping::bypasses).iter().flat_map(Bypass::warnings).collect();
    let guardian = direction.guardian();
    let in_kernel = direction.shaping().and_then(|shaping| shaping.in_kernel()).map(str::to_owned);
    DirectionStatus {
        name: direction.name.clone(),
        rate,
        interfaces,
        unproven,
        unshaped,
        timed_rules: direction.timed_rules(),
        quotas: direction.quotas(),
        names: direction.named(),
        in_kernel,
        awaits_kernel: direction.shaping().is_some_and(Shaping::awaits_kernel),
        kernel_dropped_packets: direction.counts().map_or(0, |counts| counts.kernel_dropped()),
        classes,
        shared_classes,
        guardian,
        follow,
    }
}
