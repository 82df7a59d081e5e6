//! The hosts behind a gateway: both directions of the flows of each.

use std::io::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Row, TableState};
use tidegate_control::calls::{FlowObservation, FlowSort, HostObservation, Observation, hosts};
use tidegate_report::Table;

use super::columns::{columns, head, of_hosts};
use super::show::{rate, scaled, wait};
use crate::Failure;
use crate::output::width;

/// The hosts of `seen`, the fastest first; with a `filter`, those of the flows that are `wanted`.
pub fn of(seen: &Observation, filter: &str, wanted: impl Fn(&FlowObservation) -> bool) -> Vec<HostObservation> {
    // A daemon that reports no hosts is older.
    if filter.is_empty() && !seen.hosts.is_empty() {
        return seen.hosts.clone();
    }
    let mut found = hosts(&seen.directions, wanted);
    for host in &mut found {
        let known = seen.hosts.iter().find(|known| known.address == host.address);
        host.name = known.and_then(|known| known.name.clone());
    }
    found
}

fn cells(host: &HostObservation) -> [String; 11] {
    let (up, down) = (&host.up, &host.down);
    [
        host.address.to_string(),
        host.name.clone().unwrap_or_else(|| "-".into()),
        rate(up.rate),
        rate(down.rate),
        (up.flows + down.flows).to_string(),
        scaled(up.queue_bytes.as_u64() + down.queue_bytes.as_u64()),
        wait(up.wait_p99.max(down.wait_p99)),
        scaled(up.dropped_packets + down.dropped_packets),
        scaled(up.sent_bytes.as_u64() + down.sent_bytes.as_u64()),
        host.class.clone(),
        host.limited_by.text().to_owned(),
    ]
}

/// The table for a pipe or a log.
pub fn table(out: &mut impl Write, hosts: &[HostObservation]) -> Result<(), Failure> {
    let heads = of_hosts(ADDRESS).map(|column| format!("{}{}", if column.left { "" } else { ">" }, column.name));
    let mut table = Table::new("", heads.iter().map(String::as_str))
        .optional(["limited by", "sent", "class", "queue", "name"])
        .shorten("host", 15)
        .shorten("name", 8)
        .shorten("class", 8);
    for host in hosts {
        table.row(cells(host).map(Into::into));
    }
    write!(out, "{}", table.text(width()))?;
    Ok(())
}

/// The width of an IPv4 address.
const ADDRESS: usize = 15;

/// The table on the screen, with the host `selected` marked.
pub fn paint(
    frame: &mut Frame<'_>,
    area: Rect,
    hosts: &[HostObservation],
    selected: Option<&String>,
    state: &mut TableState,
) {
    // IPv6 addresses are longer.
    let longest = hosts.iter().map(|host| host.address.to_string().len()).max().unwrap_or(0).clamp(ADDRESS, 39);
    let all = of_hosts(longest);
    let shown = columns(area.width, &all);
    let rows = hosts.iter().map(|host| {
        let cells = cells(host);
        let cells = shown.iter().map(|&(n, width)| {
            let text = tidegate_report::text::middle(&cells[n], width);
            Cell::from(if all[n].left { text } else { format!("{text:>width$}") })
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let widths = shown.iter().map(|&(_, width)| Constraint::Length(width as u16));
    state.select(selected.and_then(|address| hosts.iter().position(|host| host.address.to_string() == *address)));
    let table = ratatui::widgets::Table::new(rows, widths)
        .column_spacing(1)
        .header(head(&shown, &all, FlowSort::Rate))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, state);
}
