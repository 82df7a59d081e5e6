//! The answer of each direction on the screen, and the colours with a meaning.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span as Words};
use tidegate_control::answer::kind::of_class;
use tidegate_control::answer::{Answer, Evidence, Grade, Traffic};
use tidegate_control::calls::{ClassObservation, DirectionObservation, Observation};

use super::lines_of;
use crate::output::wait;

/// The colours of classes, by the hues of the page: green, yellow and red of the terminal are those of grades.
const CLASSES: [Color; 8] = [
    Color::Indexed(33),
    Color::Indexed(202),
    Color::Indexed(35),
    Color::Indexed(142),
    Color::Indexed(99),
    Color::Indexed(147),
    Color::Indexed(133),
    Color::Indexed(131),
];

/// Returns the style of a grade; plain where there is none.
fn style(grade: Option<Grade>) -> Style {
    match grade {
        Some(Grade::Good) => Style::new().green(),
        Some(Grade::Fair) => Style::new().yellow(),
        Some(Grade::Poor) => Style::new().red().bold(),
        None => Style::new(),
    }
}

/// Returns the colour of a class, which is the same in both directions.
pub fn colour_of_class(seen: &Observation, name: &str) -> Color {
    let mut names: Vec<&str> = Vec::new();
    for class in seen.directions.iter().flat_map(|direction| &direction.classes) {
        if !names.contains(&class.name.as_str()) {
            names.push(&class.name);
        }
    }
    let place = names.iter().position(|known| *known == name).unwrap_or(0);
    CLASSES[place % CLASSES.len()]
}

/// Returns the names of the classes that the answer of a direction names: those where traffic waits, and those that it waits for.
pub fn classes_named(answer: &Answer) -> Vec<&str> {
    let waits = answer.traffic.iter().filter(|one| one.grade.is_some_and(|grade| grade < Grade::Good));
    let of_traffic =
        waits.flat_map(|one| [Some(one.class.as_str()), one.rival.as_ref().map(|rival| rival.class.as_str())]);
    of_traffic.flatten().chain(answer.held.iter().map(|held| held.class.as_str())).collect()
}

/// Returns the places of the `shown` classes of a direction that stand on the screen, in the order of the file. Classes of calls and games
/// that send are among them first, then those that the answer names or whose name states a kind of traffic with a bad grade.
pub fn classes_shown(direction: &DirectionObservation, shown: usize) -> Vec<usize> {
    let named = direction.answer.as_ref().map(classes_named).unwrap_or_default();
    let bad = |traffic: Traffic| {
        let of = direction.answer.iter().flat_map(|answer| &answer.traffic);
        of.into_iter().any(|one| one.traffic == traffic && one.grade.is_some_and(|grade| grade < Grade::Good))
    };
    let is_named =
        |class: &ClassObservation| named.contains(&class.name.as_str()) || of_class(&class.name).is_some_and(bad);
    let mut places: Vec<usize> = (0..direction.classes.len()).collect();
    let is_live =
        |class: &ClassObservation| !class.rate.is_zero() && of_class(&class.name).is_some_and(Traffic::is_live);
    places.sort_by_key(|&place| {
        let class = &direction.classes[place];
        (!is_live(class), !is_named(class), place)
    });
    places.truncate(shown);
    places.sort_unstable();
    places
}

/// Returns the style of the longest waits of a class, by the kind of traffic that its name states.
pub fn style_of_class(class: &ClassObservation) -> Style {
    let evidence = Evidence { wait: class.wait.p99, ..Evidence::default() };
    style(of_class(&class.name).and_then(|traffic| traffic.grade(&evidence)))
}

/// Returns the answers of all directions in lines of at most `width` characters; none while traffic passes unshaped.
pub fn lines(seen: &Observation, width: usize) -> Vec<Line<'static>> {
    let known = seen.directions.iter().filter_map(|one| Some((one.name.as_str(), one.answer.as_ref()?)));
    known.filter(|_| seen.in_force).flat_map(|(name, answer)| of_direction(name, answer, width)).collect()
}

fn of_direction(name: &str, answer: &Answer, width: usize) -> Vec<Line<'static>> {
    let mut words = vec![
        Words::styled(format!("{name}: "), Style::new().bold()),
        Words::styled(answer.word(), style(answer.grade).bold()),
        Words::raw("  "),
    ];
    let kinds = answer.traffic.iter().map(|one| (one.sentence(wait), style(one.grade)));
    let line = answer.line().map(|text| (text, Style::new()));
    // A word says that there is a ceiling where nothing has a grade; the sentence, of whom.
    let held = answer.held().map(|text| (text, Style::new()));
    let down = answer.down.iter().map(|text| (text.clone(), Style::new()));
    for (n, (text, style)) in down.chain(kinds).chain(held).chain(line).enumerate() {
        if n > 0 {
            words.push(Words::raw("; "));
        }
        words.push(Words::styled(text, style));
    }
    let line = Line::from(words);
    if line.width() <= width {
        return vec![line];
    }
    // Too long for colours: the sentence is broken between words.
    let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
    lines_of(&text, width, 3, style(answer.grade))
}
