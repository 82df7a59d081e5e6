//! The keys, in a box above the tables.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

const HELP: &[&str] = &[
    "q, Esc     quit",
    "s, S       sort by the next, the last column that can be",
    "r b u w x n   by rate, bytes, queue, delay, drops, recent",
    "/          filter: address, port, class, rule, program, user",
    "g          hosts instead of flows; enter shows the flows of one",
    "f, space   freeze; again to go on",
    "d, Tab     the other direction",
    "up, down   select a flow, and see its drops by reason",
    "e          set the rate of a class, or of the line",
    "p          prefer the selected flow by one step",
    "z          take the last change back",
    "",
    "rates are in bit/s; share: its rate if all flows were backlogged",
    "lent: sent on rate that other classes did not use",
    "green, yellow, red: good, fair, poor for calls, games, web or bulk",
    "p50..p99: waits of the last seconds; jitter: RFC 3550",
    "last minute: a block is full at the greatest rate in it",
    "promise: kept, or seconds in which it was missed",
    "(user): you may not see which program it is",
    "",
    "any key closes this",
];

/// Shows the keys and what the columns mean.
pub fn paint(frame: &mut Frame<'_>, area: Rect) {
    let width = HELP.iter().map(|line| line.len()).max().unwrap_or(0) as u16 + 4;
    let (width, height) = (width.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), place);
}
