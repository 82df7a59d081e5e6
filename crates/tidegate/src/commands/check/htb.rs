//! The tree of an HTB file, with the sums of its rates, as a table and as JSON.

use std::cmp::Ordering;
use std::io::Write;

use serde_json::{Value, json};
use tidegate_config::discipline::htb::{HtbQueue, HtbRow};
use tidegate_core::Rate;
use tidegate_display::Table;

use super::branches::{Branch, branches};
use super::link_sharing::part;
use crate::output::{exact_rate, rate};

fn tree(htb: &HtbQueue) -> Vec<(Branch<'_>, HtbRow<'_>)> {
    let rows = htb.rows();
    let all: Vec<_> = rows.iter().map(|row| (row.name, row.parent)).collect();
    branches(&all)
        .into_iter()
        .filter_map(|branch| rows.iter().find(|row| row.name == branch.name).cloned().map(|row| (branch, row)))
        .collect()
}

/// Writes the tree, and for each class with children whether their rates fit into its own.
///
/// # Errors
/// When it cannot be written.
pub fn write(out: &mut dyn Write, htb: &HtbQueue, width: Option<usize>) -> std::io::Result<()> {
    let heads = ["class", ">prio", ">rate", ">of parent", ">at most", ">left", "queue"];
    let mut table = Table::new("", heads).optional(["left", "of parent", "queue", "prio"]).shorten("class", 16);
    let tree = tree(htb);
    let rate_of = |name: &str| tree.iter().find(|(_, row)| row.name == name).map(|(_, row)| row.rate);
    let default = htb.default.as_ref().map(|name| name.value.as_str());
    for (branch, row) in &tree {
        let is_default = if default == Some(row.name) { " (default)" } else { "" };
        let cells = [
            format!("{}{}{is_default}", branch.lines, row.name),
            if row.queue.is_some() { row.priority.to_string() } else { String::new() },
            rate(row.rate),
            row.parent.and_then(rate_of).map_or_else(String::new, |parent| part(row.rate, parent)),
            rate(row.ceil),
            row.promised.map_or_else(String::new, |promised| rate(row.rate.saturating_sub(promised))),
            row.queue.unwrap_or_default().to_owned(),
        ];
        table.row(cells.map(Into::into));
    }
    writeln!(out, "{}", table.text(width))?;
    for (_, parent) in &tree {
        let Some(promised) = parent.promised else { continue };
        let children = tree.iter().filter(|(_, row)| row.parent == Some(parent.name));
        let rates: Vec<String> = children.map(|(_, row)| exact_rate(row.rate)).collect();
        let outcome = match promised.cmp(&parent.rate) {
            Ordering::Less => format!("it fits, {} left over", exact_rate(parent.rate.saturating_sub(promised))),
            Ordering::Equal => "it fits, nothing left over".to_owned(),
            Ordering::Greater => {
                format!("it does NOT fit, {} too much", exact_rate(promised.saturating_sub(parent.rate)))
            }
        };
        let (name, rates) = (parent.name, rates.join(" + "));
        writeln!(
            out,
            "promised under `{name}`: {rates} = {} of {}: {outcome}",
            exact_rate(promised),
            exact_rate(parent.rate)
        )?;
    }
    if default.is_none() {
        writeln!(out, "no default: packets that no rule matches are dropped")?;
    }
    Ok(())
}

/// The tree as JSON.
pub fn json(htb: &HtbQueue) -> Value {
    let classes = tree(htb).into_iter().map(|(_, row)| {
        json!({
            "name": row.name,
            "parent": row.parent,
            "rate_bps": row.rate.as_bps(),
            "ceil_bps": row.ceil.as_bps(),
            "promised_bps": row.promised.map(Rate::as_bps),
            "priority": row.priority,
            "queue": row.queue,
        })
    });
    json!({ "classes": classes.collect::<Vec<_>>() })
}
