//! Requests in the words of other programs, and files of other shapers.

use std::process::{Command, Output, Stdio};

use tidegate_testbed::files::Folder;
use tidegate_testbed::terminal::Terminal;

fn tidegate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).stdin(Stdio::null()).output().expect("tidegate runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_wish_that_is_no_command_leads_to_the_commands_that_fulfil_it() {
    for (word, way) in
        [("revert", "tidegate confirm --rollback"), ("reload", "tidegate apply FILE"), ("stop", "SIGTERM")]
    {
        let output = tidegate(&[word]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(way) && !said.contains("a similar subcommand"), "{said}");
    }
    // A typing error is answered by the nearest name, as before.
    assert!(text(&tidegate(&["statsu"]).stderr).contains("'status'"));
}

#[test]
fn the_kinds_of_events_are_listed_without_a_daemon() {
    let output = tidegate(&["events", "--kind", "?"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for kind in tidegate_control::EventKind::ALL {
        assert!(shown.lines().any(|line| line.starts_with(kind.name()) && line.contains(kind.meaning())), "{shown}");
    }
    assert_eq!(tidegate(&["events", "--kind", "nonsense"]).status.code(), Some(2));
}

const HTB: &str = "version = 1\n[interface]\nname = \"wan0\"\n[discipline]\nkind = \"htb\"\ndefault = \"rest\"\n\
    [[discipline.class]]\nname = \"all\"\nrate = \"20mbit\"\n\
    [[discipline.class]]\nname = \"calls\"\nparent = \"all\"\nrate = \"5mbit\"\nceil = \"20mbit\"\n\
    [[discipline.class]]\nname = \"rest\"\nparent = \"all\"\nrate = \"12mbit\"\nceil = \"18mbit\"\npriority = 2\n";

#[test]
fn check_shows_the_tree_of_an_htb_with_its_rates_and_sums() {
    let folder = Folder::new("htb");
    let file = folder.0.join("htb.toml");
    let shown = |htb: &str, more: &[&str]| {
        std::fs::write(&file, htb).unwrap();
        text(&tidegate(&[&["check", file.to_str().unwrap()], more].concat()).stdout)
    };
    let table = shown(HTB, &[]);
    let row = |name: &str| {
        let line = table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {table}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("└─ all"), "└─ all 20.0 Mbit/s 20.0 Mbit/s 3.00 Mbit/s", "{table}");
    assert_eq!(row("├─ calls"), "├─ calls 0 5.00 Mbit/s 25 % 20.0 Mbit/s fifo", "{table}");
    assert_eq!(row("rest (default)"), "└─ rest (default) 2 12.0 Mbit/s 60 % 18.0 Mbit/s fifo", "{table}");
    let sum =
        "promised under `all`: 5.00 Mbit/s + 12.0 Mbit/s = 17.0 Mbit/s of 20.0 Mbit/s: it fits, 3.00 Mbit/s left over";
    assert!(table.contains(sum), "{table}");
    let over = shown(&HTB.replace("12mbit", "16mbit"), &[]);
    assert!(over.contains("= 21.0 Mbit/s of 20.0 Mbit/s: it does NOT fit, 1.00 Mbit/s too much"), "{over}");
    let json: serde_json::Value = serde_json::from_str(&shown(HTB, &["--json"])).unwrap();
    let calls = &json["configuration"]["root"]["tree"]["classes"][1];
    assert_eq!((&calls["name"], &calls["ceil_bps"]), (&"calls".into(), &20_000_000.into()), "{json:#}");
}

#[test]
fn imported_files_are_valid_and_name_what_is_missing() {
    let folder = Folder::new("import");
    let path = |name: &str| folder.0.join(name).display().to_string();
    std::fs::write(path("eth1.iface.conf"), "UPLINK=10000\nDOWNLINK=85000\nSCRIPT=piece_of_cake.qos\nETARGET=10ms\n")
        .unwrap();
    let shown = "qdisc htb 1: root refcnt 2 r2q 10 default 0x20 direct_packets_stat 0 direct_qlen 1000\n\
                 class htb 1:10 root prio 0 rate 5Mbit ceil 20Mbit burst 1600b cburst 1600b\n\
                 class htb 1:20 root prio 1 rate 15Mbit ceil 20Mbit burst 1600b cburst 1600b\n\
                 filter parent 1: protocol all pref 1 basic chain 0 handle 0x1 flowid 1:10\n";
    std::fs::write(path("shown"), shown).unwrap();
    let sqm = path("eth1.iface.conf");
    let tc = path("shown");
    let cases: [(&[&str], &str, &str); 4] = [
        (&["sqm", &sqm], "name = \"eth1\"", "line 4: etarget"),
        (&["tc", &tc, "--interface", "wan0"], "kind = \"htb\"", "line 4: the filter `basic`"),
        (&["cake", "bandwidth", "20mbit", "rtt", "50ms"], "rate = \"20mbit\"", "line 1: rtt 50ms"),
        (&["wondershaper", "-a", "eth0", "-d", "2048", "-u", "512"], "rate = \"512kbit\"", "line 1: its classes"),
    ];
    for (number, (arguments, part, left)) in cases.into_iter().enumerate() {
        let output = tidegate(&[&["import"], arguments].concat());
        let (file, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(file.contains(part) && file.contains(&format!("# Not carried over, {left}")), "{file}");
        assert!(said.contains(&format!("not carried over, {left}")), "{said}");
        let kept = path(&format!("{number}.toml"));
        std::fs::write(&kept, &file).unwrap();
        assert_eq!(tidegate(&["check", &kept]).status.code(), Some(0), "{file}");
    }
    let to = path("new.toml");
    let into = ["import", "sqm", &sqm, "--output", &to];
    assert_eq!(tidegate(&into).status.code(), Some(0));
    let again = tidegate(&into);
    assert!(again.status.code() == Some(1) && text(&again.stderr).contains("new.toml"), "{}", text(&again.stderr));
    std::fs::write(path("large"), vec![b'x'; 2 << 20]).unwrap();
    for (arguments, told) in [
        (["sqm", "/nonexistent/sqm"], "cannot read /nonexistent/sqm"),
        (["tc", &path("large")], "larger than 1024 KiB"),
        (["tc", &sqm], "eth1.iface.conf:1: `UPLINK=10000` does not begin a line of `tc`"),
        (["cake", "fast"], "`fast`"),
    ] {
        let output = tidegate(&["import", arguments[0], arguments[1]]);
        let all = text(&output.stderr) + &text(&output.stdout);
        assert!(all.contains(told), "{arguments:?}: {all}");
    }
}

/// Headings without `#`, tables without `|`, and by the pager of the user.
#[test]
fn a_chapter_is_rendered_at_a_terminal_and_shown_by_the_pager() {
    let shown = |pager: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["book", "home-uplink"]).env("PAGER", pager).env("TERM", "dumb").env_remove("LESS");
        let (code, shown) = Terminal::start(command, Some((80, 24))).end();
        assert_eq!(code, Some(0), "{shown}");
        shown.replace("\r\n", "\n")
    };
    let plain = shown("cat");
    assert!(plain.starts_with("A home uplink\n═════════════\n"), "{plain}");
    assert!(!plain.contains("```") && !plain.contains("](") && !plain.contains("**"), "{plain}");
    assert!(plain.lines().all(|line| line.starts_with("    ") || line.chars().count() <= 80), "{plain}");
    assert!(shown("sed s/uplink/UPLINK/").starts_with("A home UPLINK"));
    // One that does not exist shows nothing, so that the text is written.
    assert!(shown("no-such-pager --now").starts_with("A home uplink"));
    // Elsewhere it is Markdown, for other programs.
    assert!(text(&tidegate(&["book", "home-uplink"]).stdout).starts_with("# A home uplink"));
}

#[test]
fn the_contents_begin_with_the_chapters_of_an_operator() {
    let shown = text(&tidegate(&["book"]).stdout);
    let place = |chapter: &str| {
        let at = shown.lines().position(|line| line.split_whitespace().next() == Some(chapter));
        at.unwrap_or_else(|| panic!("{chapter} in {shown}"))
    };
    for chapter in ["setup", "import", "seeing", "changing", "trying", "service", "doctor", "home-uplink"] {
        assert!(place(chapter) < place("disciplines") && place(chapter) < place("concepts"), "{chapter}");
    }
    // Manuals are named, in lines of several.
    assert!(shown.lines().count() < 90 && shown.contains("codel"), "{} lines", shown.lines().count());
}
