//! The hosts behind a gateway: both directions of the flows of each.

use std::io::Write;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::{Row, TableState};
use tidegate_control::calls::{FlowObservation, FlowSort, HostObservation, Observation, hosts};
use tidegate_display::{Table, bytes, count};
use tidegate_units::{Rate, Span};

use super::columns::{cell, columns, is_empty, of_hosts, table as on_screen};
use super::show::rate;
use crate::Failure;
use crate::output::wait;

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

/// The part of the line that `rate` takes.
fn part(rate: Rate, limit: Option<Rate>) -> String {
    let limit = limit.map(Rate::as_bps).filter(|limit| *limit > 0);
    limit.map_or("-".into(), |limit| tidegate_display::part(rate.as_bps() as f64 / limit as f64))
}

/// The limit of a host for a column of `width` characters: with the class that has the rate which it waits for.
fn limit(host: &HostObservation, width: usize) -> String {
    let whole = host.limit_text();
    match &host.rival {
        Some(rival) if whole.chars().count() > width => rival.short(),
        _ => whole,
    }
}

/// The width from which a column has room for a sentence.
const WIDE: usize = 130;

fn cells(host: &HostObservation, limits: [Option<Rate>; 2], room: usize) -> [String; 13] {
    let (up, down, both) = (&host.up, &host.down, host.both());
    [
        host.address.to_string(),
        host.name.clone().unwrap_or_else(|| "-".into()),
        rate(up.rate),
        part(up.rate, limits[0]),
        rate(down.rate),
        part(down.rate, limits[1]),
        both.flows.to_string(),
        bytes(both.queue_bytes.as_u64()),
        // A host whose flows are idle has no wait.
        if both.wait_p99 == Span::ZERO { "-".into() } else { wait(both.wait_p99) },
        count(both.dropped_packets),
        bytes(both.sent_bytes.as_u64()),
        host.class.clone(),
        limit(host, room),
    ]
}

/// The table for a terminal of `width` characters, or for a pipe or a log.
pub fn table(
    out: &mut impl Write,
    seen: &Observation,
    hosts: &[HostObservation],
    width: Option<usize>,
) -> Result<(), Failure> {
    let heads = of_hosts(ADDRESS).map(|column| format!("{}{}", if column.left { "" } else { ">" }, column.name));
    let mut table = Table::new("", heads.iter().map(String::as_str))
        .optional(["limited by", "sent", "class", "queue", "drops", "name", "%"])
        .shorten("host", 15)
        .shorten("name", 8)
        .shorten("class", 8);
    let room = if width.is_none_or(|width| width >= WIDE) { usize::MAX } else { 0 };
    for host in hosts {
        table.row(cells(host, seen.limits(), room).map(Into::into));
    }
    write!(out, "{}", table.text(width))?;
    Ok(())
}

/// The width of an IPv4 address.
const ADDRESS: usize = 15;

/// The table on the screen, with the host `selected` marked.
pub fn paint(
    frame: &mut Frame<'_>,
    area: Rect,
    seen: &Observation,
    hosts: &[HostObservation],
    selected: Option<&String>,
    state: &mut TableState,
) {
    // IPv6 addresses are longer.
    let longest = hosts.iter().map(|host| host.address.to_string().len()).max().unwrap_or(0).clamp(ADDRESS, 39);
    let all = of_hosts(longest);
    let rows: Vec<_> = hosts.iter().map(|host| cells(host, seen.limits(), 0)).collect();
    let shown = columns(area.width, &all, 0, |n| is_empty(&rows, n));
    let rows = rows.iter().zip(hosts).map(|(cells, host)| {
        let cells = shown.iter().map(|&(n, width)| {
            let text = if all[n].name == "limited by" { limit(host, width) } else { cells[n].clone() };
            cell(&all[n], &text, width)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    state.select(selected.and_then(|address| hosts.iter().position(|host| host.address.to_string() == *address)));
    frame.render_stateful_widget(on_screen(rows, &shown, &all, FlowSort::Rate), area, state);
}
