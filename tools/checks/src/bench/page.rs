//! The page of the table: what a run has measured, and what earlier runs have measured of the rows that it left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ROUNDS;
use super::rows::{LIMITS, ROWS};

const RUNS: &str = "Runs";
const UNMEASURED: &str = "Not measured";
const EVENTS: &str = "Events of the processor, a packet";

/// The place of the column that says whether the aim is reached.
const REACHED: usize = 8;
/// The place of the column that names the run.
const RUN: usize = 9;

/// The page. What is read from it is written again, but for rows that the table has no more.
#[derive(Default)]
pub struct Page {
    /// The noise of each run, by its date and commit.
    runs: BTreeMap<String, String>,
    /// The cells of each row, by its name.
    rows: BTreeMap<String, Vec<String>>,
    /// Why a row was not measured, by its name.
    unmeasured: BTreeMap<String, String>,
    /// Events of the processor for a packet, by row.
    counters: BTreeMap<String, String>,
}

fn is_row(name: &str) -> bool {
    ROWS.iter().any(|row| row.name == name)
}

/// `NAME: text`, where the name is that of a row.
fn of_row(item: &str) -> Option<(String, String)> {
    let split = |name: &'static str| Some((name.to_owned(), item.strip_prefix(name)?.strip_prefix(": ")?.to_owned()));
    ROWS.iter().find_map(|row| split(row.name))
}

impl Page {
    /// Reads a page as [`Page::text`] writes it.
    pub fn read(text: &str) -> Self {
        let (mut page, mut section) = (Self::default(), "");
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            } else if let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) {
                let cells: Vec<String> = cells.split('|').map(|cell| cell.trim().to_owned()).collect();
                if cells.len() == RUN + 1 && is_row(&cells[0]) {
                    page.rows.insert(cells[0].clone(), cells);
                }
            } else if let Some(item) = line.strip_prefix("- ") {
                match section {
                    RUNS => {
                        page.runs.extend(item.split_once(": ").map(|(run, noise)| (run.to_owned(), noise.to_owned())))
                    }
                    UNMEASURED => page.unmeasured.extend(of_row(item)),
                    EVENTS => page.counters.extend(of_row(item)),
                    _ => {}
                }
            }
        }
        page
    }

    /// Replaces what the page has of a row, whose cells are those of the table without the last, by what `run` has measured.
    pub fn set_row(&mut self, cells: [String; RUN], run: &str, unmeasured: Option<&str>) {
        let name = cells[0].clone();
        match unmeasured {
            Some(reason) => self.unmeasured.insert(name.clone(), reason.to_owned()),
            None => self.unmeasured.remove(&name),
        };
        self.rows.insert(name, cells.into_iter().chain([run.to_owned()]).collect());
    }
    /// Adds a run and its noise.
    pub fn set_run(&mut self, run: &str, noise: String) {
        self.runs.insert(run.to_owned(), noise);
    }
    /// Replaces the events of a row.
    pub fn set_counters(&mut self, row: &str, counters: &str) {
        self.counters.insert(row.to_owned(), counters.to_owned());
    }

    /// The page, with the rows in the order of [`ROWS`].
    pub fn text(&self) -> String {
        let mut page = format!(
            "# Speed\n\nWritten by `cargo run --release -p tidegate-checks -- bench [ROW...]`: medians of {ROUNDS} rounds in which \
             Tidegate and its peer are measured in turn. The spread is that of the largest and the smallest round. A run of \
             some rows leaves the others as they were; the last column names the run. Figures of different runs are not \
             comparable; ratios are.\n\n\
             | what | unit | Tidegate | spread | beside | spread | ratio | aim | reached | run |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n"
        );
        let rows: Vec<&Vec<String>> = ROWS.iter().filter_map(|row| self.rows.get(row.name)).collect();
        for cells in &rows {
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
        let _ = writeln!(page, "\n## {RUNS}\n");
        for (run, noise) in self.runs.iter().filter(|(run, _)| rows.iter().any(|cells| cells[RUN] == **run)) {
            let _ = writeln!(page, "- {run}: {noise}");
        }
        if !self.unmeasured.is_empty() {
            let _ = writeln!(page, "\n## {UNMEASURED}\n");
            for (name, reason) in &self.unmeasured {
                let _ = writeln!(page, "- {name}: {reason}");
            }
        }
        let missed: Vec<&str> =
            rows.iter().filter(|cells| cells[REACHED] == "no").map(|cells| cells[0].as_str()).collect();
        if !missed.is_empty() {
            let _ = writeln!(page, "\n## Where the aim is missed\n");
            for (rows, limit) in LIMITS {
                if missed.iter().any(|name| name.starts_with(rows)) {
                    let _ = writeln!(page, "- {rows}: {limit}");
                }
            }
        }
        if !self.counters.is_empty() {
            let _ = writeln!(
                page,
                "\n## {EVENTS}\n\nOf `perf stat`, or where the processor counts nothing of valgrind's model of one (L1 and last-level \
                 misses). They do not depend on what else the machine does: `bench --counts [ROW...]` measures them alone.\n"
            );
            for row in ROWS {
                if let Some(counters) = self.counters.get(row.name) {
                    let _ = writeln!(page, "- {}: {counters}", row.name);
                }
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(name: &str, figure: &str, reached: &str) -> [String; RUN] {
        [name, "ns", figure, "1 %", "", "", "", "≤ 2 ns", reached].map(str::to_owned)
    }

    #[test]
    fn a_partial_run_keeps_the_rows_of_others() {
        let [first, second] = [ROWS[0].name, ROWS[1].name];
        let mut page = Page::default();
        page.set_run("monday, abc", "quiet".into());
        page.set_row(cells(first, "1.0", "yes"), "monday, abc", None);
        page.set_row(cells(second, "not measured", ""), "monday, abc", Some("no peer: none"));
        page.set_counters(first, "instructions 7.00");
        let mut page = Page::read(&page.text());
        page.set_run("tuesday, def", "loud".into());
        page.set_row(cells(second, "3.0", "no"), "tuesday, def", None);
        let text = page.text();
        let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("| {name} |")));
        assert!(row(first).is_some_and(|line| line.contains(" 1.0 ") && line.ends_with("monday, abc |")), "{text}");
        assert!(row(second).is_some_and(|line| line.contains(" 3.0 ") && line.ends_with("tuesday, def |")), "{text}");
        assert!(text.contains("- monday, abc: quiet") && text.contains("- tuesday, def: loud"), "{text}");
        assert!(text.contains("instructions 7.00") && !text.contains(UNMEASURED), "{text}");
        assert_eq!(Page::read(&text).text(), text);
    }
}
