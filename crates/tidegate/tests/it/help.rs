//! Help, manual pages and completions, generated from the definition of the command line.

use std::path::PathBuf;
use std::process::Command;

use crate::command::tidegate;
use tidegate_testbed::files::{skip, text};

/// The commands that `tidegate --help` lists.
fn commands() -> Vec<String> {
    let help = text(&tidegate(&["--help"]).stdout);
    let list = help.split_once("Commands:\n").expect("a list of commands").1;
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn every_command_has_a_page_that_mandoc_reads() {
    let folder = std::env::temp_dir().join(format!("tidegate-man-{}", std::process::id()));
    let output = tidegate(&["man", "--dir", &folder.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pages: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("pages").map(|entry| entry.expect("an entry").path()).collect();
    let commands = commands();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "help") {
        assert!(pages.contains(&folder.join(format!("tidegate-{command}.1"))), "{command}");
        let page = text(&tidegate(&["man", command]).stdout);
        assert_eq!(page, std::fs::read_to_string(folder.join(format!("tidegate-{command}.1"))).expect("read"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{command}");
    }
    match Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&pages).output() {
        Err(_) => skip("no mandoc: manual pages are not checked"),
        Ok(output) => {
            // A page without a date depends only on its source.
            let said = text(&output.stdout);
            let said: Vec<&str> = said.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(said.is_empty(), "{}", said.join("\n"));
        }
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
    let refused = tidegate(&["man", "simulat"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("simulate"));
}

#[test]
fn shells_take_the_completions() {
    for (shell, flag) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = tidegate(&["completions", shell]);
        assert!(script.status.success());
        let script = text(&script.stdout);
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
        let file = std::env::temp_dir().join(format!("tidegate-{shell}-{}", std::process::id()));
        std::fs::write(&file, &script).expect("written");
        match Command::new(shell).arg(flag).arg(&file).output() {
            Err(_) => skip(&format!("no {shell}: its completions are not parsed")),
            Ok(output) => assert!(output.status.success(), "{shell}: {}", text(&output.stderr)),
        }
        std::fs::remove_file(&file).expect("our file");
    }
    // The completions of bash for `tidegate sim`.
    let script = text(&tidegate(&["completions", "bash"]).stdout);
    let ask = "COMP_WORDS=(tidegate sim); COMP_CWORD=1; _tidegate tidegate sim tidegate; echo ${COMPREPLY[*]}";
    let output = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output().expect("bash");
    assert_eq!(text(&output.stdout).trim(), "simulate", "{}", text(&output.stderr));
}

#[test]
fn help_leads_to_commands_and_to_the_book() {
    let help = text(&tidegate(&["help"]).stdout);
    for way in ["tidegate help COMMAND", "tidegate book", "tidegate man", "tidegate schema"] {
        assert!(help.contains(way), "{way}");
    }
    assert!(text(&tidegate(&["help", "simulate"]).stdout).contains("--report"));
    assert!(text(&tidegate(&["help", "concepts"]).stdout).starts_with("# Concepts"));
    assert!(text(&tidegate(&["book", "fq_codel"]).stdout).contains("*Law*"));
    assert!(text(&tidegate(&["book", "shaper-file"]).stdout).contains("flow-burst"));
    assert!(text(&tidegate(&["book", "command-line"]).stdout).contains("## tidegate simulate"));
    assert_eq!(tidegate(&["help", "nothing"]).status.code(), Some(2));
    assert_eq!(tidegate(&["book", "nothing"]).status.code(), Some(2));
    let found = text(&tidegate(&["book", "--search", "REBINDING", "Prometheus"]).stdout);
    assert!(
        found.contains("seeing#in-a-browser-and-for-prometheus: In a browser, and for Prometheus\n    "),
        "{found}"
    );
    let found = text(&tidegate(&["book", "--search", "packet"]).stdout);
    let sections = found.lines().filter(|line| !line.starts_with("    ")).count();
    assert!((1..=16).contains(&sections), "{found}");
    assert_eq!(tidegate(&["book", "--search", "xyzzyplugh"]).status.code(), Some(1));
    let list = text(&tidegate(&["book"]).stdout);
    assert!(list.contains("home-uplink") && list.contains("fifo"));
}

#[test]
fn the_book_is_written_as_pages_and_as_sources() {
    let folder = std::env::temp_dir().join(format!("tidegate-pages-{}", std::process::id()));
    let (html, sources) = (folder.join("html"), folder.join("src"));
    for (option, folder) in [("--html", &html), ("--sources", &sources)] {
        assert!(tidegate(&["book", option, &folder.display().to_string()]).status.success());
    }
    let page = std::fs::read_to_string(html.join("cookbook/home-uplink.html")).expect("a page");
    assert!(page.contains("<h1>A home uplink</h1>") && page.contains("href=\"../book.css\""));
    assert!(html.join("index.html").is_file() && html.join("disciplines/mered.html").is_file());
    let summary = std::fs::read_to_string(sources.join("src/SUMMARY.md")).expect("contents");
    assert!(summary.contains("(disciplines/mered.md)"));
    if Command::new("mdbook").arg("--version").output().is_ok() {
        let built = Command::new("mdbook").arg("build").arg(&sources).output().expect("mdbook");
        assert!(built.status.success(), "{}", text(&built.stderr));
    } else {
        skip("no mdbook: the sources of the book are not built by it (tidegate renders the book itself)");
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}
