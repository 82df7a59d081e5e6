//! The interactive view: the screen and its keys.

mod answer;
mod help;
mod steering;

use std::sync::mpsc::Receiver;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Paragraph, Row, TableState};
use ratatui::{DefaultTerminal, Frame};
use tidegate_control::calls::{
    ClassObservation, DirectionObservation, FlowObservation, FlowSort, HostObservation, Observation,
};
use tidegate_control::view::{FlowQuantity, Shown};
use tidegate_display::wrapped;

use super::columns::{CLASSES, Column, FLOWS, cell, columns, is_empty, table};
use super::history::History;
use super::hosts;
use super::programs::{Names, Programs};
use super::show::{self, clock, rate};
use super::steer::Steering;
use super::{Update, newest};
use crate::Failure;
use crate::output::{shown as text_of, wait};
use steering::Change;

/// The longest time until a key or an update is handled.
const TICK: Duration = Duration::from_millis(100);

/// Shows `first` and the updates of `updates` until the user quits.
pub fn run(
    first: (Observation, Names),
    updates: &Receiver<Update>,
    programs: Programs,
    sort: FlowSort,
    filter: String,
    hosts: bool,
    steering: Steering,
) -> Result<(), Failure> {
    let mut screen = Screen { terminal: ratatui::try_init()? };
    let mut view = View { hosts, steering, ..View::new(first, programs, sort, filter) };
    loop {
        screen.terminal.draw(|frame| view.paint(frame))?;
        if event::poll(TICK)? {
            // Everything that arrived is handled, and drawn once.
            loop {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && view.key(key) == Next::End
                {
                    return Ok(());
                }
                if !event::poll(Duration::ZERO)? {
                    break;
                }
            }
        }
        view.take(newest(updates));
    }
}

/// The terminal in raw mode; restored on drop.
struct Screen {
    terminal: DefaultTerminal,
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    GoOn,
    End,
}

/// The part of the view that receives keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Table,
    Filter,
    Help,
    Change,
}

/// The state of the view.
struct View {
    seen: Observation,
    names: Names,
    programs: Programs,
    sort: FlowSort,
    filter: String,
    mode: Mode,
    /// Whether hosts are shown instead of flows.
    hosts: bool,
    history: History,
    steering: Steering,
    /// The change that is being entered or confirmed, and the result of the last one.
    change: Option<Change>,
    result: Option<Result<String, String>>,
    frozen: bool,
    lost: Option<String>,
    direction: usize,
    /// The key of the selected flow, so that it stays selected when the order changes.
    selected: Option<String>,
    state: TableState,
    /// The number of flow lines that fit, as of the last drawing.
    page: usize,
}

impl View {
    fn new((seen, names): (Observation, Names), programs: Programs, sort: FlowSort, filter: String) -> Self {
        let mut history = History::default();
        history.add(&seen);
        Self {
            direction: fullest(&seen),
            seen,
            names,
            hosts: false,
            history,
            steering: Steering::new(None),
            change: None,
            result: None,
            programs,
            sort,
            filter,
            mode: Mode::Table,
            frozen: false,
            lost: None,
            selected: None,
            state: TableState::default(),
            page: 1,
        }
    }

    fn take(&mut self, update: Option<Update>) {
        match update {
            Some(Update::Observation(seen)) => {
                self.lost = None;
                self.history.add(&seen.0);
                if !self.frozen {
                    (self.seen, self.names) = *seen;
                }
            }
            Some(Update::Lost(why)) => self.lost = Some(why),
            None => {}
        }
    }

    /// The flows of the direction shown, filtered and sorted.
    fn flows(&self) -> Vec<FlowObservation> {
        let Some(direction) = self.seen.directions.get(self.direction) else { return Vec::new() };
        let wanted = |flow: &FlowObservation| show::matches(flow, &self.names, &self.programs, &self.filter);
        let flows = direction.top_flows(self.sort, usize::MAX, wanted).into_iter().cloned().collect();
        // Who looks for something wants all that there is.
        if self.filter.is_empty() { show::live_first(flows) } else { flows }
    }

    /// The hosts that the daemon has observed; with a filter, those of the flows that pass it.
    fn hosts(&self) -> Vec<HostObservation> {
        hosts::of(&self.seen, &self.filter, |flow| show::matches(flow, &self.names, &self.programs, &self.filter))
    }

    fn key(&mut self, key: KeyEvent) -> Next {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Next::End;
        }
        match self.mode {
            Mode::Filter => match key.code {
                KeyCode::Enter => self.mode = Mode::Table,
                KeyCode::Esc => {
                    self.filter.clear();
                    self.mode = Mode::Table;
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if self.filter.len() < 60 => self.filter.push(c),
                _ => {}
            },
            Mode::Help => self.mode = Mode::Table,
            Mode::Change => {
                self.result = None;
                self.change_key(key.code);
            }
            Mode::Table => return self.command(key.code),
        }
        Next::GoOn
    }

    fn command(&mut self, key: KeyCode) -> Next {
        self.result = None;
        match key {
            KeyCode::Char('e') => self.begin_rate(),
            KeyCode::Char('p') if !self.hosts => self.begin_prefer(),
            KeyCode::Char('z') => self.undo(),
            KeyCode::Char('q') => return Next::End,
            KeyCode::Esc if self.filter.is_empty() && self.selected.is_none() => return Next::End,
            KeyCode::Esc => {
                self.filter.clear();
                self.selected = None;
            }
            KeyCode::Char('g') => {
                self.hosts = !self.hosts;
                self.selected = None;
            }
            // The flows of the host.
            KeyCode::Enter if self.hosts => {
                if let Some(address) = self.selected.take() {
                    self.filter = address;
                    self.hosts = false;
                }
            }
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('f') | KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char('s') | KeyCode::Right => self.turn(1),
            KeyCode::Char('S') | KeyCode::Left => self.turn(FlowSort::ALL.len() - 1),
            KeyCode::Char('r') => self.sort = FlowSort::Rate,
            KeyCode::Char('b') => self.sort = FlowSort::Bytes,
            KeyCode::Char('u') => self.sort = FlowSort::Queue,
            KeyCode::Char('w') => self.sort = FlowSort::Delay,
            KeyCode::Char('x') => self.sort = FlowSort::Drops,
            KeyCode::Char('n') => self.sort = FlowSort::Recent,
            KeyCode::Char('d') | KeyCode::Tab => {
                self.direction = (self.direction + 1) % self.seen.directions.len().max(1);
                self.selected = None;
            }
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(self.page as isize),
            KeyCode::PageUp => self.move_by(-(self.page as isize)),
            KeyCode::Home => self.move_by(isize::MIN / 2),
            KeyCode::End => self.move_by(isize::MAX / 2),
            _ => {}
        }
        Next::GoOn
    }

    /// The flow that is selected.
    fn selected_flow(&self) -> Option<FlowObservation> {
        let key = self.selected.as_ref().filter(|_| !self.hosts)?;
        self.flows().into_iter().find(|flow| flow.flow.key == *key)
    }

    fn turn(&mut self, by: usize) {
        let at = FlowSort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = FlowSort::ALL[(at + by) % FlowSort::ALL.len()];
    }

    fn move_by(&mut self, by: isize) {
        let keys: Vec<String> = match self.hosts {
            true => self.hosts().into_iter().map(|host| host.address.to_string()).collect(),
            false => self.flows().into_iter().map(|flow| flow.flow.key).collect(),
        };
        let at = keys.iter().position(|key| Some(key) == self.selected.as_ref());
        let to = match at {
            Some(at) => at.saturating_add_signed(by).min(keys.len().saturating_sub(1)),
            None if by > 1 => keys.len().saturating_sub(1).min(by.unsigned_abs()),
            None => 0,
        };
        self.selected = keys.into_iter().nth(to);
    }

    fn paint(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.direction = self.direction.min(self.seen.directions.len().saturating_sub(1));
        let Some(direction) = self.seen.directions.get(self.direction).cloned() else {
            frame.render_widget(Paragraph::new("nothing is shaped at the moment"), area);
            return;
        };
        // On a small screen there is no room for it.
        let answers = match area.height >= 16 && self.lost.is_none() {
            true => answer::lines(&self.seen, area.width.into()),
            // Without a reply nobody knows whether anything is shaped.
            false => vec![],
        };
        let head: Vec<_> = answers.into_iter().chain(self.head_lines(&direction, area.width.into())).collect();
        let foot = self.foot_lines(area.width.into());
        let list = if self.hosts { Vec::new() } else { self.flows() };
        // On a small screen the details are omitted first, then the classes.
        let details =
            if area.height >= 16 && !self.hosts { self.detail_lines(&list, area.width.into()) } else { vec![] };
        let most_details = if area.height >= 22 { 6 } else { 3 };
        let details_height = if details.is_empty() { 0 } else { details.len().clamp(3, most_details) as u16 };
        let taken = 7 + (head.len() + foot.len()) as u16 + details_height;
        let most = usize::from(area.height.saturating_sub(taken) / 2).max(1);
        // Where there is room the classes of both directions stand beside each other.
        let beside = area.width >= BESIDE && self.seen.directions.len() > 1;
        // Where lines would be empty they stand below each other.
        let all: usize = self.seen.directions.iter().map(|side| side.classes.len() + 2).sum();
        let rows = if self.hosts { self.hosts().len() } else { list.len() };
        let used = head.len() + foot.len() + usize::from(details_height) + all + rows + 1;
        let below_each_other = !beside && self.seen.directions.len() > 1 && used <= usize::from(area.height);
        let sides: Vec<&DirectionObservation> =
            if beside || below_each_other { self.seen.directions.iter().collect() } else { vec![&direction] };
        let shown = sides.iter().map(|side| side.classes.len()).max().unwrap_or(0).min(most);
        let height = if below_each_other { all as u16 } else { shown as u16 + 1 + u16::from(beside) };
        let [above, classes, flows, below, last] = Layout::vertical([
            Constraint::Length(head.len() as u16),
            Constraint::Length(height),
            Constraint::Min(2),
            Constraint::Length(details_height),
            Constraint::Length(foot.len() as u16),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(head), above);
        let places = match below_each_other {
            true => Layout::vertical(sides.iter().map(|side| Constraint::Length(side.classes.len() as u16 + 2))),
            false => Layout::horizontal(vec![Constraint::Fill(1); sides.len()]).spacing(3),
        };
        for (side, place) in sides.iter().zip(places.split(classes).iter()) {
            let place = if sides.len() > 1 { titled(frame, *place, &show::direction_word(&side.name)) } else { *place };
            let shown = if below_each_other { side.classes.len() } else { shown.min(side.classes.len()) };
            paint_classes(frame, place, &self.seen, side, shown, &self.history);
        }
        self.page = usize::from(flows.height.saturating_sub(1)).max(1);
        if self.hosts {
            hosts::paint(frame, flows, &self.seen, &self.hosts(), self.selected.as_ref(), &mut self.state);
        } else {
            self.paint_flows(frame, flows, &direction, &list);
            frame.render_widget(Paragraph::new(details), below);
        }
        frame.render_widget(Paragraph::new(foot), last);
        match self.mode {
            Mode::Help => help::paint(frame, area),
            Mode::Change => self.paint_change(frame, area),
            Mode::Table | Mode::Filter => {}
        }
    }

    /// The state of the line, with more facts where there is room, and below it the trouble.
    fn head_lines(&self, direction: &DirectionObservation, width: usize) -> Vec<Line<'static>> {
        if let Some(lost) = &self.lost {
            let text = format!(
                "{lost}; trying again. What stands below is the last that was heard, and traffic may pass unshaped: `tidegate status`"
            );
            return lines_of(&text, width, 3, Style::new().red().bold());
        }
        let frozen = if self.frozen { "  FROZEN" } else { "" };
        let mut text = show::headline(&self.seen, direction);
        for more in [show::flows(direction), format!("running for {}", clock(self.seen.uptime))] {
            if text.len() + 2 + more.len() + frozen.len() <= width {
                text = format!("{text}, {more}");
            }
        }
        let style = if self.seen.in_force { Style::new().bold() } else { Style::new().bold().red() };
        let mut lines = lines_of(&text, width.saturating_sub(frozen.len()), 2, style);
        if let Some(line) = lines.last_mut() {
            line.push_span(Words::styled(frozen, Style::new().yellow().bold()));
        }
        if let Some(each) = show::interfaces(direction) {
            lines.extend(lines_of(&each, width, 2, Style::new()));
        }
        let queues = show::coupled(direction, Some(width));
        lines.extend(queues.lines().map(|line| Line::from(line.to_owned())));
        if let Some(trouble) = &self.seen.trouble {
            lines.extend(lines_of(trouble, width, 3, Style::new().red()));
        }
        lines
    }

    fn paint_flows(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        direction: &DirectionObservation,
        flows: &[FlowObservation],
    ) {
        if !direction.table.counted {
            let text = show::uncounted(direction);
            frame.render_widget(Paragraph::new(wrapped(&text, Some(area.width.into()))), area);
            return;
        }
        let rows: Vec<[String; FLOWS.len()]> =
            flows.iter().map(|flow| FLOWS.each_ref().map(|column| self.cell(column, flow))).collect();
        // The class of all is in the table above.
        let omitted = |n: usize| is_empty(&rows, n) || (FLOWS[n].name == "class" && direction.classes.len() == 1);
        let (gateway, hosts) = (self.seen.is_gateway(), show::host_names(&self.seen));
        let whole = |flow: &FlowObservation| show::flow(&flow.flow, &direction.name, gateway, &hosts, usize::MAX);
        let longest = flows.iter().map(|flow| whole(flow).chars().count()).max().unwrap_or(0);
        let columns = columns(area.width, &FLOWS, longest, omitted);
        let at = flows.iter().position(|flow| Some(&flow.flow.key) == self.selected.as_ref());
        self.state.select(at);
        if at.is_none() {
            *self.state.offset_mut() = 0;
        }
        let rows = flows.iter().zip(rows).map(|(flow, texts)| {
            let cells = columns.iter().map(|&(n, width)| {
                let text = match FLOWS[n].name {
                    "flow" => show::flow(&flow.flow, &direction.name, gateway, &hosts, width),
                    _ => texts[n].clone(),
                };
                cell(&FLOWS[n], &text, width)
            });
            let row = Row::new(cells);
            if flow.is_idle() {
                row.style(Style::new().add_modifier(Modifier::DIM))
            } else if flow.promise().missed > 0 {
                row.style(Style::new().fg(Color::Yellow))
            } else {
                row
            }
        });
        let table = table(rows, &columns, &FLOWS, self.sort);
        frame.render_stateful_widget(table, area, &mut self.state);
    }

    fn cell(&self, column: &Column<FlowQuantity>, flow: &FlowObservation) -> String {
        match column.quantity {
            Some(quantity) => text_of(&flow.value(quantity)),
            None if column.name == "program" => show::owner(flow, &self.names, &self.programs),
            None => flow.flow.to_string(),
        }
    }

    /// The selected flow, or the drops of the classes.
    fn detail_lines(&self, flows: &[FlowObservation], width: usize) -> Vec<Line<'static>> {
        let selected = flows.iter().find(|flow| Some(&flow.flow.key) == self.selected.as_ref());
        let texts = match selected {
            None => {
                let drops = self.seen.directions.get(self.direction).map(|direction| {
                    let classes = direction.classes.iter().filter(|class| !class.dropped.is_empty());
                    let of = |class: &ClassObservation| {
                        let drops = class.dropped.iter().map(|drops| (drops.reason.as_str(), drops.packets));
                        format!("{}: {}", class.name, show::reasons(drops))
                    };
                    classes.map(of).collect::<Vec<_>>().join("; ")
                });
                let drops = drops.filter(|text| !text.is_empty()).unwrap_or_else(|| "none".into());
                let mut lines = lines_of(&format!("drops by reason: {drops}"), width, 5, Style::new());
                lines.push(Line::from("up and down select a flow").dim());
                return lines;
            }
            Some(flow) => {
                let program = self.names.get(&flow.flow.key);
                let program =
                    program.map_or("program not visible".into(), |(name, pid)| format!("{name}, process {pid}"));
                let user = flow.flow.uid.map_or("no owner".into(), |uid| format!("user {}", self.programs.user(uid)));
                let share = match flow.share {
                    Some(share) => {
                        format!("share {} of class {}", rate(share), text_of(&flow.value(FlowQuantity::Class)))
                    }
                    None => format!("class {}", text_of(&flow.value(FlowQuantity::Class))),
                };
                let minimum = flow.minimum.map_or("no minimum".into(), |minimum| {
                    let granted = if flow.granted { "granted" } else { "waits for room" };
                    format!(
                        "minimum {} {granted}, kept {} s, missed {} s",
                        rate(minimum),
                        flow.promise_kept_seconds,
                        flow.promise_missed_seconds
                    )
                });
                let mut queues = self.seen.directions.iter().flat_map(|direction| &direction.classes);
                let is_sanctioned = queues.any(|class| {
                    class.coupled.as_ref().is_some_and(|queues| queues.flows.iter().any(|one| one.key == flow.flow.key))
                });
                let sanction = if is_sanctioned { "; under sanction of queue protection" } else { "" };
                let drops = show::reasons(flow.dropped.iter().map(|drops| (drops.reason.as_str(), drops.packets)));
                vec![
                    format!("{}  {program}, {user}", flow.flow),
                    format!(
                        "{share}; {minimum}; {}; sent {} in {}",
                        flow.rule.as_ref().map_or("no rule".to_owned(), |rule| format!("rule {rule}")),
                        tidegate_display::bytes(flow.sent_bytes.as_u64()),
                        clock(flow.age)
                    ),
                    format!(
                        "wait p50 {} p90 {} p99 {} longest {}; drops: {drops}{sanction}",
                        wait(flow.wait.p50),
                        wait(flow.wait.p90),
                        wait(flow.wait.p99),
                        wait(flow.wait.longest),
                    ),
                ]
            }
        };
        texts.iter().flat_map(|text| lines_of(text, width, 3, Style::new())).collect()
    }

    /// The result of the last change, or the keys.
    fn foot_lines(&self, width: usize) -> Vec<Line<'static>> {
        if self.mode == Mode::Filter {
            return vec![Line::from(format!("filter: {}_   enter keeps it, esc drops it", self.filter)).yellow()];
        }
        if self.mode != Mode::Change
            && let Some(result) = &self.result
        {
            let (text, style) = match result {
                Ok(done) => (done, Style::new().green()),
                Err(error) => (error, Style::new().red()),
            };
            return text.lines().flat_map(|line| lines_of(line, width, 3, style)).take(4).collect();
        }
        let filter = if self.filter.is_empty() { "filter".into() } else { format!("filter: {}", self.filter) };
        let several = self.seen.directions.len() > 1;
        // The keys that are needed least come last.
        let keys = [
            ("s", Some(format!("sort: {}", self.sort)).filter(|_| !self.hosts)),
            ("g", Some(if self.hosts { "flows".into() } else { "hosts".into() })),
            ("enter", Some("its flows".into()).filter(|_| self.hosts)),
            ("d", Some("direction".into()).filter(|_| several && !self.hosts)),
            ("/", Some(filter)),
            ("e", Some("rate".into())),
            ("f", Some(if self.frozen { "go on".into() } else { "freeze".into() })),
            ("p", Some("prefer".into()).filter(|_| self.selected.is_some() && !self.hosts)),
        ];
        let (mut words, mut used) = (Vec::new(), "q quit  ? help".len());
        let key = |words: &mut Vec<Words<'static>>, key, what: String| {
            words.push(Words::styled(key, Style::new().bold()));
            words.push(Words::raw(format!(" {what}  ")));
        };
        key(&mut words, "q", "quit".into());
        for (name, what) in keys {
            let Some(what) = what else { continue };
            let needed = name.len() + what.chars().count() + 3;
            if used + needed <= width {
                key(&mut words, name, what);
                used += needed;
            }
        }
        key(&mut words, "?", "help".into());
        vec![Line::from(words)]
    }
}

/// `text` in lines of `width` characters, at most `most` of them.
fn lines_of(text: &str, width: usize, most: usize, style: Style) -> Vec<Line<'static>> {
    let wrapped = wrapped(text, Some(width));
    wrapped.lines().take(most).map(|line| Line::from(Words::styled(line.to_owned(), style))).collect()
}

/// The width from which the classes of several directions stand beside each other.
const BESIDE: u16 = 150;

/// The direction whose line is fullest, which is the one that people ask about; the first of equals.
fn fullest(seen: &Observation) -> usize {
    let permille = |n: &usize| (seen.directions[*n].used_part().unwrap_or(0.0) * 1e3) as u64;
    (0..seen.directions.len()).rev().max_by_key(permille).unwrap_or(0)
}

/// Writes `title` into the first line of `area`, and returns the rest.
fn titled(frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let [first, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(title.to_owned()).bold()), first);
    rest
}

fn paint_classes(
    frame: &mut Frame<'_>,
    area: Rect,
    seen: &Observation,
    direction: &DirectionObservation,
    shown: usize,
    history: &History,
) {
    let texts = |class: &ClassObservation| {
        // The minute is drawn when its width is known.
        CLASSES.each_ref().map(|column| column.quantity.map_or("minute".into(), |q| text_of(&class.value(q))))
    };
    let rows: Vec<_> = direction.classes.iter().map(texts).collect();
    let columns = columns(area.width, &CLASSES, 0, |n| is_empty(&rows, n));
    let places = answer::classes_shown(direction, shown);
    let rows = places.iter().enumerate().map(|(at, &place)| {
        let (class, texts) = (&direction.classes[place], &rows[place]);
        let cells = columns.iter().map(|&(n, width)| {
            // The last line represents all classes that do not fit.
            let more = at + 1 == shown && shown < direction.classes.len();
            let text = match CLASSES[n].name {
                "class" if more => format!("{} +{}", class.name, direction.classes.len() - shown),
                "last minute" => history.line(&direction.name, &class.name, width),
                _ => texts[n].clone(),
            };
            cell(&CLASSES[n], &text, width).style(match CLASSES[n].name {
                "class" | "last minute" => Style::new().fg(answer::colour_of_class(seen, &class.name)),
                "p99" => answer::style_of_class(class),
                _ => Style::new(),
            })
        });
        let row = Row::new(cells.collect::<Vec<_>>());
        if class.promise().missed > 0 { row.style(Style::new().fg(Color::Yellow)) } else { row }
    });
    frame.render_widget(table(rows, &columns, &CLASSES, FlowSort::Recent), area);
}

#[cfg(test)]
mod tests;
