//! [`Report::html`]: the report as one HTML file that needs no network.
//!
//! The file contains text and tables as HTML, readable without a script, the points of the plots as JSON, and uPlot
//! with a few hundred lines of script, which draw them. A content security policy forbids loading anything, so a page
//! that needed something from outside would not work for its author either.

use std::fmt::Write as _;

use crate::columns;
use crate::comparison::{Comparison, Group};
use crate::decimate::decimate;
use crate::drawing::Drawing;
use crate::look::{Form, Look};
use crate::model::{Axis, Curve, Fold, Panels, Part, Plot, Report, Scale, Section, Style};
use crate::number::exact;
use crate::palette::{Pen, Pens};
use tidegate_display::escape;
use tidegate_display::{Align, Mood, Table, assets, human};

/// The maximum number of points of a curve on the page: four for each of a thousand steps, which are more than the
/// curve has columns of pixels on a wide screen.
const POINTS: usize = 4_000;

/// A column with a cell of more characters than this has a minimum width.
const LONG: usize = 30;

const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");

/// Formats a JSON string that is safe inside a script element.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push(&mut out, format_args!("\\u{:04x}", c as u32)),
            c if (c as u32) < 0x20 => push(&mut out, format_args!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Appends formatted text. Writing to a string cannot fail.
fn push(to: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = to.write_fmt(text);
}

impl Report {
    /// Formats the report as one HTML file, which contains no URL and loads nothing.
    pub fn html(&self) -> String {
        let mut page = String::new();
        self.head(&mut page);
        self.contents(&mut page);
        let mut plots = Vec::new();
        let pens = self.pens();
        for (n, section) in self.sections.iter().enumerate() {
            section.html(n, &mut page, &mut plots, (&pens, &self.primary));
        }
        self.configuration(&mut page);
        page.push_str("</main>\n");
        scripts(&plots, &pens, &mut page);
        page
    }

    /// Writes the head of the file and the title, sentence and facts of the page.
    fn head(&self, page: &mut String) {
        let title = escape(&self.title);
        push(
            page,
            format_args!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
                 script-src 'unsafe-inline'; img-src data:\">\n\
                 <meta name=\"generator\" content=\"Tidegate {}\">\n<title>{title}</title>\n\
                 <style>\n{}\n{}\n{CSS}</style>\n</head>\n<body>\n",
                env!("CARGO_PKG_VERSION"),
                assets::THEME_CSS,
                assets::UPLOT_CSS,
            ),
        );
        push(page, format_args!("<a class=\"skip\" href=\"#main\">To the contents</a>\n<header>\n<h1>{title}</h1>\n"));
        if let Some(sentence) = &self.sentence {
            push(page, format_args!("<p class=\"sentence\">{}</p>\n", escape(sentence)));
        }
        if !self.facts.is_empty() {
            page.push_str("<dl class=\"facts\">\n");
            for (name, value) in &self.facts {
                push(page, format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value)));
            }
            page.push_str("</dl>\n");
        }
        page.push_str("</header>\n");
    }

    /// Writes the list of sections. Consecutive sections of one subject, such as `Seed 1: Rates`, have one entry.
    fn contents(&self, page: &mut String) {
        page.push_str("<nav aria-label=\"Contents\">\n<ul class=\"scroll\">\n");
        let subject = |section: &Section| section.title.split_once(": ").map(|(subject, _)| subject.to_owned());
        let mut before = None;
        for (n, section) in self.sections.iter().enumerate() {
            let subject = subject(section);
            if subject.is_none() || subject != before {
                let name = subject.as_ref().unwrap_or(&section.title);
                push(page, format_args!("<li><a href=\"#s{n}\">{}</a></li>\n", escape(name)));
            }
            before = subject;
        }
        if !self.sources.is_empty() {
            page.push_str("<li><a href=\"#sources\">Configuration</a></li>\n");
        }
        page.push_str(
            "</ul>\n<button type=\"button\" id=\"theme\" hidden>Colours: as the system</button>\n</nav>\n\
             <main id=\"main\">\n<noscript><p class=\"note\">Plots need a script, which is in this file. Tables and the \
             summary of each plot can be read without it.</p></noscript>\n",
        );
    }

    /// Writes the files from which the run can be repeated.
    fn configuration(&self, page: &mut String) {
        if !self.sources.is_empty() {
            page.push_str("<section id=\"sources\">\n<h2>Configuration</h2>\n");
            for source in &self.sources {
                push(
                    page,
                    format_args!(
                        "<details class=\"source\"><summary>{}</summary>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
                        escape(&source.name),
                        escape(&source.text)
                    ),
                );
            }
            page.push_str("</section>\n");
        }
    }
}

/// Writes the footer, the points of the plots as JSON, and the scripts that draw them.
fn scripts(plots: &[&Plot], pens: &Pens, page: &mut String) {
    page.push_str("<footer>\n");
    push(
        page,
        format_args!(
            "<p>Written by Tidegate {}. Plots are drawn by uPlot {}, which is in this file.</p>\n\
             <details><summary>Licence of uPlot</summary><pre>{}</pre></details>\n</footer>\n",
            env!("CARGO_PKG_VERSION"),
            assets::UPLOT_VERSION,
            escape(assets::UPLOT_LICENCE)
        ),
    );
    page.push_str("<script type=\"application/json\" id=\"data\">[");
    for (n, plot) in plots.iter().enumerate() {
        page.push_str(if n == 0 { "\n" } else { ",\n" });
        data(plot, &plot.pens(pens), page);
    }
    page.push_str("\n]</script>\n");
    if !plots.is_empty() {
        push(
            page,
            format_args!(
                "<script>\n/* uPlot {}, MIT licence, see the foot of the page */\n{}</script>\n",
                assets::UPLOT_VERSION,
                assets::uplot_js_without_address()
            ),
        );
    }
    push(page, format_args!("<script>\n{JS}</script>\n</body>\n</html>\n"));
}

impl Section {
    fn html<'a>(&'a self, n: usize, page: &mut String, plots: &mut Vec<&'a Plot>, (pens, primary): (&Pens, &[String])) {
        let title = escape(&self.title);
        match self.fold {
            Fold::Open => push(page, format_args!("<section id=\"s{n}\">\n<h2>{title}</h2>\n")),
            Fold::Closed => {
                push(page, format_args!("<details class=\"section\" id=\"s{n}\"><summary><h2>{title}</h2></summary>\n"))
            }
        }
        if let Some(note) = &self.note {
            push(page, format_args!("<p class=\"note\">{}</p>\n", escape(note)));
        }
        for part in &self.parts {
            match part {
                Part::Text(text) => push(page, format_args!("<p>{}</p>\n", escape(text))),
                Part::Table(table) => table_html(table, page),
                Part::Plot(plot) => {
                    figure(plot, &plot.title, plots.len(), page);
                    plots.push(plot);
                }
                Part::Panels(panels) => panels.html(page, plots),
                Part::Comparison(comparison) => comparison.html(page, pens, primary),
            }
        }
        page.push_str(if self.fold == Fold::Open { "</section>\n" } else { "</details>\n" });
    }
}

fn table_html(table: &Table, page: &mut String) {
    let caption = escape(&table.caption);
    push(
        page,
        format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n\
             <table>\n<caption>{caption}</caption>\n<thead><tr>"
        ),
    );
    // Without a minimum width a column of sentences beside numbers would be one word wide.
    let is_long = |n: usize| table.rows.iter().any(|row| row[n].text.len() > LONG);
    let class = |n: usize, align: Align| match align {
        Align::Right => " class=\"n\"",
        Align::Left if is_long(n) => " class=\"long\"",
        Align::Left => "",
    };
    // A column without any value is omitted, because it would only narrow the others.
    let filled = |n: usize| n == 0 || table.rows.is_empty() || table.rows.iter().any(|row| !row[n].text.is_empty());
    for (n, column) in table.columns.iter().enumerate().filter(|(n, _)| filled(*n)) {
        push(page, format_args!("<th scope=\"col\"{}>{}</th>", class(n, column.align), escape(&column.name)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (n, (cell, column)) in row.iter().zip(&table.columns).enumerate().filter(|(n, _)| filled(*n)) {
            let text = escape(&cell.text);
            let class = match (column.align, cell.mood) {
                (Align::Left, Mood::Plain) => String::new(),
                (align, mood) => {
                    let side = if align == Align::Right { "n " } else { "" };
                    let mood = match mood {
                        Mood::Plain => "",
                        Mood::Good => "good",
                        Mood::Bad => "bad",
                        Mood::Unsure => "unsure",
                    };
                    format!(" class=\"{}\"", format!("{side}{mood}").trim_end())
                }
            };
            if n == 0 {
                push(page, format_args!("<th scope=\"row\"{class}>{text}</th>"));
            } else {
                push(page, format_args!("<td{class}>{text}</td>"));
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

impl Comparison {
    /// Writes the answer in sentences, the figure, its values as a table, and the spread of the runs. The answer is about the `primary`
    /// quantities first, in the words of the terminal; it has those about the others besides, which are corrected for all.
    fn html(&self, page: &mut String, pens: &Pens, primary: &[String]) {
        let stated = Look::page().stated(self, primary).ok().filter(|_| !primary.is_empty());
        let Some((stated, _)) = stated else {
            self.answers_html(page);
            return self.drawn_html(page, pens);
        };
        list(&stated.sentences(), page);
        if let Some(method) = stated.method() {
            push(page, format_args!("<p class=\"note\">{}</p>\n", escape(&method)));
        }
        let others: Vec<_> =
            self.quantities().into_iter().filter(|(measure, subject)| !stated.has(measure, subject)).collect();
        let others = Self { planned: Some(self.family()), ..self.of_quantities(&others) };
        if !others.sentences().is_empty() {
            let why = "The scenario does not name these as primary. They are corrected for all differences that were measured.";
            push(page, format_args!("<details><summary>Other measures</summary>\n<p class=\"note\">{why}</p>\n"));
            others.answers_html(page);
            page.push_str("</details>\n");
        }
        self.drawn_html(page, pens);
    }

    /// Writes the answer in sentences, and how it was decided.
    fn answers_html(&self, page: &mut String) {
        let answers = self.answers();
        if !answers.is_empty() {
            page.push_str("<ul class=\"answer\">\n");
            for answer in &answers {
                let (first, more) = (&answer[0], &answer[1..]);
                push(page, format_args!("<li>{}", escape(first)));
                if !more.is_empty() {
                    push(page, format_args!("\n<details><summary>{} more</summary>\n<ul>\n", more.len()));
                    more.iter().for_each(|sentence| push(page, format_args!("<li>{}</li>\n", escape(sentence))));
                    page.push_str("</ul>\n</details>");
                }
                page.push_str("</li>\n");
            }
            page.push_str("</ul>\n");
        }
        if let Some(method) = self.method() {
            push(page, format_args!("<p class=\"note\">{}</p>\n", escape(&method)));
        }
    }

    /// Writes the figure, its values as a table, and the spread of the runs.
    fn drawn_html(&self, page: &mut String, pens: &Pens) {
        let mut note = String::from("Each column has a scale of its own, from zero on.");
        if self.cells().any(|estimate| estimate.half.is_some()) {
            note += &format!(" Bars are means{}, lines over them 95 % intervals of the mean.", self.of_runs());
        }
        if self.groups.iter().any(Group::is_judged) {
            note += &format!(" {} Where none is told apart from the best, none has a star.", self.star());
        }
        drawn(&self.drawing(pens, &Look::page()), &note, (Some(&self.table()), &self.columns(false)), page);
        if let Some(boxes) = self.spread(pens, Form::Box, "runs", &Look::page()) {
            let note = "Points are runs, boxes (from five runs on) reach from the lower to the upper quartile around the \
                        median, lines to the least and the greatest run. Each measure has a scale of its own, which need not \
                        begin at zero.";
            drawn(&boxes, note, (None, &self.columns(true)), page);
        }
    }
}

/// Writes sentences as a list of answers.
fn list(sentences: &[String], page: &mut String) {
    page.push_str("<ul class=\"answer\">\n");
    sentences.iter().for_each(|sentence| push(page, format_args!("<li>{}</li>\n", escape(sentence))));
    page.push_str("</ul>\n");
}

/// Writes a figure that needs no script, with its values as a table and as CSV.
fn drawn(drawing: &Drawing, note: &str, (table, values): (Option<&Table>, &columns::Table), page: &mut String) {
    let title = escape(&drawing.title);
    push(
        page,
        format_args!(
            "<figure class=\"comparison\" data-title=\"{title}\" data-csv=\"{}\">\n<div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"{title}\">\n{}</div>\n<figcaption class=\"fine\">{}</figcaption>\n",
            escape(&values.csv()),
            drawing.svg_of_page().replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""),
            escape(note)
        ),
    );
    if let Some(table) = table {
        page.push_str("<details class=\"data\"><summary>Data</summary>\n");
        table_html(table, page);
        page.push_str("</details>\n");
    }
    page.push_str("</figure>\n");
}

impl Panels {
    fn html<'a>(&'a self, page: &mut String, plots: &mut Vec<&'a Plot>) {
        let title = escape(&self.title);
        // Three stand beside each other; two and four fill a square.
        let grid = if matches!(self.panels.len(), 2 | 4) { "grid two" } else { "grid" };
        push(
            page,
            format_args!(
                "<figure class=\"panels\" data-title=\"{title}\">\n<figcaption>{title}</figcaption>\n\
                 <p class=\"fine\">All over the same ranges.</p>\n<div class=\"{grid}\">\n"
            ),
        );
        for (name, plot) in &self.panels {
            figure(plot, name, plots.len(), page);
            plots.push(plot);
        }
        page.push_str("</div>\n</figure>\n");
    }
}

/// Writes the frame of a plot, with a text that is readable without a script.
fn figure(plot: &Plot, title: &str, n: usize, page: &mut String) {
    let title = escape(title);
    push(
        page,
        format_args!(
            "<figure class=\"plot\" id=\"p{n}\" data-plot=\"{n}\">\n<figcaption id=\"p{n}t\">{title}</figcaption>\n\
             <div class=\"canvas\"></div>\n"
        ),
    );
    let (mut kept, mut all) = (0, 0);
    for curve in &plot.curves {
        let points = curve.placed(&plot.x, &plot.y).len();
        all += points;
        kept += points.min(POINTS);
    }
    if kept < all {
        push(
            page,
            format_args!(
                "<p class=\"fine\">Of {all} points at most {POINTS} of a curve are in this page: of each of {} equal \
                 steps the first, the lowest, the highest and the last, as they were measured.</p>\n",
                POINTS / 4
            ),
        );
    }
    page.push_str("<details class=\"data\"><summary>Data</summary>\n");
    table_html(&summary(plot), page);
    page.push_str("<div class=\"points\"></div>\n</details>\n</figure>\n");
}

/// Summarises the curves of a plot in a table.
fn summary(plot: &Plot) -> Table {
    let placed = |curve: &Curve| curve.placed(&plot.x, &plot.y);
    if plot.style == Style::Cdf {
        let mut table = Table::new(plot.title.clone(), ["curve", ">median", ">90 %", ">99 %", ">greatest"]);
        for curve in &plot.curves {
            let points = placed(curve);
            let at = |share: f64| {
                let found = points.iter().find(|point| point.1 >= share).or(points.last());
                found.map_or(String::new(), |point| human(point.0, &plot.x.unit))
            };
            table.row([curve.name.as_str().into(), at(0.5).into(), at(0.9).into(), at(0.99).into(), at(1.0).into()]);
        }
        return table;
    }
    let mut table = Table::new(plot.title.clone(), ["curve", ">points", ">least", ">mean of points", ">greatest"]);
    for curve in &plot.curves {
        let points = placed(curve);
        let count = points.len();
        let say = |value: f64| if count == 0 { String::new() } else { human(value, &plot.y.unit) };
        let values = || points.iter().map(|point| point.1);
        table.row([
            curve.name.as_str().into(),
            count.to_string().into(),
            say(values().fold(f64::INFINITY, f64::min)).into(),
            say(values().sum::<f64>() / count.max(1) as f64).into(),
            say(values().fold(f64::NEG_INFINITY, f64::max)).into(),
        ]);
    }
    table
}

/// Writes a plot as JSON for the script.
fn data(plot: &Plot, pens: &[Pen], page: &mut String) {
    let axis = |axis: &Axis| {
        let (log, tail) = (axis.scale == Scale::Log, axis.scale == Scale::Tail);
        format!("{{\"title\":{},\"unit\":{},\"log\":{log},\"tail\":{tail}}}", json(&axis.title), json(&axis.unit))
    };
    let style = match plot.style {
        Style::Lines => "lines",
        Style::Steps => "steps",
        Style::Marks => "marks",
        // A page has the distribution itself.
        Style::Cdf | Style::Ccdf => "cdf",
    };
    push(
        page,
        format_args!(
            "{{\"title\":{},\"x\":{},\"y\":{},\"style\":\"{style}\",\"curves\":[",
            json(&plot.title),
            axis(&plot.x),
            axis(&plot.y)
        ),
    );
    let log = plot.x.scale == Scale::Log;
    for (n, curve) in plot.curves.iter().enumerate() {
        let mut points = decimate(&curve.placed(&plot.x, &plot.y), POINTS, |x| if log { x.log10() } else { x });
        for gap in curve.gaps() {
            let at = points.partition_point(|point| point.0 <= gap);
            // One gap between two points suffices. Gaps before the first and after the last point are omitted.
            if (1..points.len()).contains(&at) && !points[at - 1].1.is_nan() {
                points.insert(at, (gap, f64::NAN));
            }
        }
        // In a vertical line two points share an x. The script joins curves by x, so the later point moves by the
        // smallest possible amount and is not lost.
        for n in 1..points.len() {
            if points[n].0 <= points[n - 1].0 {
                points[n].0 = points[n - 1].0.next_up();
            }
        }
        let mut last = f64::NEG_INFINITY;
        let xs = points.iter().map(|&(x, _)| {
            // Nine digits are written if they keep the order of the points, and all digits otherwise.
            let short = exact(x);
            let value = short.parse().unwrap_or(x);
            let text = if value > last { short } else { x.to_string() };
            last = if value > last { value } else { x };
            text
        });
        let xs: Vec<String> = xs.collect();
        let ys = points.iter().map(|&(_, y)| if y.is_nan() { "null".to_owned() } else { exact(y) });
        let ys: Vec<String> = ys.collect();
        push(
            page,
            format_args!(
                "{}{{\"name\":{},\"colour\":{},\"dash\":{},\"x\":[{}],\"y\":[{}]{}}}",
                if n == 0 { "" } else { "," },
                json(&curve.name),
                pens[n].colour,
                pens[n].dash,
                xs.join(","),
                ys.join(","),
                band(curve)
            ),
        );
    }
    page.push_str("]}");
}

/// Formats the band around a curve as JSON. It is thinned to as many points as the line: each step has its widest
/// extent.
fn band(curve: &Curve) -> String {
    if curve.band.is_empty() {
        return String::new();
    }
    let width = |(_, low, high): &&(f64, f64, f64)| high - low;
    let steps = curve.band.chunks(curve.band.len().div_ceil(POINTS));
    let kept: Vec<_> = steps.filter_map(|step| step.iter().max_by(|a, b| width(a).total_cmp(&width(b)))).collect();
    let column = |of: fn(&(f64, f64, f64)) -> f64| -> String {
        let texts = kept.iter().map(|point| of(point)).map(|v| if v.is_nan() { "null".to_owned() } else { exact(v) });
        texts.collect::<Vec<_>>().join(",")
    };
    format!(
        ",\"band\":{{\"x\":[{}],\"low\":[{}],\"high\":[{}]}}",
        column(|point| point.0),
        column(|point| point.1),
        column(|point| point.2)
    )
}

#[cfg(test)]
mod tests;
