//! The keys that change the shaper, and how a change is shown before it is made.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Wrap};
use tidegate_control::calls::DirectionObservation;

use super::super::show::maybe;
use super::super::steer::{Goal, Planned, Steering};
use super::{Mode, View};

/// A change that is being entered or confirmed.
pub enum Change {
    /// The rate of one of `goals` is entered.
    Rate { goals: Vec<Goal>, at: usize, text: String },
    /// It is shown, and made on Enter.
    Shown(Planned),
}

impl View {
    /// Begins to set a rate: of the class of the selected flow, or of the first.
    pub fn begin_rate(&mut self) {
        let Some(direction) = self.seen.directions.get(self.direction) else { return };
        let promised = direction.classes.iter().filter(|class| class.promised.is_some());
        let mut goals: Vec<Goal> = promised.map(|class| Goal::Class(class.name.clone())).collect();
        goals.push(Goal::Line(if goals.is_empty() { "discipline" } else { "shaper" }));
        let class = self.selected_flow().map(|flow| Goal::Class(flow.class));
        let at = class.and_then(|class| goals.iter().position(|goal| *goal == class)).unwrap_or(0);
        self.change = Some(Change::Rate { goals, at, text: String::new() });
        self.mode = Mode::Change;
    }

    /// Shows the preference of the selected flow.
    pub fn begin_prefer(&mut self) {
        let direction = self.seen.directions.get(self.direction).map(|direction| direction.name.clone());
        let (Some(flow), Some(direction)) = (self.selected_flow(), direction) else {
            self.result = Some(Err("select a flow with the arrows first".into()));
            return;
        };
        let shares = |one: &DirectionObservation| one.classes.iter().any(|class| class.promised.is_some());
        if !self.seen.directions.get(self.direction).is_some_and(shares) {
            let why =
                "this discipline prefers no flows; a shaper file with [[class]] does, see `tidegate book changing`";
            self.result = Some(Err(why.into()));
            return;
        }
        self.change = Some(Change::Shown(Steering::prefer(&direction, &flow.flow)));
        self.mode = Mode::Change;
    }

    /// Takes the last change back.
    pub fn undo(&mut self) {
        self.result = Some(self.steering.undo());
    }

    /// A key while a change is entered or confirmed.
    pub fn change_key(&mut self, key: KeyCode) {
        self.mode = Mode::Table;
        let Some(mut change) = self.change.take() else { return };
        match (&mut change, key) {
            (_, KeyCode::Esc) => return,
            (Change::Rate { goals, at, text }, KeyCode::Enter) => {
                let direction = self.seen.directions.get(self.direction).map_or("", |direction| &direction.name);
                match self.steering.rate(direction, &goals[*at], text) {
                    Ok(planned) => change = Change::Shown(planned),
                    Err(error) => {
                        // The text is kept, so that it can be corrected.
                        self.result = Some(Err(error));
                    }
                }
            }
            (Change::Shown(planned), KeyCode::Enter) => {
                self.result = Some(self.steering.make(planned.clone()));
                return;
            }
            (Change::Shown(_), _) => {}
            (Change::Rate { goals, at, .. }, KeyCode::Down | KeyCode::Tab) => *at = (*at + 1) % goals.len(),
            (Change::Rate { goals, at, .. }, KeyCode::Up) => *at = (*at + goals.len() - 1) % goals.len(),
            (Change::Rate { text, .. }, KeyCode::Backspace) => drop(text.pop()),
            (Change::Rate { text, .. }, KeyCode::Char(c)) if text.len() < 20 => text.push(c),
            (Change::Rate { .. }, _) => {}
        }
        self.change = Some(change);
        self.mode = Mode::Change;
    }

    /// The change, in a box above the tables.
    pub fn paint_change(&self, frame: &mut Frame<'_>, area: Rect) {
        let direction = self.seen.directions.get(self.direction);
        let mut lines = match &self.change {
            None => return,
            Some(Change::Rate { goals, at, text }) => {
                let goal = &goals[*at];
                let now = match goal {
                    Goal::Line(_) => direction.and_then(|direction| direction.limit),
                    Goal::Class(name) => direction
                        .and_then(|direction| direction.classes.iter().find(|class| class.name == *name))
                        .and_then(|class| class.promised),
                };
                vec![
                    Line::from(format!("rate of {}, {} now: {text}_", goal.name(), maybe(now))),
                    Line::from(if goals.len() > 1 {
                        "such as 6mbit; up and down choose another class"
                    } else {
                        "such as 6mbit"
                    })
                    .dim(),
                    Line::from("enter shows what changes, esc leaves it").dim(),
                ]
            }
            Some(Change::Shown(planned)) => {
                let mut lines: Vec<_> = planned.lines.iter().map(|line| Line::from(line.as_str()).bold()).collect();
                lines.push(Line::from(planned.lasts()).dim());
                lines.push(Line::from("enter makes the change, esc leaves it; z takes it back later").dim());
                lines
            }
        };
        if let Some(Err(error)) = &self.result {
            lines.extend(error.lines().map(|line| Line::from(Words::styled(line, Style::new().red()))));
        }
        let widest = lines.iter().map(Line::width).max().unwrap_or(0) as u16;
        let (width, height) = ((widest + 4).min(area.width), (lines.len() as u16 + 2).min(area.height));
        let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
        frame.render_widget(Clear, place);
        let block = Block::bordered().title(" change ").padding(Padding::horizontal(1));
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), place);
    }
}
