//! The live view in the terminal.

use std::time::Duration;

use ratatui::crossterm::event::{self, KeyCode, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::testbed::{FlowNow, Moment};
use crate::Failure;

/// The terminal in raw mode. It is restored on drop.
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Switches the terminal to the view.
    pub fn open() -> Result<Self, Failure> {
        Ok(Self { terminal: ratatui::try_init()? })
    }

    /// Shows a sample. Returns `false` if the user wants to quit.
    pub fn draw(&mut self, moment: &Moment) -> Result<bool, Failure> {
        self.terminal.draw(|frame| paint(frame, moment))?;
        while event::poll(Duration::ZERO)? {
            if let event::Event::Key(key) = event::read()? {
                let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || interrupt {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn paint(frame: &mut Frame<'_>, moment: &Moment) {
    let [head, classes, flows, notes] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(moment.classes.len().max(1) as u16 + 3),
        Constraint::Length(moment.flows.len() as u16 + 3),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    paint_head(frame, head, moment);
    if moment.classes.is_empty() {
        let text = "nothing is shaped in this part: all flows meet in one queue in front of the wire";
        frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" classes ")), classes);
    } else {
        paint_classes(frame, classes, moment);
    }
    paint_flows(frame, flows, moment);
    let lines: Vec<Line<'_>> = moment.notes.iter().rev().map(|note| Line::raw(note.as_str())).collect();
    let block = Block::bordered().title(" what happened, latest first ");
    frame.render_widget(Paragraph::new(lines).block(block), notes);
}

fn paint_head(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let part = (moment.elapsed / moment.length.max(0.1)).clamp(0.0, 1.0);
    let colour = if moment.phase == "shaped" { Color::Green } else { Color::Yellow };
    let gauge = Gauge::default()
        .block(Block::bordered().title(" tidegate demo ").title_top(Line::raw(" q ends ").alignment(Alignment::Right)))
        .gauge_style(Style::new().fg(colour))
        .ratio(part)
        .label(format!("{}: {:.0} of {:.0} s", moment.phase, moment.elapsed, moment.length));
    frame.render_widget(gauge, area);
}

fn mbit(rate: f64) -> String {
    format!("{:7.2}", rate / 1e6)
}

fn bar(rate: f64, whole: f64) -> String {
    let cells = (rate / whole * 20.0).round().clamp(0.0, 30.0) as usize;
    "█".repeat(cells)
}

/// The rate that a flow should have: what it asks for, up to what it is promised. A call that has all it asks for has a whole bar,
/// however little that is.
fn due(flow: &FlowNow) -> f64 {
    match (flow.offered, flow.promised) {
        (Some(offered), Some(promised)) => offered.min(promised),
        (Some(one), None) | (None, Some(one)) => one,
        // An equal part of the wire for each of the ten flows.
        (None, None) => 1e7,
    }
    .max(1.0)
}

fn head(cells: &[&'static str]) -> Row<'static> {
    Row::new(cells.to_vec()).style(Style::new().add_modifier(Modifier::BOLD))
}

fn paint_classes(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let rows = moment.classes.iter().map(|class| {
        Row::new([
            class.name.clone(),
            class.promised.map_or(String::new(), mbit),
            mbit(class.rate),
            bar(class.rate, class.promised.unwrap_or(1e8)),
            format!("{:>8}", format!("{:.0} kB", class.queue.as_u64() as f64 / 1e3)),
            format!("{:7.2}", class.median_wait.as_nanos() as f64 / 1e6),
            format!("{:7.2}", class.long_wait.as_nanos() as f64 / 1e6),
            format!("{:6}", class.drops),
        ])
    });
    let widths = [12, 9, 9, 22, 9, 9, 9, 7].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(head(&["class", "promised", "   rate", "part of promise", "   queue", "p50 ms", "p99 ms", "drops"]))
        .block(Block::bordered().title(" classes, Mbit/s "));
    frame.render_widget(table, area);
}

fn paint_flows(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let rows = moment.flows.iter().map(|flow| {
        let ms = |nanos: Option<f64>| nanos.map_or("      -".into(), |nanos| format!("{:7.2}", nanos / 1e6));
        let row = Row::new([
            flow.name.clone(),
            flow.class.clone(),
            flow.promised.map_or(String::new(), mbit),
            mbit(flow.rate),
            bar(flow.rate, due(flow)),
            format!("{:>8}", format!("{:.0} kB", flow.queue.as_u64() as f64 / 1e3)),
            ms(flow.jitter),
            ms(flow.delay.map(|nanos| nanos as f64)),
            format!("{:6}", flow.drops),
        ]);
        match flow.class.as_str() {
            "premium" => row.magenta(),
            "assured" => row.cyan(),
            _ => row,
        }
    });
    let widths = [10, 12, 9, 9, 22, 9, 9, 9, 7].map(Constraint::Length);
    let names = ["flow", "class", "promised", "   rate", "part of its due", "   queue", " jitter", "p99 ms", "drops"];
    let table = Table::new(rows, widths).header(head(&names)).block(Block::bordered().title(" flows, Mbit/s "));
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Bytes;

    #[test]
    fn a_voice_that_has_all_it_asks_for_has_a_whole_bar() {
        let flow = |offered, promised, rate| FlowNow {
            name: String::new(),
            class: String::new(),
            promised,
            offered,
            rate,
            queue: Bytes::ZERO,
            jitter: None,
            delay: None,
            drops: 0,
        };
        let cells = |flow: &FlowNow| bar(flow.rate, due(flow)).chars().count();
        assert_eq!(cells(&flow(Some(5e5), Some(2e6), 5e5)), 20);
        // A greedy one has the whole of its promise, a transfer half of it.
        assert_eq!(cells(&flow(Some(14e6), Some(5e6), 5e6)), 20);
        assert_eq!(cells(&flow(None, Some(8e6), 4e6)), 10);
        assert_eq!(cells(&flow(Some(5e5), None, 2.5e5)), 10);
    }
}
