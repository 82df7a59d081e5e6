//! Runs the commands of the book, chapter by chapter, in a folder with the files of the chapter.

use std::path::Path;
use std::process::Command;

use tidegate_book::Book;
use tidegate_book::blocks::blocks;
use tidegate_live::uplink::{Kind, Uplink, Uplinks};

use tidegate_testbed::files::{Folder, skip};

#[test]
fn the_citation_has_the_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, line) in [("CITATION.cff", "version: "), ("book/src/paper-figures.md", "  version = {")] {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let found = text.lines().find_map(|found| found.strip_prefix(line)).expect("a version");
        assert_eq!(found.trim_end_matches("},"), env!("CARGO_PKG_VERSION"), "{file}");
    }
}

#[test]
fn the_commands_of_the_book_work() {
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let path =
        std::env::join_paths(
            program.parent().map(Path::to_path_buf).into_iter().chain(
                std::env::var_os("PATH").iter().flat_map(|path| std::env::split_paths(path).collect::<Vec<_>>()),
            ),
        )
        .expect("a search path");
    let mut run = 0;
    for chapter in Book::new().chapters() {
        let own = ["howto", "kernel-rust"].iter().any(|name| chapter.slug.starts_with(name));
        if own || chapter.slug.starts_with("lab/papers/") {
            // The pages of the experiments run for minutes, and these chapters have tests of their own.
            continue;
        }
        let blocks = blocks(&chapter.text);
        let folder = Folder::new(&chapter.slug);
        // Chapters name scenarios by their path in the sources.
        std::fs::create_dir_all(folder.0.join("lab/papers")).expect("a folder");
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/papers/scenarios");
        std::os::unix::fs::symlink(scenarios, folder.0.join("lab/papers/scenarios")).expect("a link");
        let mut printed: Option<String> = None;
        for block in &blocks {
            if let Some(file) = block.file() {
                std::fs::write(folder.0.join(file), &block.text).expect("written");
            }
            if block.is("says") {
                let printed = printed.take().unwrap_or_else(|| panic!("{}:{}: no command", chapter.slug, block.line));
                check_output(&printed, &block.text, &format!("{}:{}", chapter.slug, block.line));
            }
            let privileged = block.is("root") || block.text.lines().any(|line| line.starts_with("sudo "));
            if block.language != "sh" || privileged {
                continue;
            }
            if let Some(needed) = block.needs().filter(|needed| !installed(needed)) {
                skip(&format!("{needed} is not installed: {}:{} is not run", chapter.slug, block.line));
                continue;
            }
            let output = Command::new("sh")
                .args(["-e", "-c", &block.text])
                .current_dir(&folder.0)
                .env("PATH", &path)
                .env("XDG_CACHE_HOME", &folder.0)
                .output()
                .expect("a shell");
            let said = String::from_utf8_lossy(&output.stderr);
            let fails = block.is("fails");
            assert!(output.status.success() != fails, "{}:{}\n{}\n{said}", chapter.slug, block.line, block.text);
            printed = Some(String::from_utf8_lossy(&output.stdout).into_owned() + &said);
            run += 1;
        }
        if chapter.slug == "reports" {
            check_files(&folder.0);
        }
        check_figures(&chapter.text, &folder.0);
    }
    assert!(run >= 10, "{run} blocks of commands");
}

/// Output that a chapter shows is what the commands before it print: its lines in their order, and `...` for others between
/// them.
fn check_output(printed: &str, shown: &str, place: &str) {
    let mut left = printed.lines().map(str::trim_end);
    let mut skips = true;
    for line in shown.lines().map(str::trim_end) {
        if line == "..." {
            skips = true;
            continue;
        }
        let found = if skips { left.any(|other| other == line) } else { left.next() == Some(line) };
        assert!(found, "{place} shows a line that is not printed there: {line}\n{printed}");
        skips = false;
    }
}

/// The figures of a chapter are what its commands write. With TIDEGATE_WRITE_FIGURES they become so.
fn check_figures(chapter: &str, folder: &Path) {
    let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/figures");
    let names = chapter.split("](").skip(1).filter_map(|rest| rest.split_once(')')?.0.rsplit_once("figures/"));
    for (_, name) in names {
        let made = std::fs::read_to_string(folder.join(name)).expect("the figure is written by a command");
        if std::env::var_os("TIDEGATE_WRITE_FIGURES").is_some() {
            std::fs::write(figures.join(name), &made).expect("written");
        }
        let shown = std::fs::read_to_string(figures.join(name)).unwrap_or_default();
        assert!(made == shown, "{name} is not what its command writes; see TIDEGATE_WRITE_FIGURES in this file");
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The files described in the chapter on reports are written.
fn check_files(folder: &Path) {
    let page = std::fs::read_to_string(folder.join("small.html")).expect("a report");
    assert!(!page.contains("://"), "an address outside of the page");
    for part in [
        "Three transfers over 10 Mbit/s",
        "Throughput of each flow, link r-&gt;d",
        "Queueing delay of each flow, link r-&gt;d",
        "Drops of each flow, link r-&gt;d",
        "One-way delay, distribution",
        "digest",
        "hosts = [&quot;s{1..3}&quot;, &quot;d&quot;]",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(folder.join("pacing.html").is_file());
    let parquet = std::fs::read(folder.join("small.parquet")).expect("a table");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    pandas(&folder.join("small.parquet"));
}

/// The table in the reader of a notebook, if installed.
fn pandas(file: &Path) {
    let script = "\
import sys
try:
    import pyarrow.parquet as parquet
except ImportError:
    sys.exit(77)
table = parquet.read_table(sys.argv[1])
names = 'scenario seed kind variant subject measure part x x_unit value unit'.split()
assert table.column_names == names, table.column_names
rows = table.to_pylist()
assert {row['kind'] for row in rows} == {'value', 'series', 'distribution'}
assert {row['seed'] for row in rows} == {1}
flows = {row['part'] for row in rows if row['measure'] == 'throughput' and row['part'] and row['part'].startswith('flow')}
assert flows == {'flow bulk 1', 'flow bulk 2', 'flow bulk 3'}, flows
# The three flows fill 10 Mbit/s: in the last second the sum of their means is within 2 % of it.
late = [row for row in rows if row['measure'] == 'throughput' and row['part'] in flows and 8 <= row['x'] < 9]
times = len({row['x'] for row in late})
assert 9.8e6 <= sum(row['value'] for row in late) / times <= 10.05e6, sum(row['value'] for row in late) / times
";
    let python = std::env::var_os("TIDEGATE_PYTHON").unwrap_or_else(|| "python3".into());
    let status = Command::new(python).args(["-c", script]).arg(file).status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(77)) | Err(_) => {
            skip(
                "no pyarrow (a Python with it can be named in TIDEGATE_PYTHON): Parquet is read back by our own reader only",
            );
        }
        Ok(code) => panic!("pyarrow reads something else: {code:?}"),
    }
}

/// `tidegate doctor` reports the commands that the chapter on places has.
#[test]
fn the_commands_for_a_place_are_those_of_its_chapter() {
    let chapters = Book::new().chapters();
    let chapter = chapters.iter().find(|chapter| chapter.slug == "places").expect("the chapter");
    let section = |title: &str| {
        let text = chapter.text.split_once(&format!("## {title}\n")).unwrap_or_else(|| panic!("{title}")).1;
        text.split_once("\n## ").map_or(text, |(section, _)| section)
    };
    let containers = Uplinks { containers: vec!["docker0".into()], ..Uplinks::default() };
    let plain = Uplinks::default();
    for (title, uplinks, name, kind, up, down) in [
        ("A modem and this router", &plain, "wan0", Kind::Card, "20mbit", "100mbit"),
        ("This router dials", &plain, "ppp0", Kind::Session, "20mbit", "100mbit"),
        ("The provider's VLAN", &plain, "wan0.7", Kind::Vlan, "100mbit", "500mbit"),
        ("A bridge", &plain, "br0", Kind::Bridge, "20mbit", "100mbit"),
        ("A host with containers", &containers, "eth0", Kind::Card, "900mbit", "900mbit"),
    ] {
        let uplink = Uplink { name: name.into(), kind, kernel_kind: String::new(), below: Vec::new() };
        let block = blocks(section(title)).into_iter().find(|block| block.language == "sh").expect("commands");
        assert_eq!(block.text.trim().lines().collect::<Vec<_>>(), uplinks.commands(&uplink, up, down), "{title}");
    }
}
