//! A report in a real browser: plots are drawn, nothing overflows, nothing is fetched, no error is reported; wide and
//! narrow, light and dark, in print.
//!
//! With `TIDEGATE_SHOTS=folder` the screenshots are kept for inspection.

use std::path::{Path, PathBuf};

use tidegate_report::comparison::{Better, Comparison, Estimate, Group, Measure, Row};
use tidegate_report::{Axis, Cell, Curve, Fold, Mood, Panels, Plot, Report, Section, Source, Style, Table};
use tidegate_testbed::browser::{LOOKS, Look, ask, chromium, command, shoot};
use tidegate_testbed::files::skip;

fn wave(n: usize, phase: f64) -> Vec<(f64, f64)> {
    (0..n).map(|i| i as f64 * 60.0 / n as f64).map(|t| (t, 1e7 * (1.0 + (t / 5.0 + phase).sin()))).collect()
}

/// A report with every kind of part.
fn report() -> Report {
    let rates = Plot {
        title: "Rate of each flow".into(),
        x: Axis::new("time", "s"),
        y: Axis::new("rate", "bit/s"),
        style: Style::Lines,
        note: None,
        curves: (0..10).map(|n| Curve::new(format!("flow {n}"), wave(600, n as f64))).collect(),
    };
    let mut long = wave(20_000, 0.0);
    long[11_111].1 = 9e7;
    let long = Plot { title: "Twenty thousand points".into(), curves: vec![Curve::new("one", long)], ..rates.clone() };
    let cdf = Plot {
        note: None,
        title: "Queueing delay, cumulative".into(),
        x: Axis::log("delay", "s"),
        y: Axis::tail("share"),
        style: Style::Cdf,
        curves: ["calls", "bulk transfers of a class with a long name"]
            .iter()
            .enumerate()
            .map(|(k, name)| {
                let at = |n: usize| (1e-5 * 1.05_f64.powi((n * (k + 1)) as i32), (n + 1) as f64 / 100.0);
                Curve::new(*name, (0..100).map(at))
            })
            .collect(),
    };
    let mut cdf = cdf;
    // A share at zero, which a logarithmic axis does not have.
    cdf.curves[0].band = vec![(0.0, 0.0, 0.1), (1e-4, 0.3, 0.5), (1e-3, 0.9, 1.0)];
    let marks = Plot {
        note: None,
        title: "Packets on the link".into(),
        x: Axis::new("time", "s"),
        y: Axis::new("size", "B"),
        style: Style::Marks,
        curves: vec![
            Curve::new("class 1", (0..50).map(|n| (f64::from(n) * 0.01, 1500.0))),
            Curve::new("class 2", (0..20).map(|n| (f64::from(n) * 0.03, 500.0 + f64::from(n)))),
        ],
    };
    let empty = Plot { title: "Nothing happened".into(), curves: vec![], ..rates.clone() };
    // No points for a third of the time, in which the other curve has some.
    let waits = |from: u32, to: u32| (from..=to).map(|n| (f64::from(n) / 10.0, 0.1));
    let halting = Plot {
        note: None,
        title: "Wait".into(),
        y: Axis::new("wait", "s"),
        curves: vec![
            Curve::new("halting", waits(0, 200).chain(waits(400, 600))),
            Curve::new("always", (0..=400).map(|n| (f64::from(n) * 0.15, 0.01))),
        ],
        ..rates.clone()
    }
    .with_gaps();
    // Small multiples, with bands.
    let panel = |n: usize| {
        let mut curves: Vec<Curve> = rates.curves[..3].to_vec();
        for curve in &mut curves {
            curve.band = curve.points.iter().map(|&(x, y)| (x, y * 0.7, y * 1.2 + 1e6 * n as f64)).collect();
        }
        (format!("variant {n}"), Plot { title: format!("Rates, variant {n}"), curves, ..rates.clone() })
    };
    let panels = Panels { title: "Rates".into(), panels: (0..3).map(panel).collect() };
    let mut table = Table::new("What was measured", ["item", "what it is, in words", ">measured", ">bounds", "holds"]);
    for n in 0..8 {
        let holds = if n == 5 { ("NO", Mood::Bad) } else { ("yes", Mood::Good) };
        let holds = Cell { text: holds.0.into(), mood: holds.1 };
        let what = "Short transfers that wait behind long ones, ninety-ninth of a hundred";
        table.row([format!("a{n}.green").into(), what.into(), "12.34 Mbit/s".into(), "10 .. 15".into(), holds]);
    }
    let measures = vec![Measure::new("goodput", "bps", Better::More), Measure::new("delay p99", "ns", Better::Less)];
    let row = |name: &str, rate: f64, delay: f64| {
        let estimate = |mean: f64| {
            Some(Estimate {
                mean,
                half: Some(mean / 9.0),
                values: vec![mean * 0.9, mean, mean * 1.1],
                ..Estimate::default()
            })
        };
        Row { name: name.into(), cells: vec![estimate(rate), estimate(delay)] }
    };
    let rows = vec![row("fifo", 5e6, 9e7), row("fq_codel", 5.1e6, 4e6)];
    let group = Group { name: "flow call".into(), measures, rows, ..Group::default() };
    let comparison = Comparison::new("Two disciplines", vec![group]);
    let folded = Section { fold: Fold::Closed, ..Section::new("Another run").with(rates.clone()) };
    Report {
        title: "A scenario with everything".into(),
        sentence: Some("Ten transfers share 50 Mbit/s".into()),
        facts: vec![
            ("version".into(), "0.1.0".into()),
            ("digest".into(), "0123456789abcdef0123456789abcdef".into()),
            ("seed".into(), "1".into()),
        ],
        sections: vec![
            Section::new("Answer").with(comparison),
            Section::new("Results").with(table),
            Section::new("Over time").note("Run with seed 1.").with(rates).with(long).with(marks).with(panels),
            Section::new("Distributions").with(cdf).with(empty).with(halting),
            folded,
        ],
        sources: vec![Source { name: "scenario.toml".into(), text: "version = 1\n# comment\n".repeat(20) }],
        primary: Vec::new(),
    }
}

/// Examines the page and posts the result to the parent window.
const PROBE: &str = r#"<script>
addEventListener("load", () => setTimeout(() => {
  const pixels = new Map();
  const painted = [...document.querySelectorAll(".plot canvas")].map(canvas => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    pixels.set(canvas, data);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return seen.size;
  });
  // Pixels of the first curve's colour in columns of the plot with a gap, as many as a dash and its gap take: in the first
  // third, and in the middle.
  const gap = (() => {
    const canvas = [...document.querySelectorAll("figure")].find(f => f.querySelector("figcaption").textContent === "Wait")
      .querySelector("canvas");
    const colour = document.createElement("canvas").getContext("2d");
    const halting = JSON.parse(document.getElementById("data").textContent).find(plot => plot.title === "Wait").curves[0];
    colour.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--tg-c" + (halting.colour + 1)).trim();
    colour.fillRect(0, 0, 1, 1);
    const want = colour.getImageData(0, 0, 1, 1).data;
    return [0.3, 0.55].map(part => {
      const data = pixels.get(canvas);
      let hits = 0;
      for (let column = 0; column < 16; column++)
        for (let i = 4 * (Math.floor(canvas.width * part) + column); i < data.length; i += 4 * canvas.width)
          if (data[i + 3] > 100 && [0, 1, 2].every(k => Math.abs(data[i + k] - want[k]) < 30)) hits++;
      return hits > 0;
    });
  })();
  const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre, .skip, .said") &&
    e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className).slice(0, 5);
  const figure = document.querySelector("figure.plot");
  const key = (key, shiftKey) => figure.querySelector(".chart").dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
  key("ArrowRight"); key("ArrowRight");
  const said = figure.querySelector(".said").textContent;
  key("+"); key("+");
  // Every figure is saved as SVG and CSV, and as PNG by way of the same SVG: what the links would have written. Nothing here
  // waits for another process, which virtual time would not wait for.
  const [saved, images] = [[], []];
  window.Blob = class { constructor(parts) { this.text = parts.join(""); } };
  window.Image = class { set src(url) { images.push(decodeURIComponent(url.replace("data:image/svg+xml,", ""))); } };
  let last = null;
  URL.createObjectURL = blob => { last = blob.text; return "saved"; };
  URL.revokeObjectURL = () => {};
  HTMLAnchorElement.prototype.click = function () { saved.push([this.download, last]); };
  document.querySelectorAll(".save").forEach(save => save.querySelectorAll("button").forEach(button => button.click()));
  const drawings = [...document.querySelectorAll(".drawing")].map(template => template.innerHTML);
  const broken = text => /NaN|undefined|var\(/.test(text) ||
    new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror") !== null;
  const vectors = saved.filter(([name]) => name.endsWith(".svg"));
  const tables = saved.filter(([name, text]) => name.endsWith(".csv") && text.split("\n").length > 1);
  const wrong = vectors.filter(([, text]) => broken(text)).map(([name]) => name).concat(images.filter(broken));
  const texts = [...vectors.map(([, text]) => text), ...drawings].flatMap(overlapsAlone).concat(misplaced());
  const faulty = overlapsAlone('<svg viewBox="0 0 90 20"><text x="5" y="10">one</text><text x="9" y="11">two</text><text x="85" y="10">three</text></svg>');
  // The rule for legends finds what is wrong.
  const legend = document.querySelector(".u-legend"), kept = legend.style.cssText;
  const planted = ["margin-top:-60px;position:relative", "width:5000px;text-align:right"].map(style => {
    legend.style.cssText = style;
    const found = legends().length > 0;
    legend.style.cssText = kept;
    return found;
  });
  const before = document.querySelectorAll(".points td").length;
  figure.querySelector(".data").open = true;
  document.querySelector("details.section").open = true;
  setTimeout(() => parent.postMessage({
    saved: [vectors.length, images.length, tables.length], wrong, texts, faulty: faulty.length, planted,
    width: innerWidth, scroll: document.documentElement.scrollWidth, painted, wide, said, gap,
    dark: matchMedia("(prefers-color-scheme: dark)").matches, ground: getComputedStyle(document.body).backgroundColor,
    errors: document.documentElement.dataset.errors, plots: document.documentElement.dataset.plots,
    cells: before + " then " + document.querySelectorAll(".points td").length,
    fetched: performance.getEntriesByType("resource").length,
  }, "*"), 300);
}, 300));
</script>"#;

#[test]
fn a_report_is_whole_wide_and_narrow_light_and_dark() {
    let Some(chromium) = chromium() else {
        return skip("no chromium: reports are not looked at in a browser");
    };
    let folder = std::env::temp_dir().join(format!("tidegate-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let report = report();
    let page = report.html();
    let titles = report
        .plots()
        .filter(|plot| !plot.curves.is_empty())
        .map(|plot| plot.title.clone())
        .chain(["rates".into(), "box plots".into()]);
    let drawings: Vec<String> = titles.map(|title| report.figure(&title, "").expect("a figure")).collect();
    assert!(drawings.len() > 10);
    // Those that are written without a browser, for the probe.
    let drawings =
        drawings.iter().map(|svg| format!("<template class=\"drawing\">{svg}</template>")).collect::<String>();
    let page = page.replace("</body>", &format!("{drawings}</body>"));
    std::fs::write(folder.join("report.html"), &page).expect("written");
    for look in &LOOKS {
        let (found, said) = ask(&chromium, &folder, &page, PROBE, look);
        eprintln!("{}: {found}", look.name);
        let has = |part: &str| assert!(found.contains(part), "{}: {part} is not in {found}", look.name);
        has(&format!("\"width\":{w},\"scroll\":{w},", w = look.width));
        has("\"wide\":[]");
        has("\"errors\":\"0\",\"plots\":\"10\"");
        has("\"texts\":[],\"faulty\":4,\"planted\":[true,true]");
        has("\"gap\":[true,false]");
        // The comparison and its box plots, the six plots of open sections, the panels together, and the plot of the section
        // that is opened.
        has("\"saved\":[10,10,10],\"wrong\":[]");
        has("\"fetched\":0");
        has(&format!("\"dark\":{}", look.dark));
        has(if look.dark { "rgb(13, 15, 19)" } else { "rgb(246, 247, 249)" });
        // Ten flows of two numbers per row (with the name as the row's header), at most 2000 rows.
        has("\"cells\":\"0 then 4000\"");
        // The second point of 600 in 60 s; steps are a hundredth of the window at least.
        has("\"said\":\"600 ms: flow 0 11.2 Mbit/s, ");
        let painted = found.split_once("\"painted\":[").and_then(|(_, rest)| rest.split_once(']')).map_or("", |p| p.0);
        let colours: Vec<u32> = painted.split(',').filter_map(|n| n.parse().ok()).collect();
        assert_eq!(colours.len(), 10, "{}: {painted}", look.name);
        // Text, grid and curves: ten curves give more colours than one, and an empty plot has its axes.
        assert!(colours.iter().all(|n| *n >= 3) && colours[0] > colours[7], "{}: {colours:?}", look.name);
        assert!(said.is_empty(), "{}: {said:?}", look.name);
    }
    if let Some(shots) = std::env::var_os("TIDEGATE_SHOTS").map(PathBuf::from) {
        std::fs::create_dir_all(&shots).expect("a folder for screenshots");
        screenshots(&chromium, &folder, &shots);
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}

/// Screenshots of whole pages.
fn screenshots(chromium: &Path, folder: &Path, shots: &Path) {
    for look in &LOOKS {
        shoot(chromium, folder, &shots.join(format!("{}.png", look.name)), look);
    }
    let look = Look { name: "paper", width: 800, dark: true };
    let paper = shots.join("paper.pdf");
    let output = command(chromium, folder, &look)
        .args(["--virtual-time-budget=3000", "--no-pdf-header-footer"])
        .arg(format!("--print-to-pdf={}", paper.display()))
        .arg(format!("file://{}", folder.join("report.html").display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success() && paper.is_file());
}
