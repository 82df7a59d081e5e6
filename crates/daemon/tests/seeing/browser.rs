//! The page in a real browser, on real traffic: its content, that its own policy refuses nothing, and screenshots
//! (`TIDEGATE_SCREENSHOTS=directory` keeps pictures).

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::Ended;
use crate::testbed::{PATIENCE, Testbed, until};

/// How long a browser may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub fn a_browser_shows_it() -> Ended {
    let Some(browser) = find() else {
        return Ended::Skipped("no chromium; install it to test the page (apt install chromium)".into());
    };
    let testbed = Testbed::start("browser");
    // A request starts the observation, so that flows are known when the browser loads the page.
    until("all flows, with their rates", || {
        let now: serde_json::Value = serde_json::from_str(&testbed.get("/api/now").1).expect("JSON");
        let flows = now["directions"][0]["flows"].as_array();
        flows.is_some_and(|flows| {
            let to = |port: u64| move |flow: &&serde_json::Value| flow["flow"]["destination_port"] == port;
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

/// Returns the page as the browser shows it after a while, and the browser's messages; repeated while `missing` finds
/// something, for a browser that is scheduled late.
fn page(
    testbed: &Testbed,
    browser: &Path,
    home: &Path,
    fragment: &str,
    missing: impl Fn(&str) -> Option<String>,
) -> Result<(String, String), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = run(testbed, browser, home, &["--virtual-time-budget=3500", "--dump-dom"], fragment)?;
        let (dom, talk) = (text(&output.stdout), text(&output.stderr));
        match missing(&dom) {
            None => return Ok((dom, talk)),
            Some(what) => assert!(Instant::now() < deadline, "{what} is missing: {dom}\n{talk}"),
        }
    }
}

fn look(testbed: &Testbed, browser: &Path, home: &Path) -> Ended {
    fn body(dom: &str) -> &str {
        &dom[dom.find("<body").expect("a body")..]
    }
    let expected = ["tg0", "in force", "calls", "web", "besteffort", "video call", "Mbit/s", "10.77.0.1"];
    let missing = |dom: &str| {
        if !dom.contains("data-ready=\"yes\"") {
            return Some("the end of the script".to_owned());
        }
        let text = expected.iter().find(|text| !body(dom).contains(**text)).map(|text| text.to_string());
        // They are drawn once there is a second of history, which may be after the page has loaded.
        text.or_else(|| (!body(dom).contains("<canvas")).then(|| "a chart".to_owned()))
    };
    let (dom, talk) = match page(testbed, browser, home, "", missing) {
        Ok(page) => page,
        Err(why) => return Ended::Skipped(format!("{} does not run here: {why}", browser.display())),
    };
    let body = body(&dom);
    assert!(!body.contains("displaced"), "it is in no cell as long as nothing is displaced");
    assert_eq!(body.matches("<canvas").count(), 4, "four charts");
    assert!(!body.contains("no answer") && !body.contains("NaN") && !body.contains("undefined"), "{body}");
    let policy = talk.lines().find(|line| line.contains("Content Security Policy") || line.contains("Uncaught"));
    assert!(policy.is_none(), "{policy:?}");

    // A filter in the address leaves the flows of one rule.
    fn rows(dom: &str) -> Vec<&str> {
        dom.split_once("id=\"flows\"").map(|(_, table)| table.split("<tr>").skip(2).collect()).unwrap_or_default()
    }
    let missing = |dom: &str| rows(dom).is_empty().then(|| "a flow".to_owned());
    let (dom, _) = page(testbed, browser, home, "#filter=video", missing).expect("again");
    assert!(rows(&dom).iter().all(|row| row.contains("video call")), "{dom}");

    if let Some(directory) = std::env::var_os("TIDEGATE_SCREENSHOTS").map(PathBuf::from) {
        for (name, size, at) in [
            ("wide-light", "1400,1300", "#light"),
            ("wide-dark", "1400,1300", "#dark"),
            ("phone-light", "390,2600", "#light"),
            ("phone-dark", "390,2600", "#dark"),
        ] {
            let picture = format!("--screenshot={}", directory.join(format!("{name}.png")).display());
            let window = format!("--window-size={size}");
            let flags = ["--virtual-time-budget=3500", "--hide-scrollbars", &picture, &window];
            run(testbed, browser, home, &flags, at).expect("a picture");
        }
    }
    Ended::Passed
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file())
}

/// Runs the browser on the page, in the namespace of the sender.
fn run(testbed: &Testbed, browser: &Path, home: &Path, flags: &[&str], fragment: &str) -> Result<Output, String> {
    let mut command = testbed.pair.sender.namespace.command(browser).map_err(|error| error.to_string())?;
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"])
        .args(["--disable-dev-shm-usage", "--disable-extensions", "--enable-logging=stderr", "--log-level=0"])
        .arg(format!("--user-data-dir={}", home.display()))
        .args(flags)
        .arg(format!("http://{}/{fragment}", testbed.web))
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(command.spawn().map_err(|error| error.to_string())?)?;
    if output.status.success() { Ok(output) } else { Err(text(&output.stderr)) }
}

/// Waits for the end of the browser, but not for ever.
fn finish(mut child: Child) -> Result<Output, String> {
    use std::io::Read;
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let stdout = out.join().unwrap_or_default();
                return Ok(Output { status, stdout, stderr: err.join().unwrap_or_default() });
            }
            Ok(None) if began.elapsed() < LIMIT => sleep(Duration::from_millis(20)),
            other => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end: {other:?}"));
            }
        }
    }
}
