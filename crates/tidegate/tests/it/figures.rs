//! Figures and tables for papers: their sizes and formats, and what wrong requests get. The chapter "Figures and tables of a
//! paper" of the book has more of them.

use std::fs;
use std::process::{Command, Output};

use tidegate_testbed::files::Folder;
use tidegate_testbed::is_nightly;

const SCENARIO: &str = r#"
version = 1
duration = "3s"
runs = 2
hosts = ["a", "b"]
link = [{ from = "a", to = "b", rate = "8mbit", delay = "5ms" }]
flow = [{ name = "bulk_1", from = "a", to = "b", jitter = "1s", workload = { kind = "bulk" } }]
variant = [
  { name = "fifo", from = "a", to = "b", queue = { kind = "fifo", packets = 50 } },
  { name = "codel", from = "a", to = "b", queue = { kind = "codel" } },
]
"#;

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::write(folder.0.join("s.toml"), SCENARIO).expect("written");
    folder
}

fn tidegate(folder: &Folder, arguments: &str) -> Output {
    let words = arguments.split('|').map(str::trim);
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).current_dir(&folder.0).output().expect("it starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn figures_have_the_size_of_their_look_in_every_format() {
    let folder = folder("looks");
    let said = tidegate(
        &folder,
        "simulate|s.toml|--no-cache|--look|height=200pt,grey|--look|column|--figure|queueing delay, link=q.svg|--figure|queueing delay, link=q.pdf\
         |--figure|queueing delay, link=q.png|--figure|queueing delay, link=q.pgf|--figure|bulk=bars.svg",
    );
    assert!(said.status.success(), "{}", text(&said));
    let read = |name: &str| fs::read(folder.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let svg = String::from_utf8(read("q.svg")).expect("text");
    assert!(
        svg.contains("width=\"251.06pt\" height=\"199.25pt\"") && svg.contains("Bands: least and greatest run"),
        "{svg}"
    );
    // The two curves differ in dash and mark, and have no colour.
    assert!(svg.contains("stroke-dasharray") && svg.contains("<circle") && !svg.contains("#0072b2"), "{svg}");
    assert!(String::from_utf8_lossy(&read("q.pdf")).contains("/MediaBox [0 0 251.059 199.253]"));
    // 300 pixels to the inch: 1047 by 831 pixels, in the head of the PNG.
    let png = read("q.png");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((number(16), number(20)), (1047, 831));
    assert!(String::from_utf8_lossy(&read("q.pgf")).contains("\\begin{pgfpicture}"));
    assert!(String::from_utf8_lossy(&read("bars.svg")).contains(">codel<"));
    for (look, why) in [
        ("poster", "there are page"),
        ("column,width=1pt", "from 80 to 4000"),
        ("column,row=pie", "there are fifo, codel"),
        ("column,font=x", "no key of a look"),
    ] {
        let said = tidegate(&folder, &format!("simulate|s.toml|--no-cache|--look|{look}|--figure|x.svg"));
        assert_eq!(said.status.code(), Some(2), "{look}");
        assert!(text(&said).contains(why), "{look}: {}", text(&said));
    }
    // A figure of a paper that is longer than its page is drawn, and says what to do.
    let many: String =
        (0..8).map(|n| format!("{{ name = \"v{n}\", from = \"a\", to = \"b\", queue = \"fifo\" }},\n")).collect();
    let many =
        SCENARIO.replace("variant = [", &format!("variant = [\n{}", many.replace("\"fifo\"", "{ kind = \"fifo\" }")));
    fs::write(folder.0.join("many.toml"), many).expect("written");
    let said = tidegate(&folder, "simulate|many.toml|--runs|1|--no-cache|--look|column|--figure|long.svg");
    assert!(said.status.success() && text(&said).contains("more than a page has; choose parts"), "{}", text(&said));
    let one =
        "simulate|many.toml|--runs|1|--no-cache|--look|column,subject=flow bulk_1,measure=goodput|--figure|short.svg";
    assert!(!text(&tidegate(&folder, one)).contains("more than a page"));
    let said = tidegate(&folder, "simulate|s.toml|--no-cache|--figure|x.eps");
    assert!(said.status.code() == Some(2) && text(&said).contains(".pgf or .tikz"), "{}", text(&said));
}

#[test]
fn tables_are_for_latex_and_markdown() {
    let folder = folder("tables");
    let latex = tidegate(&folder, "simulate|s.toml|--no-cache|--latex|--look|page,measure=goodput");
    assert!(latex.status.success(), "{}", text(&latex));
    let said = text(&latex);
    for part in
        ["\\usepackage{booktabs}", "\\begin{tabular}{llr}", "Mbit/s", "bulk\\_1 & fifo & $", "\\pm", "\\bottomrule"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let markdown = tidegate(&folder, "simulate|s.toml|--no-cache|--markdown|--look|page,row=codel");
    assert!(
        text(&markdown).starts_with("| subject | variant |") && !text(&markdown).contains("fifo"),
        "{}",
        text(&markdown)
    );
    for both in ["--latex|--markdown", "--latex|--json", "--markdown|--hash"] {
        assert_eq!(tidegate(&folder, &format!("simulate|s.toml|{both}")).status.code(), Some(2), "{both}");
    }
    let json = tidegate(&folder, "simulate|s.toml|--no-cache|--json");
    fs::write(folder.0.join("a.json"), &json.stdout).expect("written");
    let compared = tidegate(&folder, "compare|a.json|a.json|--latex|--look|page,measure=goodput");
    assert!(text(&compared).contains("\\begin{tabular}"), "{}", text(&compared));
}

/// A look narrows the table that is printed to what it states, and the correction to that; differences.csv has every row.
#[test]
fn a_look_chooses_single_quantities_and_what_is_printed() {
    let folder = folder("quantities");
    let run = "simulate|s.toml|--no-cache|--runs|3|--out|o";
    let whole = text(&tidegate(&folder, run));
    assert!(whole.contains("queueing p99") && whole.contains("corrected for all"), "{whole}");
    let rows =
        |folder: &Folder| fs::read_to_string(folder.0.join("o/differences.csv")).expect("differences").lines().count();
    let all = rows(&folder);
    let look = "--look|compare=delay p99 of flow bulk_1|--look|compare=throughput of link a->b";
    let said = text(&tidegate(&folder, &format!("{run}|{look}")));
    assert!(said.contains("delay p99") && said.contains("throughput"), "{said}");
    // The seeds change one of the two differences, which is corrected for itself alone.
    assert!(
        said.contains(
            "paired differences over 3 seeds (Student's t), of the logarithms, since times and rates vary by factors. Equal"
        ),
        "{said}"
    );
    assert!(!said.contains("goodput") && !said.contains("queueing"), "{said}");
    assert_eq!(rows(&folder), all);
    let stated = fs::read_to_string(folder.0.join("o/differences.csv")).expect("differences");
    let stated = stated.lines().skip(1).filter(|line| line.contains("delay p99") || line.contains("throughput"));
    assert!(
        stated.clone().count() >= 2 && stated.clone().any(|line| line.contains(",1,true,")),
        "{:?}",
        stated.collect::<Vec<_>>()
    );
    let said = text(&tidegate(&folder, "compare|o/results.json|--look|measure=goodput"));
    assert!(said.contains("goodput") && !said.contains("delay p99"), "{said}");
    // The scenario may name them before the runs. The answer and the values are of these then, and --all prints the others, too.
    let primary =
        SCENARIO.replace("runs = 2", "runs = 3\nprimary = [\"delay p99 of flow bulk_1\", \"goodput of flow bulk_1\"]");
    fs::write(folder.0.join("p.toml"), &primary).expect("written");
    let all = text(&tidegate(&folder, "simulate|p.toml|--no-cache|--all"));
    assert!(
        all.contains("queueing p99.9") && all.contains("not changed by the seeds") && !all.contains("further"),
        "{all}"
    );
    let said = text(&tidegate(&folder, "simulate|p.toml|--no-cache"));
    assert!(
        !said.contains("queueing")
            && said.contains(
                "over 3 seeds (Student's t), of the logarithms, since times and rates vary by factors. Equal"
            ),
        "{said}"
    );
    assert!(said.contains(" further values: --all prints all, --out DIR and --table FILE keep them."), "{said}");
    assert!(said.contains("delay p99 of flow bulk_1: ") && !said.contains("Of each subject this is"), "{said}");
    let said = text(&tidegate(&folder, "simulate|p.toml|--no-cache|--look|measure=goodput"));
    assert!(!said.contains("delay p99") && !said.contains("Decided"), "{said}");
    for (quantity, why) in [
        ("goodput", "`goodput` is no quantity"),
        ("MOS of flow bulk_1", "primary: no measure of flow"),
        ("goodput of flow bulk_", "no subject is meant by `flow bulk_`. Did you mean `flow bulk_1`? There are"),
    ] {
        fs::write(folder.0.join("p.toml"), primary.replace("goodput of flow bulk_1", quantity)).expect("written");
        let said = tidegate(&folder, "simulate|p.toml|--no-cache");
        assert!(said.status.code() == Some(2) && text(&said).contains(why), "{quantity}: {}", text(&said));
    }
    for (look, why) in [
        ("compare=goodput", "expected MEASURE of SUBJECT"),
        ("compare=goodput of flow web", "no subject is meant by `flow web`"),
        ("compare=MOS of flow bulk_1", "no measure of flow bulk_1"),
    ] {
        let said = tidegate(&folder, &format!("{run}|--look|{look}"));
        assert!(said.status.code() == Some(2) && text(&said).contains(why), "{look}: {}", text(&said));
    }
}

/// Without anything that is drawn all runs are the same: their number proves nothing, and p would be 0.
#[test]
fn runs_that_the_seeds_do_not_change_are_no_replication() {
    let folder = folder("repeated");
    fs::write(folder.0.join("s.toml"), SCENARIO.replace(" jitter = \"1s\",", "").replace("runs = 2", "runs = 3"))
        .expect("written");
    let said = text(&tidegate(&folder, "simulate|s.toml|--no-cache"));
    assert!(said.contains("The seeds change nothing: all 3 runs have measured the same"), "{said}");
    assert!(!said.contains("Decided at") && !said.contains("p = "), "{said}");
    assert!(!said.contains('\u{b1}'), "{said}");
    let json = text(&tidegate(&folder, "simulate|s.toml|--no-cache|--json"));
    assert!(!json.contains("\"differences\""), "{json}");
    let claim = "delay p50 of flow bulk_1: codel < fifo";
    let packed = tidegate(&folder, &format!("artifact|d|--scenario|s.toml|--claim|{claim}"));
    assert!(packed.status.success(), "{}", text(&packed));
    let readme = fs::read_to_string(folder.0.join("d/README.md")).expect("a README");
    assert!(readme.contains("the seeds change nothing: all 3 runs have measured the same"), "{readme}");
    assert!(!readme.contains("< 0.0001"), "{readme}");
}

/// A quantity that no run can have is refused before the first one, by the same rules as after it.
#[test]
fn a_primary_quantity_that_means_nothing_is_refused_before_any_run() {
    let folder = folder("planned");
    let call = "flow = [{ name = \"call\", from = \"a\", to = \"b\", workload = { kind = \"call\" } },";
    for (quantity, why) in [
        ("goodput of flow bulks", "no subject is meant by `flow bulks`"),
        ("completion p55 of flow bulk_1", "no measure of flow bulk_1 is meant by `completion p55`"),
        ("delay p99 of flow call", "`delay p99` is more than one measure of flow call"),
    ] {
        let primary = format!("runs = 2\nprimary = [\"{quantity}\"]");
        fs::write(folder.0.join("s.toml"), SCENARIO.replace("runs = 2", &primary).replace("flow = [", call))
            .expect("written");
        let check = tidegate(&folder, "check|s.toml");
        assert!(check.status.code() == Some(2) && text(&check).contains(why), "{quantity}: {}", text(&check));
        let json = text(&tidegate(&folder, "check|s.toml|--json"));
        assert!(json.contains("\"valid\": false") && json.contains("primary: "), "{json}");
        let sweep = tidegate(&folder, "sweep|s.toml|--vary|link.1.delay=1ms,2ms|--out|o");
        assert!(sweep.status.code() == Some(2) && text(&sweep).contains(why), "{quantity}: {}", text(&sweep));
        assert!(!folder.0.join("o").exists(), "nothing was run");
    }
    let whole =
        SCENARIO.replace("runs = 2", "runs = 2\nprimary = [\"delay up p99 of flow call\"]").replace("flow = [", call);
    fs::write(folder.0.join("s.toml"), whole).expect("written");
    assert!(tidegate(&folder, "check|s.toml").status.success());
}

/// A stored result, a sweep and an artifact state what a scenario names before its first run, too, corrected for it alone.
#[test]
fn primary_quantities_are_stated_wherever_results_are_compared() {
    let folder = folder("primary");
    let primary = SCENARIO.replace("runs = 2", "runs = 3\nprimary = [\"delay p99 of flow bulk_1\"]");
    fs::write(folder.0.join("p.toml"), primary).expect("written");
    let words = |arguments: &str| text(&tidegate(&folder, arguments)).split_whitespace().collect::<Vec<_>>().join(" ");
    words("simulate|p.toml|--no-cache|--out|o");
    let stored = words("compare|o/results.json");
    assert!(stored.contains("delay p99 of flow bulk_1: ") && !stored.contains("goodput of flow"), "{stored}");
    assert!(!stored.contains("corrected for all") && stored.contains("Decided at 5 %"), "of one difference: {stored}");
    let chosen = words("compare|o/results.json|--look|measure=goodput");
    assert!(chosen.contains("goodput of flow") && !chosen.contains("delay p99 of flow"), "{chosen}");
    // A sweep keeps it in its tables, and states it at each point.
    words("sweep|p.toml|--runs|3|--seed|1|--vary|link.1.rate=4mbit,8mbit|--out|w");
    let swept = words("compare|w");
    assert!(swept.starts_with("delay p99 of flow bulk_1: ") && swept.contains("delay p99 of flow bulk_1, "), "{swept}");
    assert!(swept.contains(" 4mbit ") && swept.contains(" 8mbit "), "{swept}");
    assert!(!swept.contains("goodput of flow") && swept.contains("corrected for all 2 differences"), "{swept}");
    // The claims of an artifact without claims of its own are about it.
    words("artifact|a|--scenario|p.toml");
    let manifest = fs::read_to_string(folder.0.join("a/artifact.json")).expect("an artifact");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let claims = manifest["claims"].as_array().expect("claims");
    assert!(claims.len() == 1 && claims[0]["measure"] == "delay p99", "{claims:?}");
    // Its table and figure are refused as well, and that of `simulate`.
    let readme = fs::read_to_string(folder.0.join("a/README.md")).expect("a README");
    assert!(
        readme.contains("| subject | variant | Delay, 99th pct. (") && !readme.contains("queueing p50"),
        "{readme}"
    );
    words("simulate|p.toml|--no-cache|--figure|f.svg");
    for figure in ["a/expected/comparison.svg", "f.svg"] {
        let svg = fs::read_to_string(folder.0.join(figure)).expect("a figure");
        assert!(svg.contains("delay p99") && !svg.contains("queueing") && !svg.contains("goodput"), "{figure}: {svg}");
    }
    assert!(words("artifact|--reproduce|a").ends_with("reproduced"));
}

/// The rows of a look may be curves of a figure: the answer and the files stay those about the primary quantities. So does the figure of a
/// subject that has some.
#[test]
fn figures_leave_the_primary_quantities_as_they_are() {
    let folder = folder("curves");
    let primary = SCENARIO.replace("runs = 2", "runs = 3\nprimary = [\"delay p99 of flow bulk_1\"]");
    fs::write(folder.0.join("p.toml"), primary).expect("written");
    let curves = "simulate|p.toml|--no-cache|--look|column,row=bulk_1|--figure|delay, distribution=d.svg";
    let said = tidegate(&folder, curves);
    let words = text(&said);
    assert!(said.status.success() && words.starts_with("delay p99 of flow bulk_1: "), "{words}");
    assert!(!words.contains("goodput of flow") && !words.contains("corrected for all"), "{words}");
    let json = tidegate(&folder, &format!("{curves}|--json"));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["differences"].as_array().map(Vec::len), Some(1), "{:#}", json["differences"]);
    let wrong = tidegate(&folder, &format!("{curves}|--look|column,measure=jitters"));
    assert!(wrong.status.code() == Some(2) && text(&wrong).contains("jitters"), "{}", text(&wrong));
    let drawn = tidegate(&folder, "simulate|p.toml|--no-cache|--look|column|--figure|flow bulk_1=b.svg");
    assert!(drawn.status.success(), "{}", text(&drawn));
    let svg = fs::read_to_string(folder.0.join("b.svg")).expect("a figure");
    assert!(svg.contains("delay p99") && !svg.contains("goodput") && svg.contains("flow bulk_1."), "{svg}");
}

/// Two files with the same variants are compared at each of them, and not all pairs of file and variant.
#[test]
fn files_of_the_same_variants_are_compared_at_each() {
    let folder = folder("versions");
    for (seed, out) in [("1", "before"), ("9", "after")] {
        let made = tidegate(&folder, &format!("simulate|s.toml|--no-cache|--runs|3|--seed|{seed}|--out|{out}"));
        assert!(made.status.success(), "{}", text(&made));
    }
    let said = text(&tidegate(&folder, "compare|a=before/results.json|b=after/results.json"));
    assert!(said.contains("2 points") && !said.contains("a fifo") && !said.contains("fifo - codel"), "{said}");
    // The folders stand for the results in them.
    let of_folders = text(&tidegate(&folder, "compare|a=before|b=after"));
    assert_eq!(of_folders, said);
    let same = text(&tidegate(&folder, "compare|a=before|b=before"));
    assert!(same.contains("their results are the same"), "{same}");
    let json = tidegate(&folder, "compare|a=before/results.json|b=after/results.json|--json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let differences = json["differences"].as_array().expect("differences");
    assert!(!differences.is_empty() && differences.iter().all(|of| of["variants"] == serde_json::json!(["a", "b"])));
}

/// A map and the answer about the same rows are decided by the same tests: all that the scenario names, of which one is drawn, or the rows
/// that both choose. `--all` prints these tests, each with its p.
#[test]
fn a_map_of_the_best_decides_as_the_comparison_does() {
    let folder = folder("family");
    let primary = "runs = 3\nprimary = [\"delay p99 of flow bulk_1\", \"goodput of flow bulk_1\"]";
    fs::write(folder.0.join("p.toml"), SCENARIO.replace("runs = 2", primary)).expect("written");
    let words = |arguments: &str| text(&tidegate(&folder, arguments)).split_whitespace().collect::<Vec<_>>().join(" ");
    for (scenario, sweep) in [("p.toml", "planned"), ("s.toml", "open")] {
        words(&format!("sweep|{scenario}|--runs|3|--seed|1|--vary|link.1.rate=4mbit,8mbit|--out|{sweep}"));
    }
    let count = |said: &str| -> usize {
        let (_, rest) = said.split_once("corrected for all ").expect(said);
        rest.split(' ').next().and_then(|number| number.parse().ok()).expect(said)
    };
    let only = "--only|measure=delay p99|--only|subject=flow bulk_1";
    for (sweep, tests) in [("planned", 3), ("open", 2)] {
        let map = format!("figure|{sweep}|--kind|best|--x|link.1.rate|--y|seed|{only}|--look|text|--out|map.svg");
        let map = map.replace("--y|seed", "--y|unit");
        assert_eq!(words(&map), "");
        let svg = fs::read_to_string(folder.0.join("map.svg")).expect("a map");
        let note: String = svg.split(['<', '>']).step_by(2).collect::<Vec<_>>().join(" ");
        let said = words(&format!("compare|{sweep}|{only}"));
        assert_eq!([count(&note), count(&said)], [tests; 2], "{sweep}: {said}");
        assert!(!said.contains("goodput"), "{said}");
    }
    assert_eq!(count(&words("compare|planned")), 3);
    // What was not planned is explored, and corrected for what is chosen.
    let other = words("compare|planned|--only|measure=delay p50|--only|subject=flow bulk_1");
    assert!(count(&other) == 2 && other.contains("delay p50 of flow bulk_1"), "{other}");
    let wrong = tidegate(&folder, "compare|planned|--only|measure=delay p98");
    assert!(wrong.status.code() == Some(2) && text(&wrong).contains("no row has `delay p98`"), "{}", text(&wrong));
    let all = words("compare|planned|--all");
    assert!(all.contains("p (Holm) decided") && all.matches("fifo - codel").count() == 4, "{all}");
    let all = words("simulate|p.toml|--no-cache|--all");
    assert!(all.contains("p (Holm) decided") && all.matches("fifo - codel").count() == 2, "{all}");
    assert!(!words("simulate|p.toml|--no-cache").contains("p (Holm)"));
}

/// A value that some of the runs lack says of how many it is, and the footer does not call it equal in all.
#[test]
fn values_of_fewer_runs_than_there_are_say_so() {
    let folder = folder("fewer");
    let item = |variant: &str, measure: &str, mean: f64, half: &str, values: &str| {
        format!(
            "{{\"subject\": \"{variant}: flow a\", \"variant\": \"{variant}\", \"measure\": \"{measure}\", \"unit\": \"ns\", \
             \"mean\": {mean}, \"half_width_95\": {half}, \"values\": [{values}]}}"
        )
    };
    let items = [
        item("fifo", "delay p50", 2e6, "null", "null, 2e6, null"),
        item("fifo", "delay p99", 4e6, "1e6", "3.5e6, 4.5e6, null"),
        item("pie", "delay p50", 1e6, "0.0", "1e6, 1e6, 1e6"),
        item("pie", "delay p99", 2e6, "1e5", "2e6, 1.9e6, 2.1e6"),
    ];
    let json = format!(
        "{{\"version\": \"0\", \"runs\": [{{\"seed\": 1}}, {{\"seed\": 2}}, {{\"seed\": 3}}], \"items\": [{}]}}",
        items.join(",")
    );
    fs::write(folder.0.join("r.json"), json).expect("written");
    let said = text(&tidegate(&folder, "compare|r.json"));
    for part in ["2 ms (1 run)", "(2 runs)", "a value without it is of a single run, or equal in all"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let markdown = text(&tidegate(&folder, "compare|r.json|--markdown"));
    assert!(markdown.contains("(1 run) |") && markdown.contains("(2 runs) |"), "{markdown}");
}

#[test]
fn figures_are_drawn_of_tables_and_wrong_ones_named() {
    let folder = folder("charts");
    let made = tidegate(
        &folder,
        "sweep|s.toml|--vary|link.a->b.rate=4mbit,8mbit|--vary|link.a->b.delay=5ms,20ms|--out|t|--batch|3",
    );
    assert!(made.status.success(), "{}", text(&made));
    let heat =
        "figure|t|--kind|heat|--x|link.a->b.rate|--y|link.a->b.delay|--only|measure=goodput|--only|variant=codel|--out";
    let said = tidegate(&folder, &format!("{heat}|heat.svg|--look|column"));
    assert!(said.status.success(), "{}", text(&said));
    let svg = fs::read_to_string(folder.0.join("heat.svg")).expect("a figure");
    assert!(svg.contains(">4<") && svg.contains(">20<") && svg.contains("rate of link a-&gt;b, Mbit/s<"), "{svg}");
    fs::write(folder.0.join("points.csv"), "# of a paper\nthe paper,4000000,3.5\n").expect("written");
    let lines = "figure|t|--kind|lines|--x|link.a->b.rate|--by|variant|--only|measure=goodput|--only|delay=5ms|--times|1e-6|--out|lines.svg";
    let said = tidegate(&folder, &format!("{lines}|--beside|points.csv"));
    assert!(said.status.success(), "{}", text(&said));
    assert!(fs::read_to_string(folder.0.join("lines.svg")).expect("a figure").contains(">the paper<"));
    let boxes = "figure|t|--kind|box|--by|variant|--only|measure=goodput|--log|--out|box.svg|--look|column";
    let said = tidegate(&folder, &format!("{boxes}|--only|rate=4mbit|--only|delay=5ms"));
    assert!(said.status.success(), "{}", text(&said));
    assert!(fs::read_to_string(folder.0.join("box.svg")).expect("a figure").contains("Logarithmic axis."));
    fs::write(folder.0.join("points.csv"), "the paper,4000000\n").expect("written");
    // A table of somebody else, as pandas writes it.
    let rows =
        "variant,seed,value,finished\nmy \"own\",1,3.5,True\nmy \"own\",2,,False\nfifo,1,9,True\nfifo,2,8,True\n";
    fs::write(folder.0.join("others.csv"), rows).expect("written");
    let said = tidegate(&folder, "figure|others.csv|--kind|strip|--by|variant|--only|finished=true|--out|others.svg");
    assert!(said.status.success(), "{}", text(&said));
    assert!(fs::read_to_string(folder.0.join("others.svg")).expect("a figure").contains(">fifo<"));
    fs::write(folder.0.join("t.csv"), "a,b,c\n1,2,3\n1,2\n").expect("written");
    assert!(tidegate(&folder, "simulate|s.toml|--no-cache|--out|home").status.success());
    fs::write(folder.0.join("no.parquet"), "no").expect("written");
    for (arguments, why) in [
        (format!("{heat}|heat.eps"), ".svg, .pdf"),
        (format!("{heat}|x.svg|--only|seed=9"), "there are 1"),
        ("figure|t|--kind|pie|--out|x.svg".into(), "heat, best, scatter"),
        ("figure|t|--kind|scatter|--x|speed|--out|x.svg".into(), "no column `speed`"),
        ("figure|no.parquet|--kind|ecdf|--out|x.svg".into(), "not a table of results"),
        ("figure|nowhere|--kind|ecdf|--out|x.svg".into(), "nowhere"),
        (format!("{lines}|--beside|points.csv"), "line 1: CURVE,X,Y"),
        (format!("{heat}|x.svg|--log-x"), "--log-x is not of maps"),
        ("figure|t.csv|--kind|ecdf|--out|x.svg".into(), "found record with 2 fields"),
        ("compare|s.toml".into(), "neither results nor a recording"),
        ("compare|home|--only|nosuch=1".into(), "--only chooses runs of a sweep"),
        ("compare|home|--by|nosuch".into(), "--by chooses columns of a sweep"),
        (boxes.into(), "several texts in `link.a->b.rate`, which would be drawn as one: 4mbit, 8mbit"),
    ] {
        let said = tidegate(&folder, &arguments);
        assert_eq!(said.status.code(), Some(2), "{arguments}: {}", text(&said));
        assert!(text(&said).contains(why), "{arguments}: {}", text(&said));
    }
}

#[test]
fn the_figures_of_the_papers_have_looks_too() {
    let folder = folder("paper-plots");
    let said = tidegate(&folder, "reproduce|pacing|--only|fig6|--recorded|--plots|p|--look|column,grey|--format|pgf");
    assert!(said.status.success(), "{}", text(&said));
    let pgf = fs::read_to_string(folder.0.join("p/figure-6a.pgf")).expect("a figure");
    assert!(pgf.contains("{\\pgfqpoint{252.00pt}") && pgf.contains("DT0"), "{pgf}");
    let said = tidegate(&folder, "reproduce|pacing|--only|fig6|--plots|p|--format|eps");
    assert!(said.status.code() == Some(2) && text(&said).contains("svg, pdf, png and pgf"), "{}", text(&said));
}

/// A document with figures of both widths and all tables, as a paper has them. TeX sets it without a word: every figure is as wide as
/// its look says, every table fits into the page, and no character is missing.
#[test]
fn tex_sets_figures_and_tables_of_both_widths() {
    if !is_nightly() {
        eprintln!("SKIP: TeX takes a while; TIDEGATE_TESTS=nightly");
        return;
    }
    if Command::new("pdflatex").arg("--version").output().is_err() {
        eprintln!("SKIP: tex_sets_figures_and_tables_of_both_widths: no pdflatex here");
        return;
    }
    let folder = folder("tex");
    let scenario = SCENARIO.replace(
        "workload = { kind = \"bulk\" } }",
        "workload = { kind = \"bulk\" } },\n  { name = \"short & 50%\", from = \"a\", to = \"b\", workload = { kind = \"mice\", per-second = 9, \
         size = { kind = \"constant\", value = \"60kB\" } } },\n  { name = \"a call\", from = \"b\", to = \"a\", workload = { kind = \"call\" } }",
    );
    // A name as sweeps and people make them.
    let scenario =
        scenario.replace("name = \"codel\"", "name = \"queue=codel, target=5ms, interval=100ms, limit=10240 packets\"");
    fs::write(folder.0.join("s.toml"), scenario.replace("runs = 2", "runs = 5")).expect("written");
    for look in ["column", "text"] {
        let figures = ["", "queueing delay, link", "throughput of each flow", "completion time, distribution"];
        let figures = figures.iter().enumerate().map(|(n, title)| match n {
            0 => format!("|--figure|{look}0.pgf"),
            _ => format!("|--figure|{title}={look}{n}.pgf"),
        });
        let said = tidegate(&folder, &format!("simulate|s.toml|--look|{look}{}", figures.collect::<String>()));
        assert!(said.status.success(), "{}", text(&said));
        let boxes = format!("simulate|s.toml|--look|{look},form=box,measure=p99|--figure|{look}4.pgf");
        assert!(tidegate(&folder, &boxes).status.success());
    }
    let table = tidegate(&folder, "simulate|s.toml|--latex|--look|text");
    fs::write(folder.0.join("table.tex"), &table.stdout).expect("written");
    let narrow = tidegate(&folder, "simulate|s.toml|--latex|--look|column");
    fs::write(folder.0.join("narrow.tex"), &narrow.stdout).expect("written");
    let all = |look: &str| (0..5).map(|n| format!("\\noindent\\input{{{look}{n}.pgf}}\\par\n")).collect::<String>();
    let document = format!(
        "\\documentclass[10pt]{{article}}\n\\usepackage[letterpaper,textwidth=516pt,textheight=9in]{{geometry}}\n\
         \\usepackage[utf8]{{inputenc}}\n\\usepackage{{pgf,booktabs}}\n\\tracinglostchars=2\n\\begin{{document}}\n\
         \\noindent\\begin{{minipage}}{{252pt}}\n{}\\end{{minipage}}\n\n{{\\hsize=252pt\n\
         \\input{{narrow.tex}}\\par}}\n\n{}{{\\footnotesize\\input{{table.tex}}}}\n\
         \\end{{document}}\n",
        all("column"),
        all("text")
    );
    fs::write(folder.0.join("paper.tex"), document).expect("written");
    let made = Command::new("timeout")
        .args(["120", "pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"])
        .current_dir(&folder.0)
        .output()
        .expect("it starts");
    let log = String::from_utf8_lossy(&fs::read(folder.0.join("paper.log")).unwrap_or_default()).into_owned();
    assert!(made.status.success(), "{log}");
    let wrong = ["Overfull \\hbox", "Missing character", "LaTeX Warning: Float"];
    let said: Vec<&str> = log.lines().filter(|line| wrong.iter().any(|word| line.contains(word))).collect();
    assert!(said.is_empty(), "{said:#?}");
}
