//! The hosts behind a gateway: both directions of the flows of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Row, TableState};
use tidegate_control::calls::{FlowObservation, FlowSort, Observation};
use tidegate_report::Table;
use tidegate_units::{Rate, Span};

use super::columns::{columns, head, of_hosts};
use super::show::{rate, scaled, wait};
use crate::Failure;
use crate::output::width;

/// What the flows of one host have together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Host {
    pub address: String,
    /// Its name in the leases of dnsmasq or in /etc/hosts; empty if it has none.
    pub name: String,
    pub up: Rate,
    pub down: Rate,
    pub flows: usize,
    pub queue_bytes: u64,
    /// The longest of its flows' 99th percentiles.
    pub wait_p99: Span,
    pub dropped_packets: u64,
    pub sent_bytes: u64,
    /// The class of most of its rate, and by what its fastest flow is held: its share, or nothing while it takes less.
    pub class: String,
    pub limited: &'static str,
}

/// The names of hosts, from files of this machine.
pub fn names() -> BTreeMap<IpAddr, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut names = BTreeMap::new();
    for line in read("/etc/hosts").lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        if let (Some(Ok(address)), Some(name)) = (words.next().map(str::parse), words.next()) {
            names.insert(address, name.to_owned());
        }
    }
    for path in ["/var/lib/misc/dnsmasq.leases", "/tmp/dhcp.leases"] {
        names.extend(leases(&read(path)));
    }
    names
}

/// The leases of dnsmasq: expiry, hardware address, address, name, client; `*` is no name.
fn leases(text: &str) -> Vec<(IpAddr, String)> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.get(3).filter(|name| **name != "*")?;
        Some((words.get(2)?.parse().ok()?, (*name).to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// The hosts of the flows that are `wanted`, the fastest first. The host is the end of the flow on this side of the line: the
/// source of what goes up, the destination of what comes down.
pub fn hosts(
    seen: &Observation,
    names: &BTreeMap<IpAddr, String>,
    wanted: impl Fn(&FlowObservation) -> bool,
) -> Vec<Host> {
    let mut found: BTreeMap<IpAddr, (Host, u64)> = BTreeMap::new();
    for direction in &seen.directions {
        let is_down = direction.name.ends_with("down");
        for flow in direction.flows.iter().filter(|flow| wanted(flow)) {
            let Some(address) = (if is_down { flow.flow.destination } else { flow.flow.source }) else { continue };
            let (host, fastest) = found.entry(address).or_default();
            let sum = if is_down { &mut host.down } else { &mut host.up };
            *sum = Rate::from_bps(sum.as_bps().saturating_add(flow.rate.as_bps()));
            host.flows += 1;
            host.queue_bytes += flow.queue.bytes.as_u64();
            host.wait_p99 = host.wait_p99.max(flow.wait.p99);
            host.dropped_packets += flow.dropped_packets();
            host.sent_bytes += flow.sent_bytes.as_u64();
            if host.class.is_empty() || flow.rate.as_bps() > *fastest {
                *fastest = flow.rate.as_bps();
                host.class.clone_from(&flow.class);
                // A flow with a queue takes all that it is given.
                host.limited = if flow.queue.packets > 0 { "its share" } else { "itself" };
            }
        }
    }
    let named = |(address, (host, _)): (IpAddr, (Host, u64))| Host {
        name: names.get(&address).cloned().unwrap_or_default(),
        address: address.to_string(),
        ..host
    };
    let mut hosts: Vec<Host> = found.into_iter().map(named).collect();
    hosts.sort_by_key(|host| Reverse(host.up.as_bps().saturating_add(host.down.as_bps())));
    hosts
}

impl Host {
    fn cells(&self) -> [String; 11] {
        [
            self.address.clone(),
            if self.name.is_empty() { "-".into() } else { self.name.clone() },
            rate(self.up),
            rate(self.down),
            self.flows.to_string(),
            scaled(self.queue_bytes),
            wait(self.wait_p99),
            scaled(self.dropped_packets),
            scaled(self.sent_bytes),
            self.class.clone(),
            self.limited.to_owned(),
        ]
    }
}

/// The table for a pipe or a log.
pub fn table(out: &mut impl Write, hosts: &[Host]) -> Result<(), Failure> {
    let heads = of_hosts(ADDRESS).map(|column| format!("{}{}", if column.left { "" } else { ">" }, column.name));
    let mut table = Table::new("", heads.iter().map(String::as_str))
        .optional(["limited by", "sent", "class", "queue", "name"])
        .shorten("host", 15)
        .shorten("name", 8)
        .shorten("class", 8);
    for host in hosts {
        table.row(host.cells().map(Into::into));
    }
    write!(out, "{}", table.text(width()))?;
    Ok(())
}

/// The width of an IPv4 address.
const ADDRESS: usize = 15;

/// The table on the screen, with the host `selected` marked.
pub fn paint(frame: &mut Frame<'_>, area: Rect, hosts: &[Host], selected: Option<&String>, state: &mut TableState) {
    // IPv6 addresses are longer.
    let longest = hosts.iter().map(|host| host.address.len()).max().unwrap_or(0).clamp(ADDRESS, 39);
    let all = of_hosts(longest);
    let shown = columns(area.width, &all);
    let rows = hosts.iter().map(|host| {
        let cells = host.cells();
        let cells = shown.iter().map(|&(n, width)| {
            let text = tidegate_report::text::middle(&cells[n], width);
            Cell::from(if all[n].left { text } else { format!("{text:>width$}") })
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let widths = shown.iter().map(|&(_, width)| Constraint::Length(width as u16));
    state.select(selected.and_then(|address| hosts.iter().position(|host| host.address == *address)));
    let table = ratatui::widgets::Table::new(rows, widths)
        .column_spacing(1)
        .header(head(&shown, &all, FlowSort::Rate))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_have_names() {
        let text =
            "1700000000 aa:bb:cc:dd:ee:ff 192.168.1.7 laptop 01:aa\n1700000000 aa:bb:cc:dd:ee:f0 192.168.1.8 * *\n";
        assert_eq!(leases(text), [([192, 168, 1, 7].into(), "laptop".to_owned())]);
    }
}
