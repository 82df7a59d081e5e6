//! Packs an artifact.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate_report::comparison::Comparison;
use tidegate_report::{Format, Look};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::scenario::sweep::Axis;

use super::claims::{self, Claim};
use super::inputs::{Inputs, Inside, load};
use super::own::{self, Own};
use super::ran::{Plan, Ran};
use super::sums::{self, Sums};
use super::{Args, Expected, FIGURE_TOLERANCE, FigureSpec, Manifest, TABLE, is_plain, readme};
use crate::Failure;
use crate::commands::compare::Named;

/// The script of an artifact.
const SCRIPT: &str = include_str!("../../../templates/artifact/reproduce");

/// The script, which calls a program with this one's name.
fn script() -> String {
    let program = Own::of_this_program().map_or_else(|| "tidegate".to_owned(), |own| own.program);
    SCRIPT.replace("{{program}}", &program)
}

/// A failure with the path of a file.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Failed(format!("{path}: {error}"))
}

/// One of the scenarios, with the options that are for it.
struct Part<'a> {
    file: &'a Path,
    /// The name that was given or else that of the file, which several have for their folders.
    name: String,
    axes: Vec<String>,
    by: Vec<String>,
    figures: Vec<FigureSpec>,
    claims: Vec<Claim>,
}

/// The scenarios with the options that are for each. Of several, an option begins with the name of its scenario; figures without one are
/// those of all.
fn parts(args: &Args) -> Result<Vec<Part<'_>>, Failure> {
    let is_several = args.scenario.len() > 1;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for Named { name, path } in &args.scenario {
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.clone().or_else(stem).unwrap_or_default();
        let wrong = |why: &str| Err(Failure::Usage(format!("{}: {why}", path.display())));
        if is_several && !is_plain(&name) {
            return wrong("the name of one of several scenarios has letters, digits, - and _ alone; write NAME=FILE");
        }
        if parts.iter().any(|part| part.name == name) {
            return wrong("another scenario has its name, too; write NAME=FILE");
        }
        let (axes, by, figures, claims) = Default::default();
        parts.push(Part { file: path, name, axes, by, figures, claims });
    }
    let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
    // The place of the scenario that an option begins with, if it does, and the rest.
    let scoped = |text: &str| {
        let named = text.split_once(": ").and_then(|(name, rest)| Some((names.iter().position(|n| n == name)?, rest)));
        named.map_or((None, text.to_owned()), |(at, rest)| (Some(at), rest.to_owned()))
    };
    let of_one = |option: &str, text: &str| match scoped(text) {
        (None, _) if is_several => {
            let begin: Vec<String> = names.iter().map(|name| format!("`{name}: `")).collect();
            let begin = begin.join(" or ");
            Err(Failure::Usage(format!("{option} `{text}` is for one of several scenarios: begin it with {begin}")))
        }
        (at, rest) => Ok((at.unwrap_or(0), rest)),
    };
    for text in &args.vary {
        let (at, text) = of_one("--vary", text)?;
        Axis::of_text(&text).map_err(|why| Failure::Usage(format!("--vary `{text}`: {why}")))?;
        parts[at].axes.push(text);
    }
    for text in &args.by {
        let (at, text) = of_one("--by", text)?;
        parts[at].by.push(text);
    }
    if let Some(part) = parts.iter().find(|part| part.axes.is_empty() && !part.by.is_empty()) {
        return Err(Failure::Usage(format!("--by compares the points of a sweep, and `{}` has no --vary", part.name)));
    }
    for text in &args.claim {
        let (at, text) = of_one("--claim", text)?;
        let claim = Claim::parse(&text).map_err(|why| Failure::Usage(format!("--claim `{text}`: {why}")))?;
        parts[at].claims.push(claim);
    }
    for text in &args.figure {
        let (at, text) = scoped(text);
        let figure = FigureSpec::parse(&text).map_err(|why| Failure::Usage(format!("--figure `{text}`: {why}")))?;
        for (_, part) in parts.iter_mut().enumerate().filter(|(n, _)| at.is_none_or(|at| at == *n)) {
            part.figures.push(figure.clone());
        }
    }
    Ok(parts)
}

/// Packs the scenarios into the folder of the arguments: one into itself, and of several each into a folder with its name. A folder that is
/// there and not empty stays as it is, and one in which packing failed is as it was, so that the corrected command finds it free.
pub fn pack(args: &Args) -> Result<(), Failure> {
    let (folder, parts) = (&args.folder, parts(args)?);
    let was_there = folder.symlink_metadata().is_ok();
    if was_there && fs::read_dir(folder).map_err(failed(folder))?.next().is_some() {
        return Err(Failure::Usage(format!(
            "{} exists and is not empty; nothing is overwritten. Choose another folder",
            folder.display()
        )));
    }
    let packed = match parts.as_slice() {
        [part] => pack_into(args, part, folder)
            .map(|(manifest, sums)| packed_line(folder, &manifest) + &to_cite(folder, &sums)),
        several => pack_parts(args, several),
    };
    // What is there is said once all of it is.
    let packed = packed.and_then(|said| {
        let mut out = crate::output::stdout();
        write!(out, "{said}")?;
        writeln!(out, "{}/reproduce runs it again, here and on other machines", folder.display())?;
        Ok(())
    });
    if packed.is_err() && folder.is_dir() {
        // Only files of this command are there. The reason why it failed matters more than an error here.
        let _ = fs::remove_dir_all(folder);
        if was_there {
            let _ = fs::create_dir(folder);
        }
    }
    packed
}

/// The claims that were given; without any the orders that the runs tell apart, of the quantities that a look chooses or the scenario names
/// as primary.
fn found(part: &Part<'_>, comparison: &Comparison, look: &Look, primary: &[String]) -> Result<Vec<Claim>, Failure> {
    let stated = match part.figures.is_empty() {
        true => look.stated(comparison, primary),
        false => look.stated_beside_figures(comparison, primary),
    };
    Ok(Claim::of(&stated.map_err(Failure::Usage)?.0))
}

/// Packs several scenarios, each as an artifact in a folder of its own, and the list of them.
fn pack_parts(args: &Args, parts: &[Part<'_>]) -> Result<String, Failure> {
    let folder = &args.folder;
    let mut sums = Sums::default();
    let (mut rows, mut said) = (String::new(), String::new());
    for part in parts {
        let name = Path::new(&part.name);
        let (manifest, of_part) = pack_into(args, part, &folder.join(name))?;
        said += &packed_line(&folder.join(name), &manifest);
        for path in of_part.names().map(Path::to_owned).chain([sums::NAME.into()]) {
            let path = name.join(path);
            sums.add(&path, &fs::read(folder.join(&path)).map_err(failed(&path))?)?;
        }
        rows += &readme::row(&part.name, &manifest);
    }
    let title = args.title.as_deref().unwrap_or("Simulations");
    let readme = readme::of_parts(title, &rows);
    for (name, bytes) in [("README.md", readme.as_bytes()), ("reproduce", script().as_bytes())] {
        sums.add(Path::new(name), bytes)?;
        fs::write(folder.join(name), bytes).map_err(failed(&folder.join(name)))?;
    }
    seal(folder, &sums)?;
    Ok(said + &to_cite(folder, &sums))
}

/// The line about a packed scenario.
fn packed_line(folder: &Path, manifest: &Manifest) -> String {
    format!("{}: packed, {} runs, digest {}\n", folder.display(), manifest.digests.len(), manifest.digest)
}

/// The line with the sum that stands for a whole artifact.
fn to_cite(folder: &Path, sums: &Sums) -> String {
    format!("SHA-256 of {}, to cite for the whole artifact: {}\n", folder.join(sums::NAME).display(), sums.of_all())
}

/// Makes the script of an artifact executable, and writes its list of files.
fn seal(folder: &Path, sums: &Sums) -> Result<(), Failure> {
    let script = folder.join("reproduce");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed(&script))?;
    let list = folder.join(sums::NAME);
    fs::write(&list, sums.text()).map_err(failed(&list))
}

fn pack_into(args: &Args, part: &Part<'_>, folder: &Path) -> Result<(Manifest, Sums), Failure> {
    let look_text = if args.look.is_empty() { "column".to_owned() } else { args.look.join(",") };
    let look = Look::parse(&look_text).map_err(Failure::Usage)?;
    let plan = |scenario: &Scenario| Plan {
        axes: &part.axes,
        by: &part.by,
        seed: scenario.seed,
        runs: args.runs.unwrap_or(scenario.runs),
        jobs: args.jobs,
    };
    let inputs = Inputs::read(part.file, |source, scenario| plan(scenario).sweep(source))?;
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut sums = Sums::default();
    let mut write = |name: &Path, bytes: &[u8]| -> Result<(), Failure> {
        sums.add(name, bytes)?;
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        let mut file = fs::File::create_new(&path).map_err(failed(&path))?;
        file.write_all(bytes).map_err(failed(&path))
    };
    let input = Path::new("input");
    for (path, text) in &inputs.files {
        write(&input.join(path), text.as_bytes())?;
    }
    let own = Own::of_this_program();
    for (path, bytes) in own.as_ref().map(Own::files).transpose()?.unwrap_or_default() {
        write(&Path::new(own::FOLDER).join(path), &bytes)?;
    }
    // What is run is what was packed: an artifact that does not load is noticed here.
    let inside = Inside { folder: &folder.join(input), name: &inputs.scenario };
    let (_, scenario) = load(&inside)?;
    let plan = plan(&scenario);
    let (measurable, variants) = (scenario.measurable(), scenario.variant_names().collect::<Vec<_>>());
    for claim in &part.claims {
        let why = |why| Failure::Usage(format!("{why}; nothing was run"));
        claim.check_planned(&measurable, &variants).map_err(why)?;
    }
    let ran = Ran::new(&inside, &plan)?;
    let comparison = ran.comparison()?;
    // A claim of the authors may be about anything; the reader is to see which were planned.
    let primary = claims::planned(&comparison, &ran.scenario.primary)?;
    let claims: Vec<Claim> = match part.claims.is_empty() {
        // Claims that were found have the evidence of the comparison.
        true => found(part, &comparison, &look, &ran.scenario.primary)?,
        false => {
            let claimable = ran.claimable()?;
            let each = part.claims.iter().map(|claim| claim.at_each_point(&claimable));
            let each = each.collect::<Result<Vec<_>, _>>();
            let claims = each.map_err(|why| Failure::Usage(format!("{why}; nothing was packed")))?.concat();
            let checked = claims::check(&claims, &claimable, primary.as_ref());
            let with_evidence = |(claim, said): (Claim, Result<String, String>)| {
                let said = said.map_err(|why| Failure::Failed(format!("{why}; nothing was packed")))?;
                Ok(claim.with_evidence(&said, primary.as_ref()))
            };
            claims.into_iter().zip(checked).map(with_evidence).collect::<Result<_, Failure>>()?
        }
    };
    let mut figures = part.figures.clone();
    if figures.is_empty() {
        figures.push(FigureSpec { name: "comparison".into(), plot: None, chart: None });
    }
    let manifest = Manifest {
        artifact: 1,
        // Where there are several, each has its own, and theirs is in the README of all.
        title: args
            .title
            .clone()
            .filter(|_| args.scenario.len() == 1)
            .or_else(|| ran.scenario.sentence.clone())
            .unwrap_or_else(|| "A simulation".into()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: sums::of_program().unwrap_or_default(),
        needs: own.map(|own| own.program),
        seconds: (ran.elapsed.as_secs_f64() * 1e3).ceil() / 1e3,
        processors: ran.jobs,
        scenario: inputs.scenario.display().to_string(),
        axes: part.axes.clone(),
        by: part.by.clone(),
        seed: plan.seed,
        runs: plan.runs,
        digest: ran.digest(),
        digests: ran.digests(),
        look: look_text,
        figures,
        claims,
        primary: ran.scenario.primary.clone(),
        tolerances: args.tolerance.clone(),
        figure_tolerance_percent: FIGURE_TOLERANCE,
        values: ran.quantities()?.into_iter().map(Expected::from).collect(),
    };
    let report = ran.report()?;
    for figure in &manifest.figures {
        let drawing = figure.drawing(&ran, &report, &look)?;
        for format in [Format::Svg, Format::Pdf] {
            let name = format!("expected/{}.{}", figure.name, format.ending());
            write(Path::new(&name), &drawing.bytes(format).map_err(Failure::Failed)?)?;
        }
    }
    let mut json = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from)?;
    json.push(b'\n');
    write(Path::new("artifact.json"), &json)?;
    write(Path::new("expected/report.html"), report.html().as_bytes())?;
    if let Some(results) = ran.results()? {
        write(Path::new(TABLE), &results)?;
    }
    let inputs: Vec<String> = inputs.files.keys().map(|path| path.display().to_string()).collect();
    write(Path::new("README.md"), readme::text(&manifest, &ran, &inputs).as_bytes())?;
    write(Path::new("reproduce"), script().as_bytes())?;
    seal(folder, &sums)?;
    Ok((manifest, sums))
}
