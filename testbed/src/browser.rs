//! A page in a real browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::files::skip;

/// The time limit of a browser on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser, if there is one.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// How a page is displayed.
pub struct Look<'a> {
    /// The name of this display.
    pub name: &'a str,
    /// The width in pixels.
    pub width: u32,
    /// Whether the system setting is dark.
    pub dark: bool,
}

/// Wide and narrow, light and dark.
pub const LOOKS: [Look<'static>; 4] = [
    Look { name: "wide-light", width: 1280, dark: false },
    Look { name: "wide-dark", width: 1280, dark: true },
    Look { name: "narrow-light", width: 390, dark: false },
    Look { name: "narrow-dark", width: 390, dark: true },
];

/// The command that runs the browser, headless, with its files in `folder`.
pub fn command(chromium: &Path, folder: &Path, look: &Look<'_>) -> Command {
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]);
    command.args([
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--disable-component-update",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join(format!("profile-{}", look.name)).display()));
    // 0 is dark, 1 is light.
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!look.dark)));
    command.env("HOME", folder);
    command
}

/// Displays `page` with `probe` in it, a script that posts its findings to the parent window; returns these and the
/// output of the console.
pub fn ask(chromium: &Path, folder: &Path, page: &str, probe: &str, look: &Look<'_>) -> (String, Vec<String>) {
    std::fs::write(folder.join("probe.html"), page.replace("</body>", &format!("{RULES}{probe}</body>")))
        .expect("written");
    // A frame can be as narrow as needed; windows cannot.
    let frame = format!(
        "<!doctype html><body><iframe src=probe.html style=\"border:0;width:{}px;height:900px\"></iframe>\
         <script>onmessage = event => document.body.textContent = JSON.stringify(event.data)</script>",
        look.width
    );
    let file = folder.join(format!("{}.html", look.name));
    std::fs::write(&file, frame).expect("written");
    // A browser without processor time in its first seconds may end without a result: try again.
    let deadline = Instant::now() + PATIENCE;
    let (found, talk) = loop {
        let mut command = command(chromium, folder, look);
        command.args(["--allow-file-access-from-files", "--window-size=1400,1000", "--virtual-time-budget=8000"]);
        let (dom, talk) = finish(command.arg("--dump-dom").arg(format!("file://{}", file.display())));
        let found = dom.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(found, _)| found);
        if !found.is_empty() {
            break (found.to_owned(), talk);
        }
        assert!(Instant::now() < deadline, "{}: no answer of the page\n{dom}\n{talk}", look.name);
    };
    let said = talk.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (found, said)
}

/// Runs the browser and returns its standard output and error. Kills it at the time limit.
fn finish(command: &mut Command) -> (String, String) {
    use std::io::Read;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // An unreadable pipe counts as empty.
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child of ours").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    (out.join().expect("no panic"), err.join().expect("no panic"))
}

/// Finds the texts of SVG drawings that are outside of their picture, or over each other.
pub const RULES: &str = r#"<script>
function overlaps(svg) {
  const frame = svg.getBoundingClientRect();
  // A line of text is lower than its box.
  const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim()).map(text => {
    const { left, right, top, bottom } = text.getBoundingClientRect(), spare = (bottom - top) * 0.2;
    return { name: text.textContent, left, right, top: top + spare, bottom: bottom - spare };
  });
  const outside = texts.filter(t => t.left < frame.left - 1 || t.right > frame.right + 1 || t.top < frame.top - 1 || t.bottom > frame.bottom + 1);
  const over = texts.flatMap((a, n) => texts.slice(n + 1).filter(b =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
    .map(b => a.name + " over " + b.name));
  return outside.map(text => text.name + " outside").concat(over).slice(0, 5);
}
// As it is seen when it is opened by itself.
function overlapsAlone(text) {
  const box = document.createElement("div");
  box.style.cssText = "position:absolute;left:0;top:0;width:900px;visibility:hidden";
  box.innerHTML = text;
  document.body.append(box);
  const found = overlaps(box.querySelector("svg"));
  box.remove();
  return found;
}
// Parts of the page of which one is over another, or cut off.
function misplaced() {
  const seen = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const name = e => e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 20);
  const parents = document.querySelectorAll("main > section, figure, .bar, .grid, .facts, nav");
  const over = [...parents].flatMap(parent => {
    const parts = [...parent.children].filter(seen).map(e => [e, e.getBoundingClientRect()]);
    return parts.flatMap(([a, p], n) => parts.slice(n + 1).filter(([, q]) =>
      Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1)
      .map(([b]) => name(a) + " over " + name(b)));
  });
  const cut = [...document.querySelectorAll("main *")].filter(e => !e.closest(".uplot, .said, table, svg") &&
    e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden").map(e => name(e) + " cut off");
  return over.concat(cut, legends()).slice(0, 5);
}
// Entries of legends that are over each other or over their plot, cut off, or outside of their figure.
function legends() {
  return [...document.querySelectorAll(".u-legend")].flatMap(legend => {
    const seen = [...legend.querySelectorAll(".u-label, .u-value")].filter(e => e.getClientRects().length > 0 && e.textContent.trim());
    const entries = seen.map(e => [e, e.getBoundingClientRect()]);
    const wrap = legend.parentElement.querySelector(".u-wrap").getBoundingClientRect();
    const figure = legend.closest("figure, .chart").getBoundingClientRect();
    const meet = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1;
    return entries.flatMap(([a, p], n) => [
      ...entries.slice(n + 1).filter(([b, q]) => !a.contains(b) && !b.contains(a) && meet(p, q)).map(([b]) => a.textContent + " over " + b.textContent),
      ...meet(p, wrap) ? [a.textContent + " over the plot"] : [],
      ...p.left < figure.left - 1 || p.right > figure.right + 1 || p.bottom > figure.bottom + 1 ? [a.textContent + " outside"] : [],
      ...a.scrollWidth > a.clientWidth + 1 && getComputedStyle(a).overflowX === "hidden" ? [a.textContent + " cut off"] : [],
    ]);
  });
}
</script>"#;

/// Opens all details, zooms every plot to a half and back, and posts the result.
const PROBE: &str = r#"<script>
addEventListener("load", () => setTimeout(() => {
  document.querySelectorAll("details.section").forEach(details => { details.open = true; });
  setTimeout(() => {
    const figures = [...document.querySelectorAll("figure[data-plot]")];
    const title = figure => figure.querySelector("h3, figcaption, .title, [id]")?.textContent || figure.dataset.plot;
    const blank = figures.filter(figure => {
      const canvas = figure.querySelector("canvas");
      if (!canvas) return true;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size < 3;
    }).map(title);
    const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre, .skip, .said") &&
      e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className).slice(0, 5);
    const press = key => figures.forEach(figure => figure.querySelector(".chart")
      .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
    const widths = () => figures.map(figure => {
      const [low, high] = (figure.dataset.window || "0 0").split(" ").map(Number);
      return figure.dataset.log === "true" ? Math.log(high / low) : high - low;
    });
    const texts = [...document.querySelectorAll(".comparison svg")].flatMap(overlaps).concat(misplaced());
    const before = widths();
    press("+");
    setTimeout(() => {
      const zoomed = widths();
      press("0");
      setTimeout(() => {
        const after = widths();
        const off = (a, b) => Math.abs(a - b) > 1e-6 * Math.abs(b);
        const stuck = figures.filter((f, n) => !(before[n] > 0) || off(zoomed[n], before[n] / 2) || off(after[n], before[n]));
        parent.postMessage({
          width: innerWidth, scroll: document.documentElement.scrollWidth, wide, texts, blank, stuck: stuck.map(title),
          dark: matchMedia("(prefers-color-scheme: dark)").matches,
          errors: document.documentElement.dataset.errors, drawn: Number(document.documentElement.dataset.plots),
          figures: figures.length, fetched: performance.getEntriesByType("resource").length,
        }, "*");
      }, 300);
    }, 300);
  }, 500);
}, 300));
</script>"#;

/// Examines a report that a command wrote: all plots are drawn and can be zoomed, nothing overflows, nothing is
/// fetched, no error is reported. It has at least `plots` plots. With `TIDEGATE_SHOTS=folder` screenshots are kept
/// for inspection.
pub fn look_at(page: &Path, plots: usize) {
    let name = page.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let Some(chromium) = chromium() else {
        return skip("no chromium: reports of the commands are not looked at in a browser");
    };
    let folder = std::env::temp_dir().join(format!("tidegate-look-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let text = std::fs::read_to_string(page).expect("a report");
    for look in &LOOKS {
        let (found, said) = ask(&chromium, &folder, &text, PROBE, look);
        let at = format!("{name}, {}: {found}", look.name);
        let has = |part: &str| assert!(found.contains(part), "{part} is not in {at}");
        has(&format!(
            "\"width\":{w},\"scroll\":{w},\"wide\":[],\"texts\":[],\"blank\":[],\"stuck\":[],",
            w = look.width
        ));
        has(&format!("\"dark\":{},\"errors\":\"0\"", look.dark));
        has("\"fetched\":0");
        let number = |key: &str| -> usize {
            let (_, rest) = found.split_once(&format!("\"{key}\":")).expect("the page tells it");
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
        };
        assert!(number("drawn") == number("figures") && number("figures") >= plots, "{at}");
        assert!(said.is_empty(), "{at} {said:?}");
        if let Some(shots) = std::env::var_os("TIDEGATE_SHOTS").map(PathBuf::from) {
            std::fs::create_dir_all(&shots).expect("a folder for screenshots");
            std::fs::write(folder.join("report.html"), &text).expect("written");
            shoot(&chromium, &folder, &shots.join(format!("{name}-{}.png", look.name)), look);
        }
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}

/// Takes a screenshot of a whole page, `report.html` of `folder`.
pub fn shoot(chromium: &Path, folder: &Path, shot: &Path, look: &Look<'_>) {
    let frame = format!(
        "<!doctype html><body style=\"margin:0\"><iframe src=report.html style=\"border:0;width:{}px;height:3400px\"></iframe>",
        look.width
    );
    let file = folder.join("frame.html");
    std::fs::write(&file, frame).expect("written");
    let output = command(chromium, folder, look)
        .arg(format!("--window-size={},3400", look.width.max(500)))
        .args(["--virtual-time-budget=3000"])
        .arg(format!("--screenshot={}", shot.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success() && shot.is_file(), "{}", look.name);
}
