//! What each path takes, asked of its code by a small file for each feature: the page *What runs where* of the book.
//!
//! `TIDEGATE_WRITE_PAGES=1 cargo test -p tidegate-kernel --test it paths::` writes the page.

use std::fmt::Write as _;
use std::path::Path;

use tidegate_config::preset::{L4s, LINKS, Line, LineRate};
use tidegate_config::shaper::{self, Config, DataPath, Direction};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::Instant;
use tidegate_engine::{BuildFailure, Engine, Names, Setup};
use tidegate_replay::run::{Run, Settings};
use tidegate_script::{Limits, Script, no_files};
use tidegate_sim::scenario::Scenario;
use tidegate_units::Span;

const PAGE: &str = include_str!("../../../../book/src/paths.md");
const WRITE: &str = "TIDEGATE_WRITE_PAGES";

/// Disciplines with the keys that they need.
const DISCIPLINES: [(&str, &str); 27] = [
    ("ared", "link = \"20mbit\"\n"),
    ("cake", "rate = \"20mbit\"\n"),
    ("cbq", "link = \"20mbit\"\nclass = [{ name = \"all\", rate = \"20mbit\" }]\n"),
    (
        "cbq, with reservations",
        "link = \"20mbit\"\nreservations = { class = \"reserved\" }\n\
         class = [{ name = \"all\", rate = \"10mbit\" }, { name = \"reserved\", rate = \"10mbit\" }]\n",
    ),
    ("codel", ""),
    ("drr", ""),
    ("dualpi2", ""),
    ("fbq", "class = [{ name = \"all\", rate = \"20mbit\" }]\n"),
    ("fifo", ""),
    ("fq-codel", ""),
    ("fq-pie", ""),
    ("hfsc", "link = \"20mbit\"\nclass = [{ name = \"all\", guarantee = { rate = \"20mbit\" } }]\n"),
    ("htb", "class = [{ name = \"all\", rate = \"20mbit\" }]\n"),
    ("ingress-filter", "link = \"20mbit\"\n"),
    (
        "marker",
        "conditioner = { class = 1, meter = { kind = \"srtcm\", cir = \"10mbit\", cbs = \"30kB\", ebs = \"30kB\" } }\n",
    ),
    (
        "marker, without code points",
        "conditioner = { red = \"drop\", meter = { kind = \"srtcm\", cir = \"10mbit\", cbs = \"30kB\", ebs = \"30kB\" } }\n",
    ),
    ("mered", "link = \"20mbit\"\nmemory = { pair-rule = \"off\" }\n"),
    ("mered, with the rule of pairs", "link = \"20mbit\"\n"),
    ("meredt", "link = \"20mbit\"\n"),
    ("pie", ""),
    ("ras", "cir = \"10mbit\"\nline-rate = \"20mbit\"\ncir-th = \"64kB\"\nmir-th = \"256kB\"\nbuffer = \"640kB\"\n"),
    ("red", "min-th = \"100kB\"\nmax-th = \"300kB\"\n"),
    ("rio", COLOURS),
    ("sfq", ""),
    ("wf2q", "link = \"20mbit\"\n"),
    ("wfq", "link = \"20mbit\"\n"),
    ("wred", COLOURS),
];
const COLOURS: &str = "green = { min-th = \"100kB\", max-th = \"300kB\" }\nyellow = { min-th = \"100kB\", max-th = \"300kB\" }\n\
                       red = { min-th = \"100kB\", max-th = \"300kB\" }\n";

/// The class of most files, which ends with what a feature adds to it.
const CLASS: &str = "[[class]]\nname = \"all\"\nrate = \"20mbit\"\ndefault = true\n";
const TWO: &str = "[shaper]\nrate = \"20mbit\"\n[[class]]\nname = \"calls\"\nrate = \"2mbit\"\npriority = 0\n\
                   [[class]]\nname = \"rest\"\nrate = \"10mbit\"\ndefault = true\n";

/// Features with a file each.
fn features() -> Vec<(String, String)> {
    let discipline = |(name, keys): &(&str, &str)| {
        let kind = name.split(',').next().unwrap_or(name);
        (format!("`{}`{}", kind, &name[kind.len()..]), format!("[discipline]\nkind = \"{kind}\"\n{keys}"))
    };
    let mut all: Vec<_> = DISCIPLINES.iter().map(discipline).collect();
    let rule = |keys: &str| format!("{TWO}[[rule]]\nclass = \"calls\"\n{keys}\n");
    let more = [
        ("a class with a queue for each flow", CLASS.to_owned()),
        ("classes with priority and borrowing", TWO.into()),
        ("a class with one `fifo`", format!("{CLASS}queue = {{ kind = \"fifo\" }}\n")),
        ("a class with `fq-codel`", format!("{CLASS}queue = {{ kind = \"fq-codel\" }}\n")),
        ("a discipline in one of several classes", format!("{TWO}queue = {{ kind = \"codel\" }}\n")),
        (
            "`ras` in a `marker`",
            "[discipline]\nkind = \"marker\"\nconditioner = { red = \"drop\", meter = { kind = \"srtcm\", cir = \"10mbit\", cbs = \"30kB\", \
             ebs = \"30kB\" } }\ninside = { kind = \"ras\", cir = \"2mbit\", line-rate = \"34mbit\", cir-th = \"5kB\", mir-th = \"50kB\" }\n"
                .to_owned(),
        ),
        (
            "`ras` in a class of `cbq`",
            "[discipline]\nkind = \"cbq\"\nlink = \"60mbit\"\ndefault = \"a\"\nclass = [{ name = \"a\", rate = \"10mbit\", queue = { kind = \
             \"ras\", cir = \"2mbit\", line-rate = \"34mbit\", cir-th = \"5kB\", mir-th = \"50kB\" } }]\n"
                .to_owned(),
        ),
        ("`share = \"strict\"`", format!("{CLASS}share = \"strict\"\n")),
        ("`share = \"strict\"` with `borrow = true`", format!("{CLASS}share = \"strict\"\nborrow = true\n")),
        ("`fair-by = \"host\"`", format!("[shaper]\nfair-by = \"host\"\n{CLASS}")),
        ("`flow-by = \"socket\"`", format!("[shaper]\nflow-by = \"socket\"\n{CLASS}")),
        ("`at-most` of a class", format!("{CLASS}at-most = \"20mbit\"\n")),
        ("`host-at-most`", format!("[shaper]\nfair-by = \"host\"\n{CLASS}host-at-most = \"1mbit\"\n")),
        ("`flow-at-most`", format!("{CLASS}flow-at-most = \"1mbit\"\n")),
        ("`at-most` of a rule", rule("protocol = \"udp\"\nat-most = \"1mbit\"")),
        ("`dscp` of a class", format!("{CLASS}dscp = \"ef\"\n")),
        ("`[class.feedback]`", format!("{CLASS}[class.feedback]\n")),
        ("`[class.feedback]` by code point", format!("{CLASS}[class.feedback]\necn = true\n")),
        ("`advice` of a class", format!("{CLASS}advice = \"ceiling\"\n")),
        ("rules by ports, protocol and code point", rule("protocol = \"udp\"\ndestination-port = 5060\ndscp = \"ef\"")),
        ("rules by address", rule("source = \"10.0.0.0/8\"")),
        ("rules for both directions", rule("host = \"10.0.0.0/8\"\nport = 5060")),
        ("rules by length", rule("length = \"0-200\"")),
        ("rules by TCP flags", rule("tcp-flags = \"syn !ack\"")),
        ("rules for pure acknowledgements", rule("pure-ack = true")),
        ("rules by ICMP type", rule("icmp-type = \"echo-request\"")),
        ("rules by owner", rule("uid = 1000")),
        ("rules by mark", rule("mark = \"0x10\"")),
        ("rules by time", rule("when = \"mon-fri 08:00-18:00\"")),
        ("rules with a quota", rule("quota = \"100GB/month\"")),
        ("rules by hardware address", rule("mac = \"02:00:5e:00:53:01\"")),
        ("rules by the name of a device", rule("host-name = \"anna-laptop\"")),
        ("rules by the names in answers of the DNS", rule("dns-name = \"*.example.com\"")),
        ("rules by the interface of forwarded packets", rule("from-interface = \"br-guest\"")),
        ("a minimum and a weight of a rule", rule("protocol = \"udp\"\nminimum = \"100kbit\"\nflows = 2\nweight = 2")),
        ("displacement of a rule", rule("protocol = \"udp\"\ndisplace = { below = \"100kbit\", to = \"rest\" }")),
        ("several threads", format!("[interface]\nthreads = 2\n{CLASS}")),
        ("several threads, with `dscp` of a class", format!("[interface]\nthreads = 2\n{CLASS}dscp = \"ef\"\n")),
        (
            "several threads, with `fair-by = \"host\"`",
            format!("[interface]\nthreads = 2\n[shaper]\nfair-by = \"host\"\n{CLASS}"),
        ),
        ("several interfaces under one total", format!("[interface]\nname = [\"a\", \"b\"]\n{CLASS}")),
        (
            "code points by the colour of what arrives",
            "[interface]\ndirection = \"ingress\"\n[discipline]\nkind = \"marker\"\nconditioner = { class = 1, meter = { kind = \"srtcm\", \
             cir = \"10mbit\", cbs = \"30kB\", ebs = \"30kB\" } }\n"
                .to_owned(),
        ),
        ("what arrives", format!("[interface]\ndirection = \"ingress\"\n{CLASS}")),
        (
            "what arrives by several interfaces under one total",
            format!("[interface]\nname = [\"a\", \"b\"]\ndirection = \"ingress\"\n{CLASS}"),
        ),
        (
            "what arrives, by rules about receivers",
            format!(
                "[interface]\ndirection = \"ingress\"\n{TWO}[[rule]]\nclass = \"calls\"\ndestination = \"10.0.0.0/8\"\n"
            ),
        ),
    ];
    all.extend(more.map(|(name, text)| (name.to_owned(), text)));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut examples: Vec<_> = std::fs::read_dir(folder)
        .expect("examples")
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            let text = std::fs::read_to_string(&path).expect("a text");
            // Each path has one direction of a file for both.
            (format!("`examples/{name}`"), shaper::split(&text, Direction::Egress).unwrap_or(text))
        })
        .collect();
    examples.sort();
    all.extend(examples);
    all
}

fn text_of(file: &str) -> String {
    // Users have their names on other machines.
    let file = file.replace("uid = \"studio\"", "uid = 1000");
    if file.contains("version =") { file } else { format!("version = 1\n{file}") }
}

fn load(text: &str) -> Result<Config, String> {
    let (source, mut diagnostics) = (Source::new("feature.toml", text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

/// Over NFQUEUE packets pass the engine.
fn user_space(text: &str) -> Result<(), String> {
    // A live data path knows neighbours, and by which interface a packet came in.
    let config = load(text)?;
    let macs = config.rules.iter().flat_map(|rule| &rule.matches.macs).map(|mac| (*mac, Default::default())).collect();
    let named =
        config.rules.iter().flat_map(|rule| rule.matches.named()).map(|name| (name, Default::default())).collect();
    let names = Names { macs, named, interfaces: Some(Default::default()), ..Names::default() };
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names };
    Engine::<u32>::new(&config, &setup, Instant::ZERO).map(drop).map_err(|error| error.to_string())
}

fn kernel(text: &str) -> Result<(), String> {
    asked(text, DataPath::Kernel)
}

fn asked(text: &str, data_path: DataPath) -> Result<(), String> {
    let mut config = load(text)?;
    config.interface.data_path = data_path;
    tidegate_kernel::check(&config).map_err(|error| match error {
        tidegate_live::shaping::StartError::NotInKernel { what } => what,
        error => error.to_string(),
    })
}

/// The files that `tidegate run` makes of rates, for one direction each, with the options that lead to them.
fn presets() -> Vec<(String, String)> {
    let rate = |text: &str| Some(text.parse::<LineRate>().expect("a rate"));
    let all = [
        ("--up 20mbit", rate("20mbit"), None),
        ("--up 200mbit", rate("200mbit"), None),
        ("--up 1gbit", rate("1gbit"), None),
        ("--down 1gbit", None, rate("1gbit")),
        ("--up 5mbit-20mbit", rate("5mbit-20mbit"), None),
        ("--up 20mbit --in-kernel", rate("20mbit"), None),
        ("--down 200mbit --in-kernel", None, rate("200mbit")),
    ];
    all.map(|(options, up, down)| {
        let line = Line { up, down, wire: LINKS[0].2, interfaces: vec!["eth0".into()], mtu: None, l4s: L4s::Off };
        (format!("`tidegate run {options}`"), line.text().expect("a rate"))
    })
    .into()
}

fn simulator(text: &str) -> Result<(), String> {
    let scenario = "version = 1\nduration = \"1s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1gbit\"\n\
                    queue = { shaper = \"feature.toml\" }\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }\n";
    let (source, mut diagnostics) = (Source::new("feature.scenario", scenario), Diagnostics::new());
    let open = |name: &str| Ok::<_, std::io::Error>(Source::new(name, text.to_owned()));
    let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
    scenario.map(drop).ok_or_else(|| diagnostics.render(&source))
}

fn replay(text: &str) -> Result<(), String> {
    let config = load(text)?;
    BuildFailure::without_clock(&config).map_err(|error| error.to_string())?;
    Run::new(&config, &Settings::seeded(1), Instant::ZERO).map(drop).map_err(|error| error.to_string())
}

fn script(text: &str) -> Result<(), String> {
    let text = format!("config {{\n{text}}}\nlink 1gbit\nflow f size 100\nat 0s send 1 f\n");
    let script = Script::parse(Source::new("feature.tgs", text), &Limits::default(), &mut no_files);
    let outcome = script.and_then(|script| script.run()).map_err(|findings| findings.to_string())?;
    outcome.holds().then_some(()).ok_or_else(|| outcome.failures())
}

/// Python calls the functions of these columns.
fn python(text: &str) -> Result<(), String> {
    for (binding, call) in [
        (include_str!("../../../../lab/python/src/scenario.rs"), "Scenario::load"),
        (include_str!("../../../../lab/python/src/script.rs"), "Script::parse"),
        (include_str!("../../../../lab/python/src/replay.rs"), "tidegate_replay::session"),
    ] {
        assert!(binding.contains(call), "the package calls {call}");
    }
    simulator(text).and_then(|()| replay(text)).and_then(|()| script(text))
}

type Ask = fn(&str) -> Result<(), String>;
const PATHS: [(&str, Ask); 6] = [
    ("NFQUEUE", user_space),
    ("kernel", kernel),
    ("simulator", simulator),
    ("replay", replay),
    ("script", script),
    ("Python", python),
];

fn page() -> String {
    let mut page = String::from(
        "# What runs where\n\n\
         This page is made by a test (`kernel/path/tests/it/paths.rs`), which asks each path by a small file for each feature \
         whether it takes\nit. NFQUEUE is the data path in user space, kernel the one of the chapter [In the kernel](kernel.md); the \
         others run in virtual time.\nWhere the kernel path does not take a file, its answer is below.\n\n|",
    );
    let names = PATHS.map(|(name, _)| format!(" {name} |")).concat();
    writeln!(page, " |{names}\n|{}", " --- |".repeat(PATHS.len() + 1)).expect("a string");
    let mut refused = Vec::new();
    for (name, file) in features() {
        let text = text_of(&file);
        write!(page, "| {name} |").expect("a string");
        for (path, ask) in PATHS {
            let answer = ask(&text);
            page += if answer.is_ok() { " yes |" } else { " no |" };
            match answer {
                Err(why) if path == "kernel" => refused.push((name.clone(), why)),
                // Files that are valid run everywhere else.
                Err(why) if path == "NFQUEUE" => panic!("{name}: {why}"),
                _ => {}
            }
        }
        page.push('\n');
    }
    page += "\n## What the kernel path answers\n\n| | what is not there yet |\n| --- | --- |\n";
    for (name, why) in refused {
        writeln!(page, "| {name} | {why} |").expect("a string");
    }
    page += "\n## Rates in place of a file\n\nWhat `auto` answers to the files that `tidegate run` makes of rates. It says so in one line at \
             the start.\n\n| | `auto` |\n| --- | --- |\n";
    for (name, text) in presets() {
        // With --in-kernel the kernel is asked for.
        let data_path = if name.contains("--in-kernel") { DataPath::Kernel } else { DataPath::Auto };
        let answer =
            asked(&text, data_path).map_or_else(|why| format!("in user space: {why}"), |()| "in the kernel".into());
        writeln!(page, "| {name} | {answer} |").expect("a string");
    }
    page
}

#[test]
fn the_page_is_what_the_paths_answer() {
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/paths.md");
        std::fs::write(path, &page).expect("the page can be written");
        return;
    }
    assert_eq!(PAGE, page, "{WRITE}=1 cargo test -p tidegate-kernel --test it paths:: writes it");
}

/// Every kind is in the table.
#[test]
fn no_discipline_is_left_out() {
    for kind in tidegate_config::discipline::Discipline::KINDS {
        assert!(DISCIPLINES.iter().any(|(name, _)| name.split(',').next() == Some(kind)), "{kind}");
    }
}
