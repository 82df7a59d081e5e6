//! The columns of flows, classes and hosts, and which of them fit.

use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Cell, Row};
use tidegate_control::calls::FlowSort;
use tidegate_control::view::{ClassQuantity, FlowQuantity};

/// A column: its width, and its rank for omission on a narrow screen (the highest first).
pub struct Column<Q> {
    pub name: &'static str,
    width: usize,
    gives_way: u8,
    pub left: bool,
    /// The sort order of this column.
    sort: Option<FlowSort>,
    /// The quantity in it; none where the view makes its text.
    pub quantity: Option<Q>,
}

const fn right<Q: Copy>(name: &'static str, width: usize, gives_way: u8, quantity: Q) -> Column<Q> {
    Column { name, width, gives_way, left: false, sort: None, quantity: Some(quantity) }
}
const fn left<Q: Copy>(name: &'static str, width: usize, gives_way: u8, quantity: Option<Q>) -> Column<Q> {
    Column { name, width, gives_way, left: true, sort: None, quantity }
}
const fn sorted<Q: Copy>(column: Column<Q>, sort: FlowSort) -> Column<Q> {
    Column { sort: Some(sort), ..column }
}

/// The flow column takes the remaining width.
pub const FLOWS: [Column<FlowQuantity>; 18] = [
    left("program", 11, 1, None),
    left("flow", 21, 0, None),
    left("class", 10, 2, Some(FlowQuantity::Class)),
    sorted(right("rate", 6, 0, FlowQuantity::Rate), FlowSort::Rate),
    right("share", 6, 3, FlowQuantity::Share),
    right("lent", 5, 7, FlowQuantity::Borrowed),
    sorted(right("queue", 6, 4, FlowQuantity::Queue), FlowSort::Queue),
    left("held by", 12, 9, Some(FlowQuantity::HeldBy)),
    right("p50", 7, 8, FlowQuantity::WaitP50),
    right("p90", 7, 14, FlowQuantity::WaitP90),
    sorted(right("p99", 7, 5, FlowQuantity::WaitP99), FlowSort::Delay),
    right("jitter", 7, 9, FlowQuantity::Jitter),
    sorted(right("drops", 6, 6, FlowQuantity::Dropped), FlowSort::Drops),
    right("marks", 6, 10, FlowQuantity::Marked),
    right("minimum", 7, 11, FlowQuantity::Minimum),
    right("promise", 8, 12, FlowQuantity::Promise),
    sorted(right("sent", 6, 13, FlowQuantity::SentBytes), FlowSort::Bytes),
    left("rule", 24, 15, Some(FlowQuantity::Rule)),
];

pub const CLASSES: [Column<ClassQuantity>; 16] = [
    left("class", 12, 0, Some(ClassQuantity::Name)),
    right("rate", 6, 0, ClassQuantity::Rate),
    Column { left: false, ..left("minute", 12, 7, None) },
    right("promised", 8, 2, ClassQuantity::Promised),
    right("free", 6, 10, ClassQuantity::Unpromised),
    right("lent", 6, 3, ClassQuantity::Borrowed),
    right("flows", 6, 5, ClassQuantity::Flows),
    right("queue", 6, 4, ClassQuantity::Queue),
    left("held by", 12, 3, Some(ClassQuantity::HeldBy)),
    right("p50", 7, 7, ClassQuantity::WaitP50),
    right("p90", 7, 12, ClassQuantity::WaitP90),
    right("p99", 7, 6, ClassQuantity::WaitP99),
    right("jitter", 7, 9, ClassQuantity::Jitter),
    right("drops", 6, 8, ClassQuantity::Dropped),
    right("marks", 6, 11, ClassQuantity::Marked),
    right("promise", 8, 1, ClassQuantity::Promise),
];

/// The columns of hosts, whose addresses have `address` characters at most.
pub const fn of_hosts(address: usize) -> [Column<()>; 13] {
    [
        left("host", address, 0, None),
        left("name", 12, 2, None),
        right("up", 6, 0, ()),
        right("%", 4, 2, ()),
        right("down", 6, 0, ()),
        right("%", 4, 2, ()),
        right("flows", 5, 0, ()),
        right("queue", 6, 4, ()),
        right("p99", 7, 0, ()),
        right("drops", 6, 1, ()),
        right("sent", 6, 6, ()),
        left("class", 10, 5, None),
        left("limited by", 10, 3, None),
    ]
}

/// The columns that fit into `width`, each with its width; the first wide one takes the rest. Those that `omitted` names by
/// number have nothing to show.
pub fn columns<Q>(width: u16, all: &[Column<Q>], omitted: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
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

pub fn head<Q>(columns: &[(usize, usize)], all: &[Column<Q>], sort: FlowSort) -> Row<'static> {
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
