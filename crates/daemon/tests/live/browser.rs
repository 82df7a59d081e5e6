//! The page in a real browser, on real traffic: each view at the size of a phone and of a desktop, by the rules of `probe.js`,
//! with the keyboard, and that its own policy refuses nothing (`TIDEGATE_SCREENSHOTS=directory` keeps pictures).

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::devtools::{Browser, find};
use crate::testbed::{PATIENCE, Testbed, until};
use tidegate_testbed::Ended;

const PROBE: &str = include_str!("probe.js");
const PHONE: (u32, u32) = (390, 844);
const DESKTOP: (u32, u32) = (1_280, 900);

pub fn a_browser_shows_it() -> Ended {
    let Some(browser) = find() else {
        return Ended::Skipped("no chromium; install it to test the page (apt install chromium)".into());
    };
    let testbed = Testbed::start("browser");
    // A request starts the observation, so that flows are known when the browser loads the page.
    until("all flows, with their rates", || {
        let now: Value = serde_json::from_str(&testbed.get("/api/now").1).expect("JSON");
        let flows = now["directions"][0]["flows"].as_array();
        flows.is_some_and(|flows| {
            let to = |port: u64| move |flow: &&Value| flow["flow"]["destination_port"] == port;
            let runs = |port: u64| flows.iter().find(to(port)).is_some_and(|flow| flow["rate_bps"].as_u64() > Some(0));
            [5_004, 8_080, 8_081, 9_001].into_iter().all(runs)
        })
    });
    let home = std::env::temp_dir().join(format!("tidegate-browser-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a directory");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&testbed, &browser, &home)));
    let _ = std::fs::remove_dir_all(&home);
    match outcome {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Opens the page with `fragment`, and returns what `probe.js` finds once it shows what `shown` requires.
fn view(
    browser: &mut Browser,
    testbed: &Testbed,
    fragment: &str,
    size: (u32, u32),
    dark: bool,
    shown: impl Fn(&Value) -> Option<String>,
) -> Value {
    browser.open(&format!("http://{}/{fragment}", testbed.web), size, dark).expect("a page");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = browser.value(PROBE).unwrap_or_else(|why| json!({ "error": why }));
        match shown(&found) {
            None => return found,
            Some(what) => assert!(Instant::now() < deadline, "{fragment} {size:?}: {what} is missing: {found}"),
        }
        sleep(Duration::from_millis(100));
    }
}

/// Describes what a loaded page lacks that should have `charts` charts and these texts.
fn missing(found: &Value, charts: u64, texts: &[&str]) -> Option<String> {
    if found["ready"] != true {
        return Some("the end of the script".into());
    }
    // They are drawn once there is a second of history, which may be after the page has loaded.
    if found["labelled"].as_u64() < Some(charts) || !found["faults"]["blank"].is_null() {
        return Some("a chart".into());
    }
    let text = found["text"].as_str().unwrap_or_default();
    texts.iter().find(|wanted| !text.contains(**wanted)).map(|wanted| wanted.to_string())
}

fn look(testbed: &Testbed, program: &Path, home: &Path) -> Ended {
    let mut browser = match Browser::start(program, &testbed.pair.sender.namespace, home) {
        Ok(browser) => browser,
        Err(why) => return Ended::Skipped(format!("{} does not run here: {why}", program.display())),
    };
    let browser = &mut browser;
    let folded =
        ["tg0", "in force", "calls", "web", "besteffort", "Mbit/s", "10.77.0.1", "configured 10.0 Mbit/s", "full"];
    let whole = [
        &folded[..],
        &["video call", "5004", "overhead takes", "Changes and faults", "3: allowance", "0 B of 50.0 GB", "4: weekend"],
    ]
    .concat();
    for (name, fragment, size, dark, charts, texts) in [
        ("phone-folded", "", PHONE, false, 0, &folded[..]),
        ("phone-unfolded", "#unfolded", PHONE, true, 6, &whole[..]),
        ("desktop", "", DESKTOP, false, 6, &whole[..]),
        ("desktop-dark", "#unfolded&dark", DESKTOP, false, 6, &whole[..]),
        ("day", "#86400", DESKTOP, true, 6, &whole[..]),
    ] {
        let found = view(browser, testbed, fragment, size, dark, |found| missing(found, charts, texts));
        assert_eq!(found["faults"], json!({}), "{name}");
        assert!(found["scroll"].as_u64() <= found["width"].as_u64(), "{name} scrolls sideways: {found}");
        assert_eq!((found["charts"].as_u64(), found["labelled"].as_u64()), (Some(charts), Some(charts)), "{name}");
        assert_eq!(found["error"], "", "{name}");
        let text = found["text"].as_str().unwrap_or_default();
        assert!(!text.contains("NaN") && !text.contains("undefined") && !text.contains("displaced"), "{name}: {text}");
        answer_comes_first(browser, name);
        if name == "phone-folded" {
            assert!(found["height"].as_u64() < Some(3 * u64::from(PHONE.1)), "more than three screens: {found}");
        }
        if let Some(directory) = std::env::var_os("TIDEGATE_SCREENSHOTS").map(PathBuf::from) {
            std::fs::write(directory.join(format!("{name}.png")), browser.picture().expect("a picture")).expect("kept");
        }
    }
    rules_find_what_is_wrong(browser, testbed);
    keyboard(browser, testbed);
    // A filter in the address leaves the flows of one rule.
    let rows = "[...document.querySelectorAll('#flows tbody tr')].map((row) => row.textContent)";
    view(browser, testbed, "#filter=video", DESKTOP, false, |found| missing(found, 6, &["video call"]));
    let rows = browser.value(rows).expect("rows");
    let rows = rows.as_array().expect("an array");
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.as_str().is_some_and(|row| row.contains("video call"))),
        "{rows:?}"
    );
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    Ended::Passed
}

/// The answer and the hosts are what is seen first, and a full line has not the colour of what is good.
fn answer_comes_first(browser: &mut Browser, name: &str) {
    let grades = "[...document.querySelectorAll('#lines .grade')].map((grade) => grade.textContent)";
    let grades = browser.value(grades).expect("grades");
    let known = |word: &Value| ["good", "fair", "poor"].iter().any(|known| word == known);
    // That of the direction, and one of `calls` and of `web`, whose names state what they are.
    assert!(grades.as_array().is_some_and(|all| all.len() >= 3 && all.iter().all(known)), "{name}: {grades}");
    let top = "document.getElementById('hosts').getBoundingClientRect().top + scrollY";
    assert!(browser.value(top).expect("a place").as_f64() < Some(600.0), "{name}: hosts are far down");
    let colours = "(() => { const bar = document.querySelector('#lines .bar'); bar.classList.add('full'); \
                   const full = getComputedStyle(bar.firstChild).backgroundColor; \
                   const probe = document.createElement('span'); probe.className = 'good'; document.body.append(probe); \
                   const good = getComputedStyle(probe).color; probe.remove(); return [full, good]; })()";
    let colours = browser.value(colours).expect("colours");
    assert_ne!(colours[0], colours[1], "{name}");
}

/// The rules of the probe hold because the page obeys them, not because they find nothing.
fn rules_find_what_is_wrong(browser: &mut Browser, testbed: &Testbed) {
    view(browser, testbed, "", DESKTOP, false, |found| missing(found, 6, &["tg0"]));
    for (rule, script) in [
        ("faint", "document.getElementById('uptime').style.color = '#ccc'"),
        ("wide", "document.querySelector('footer').style.width = '5000px'"),
        ("unnamed", "document.getElementById('pause').textContent = ''"),
        ("small", "document.getElementById('theme').style.cssText = 'min-height:0;height:9px'"),
        ("legend", "document.querySelector('.u-legend').style.cssText = 'margin-top:-60px;position:relative'"),
        ("overlap", "document.querySelector('#lines').style.marginTop = '-40px'"),
        (
            "clipped",
            "document.querySelector('.title').style.cssText = 'overflow:hidden;width:9px;white-space:nowrap;flex-wrap:nowrap'",
        ),
        ("moving", "document.querySelector('footer').style.setProperty('transition-duration', '1s', 'important')"),
    ] {
        browser.value(&format!("document.getElementById('pause').ariaPressed !== 'true' && document.getElementById('pause').click(); {script}; 0")).expect("set");
        let found = browser.value(PROBE).expect("a page");
        assert!(!found["faults"][rule].is_null(), "{rule}: {}", found["faults"]);
    }
}

/// Everything is reached by Tab and shows it; arrows read a chart; a host is unfolded, and the focus stays when the tables
/// are filled again.
fn keyboard(browser: &mut Browser, testbed: &Testbed) {
    view(browser, testbed, "", DESKTOP, false, |found| missing(found, 6, &["10.77.0.1"]));
    let mut reached = Vec::new();
    for _ in 0..80 {
        browser.press("Tab", 9, None).expect("a key");
        let at = "((e) => [e.tagName + '#' + e.id, getComputedStyle(e).outlineStyle, e.dataset.host || ''])(document.activeElement)";
        let at = browser.value(at).expect("an element");
        assert!(
            at[1] != "none" || at[0] == "BODY#" || at[0] == "MAIN#main",
            "{at} does not show that it has the focus"
        );
        reached.push(format!("{} {}", at[0].as_str().unwrap_or_default(), at[2].as_str().unwrap_or_default()));
    }
    assert!(reached[0].starts_with('A'), "the link past the head is the first: {reached:?}");
    for wanted in [
        "BUTTON#pause",
        "DIV#chart-rate",
        "SELECT#heat-class",
        "DIV#chart-promises",
        "BUTTON# 10.77.0.1",
        "INPUT#filter",
    ] {
        assert!(reached.iter().any(|at| at.trim_end().starts_with(wanted)), "{wanted} is not reached: {reached:?}");
    }
    browser.value("document.getElementById('chart-rate').focus()").expect("focus");
    browser.press("ArrowLeft", 37, None).expect("a key");
    let said = browser.value("document.getElementById('said').textContent").expect("text");
    assert!(said.as_str().is_some_and(|said| said.contains("calls") && said.contains("bit/s")), "{said}");
    browser.value("document.querySelector('[data-host]').focus()").expect("focus");
    browser.press("Enter", 13, Some("\r")).expect("a key");
    // Two fillings later.
    let before = browser.value("Date.now()").expect("a time");
    until("the flows of a host, twice", || {
        let now = browser.value("Date.now()").expect("a time");
        let shown = browser.value("document.querySelectorAll('.flows-of li').length").expect("a number");
        shown.as_u64() >= Some(1) && now.as_f64() > before.as_f64().map(|before| before + 2_200.0)
    });
    assert_eq!(browser.value("document.activeElement.dataset.host").expect("a host"), "10.77.0.1");
}
