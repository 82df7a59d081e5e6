//! The tree of a CBQ file, as a table and as JSON.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate_config::discipline::cbq::CbqQueue;
use tidegate_core::Rate;
use tidegate_core::cbq::{Borrow, Class};
use tidegate_display::Table;

use super::branches::{Branch, branches};
use crate::output::rate;

/// A class with its parameters, in the order of the tree.
struct Row<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    /// The lines that draw its position in the tree.
    branch: String,
    class: Class,
    /// The part of its rate that is not allocated to children; `None` for a class with a queue.
    remaining: Option<Rate>,
    queue: Option<&'static str>,
}

/// The classes, parents first, and the part of the link's rate that is not allocated.
fn rows(cbq: &CbqQueue) -> (Vec<Row<'_>>, Rate) {
    let numbers = cbq.numbers();
    let classes: HashMap<_, _> = cbq.parameters().unwrap_or_default().into_iter().collect();
    let class = |name: &str| numbers.get(name).and_then(|id| classes.get(id)).copied();
    let children = |parent: Option<&str>| -> Vec<&str> {
        let under = |other: &Option<&str>| *other == parent;
        let all =
            cbq.class.iter().map(|class| (class.name.value.as_str(), class.parent.as_ref().map(|p| p.value.as_str())));
        all.filter(|(_, other)| under(other)).map(|(name, _)| name).collect()
    };
    let given = |parent| children(parent).into_iter().filter_map(class).map(|class| class.rate).sum::<Rate>();
    let reserved = cbq.reservations.as_ref().map(|section| section.class.value.as_str());
    let all: Vec<_> =
        cbq.class.iter().map(|class| (&*class.name.value, class.parent.as_ref().map(|p| &*p.value))).collect();
    let mut rows = Vec::new();
    for Branch { name, parent, lines } in branches(&all) {
        let Some(class) = class(name) else { continue };
        let section = cbq.class.iter().find(|section| section.name.value == name);
        let inner = reserved == Some(name) || !children(Some(name)).is_empty();
        rows.push(Row {
            name,
            parent,
            branch: lines,
            class,
            remaining: inner.then(|| class.rate.saturating_sub(given(Some(name)))),
            queue: match section.and_then(|section| section.queue.as_ref()) {
                Some(queue) => Some(queue.value.0.kind()),
                None => (!inner).then_some("fifo"),
            },
        });
    }
    (rows, cbq.link.value.saturating_sub(given(None)))
}

pub(super) fn part(rate: Rate, link: Rate) -> String {
    tidegate_display::part(rate.as_bps() as f64 / link.as_bps().max(1) as f64)
}

/// The tree as a table.
pub fn table(cbq: &CbqQueue) -> Table {
    let mut table = Table::new("", ["class", ">prio", ">rate", ">of link", ">left", "borrows", "queue"])
        .optional(["left", "queue", "borrows"])
        .shorten("class", 16);
    let (rows, remaining) = rows(cbq);
    let link = cbq.link.value;
    table.row(["link", "", &rate(link), "100 %", &rate(remaining)].map(Into::into));
    let default = cbq.default.as_ref().map(|name| name.value.as_str());
    for row in rows {
        let is_default = if default == Some(row.name) { " (default)" } else { "" };
        // The priority of a class without a queue has no effect.
        let priority = if row.queue.is_some() { row.class.priority.to_string() } else { String::new() };
        let row = [
            format!("{}{}{is_default}", row.branch, row.name),
            priority,
            rate(row.class.rate),
            part(row.class.rate, link),
            row.remaining.map_or_else(String::new, rate),
            if row.class.borrow == Borrow::FromParent { "yes" } else { "no" }.into(),
            row.queue.map_or_else(|| reserved(cbq, row.name), str::to_owned),
        ];
        table.row(row.map(Into::into));
    }
    table
}

fn reserved(cbq: &CbqQueue, name: &str) -> String {
    let section = cbq.reservations.as_ref().filter(|section| section.class.value == name);
    section.map_or_else(String::new, |section| format!("up to {} reservations", section.flows.value))
}

/// The tree as JSON.
pub fn json(cbq: &CbqQueue) -> Value {
    let (rows, remaining) = rows(cbq);
    let classes: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "parent": row.parent,
                "rate_bps": row.class.rate.as_bps(),
                "left_bps": row.remaining.map(Rate::as_bps),
                "priority": row.class.priority,
                "borrow": row.class.borrow == Borrow::FromParent,
                "queue": row.queue,
            })
        })
        .collect();
    json!({ "link_bps": cbq.link.value.as_bps(), "left_bps": remaining.as_bps(), "classes": classes })
}
