//! The figures on record: the table of `tools/benches/SPEED.md`.

use std::path::PathBuf;
use std::process::Command;

/// The columns of the table, after the bench and the case.
const FIGURE: usize = 2;
const SPREAD: usize = 3;
const BESIDE: usize = 6;
const RATIO: usize = 7;
const RUN: usize = 9;

/// What a row has instead of a figure whose rounds do not agree.
const UNSTEADY: &str = "unsteady";

/// The rows of one benchmark in the table.
pub(crate) struct Speed {
    page: PathBuf,
    bench: String,
    /// The date and the commit, if new figures are to be written.
    run: Option<String>,
}

impl Speed {
    /// The rows of `bench` in `page`; `record` allows changes of it.
    pub(crate) fn new(page: PathBuf, bench: &str, record: bool) -> Self {
        let output = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().map(|output| output.stdout);
            String::from_utf8_lossy(&output.unwrap_or_default()).trim().to_owned()
        };
        let run =
            || format!("{}, {}", output("date", &["-u", "+%F"]), output("git", &["rev-parse", "--short", "HEAD"]));
        Self { page, bench: bench.to_owned(), run: record.then(run) }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.page).unwrap_or_default()
    }

    /// The cells of a line that is the row of `case`.
    fn cells(&self, line: &str, case: &str) -> Option<Vec<String>> {
        let cells = line.strip_prefix("| ")?.strip_suffix('|')?.split('|');
        let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        (cells.len() > RUN && cells[0] == self.bench && cells[1] == case).then_some(cells)
    }

    fn recorded(&self, case: &str, column: usize) -> String {
        let cell = self.text().lines().find_map(|line| Some(self.cells(line, case)?.swap_remove(column)));
        cell.filter(|cell| !cell.is_empty()).map_or_else(String::new, |cell| format!(" (on record: {cell})"))
    }
    pub(crate) fn recorded_figure(&self, case: &str) -> String {
        self.recorded(case, FIGURE)
    }
    pub(crate) fn recorded_ratio(&self, case: &str) -> String {
        self.recorded(case, RATIO)
    }

    /// Writes the figure of `case` into its row with that of its peer and the ratio, and with its spread in percent if that is
    /// known, if the table has the row and the command line asks for it. A figure that is no number leaves the word for that.
    pub(crate) fn set(&self, case: &str, figure: f64, spread: Option<f64>, theirs: Option<f64>) {
        let Some(run) = &self.run else { return };
        let mut page = String::new();
        for line in self.text().lines() {
            match self.cells(line, case) {
                Some(mut cells) => {
                    cells[FIGURE] = if figure.is_nan() { UNSTEADY.to_owned() } else { number(figure) };
                    if let Some(spread) = spread {
                        cells[SPREAD] = format!("{spread:.0} %");
                    }
                    cells[RUN].clone_from(run);
                    // A ratio of figures of different runs would mean nothing.
                    cells[BESIDE] = theirs.map_or_else(String::new, number);
                    cells[RATIO] = theirs.map_or_else(String::new, |theirs| format!("{:.2}", figure / theirs));
                    page += &format!("| {} |\n", cells.join(" | "));
                }
                None => page += &format!("{line}\n"),
            }
        }
        if let Err(error) = std::fs::write(&self.page, page) {
            eprintln!("{}: {error}", self.page.display());
        }
    }
}

fn number(value: f64) -> String {
    if value >= 1e5 { format!("{:.3} M", value / 1e6) } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_ratio_replaces_its_row_and_no_other() {
        let page = std::env::temp_dir().join(format!("tidegate-speed-{}.md", std::process::id()));
        let other = "| fbq | fifo | 4.6 | 2 % | ns |  |  |  |  | monday |";
        std::fs::write(
            &page,
            format!("# Speed\n\n{other}\n| fbq | wide/4 | 9.0 |  | ns | DPDK | 8.0 | 1.13 | 2 | monday |\n"),
        )
        .unwrap();
        let reader = Speed::new(page.clone(), "fbq", false);
        assert_eq!(reader.recorded_ratio("wide/4"), " (on record: 1.13)");
        assert_eq!(reader.recorded_ratio("fifo"), "");
        reader.set("wide/4", 1.0, None, Some(2.0));
        assert_eq!(reader.recorded_figure("wide/4"), " (on record: 9.0)");
        let writer = Speed { run: Some("tuesday, abc".into()), ..Speed::new(page.clone(), "fbq", false) };
        writer.set("wide/4", 3.0, Some(7.0), None);
        writer.set("wide/4", 3.0, None, Some(4.0));
        writer.set("not in the table", 3.0, None, None);
        let text = std::fs::read_to_string(&page).unwrap();
        let row = "| fbq | wide/4 | 3.0 | 7 % | ns | DPDK | 4.0 | 0.75 | 2 | tuesday, abc |";
        assert_eq!(text, format!("# Speed\n\n{other}\n{row}\n"));
        // A figure of rounds that do not agree is not written, nor is its ratio.
        writer.set("wide/4", f64::NAN, Some(44.0), None);
        let text = std::fs::read_to_string(&page).unwrap();
        std::fs::remove_file(&page).unwrap();
        let row = "| fbq | wide/4 | unsteady | 44 % | ns | DPDK |  |  | 2 | tuesday, abc |";
        assert_eq!(text, format!("# Speed\n\n{other}\n{row}\n"));
    }
}
