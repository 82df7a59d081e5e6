//! The columns of flows, classes and hosts, and which of them fit.

use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Cell, Row, Table};
use tidegate_control::calls::FlowSort;
use tidegate_control::view::{ClassQuantity, FlowQuantity};
use tidegate_display::middle;

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
    sorted(right("rate", RATE, 0, FlowQuantity::Rate), FlowSort::Rate),
    right("share", RATE, 5, FlowQuantity::Share),
    right("lent", 5, 7, FlowQuantity::Borrowed),
    sorted(right("queue", SIZE, 4, FlowQuantity::Queue), FlowSort::Queue),
    left("held by", 12, 9, Some(FlowQuantity::HeldBy)),
    right("p50", WAIT, 8, FlowQuantity::WaitP50),
    right("p90", WAIT, 14, FlowQuantity::WaitP90),
    sorted(right("p99", WAIT, 3, FlowQuantity::WaitP99), FlowSort::Delay),
    right("jitter", WAIT, 9, FlowQuantity::Jitter),
    sorted(right("drops", 6, 6, FlowQuantity::Dropped), FlowSort::Drops),
    right("marks", 6, 10, FlowQuantity::Marked),
    right("minimum", RATE, 11, FlowQuantity::Minimum),
    right("promise", 8, 12, FlowQuantity::Promise),
    sorted(right("sent", SIZE, 13, FlowQuantity::SentBytes), FlowSort::Bytes),
    left("rule", 24, 15, Some(FlowQuantity::Rule)),
];

/// The widths of `19.0 Mbit/s`, `45.2 kB` and `3.21 ms`.
const RATE: usize = 11;
const SIZE: usize = 7;
const WAIT: usize = 7;

pub const CLASSES: [Column<ClassQuantity>; 19] = [
    left("class", 12, 0, Some(ClassQuantity::Name)),
    right("rate", RATE, 0, ClassQuantity::Rate),
    left("last minute", 12, 2, None),
    right("promised", RATE, 3, ClassQuantity::Promised),
    right("at-most", RATE, 4, ClassQuantity::AtMost),
    right("host-at-most", RATE + 1, 5, ClassQuantity::HostAtMost),
    right("flow-at-most", RATE + 1, 5, ClassQuantity::FlowAtMost),
    right("free", RATE, 10, ClassQuantity::Unpromised),
    right("lent", RATE, 8, ClassQuantity::Borrowed),
    right("flows", 6, 6, ClassQuantity::Flows),
    right("queue", SIZE, 4, ClassQuantity::Queue),
    left("held by", 12, 3, Some(ClassQuantity::HeldBy)),
    right("p50", WAIT, 7, ClassQuantity::WaitP50),
    right("p90", WAIT, 12, ClassQuantity::WaitP90),
    right("p99", WAIT, 2, ClassQuantity::WaitP99),
    right("jitter", WAIT, 9, ClassQuantity::Jitter),
    right("drops", 6, 5, ClassQuantity::Dropped),
    right("marks", 6, 11, ClassQuantity::Marked),
    right("promise", 8, 1, ClassQuantity::Promise),
];

/// The columns of hosts, whose addresses have `address` characters at most.
pub const fn of_hosts(address: usize) -> [Column<()>; 13] {
    [
        left("host", address, 0, None),
        left("name", 12, 2, None),
        right("up", RATE, 0, ()),
        right("%", 5, 2, ()),
        right("down", RATE, 0, ()),
        right("%", 5, 2, ()),
        right("flows", 5, 4, ()),
        right("queue", SIZE, 4, ()),
        right("p99", WAIT, 1, ()),
        right("drops", 6, 3, ()),
        right("sent", SIZE, 6, ()),
        left("class", 10, 5, None),
        left("limited by", 13, 3, None),
    ]
}

/// The width from which the last minute of a class is drawn with its greatest rate.
pub const MINUTE: usize = 28;

/// The columns that fit into `width`, each with its width; those of flows, whose longest text has
/// `longest` characters, and of the last minute take what they can use of the rest, and all share what is left. Those that `omitted` names by number have nothing to show.
pub fn columns<Q>(
    width: u16,
    all: &[Column<Q>],
    longest: usize,
    omitted: impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let width = usize::from(width);
    let mut chosen: Vec<usize> = (0..all.len()).filter(|&n| !omitted(n)).collect();
    let needed = |chosen: &[usize]| chosen.iter().map(|&n| all[n].width + 1).sum::<usize>().saturating_sub(1);
    while chosen.len() > 1 {
        let Some(worst) = chosen.iter().copied().max_by_key(|&n| all[n].gives_way) else { break };
        // Whole addresses have precedence over columns that few need, one whole address over most others.
        let room = match all[worst].gives_way {
            // A minute with its greatest rate has precedence over columns that few need, too.
            6.. if all.iter().any(|column| column.name == "last minute") => MINUTE - 12,
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
    let mut widths: Vec<(usize, usize)> = chosen.iter().map(|&n| (n, all[n].width)).collect();
    // A minute has 60 seconds, beside which its greatest rate stands.
    for (name, most) in [("flow", longest), ("last minute", 60 + MINUTE - 12)] {
        for (n, width) in widths.iter_mut().filter(|(n, _)| all[*n].name == name) {
            let extra = spare.min(most - all[*n].width.min(most));
            (*width, spare) = (*width + extra, spare - extra);
        }
    }
    // The rest is shared, so that a table is as wide as its screen.
    let (each, more) = (spare / widths.len().max(1), spare % widths.len().max(1));
    for (place, (_, width)) in widths.iter_mut().enumerate() {
        *width += each + usize::from(place < more);
    }
    widths
}

/// A text in a column of so many characters, without its middle if it is longer.
pub fn cell<Q>(column: &Column<Q>, text: &str, width: usize) -> Cell<'static> {
    let text = middle(text, width);
    Cell::from(if column.left { text } else { format!("{text:>width$}") })
}

/// The table of rows whose cells are in these columns, with the one that is sorted by in another colour.
pub fn table<'a, Q>(
    rows: impl IntoIterator<Item = Row<'a>>,
    columns: &[(usize, usize)],
    all: &[Column<Q>],
    sort: FlowSort,
) -> Table<'a> {
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width as u16));
    Table::new(rows, widths)
        .column_spacing(1)
        .header(head(columns, all, sort))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

fn head<Q>(columns: &[(usize, usize)], all: &[Column<Q>], sort: FlowSort) -> Row<'static> {
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
