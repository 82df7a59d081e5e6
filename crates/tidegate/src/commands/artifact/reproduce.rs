//! Repeats an artifact and compares.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_report::{Format, Look};

use super::claims::{self, Claim};
use super::inputs::{Inside, inside};
use super::own::{self, Own};
use super::ran::{Plan, Ran};
use super::readme;
use super::sums::{self, Sums};
use super::values;
use super::{Expected, FIGURE_TOLERANCE, Manifest, TABLE, is_plain};
use crate::Failure;

/// The most values that are printed of those that differ; a file has all.
const MOST_VALUES: usize = 10;

/// Repeats the artifact in `folder` or, of several in it, each.
///
/// # Errors
/// Invalid usage if one is damaged, and a failure if the results of one are not reproduced.
pub fn reproduce(folder: &Path, jobs: Option<u16>) -> Result<(), Failure> {
    if folder.join("artifact.json").symlink_metadata().is_ok() {
        return repeat(folder, jobs);
    }
    let (sums, others) = Sums::check(folder)?;
    let manifests = sums.names().filter(|name| name.ends_with("artifact.json") && name.components().count() == 2);
    let parts: Vec<&Path> = manifests.filter_map(Path::parent).collect();
    if parts.is_empty() {
        return Err(Failure::Usage(format!("{}: there is no artifact.json", folder.display())));
    }
    let mut out = Unread(crate::output::stdout());
    writeln!(out, "SHA-256 of {}: {}", sums::NAME, sums.of_all())?;
    for other in &others {
        writeln!(out, "{}: not packed, and not checked", other.display())?;
    }
    let mut reproduced = 0;
    for part in &parts {
        writeln!(out, "\n{}", part.display())?;
        out.flush()?;
        match repeat(&folder.join(part), jobs) {
            Ok(()) => reproduced += 1,
            Err(Failure::Negative) => {}
            Err(other) => return Err(other),
        }
    }
    writeln!(out, "\nreproduced: {reproduced} of {}", parts.len())?;
    out.flush()?;
    if reproduced == parts.len() { Ok(()) } else { Err(Failure::Negative) }
}

/// Runs the artifact in `folder`, writes its figures into `reproduced` there, and says whether they are as expected.
///
/// # Errors
/// Invalid usage if the artifact is damaged, and a failure if its results are not reproduced.
fn repeat(folder: &Path, jobs: Option<u16>) -> Result<(), Failure> {
    let (sums, others) = Sums::check(folder)?;
    let manifest = read(folder)?;
    let mut out = Unread(crate::output::stdout());
    let ours = env!("CARGO_PKG_VERSION");
    writeln!(out, "{}", manifest.title)?;
    writeln!(out, "SHA-256 of {}: {}", sums::NAME, sums.of_all())?;
    if let Some(first) = others.first() {
        let more = if others.len() == 1 { String::new() } else { format!(" and {} more", others.len() - 1) };
        writeln!(out, "{}{more}: not packed, and not checked", first.display())?;
    }
    if let Some(needs) = &manifest.needs
        && Own::of_this_program().is_none()
    {
        return Err(Failure::Usage(format!(
            "this artifact needs `{needs}`, which is tidegate with what the crate in its folder `{}` adds: README.md says how to build it, and \
             TIDEGATE=/path/to/{needs} names it",
            own::FOLDER
        )));
    }
    let program = sums::of_program().unwrap_or_default();
    let build = match (manifest.version == ours, program == manifest.program) {
        (true, true) => ", the same program",
        (true, false) => ", another build",
        (false, _) => "",
    };
    writeln!(
        out,
        "made with tidegate {}, repeated with tidegate {ours}{build}: {} runs",
        manifest.version,
        manifest.digests.len()
    )?;
    if manifest.seconds > 0.0 {
        let (took, processors) = (tidegate_display::human(manifest.seconds, "s"), manifest.processors);
        let plural = if processors == 1 { "" } else { "s" };
        writeln!(out, "they took {took} on {processors} processor{plural} when it was packed")?;
    }
    out.flush()?;
    let inside = Inside { folder: &folder.join("input"), name: Path::new(&manifest.scenario) };
    let Manifest { axes, by, seed, runs, .. } = &manifest;
    let ran = Ran::new(&inside, &Plan { axes, by, seed: *seed, runs: *runs, jobs })?;
    let digest = ran.digest();
    let same = digest == manifest.digest;
    // Runs that are the same, whatever the artifact says of all of them, have the same values.
    let same_runs = same || ran.digests() == manifest.digests;
    let comparison = ran.comparison()?;
    let mut wrong: Vec<String> = Vec::new();
    if same {
        writeln!(out, "digest {digest}: as expected, so that every run is the same, bit for bit")?;
    } else if manifest.version == ours {
        wrong.push(format!(
            "digest {digest}: expected was {}, and with the same version it must be equal",
            manifest.digest
        ));
    } else if same_runs {
        wrong.push(format!(
            "digest {digest} of the runs, each of which has the digest that is expected: expected was {}",
            manifest.digest
        ));
    } else {
        writeln!(out, "digest {digest}: expected was {}; values are compared with their tolerances", manifest.digest)?;
    }
    wrong.extend(digests(&manifest, &ran, ours));
    let found: Vec<Expected> = ran.quantities()?.into_iter().map(Expected::from).collect();
    let compared = match same_runs {
        true => values::exactly(&manifest, &found),
        false => values::within_tolerances(&manifest, &found),
    };
    for line in compared.remarks() {
        writeln!(out, "{line}")?;
    }
    let look = Look::parse(&manifest.look).map_err(Failure::Usage)?;
    let found_here = look.stated(&comparison, &manifest.primary).map(|stated| Claim::of(&stated.0)).unwrap_or_default();
    let primary = claims::planned(&comparison, &manifest.primary)?;
    let checked = claims::check(&manifest.claims, &ran.claimable()?, primary.as_ref());
    for (claim, checked) in manifest.claims.iter().zip(checked) {
        match checked {
            // Equal runs have equal evidence: another text was written by hand.
            Ok(evidence) if same && !claim.has_evidence(&evidence, &found_here) => {
                wrong.push(format!("claim {}: its evidence is not `{}`", claim.line(), claim.evidence()));
            }
            Ok(_) => writeln!(out, "claim supported: {}", claim.line())?,
            Err(why) => wrong.push(why),
        }
    }
    let exact = same && manifest.version == ours;
    // Whatever the version: the README is what people read, and the values of artifact.json are what is compared.
    wrong.extend(readme::check(&text(folder, "README.md")?, &manifest));
    if !exact {
        let why = if manifest.version == ours { "another digest" } else { "another version" };
        writeln!(out, "not checked with {why}: expected/*.pdf and expected/report.html; see those in reproduced")?;
    }
    let new = fresh(&folder.join("reproduced"))?;
    for line in figures(&manifest, folder, &ran, &new, exact)? {
        match line {
            Ok(as_expected) => writeln!(out, "{as_expected}")?,
            Err(why) => wrong.push(why),
        }
    }
    writeln!(out, "figures and a report are in {}", new.display())?;
    // Claims and figures are what a reader asks about; the values behind them may be many.
    let others = wrong.len();
    wrong.extend(compared.wrong);
    if wrong.is_empty() {
        writeln!(out, "reproduced{}", if same { "" } else { " within the tolerances" })?;
        out.flush()?;
        return Ok(());
    }
    for what in wrong.iter().take(others + MOST_VALUES) {
        writeln!(out, "{what}")?;
    }
    if wrong.len() > others + MOST_VALUES {
        let list = new.join("differences.txt");
        fs::write(&list, wrong.join("\n") + "\n")
            .map_err(|error| Failure::Failed(format!("{}: {error}", list.display())))?;
        writeln!(out, "and {} more values, which {} has", wrong.len() - others - MOST_VALUES, list.display())?;
    }
    writeln!(
        out,
        "not reproduced: {} of {} values, claims and figures differ",
        wrong.len(),
        manifest.values.len() + manifest.claims.len() + manifest.figures.len()
    )?;
    out.flush()?;
    Err(Failure::Negative)
}

/// Output that goes on when its reader is gone: the exit code is the answer of this command, and must not be that of a closed pipe.
struct Unread<W>(W);

impl<W: Write> Unread<W> {
    fn unless_closed<T>(outcome: std::io::Result<T>, otherwise: T) -> std::io::Result<T> {
        match outcome {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(otherwise),
            outcome => outcome,
        }
    }
}

impl<W: Write> Write for Unread<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::unless_closed(self.0.write(bytes), bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Self::unless_closed(self.0.flush(), ())
    }
}

/// Returns the mistake in the digests of the runs: there must be one for each, and with the same version they must be those of the runs
/// made here.
fn digests(manifest: &Manifest, ran: &Ran, ours: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let runs = manifest.runs as usize * ran.points().unwrap_or(1);
    if manifest.digests.len() != runs {
        wrong.push(format!("artifact.json: {} digests of {runs} runs", manifest.digests.len()));
    } else if manifest.version == ours {
        let pairs = manifest.digests.iter().zip(ran.digests());
        let other = pairs.enumerate().filter(|(_, (expected, found))| *expected != found);
        wrong.extend(other.map(|(n, (expected, found))| {
            format!("digest of {} is {found}: expected was {expected}, and it must be equal", ran.name_of(n))
        }));
    }
    wrong
}

/// Draws the figures and the report into the folder `new`, and compares the figures with what is expected: by their points, and if
/// `exact` byte for byte. Returns a line for each, as an error where it is not as expected.
fn figures(
    manifest: &Manifest,
    folder: &Path,
    ran: &Ran,
    new: &Path,
    exact: bool,
) -> Result<Vec<Result<String, String>>, Failure> {
    let look = Look::parse(&manifest.look).map_err(|why| Failure::Usage(format!("artifact.json: {why}")))?;
    let report = ran.report()?;
    let mut lines = Vec::new();
    for figure in &manifest.figures {
        let name = &figure.name;
        let drawing = figure.drawing(ran, &report, &look)?;
        let mut different = Vec::new();
        let (svg, pdf) = (drawing.svg(), drawing.bytes(Format::Pdf).map_err(Failure::Failed)?);
        for (format, bytes) in [(Format::Svg, svg.as_bytes()), (Format::Pdf, &pdf)] {
            let file = format!("{name}.{}", format.ending());
            place(&new.join(&file), bytes)?;
            if exact && bytes != contents(folder, &format!("expected/{file}"))? {
                different.push(Err(format!("expected/{file}: it is not what these results give")));
            }
        }
        // Whoever changes an artifact cannot widen it.
        let limit = manifest.figure_tolerance_percent.min(FIGURE_TOLERANCE);
        let expected = text(folder, &format!("expected/{name}.svg"))?;
        lines.push(match distance(&expected, &svg) {
            Some(0.0) => Ok(format!("figure {name}: as expected")),
            Some(far) if far <= limit => Ok(format!("figure {name}: no point is farther than {far:.2} % of its width")),
            Some(far) => Err(format!(
                "figure {name}: a point is {far:.4} % of the width from its place; at most {limit} % are expected"
            )),
            None => Err(format!("figure {name}: it has other texts or another number of points")),
        });
        lines.append(&mut different);
    }
    let html = report.html();
    place(&new.join("report.html"), html.as_bytes())?;
    if exact && html.as_bytes() != contents(folder, "expected/report.html")? {
        lines.push(Err("expected/report.html: it is not what these results give".into()));
    }
    if let Some(results) = ran.results()? {
        place(&new.join(Path::new(TABLE).file_name().unwrap_or_default()), &results)?;
        if exact && results != contents(folder, TABLE)? {
            lines.push(Err(format!("{TABLE}: it is not what these results give")));
        }
    }
    Ok(lines)
}

/// The bytes of a file of the artifact.
fn contents(folder: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let read = inside(folder, Path::new(name)).and_then(fs::read);
    read.map_err(|error| Failure::Usage(format!("{name}: {error}")))
}

/// The text of a file of the artifact.
fn text(folder: &Path, name: &str) -> Result<String, Failure> {
    String::from_utf8(contents(folder, name)?).map_err(|error| Failure::Usage(format!("{name}: {error}")))
}

/// Reads `artifact.json`, which others may have written.
fn read(folder: &Path) -> Result<Manifest, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}/artifact.json: {why}", folder.display()));
    let path = inside(folder, Path::new("artifact.json")).map_err(|error| wrong(error.to_string()))?;
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if manifest.artifact != 1 {
        return Err(wrong(format!("form {} is of a later tidegate; this one knows form 1", manifest.artifact)));
    }
    if !(1..=100_000).contains(&manifest.runs)
        || manifest.figures.len().max(manifest.claims.len()).max(manifest.axes.len()) > 1_000
    {
        return Err(wrong("from 1 to 100000 runs and at most 1000 figures, claims and axes are expected".into()));
    }
    if let Some(figure) = manifest.figures.iter().find(|figure| !is_plain(&figure.name)) {
        return Err(wrong(format!("`{}` cannot be the name of a figure", figure.name)));
    }
    Ok(manifest)
}

/// The folder for what is drawn anew. A link in its place is not followed.
fn fresh(folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", folder.display()));
    match folder.symlink_metadata() {
        Err(_) => fs::create_dir(folder).map_err(failed)?,
        Ok(data) if data.is_dir() => {}
        Ok(_) => return Err(Failure::Usage(format!("{} is in the way: it is no folder", folder.display()))),
    }
    Ok(folder.to_owned())
}

/// Writes a file anew, in the place of an earlier one or of a link, which is removed and not followed.
fn place(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    if path.symlink_metadata().is_ok() {
        fs::remove_file(path).map_err(failed)?;
    }
    let mut file = fs::File::create_new(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}

/// How far the points of two figures are apart at most, in percent of the width of the first; `None` if they differ in
/// anything but numbers.
fn distance(expected: &str, found: &str) -> Option<f64> {
    if expected == found {
        return Some(0.0);
    }
    let (ours, theirs) = (parts(expected), parts(found));
    if ours.len() != theirs.len() {
        return None;
    }
    let width =
        expected.split("viewBox=\"0 0 ").nth(1)?.split(' ').next()?.parse::<f64>().ok().filter(|width| *width > 0.0)?;
    let mut most = 0.0_f64;
    for (a, b) in ours.into_iter().zip(theirs) {
        match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => most = most.max((a - b).abs()),
            _ if a == b => {}
            _ => return None,
        }
    }
    Some(most / width * 100.0)
}

/// The numbers of a figure, and the texts between them. What is written in a figure is one text.
fn parts(svg: &str) -> Vec<&str> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let mut parts = Vec::new();
    for (n, tag) in svg.split(['<', '>']).enumerate() {
        if n % 2 == 0 {
            parts.push(tag);
            continue;
        }
        let mut rest = tag;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c: char| is_number(c) != is_number(first)).unwrap_or(rest.len());
            parts.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_by_their_points_and_texts() {
        let svg = |x: &str, label: &str| {
            format!("<svg viewBox=\"0 0 200 100\">\n<path d=\"M{x},1.5L20,-3\"/>\n<text x=\"3\">{label}</text>\n</svg>")
        };
        assert_eq!(distance(&svg("10", "10 ms"), &svg("10", "10 ms")), Some(0.0));
        assert_eq!(distance(&svg("10", "10 ms"), &svg("11", "10 ms")), Some(0.5));
        assert_eq!(distance(&svg("10", "10 ms"), &svg("10", "11 ms")), None, "a text");
        assert_eq!(distance(&svg("10", "a"), &svg("10,2L3", "a")), None, "another point");
    }
}
