//! The columns of flows, classes and hosts, and which of them fit.

use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Cell, Row};
use tidegate_control::calls::FlowSort;

/// A column: its width, and its rank for omission on a narrow screen (the highest first).
pub struct Column {
    pub name: &'static str,
    width: usize,
    gives_way: u8,
    pub left: bool,
    /// The sort order of this column.
    sort: Option<FlowSort>,
}

const fn right(name: &'static str, width: usize, gives_way: u8) -> Column {
    Column { name, width, gives_way, left: false, sort: None }
}
const fn left(name: &'static str, width: usize, gives_way: u8) -> Column {
    Column { name, width, gives_way, left: true, sort: None }
}
const fn sorted(column: Column, sort: FlowSort) -> Column {
    Column { sort: Some(sort), ..column }
}

/// The flow column takes the remaining width.
pub const FLOWS: [Column; 17] = [
    left("program", 11, 1),
    left("flow", 21, 0),
    left("class", 10, 2),
    sorted(right("rate", 6, 0), FlowSort::Rate),
    right("share", 6, 3),
    right("lent", 5, 7),
    sorted(right("queue", 6, 4), FlowSort::Queue),
    right("p50", 7, 8),
    right("p90", 7, 14),
    sorted(right("p99", 7, 5), FlowSort::Delay),
    right("jitter", 7, 9),
    sorted(right("drops", 6, 6), FlowSort::Drops),
    right("marks", 6, 10),
    right("minimum", 7, 11),
    right("promise", 8, 12),
    sorted(right("sent", 6, 13), FlowSort::Bytes),
    left("rule", 24, 15),
];

pub const CLASSES: [Column; 15] = [
    left("class", 12, 0),
    right("rate", 6, 0),
    right("minute", 12, 7),
    right("promised", 8, 2),
    right("free", 6, 10),
    right("lent", 6, 3),
    right("flows", 6, 5),
    right("queue", 6, 4),
    right("p50", 7, 7),
    right("p90", 7, 12),
    right("p99", 7, 6),
    right("jitter", 7, 9),
    right("drops", 6, 8),
    right("marks", 6, 11),
    right("promise", 8, 1),
];

/// The columns of hosts, whose addresses have `address` characters at most.
pub const fn of_hosts(address: usize) -> [Column; 13] {
    [
        left("host", address, 0),
        left("name", 12, 2),
        right("up", 6, 0),
        right("%", 4, 2),
        right("down", 6, 0),
        right("%", 4, 2),
        right("flows", 5, 0),
        right("queue", 6, 4),
        right("p99", 7, 0),
        right("drops", 6, 1),
        right("sent", 6, 6),
        left("class", 10, 5),
        left("limited by", 10, 3),
    ]
}

/// The columns that fit into `width`, each with its width; the first wide one takes the rest. Those that `omitted` names by
/// number have nothing to show.
pub fn columns(width: u16, all: &[Column], omitted: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let width = usize::from(width);
    let mut chosen: Vec<usize> = (0..all.len()).filter(|&n| !omitted(n)).collect();
    let needed = |chosen: &[usize]| chosen.iter().map(|&n| all[n].width + 1).sum::<usize>().saturating_sub(1);
    while chosen.len() > 1 {
        let Some(worst) = chosen.iter().copied().max_by_key(|&n| all[n].gives_way) else { break };
        // Whole addresses have precedence over columns that few need, one whole address over most others.
        let room = match all[worst].gives_way {
            _ if all.iter().all(|column| column.name != "flow") => 0,
            9.. => 17,
            3.. => 7,
            _ => 0,
        };
        if needed(&chosen) + room <= width || all[worst].gives_way == 0 {
            break;
        }
        chosen.retain(|&n| n != worst);
    }
    let mut spare = width.saturating_sub(needed(&chosen));
    let mut result = Vec::new();
    for n in chosen {
        // No address pair is longer than this; the rest stays empty.
        let extra = if all[n].name == "flow" { spare.min(80) } else { 0 };
        spare -= extra;
        result.push((n, all[n].width + extra));
    }
    result
}

pub fn head(columns: &[(usize, usize)], all: &[Column], sort: FlowSort) -> Row<'static> {
    let cells = columns.iter().map(|&(n, width)| {
        let column = &all[n];
        let text = if column.left { column.name.to_owned() } else { format!("{:>width$}", column.name) };
        let cell = Cell::from(text);
        if column.sort == Some(sort) { cell.style(Style::new().fg(Color::Cyan).bold()) } else { cell }
    });
    Row::new(cells.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED))
}

/// Whether no row has a value in this column: a table on the screen has room for others.
pub fn is_empty<const N: usize>(rows: &[[String; N]], column: usize) -> bool {
    !rows.is_empty() && rows.iter().all(|row| matches!(row[column].as_str(), "" | "-"))
}
