//! `[control]` and `[metrics]`: what they mean, and what is wrong with them, with line, column, and the way out.

use tidegate_config::shaper::{self, Config};
use tidegate_config::values::User;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::Rate;

/// Seven lines; what is tested begins in the eighth.
const BEFORE: &str = "version = 1\n[[class]]\nname = \"media\"\nrate = \"8mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n";
const LINES: usize = 8;

fn load(section: &str) -> (Option<Config>, Source, Diagnostics) {
    let source = Source::new("shaper.toml", format!("{BEFORE}{section}"));
    let mut diagnostics = Diagnostics::new();
    (shaper::load(&source, &mut diagnostics), source, diagnostics)
}

/// One error at a place that is counted from the section on, with its message and its remedy.
#[track_caller]
fn wrong(section: &str, (line, column): (usize, usize), message: &str, help: &str) {
    let (config, source, diagnostics) = load(section);
    let rendered = diagnostics.render(&source);
    assert!(config.is_none() && diagnostics.errors() == 1, "{rendered}");
    let error = diagnostics.iter().next().unwrap();
    assert!(error.message.contains(message), "not `{message}`: {rendered}");
    assert!(error.help.as_deref().unwrap_or_default().contains(help), "not `{help}`: {rendered}");
    let place = format!("shaper.toml:{}:{column}\n", LINES + line);
    assert!(rendered.contains(&place), "not at {place}{rendered}");
}

#[test]
fn the_section_is_applied_as_written() {
    let (config, source, diagnostics) = load(
        "[control]\nmode = \"660\"\nminimum = \"1mbit\"\npreference = 2\ndisplace-to = \"rest\"\npromises = 3\n\
         lease = \"600s\"\n[[control.user]]\nuid = 1000\nminimum = \"2mbit\"\n[[control.user]]\nuid = \"alice\"\npromises = 9\n",
    );
    let control = config.unwrap_or_else(|| panic!("{}", diagnostics.render(&source))).control;
    assert_eq!((control.mode, control.displace_to.as_slice()), (0o660, [1].as_slice()));
    assert_eq!(
        (control.bounds.minimum, control.bounds.preference, control.bounds.promises),
        (Rate::from_mbit(1), 2, 3)
    );
    // A named user has the permissions of his name and those of everyone.
    let (first, second) = (&control.users[0], &control.users[1]);
    assert_eq!((&first.0, first.1.minimum, first.1.promises), (&User::Id(1000), Rate::from_mbit(2), 3));
    assert_eq!((&second.0, second.1.minimum, second.1.promises), (&User::Name("alice".into()), Rate::from_mbit(1), 9));
}

#[test]
fn errors_of_control_have_places_and_ways_out() {
    wrong("[control]\nmod = \"660\"\n", (2, 1), "unknown key `mod` in control", "did you mean `mode`?");
    wrong("[control]\nmode = \"rw\"\n", (2, 8), "`rw` is not the mode of a file", "660");
    wrong("[control]\nmode = \"999\"\n", (2, 8), "`999` is not the mode of a file", "660");
    wrong("[control]\nminimum = \"1\"\n", (2, 11), "has no unit", "20mbit");
    wrong("[control]\npreference = -1\n", (2, 14), "this number is out of range", "between 0 and");
    wrong(
        "[control]\ndisplace-to = [\"rest\", \"medai\"]\n",
        (2, 24),
        "there is no class `medai`",
        "did you mean `media`?",
    );
    wrong("[control]\nlease = \"1\"\n", (2, 9), "has no unit", "");
    wrong("[[control.user]]\nminimum = \"1mbit\"\n", (1, 1), "user of control lacks `uid`", "uid = ");
    wrong("[[control.user]]\nuid = \"no one\"\n", (2, 7), "`no one` is not the name of a user", "1000");
    wrong("[[control.user]]\nuid = 4294967295\n", (2, 7), "is not the number of a user", "1000");
    let twice = "[[control.user]]\nuid = 7\npromises = 1\n[[control.user]]\nuid = 7\npromises = 2\n";
    wrong(twice, (5, 7), "user `7` has bounds already", "in one [[control.user]]");
}

#[test]
fn errors_of_the_hook_have_places_and_ways_out() {
    let hook = |rest: &str| format!("[control.hook]\nprogram = \"/bin/true\"\n{rest}\n");
    wrong("[control.hook]\nprogram = \"run-me\"\n", (2, 11), "`run-me` is not a full path", "/usr/local/bin");
    wrong("[control.hook]\nrate = 3\n", (1, 1), "hook lacks `program`", "program = ");
    wrong(&hook("rate = 0"), (3, 8), "cannot be run 0 times a second", "rate = 10");
    wrong(&hook("events = [\"log\", \"flow-begun\"]"), (3, 18), "there is no event `flow-begun`", "");
    wrong(&hook("events = \"promise\""), (3, 10), "there is no event `promise`", "did you mean `promised`?");
}

#[test]
fn metrics_are_off_until_they_are_asked_for() {
    assert_eq!(load("").0.unwrap().metrics, None);
    let metrics = load("[metrics]\nlisten = \"127.0.0.1:9435\"\n").0.unwrap().metrics.unwrap();
    assert_eq!((metrics.listen.to_string().as_str(), metrics.anywhere), ("127.0.0.1:9435", false));
    assert!(load("[metrics]\nlisten = \"[::1]:0\"\n").0.is_some());
    assert!(load("[metrics]\nlisten = \"192.0.2.1:80\"\nanywhere = true\n").0.unwrap().metrics.unwrap().anywhere);
}

#[test]
fn errors_of_metrics_have_places_and_ways_out() {
    wrong("[metrics]\nanywhere = true\n", (1, 1), "metrics lacks `listen`", "listen = ");
    wrong(
        "[metrics]\nlisten = \"localhost\"\n",
        (2, 10),
        "`localhost` is not an address with a port",
        "127.0.0.1:9435",
    );
    wrong("[metrics]\nlisten = 9435\n", (2, 10), "", "");
    wrong("[metrics]\nlisten = \"0.0.0.0:9435\"\n", (2, 10), "can be reached from other machines", "anywhere = true");
    wrong("[metrics]\nlisten = \"[::]:9435\"\n", (2, 10), "can be reached from other machines", "127.0.0.1:9435");
    let both = "[metrics]\nlisten = \"127.0.0.1:1\"\nport = 3\n";
    wrong(both, (3, 1), "unknown key `port` in metrics", "");
}
