//! Packs an artifact.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate_report::comparison::Comparison;
use tidegate_report::{Format, Look};

use super::claims::{self, Claim};
use super::inputs::{Inputs, load};
use super::sums::{self, Sums};
use super::{Args, Expected, FIGURE_TOLERANCE, FigureSpec, Manifest, Ran, readme};
use crate::Failure;

/// The script of an artifact.
const SCRIPT: &str = include_str!("../../../templates/artifact/reproduce");

/// A failure with the path of a file.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Failed(format!("{path}: {error}"))
}

/// Packs the scenario into the folder of the arguments. A folder that is there and not empty stays as it is, and one in which
/// packing failed is as it was, so that the corrected command finds it free.
pub fn pack(args: &Args, file: &Path) -> Result<(), Failure> {
    let folder = &args.folder;
    let was_there = folder.symlink_metadata().is_ok();
    if was_there && fs::read_dir(folder).map_err(failed(folder))?.next().is_some() {
        return Err(Failure::Usage(format!(
            "{} exists and is not empty; nothing is overwritten. Choose another folder",
            folder.display()
        )));
    }
    let packed = pack_into(args, file);
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
fn claims_of(args: &Args, comparison: &Comparison, look: &Look, primary: &[String]) -> Result<Vec<Claim>, Failure> {
    if !args.claim.is_empty() {
        return Ok(args.claim.clone());
    }
    let stated = match look.stated(comparison, primary) {
        // The rows of a plot are its curves, which the figure looks for itself.
        Err(_) if look.chooses_parts() && !args.figure.is_empty() => Look::page().stated(comparison, primary),
        stated => stated,
    };
    Ok(Claim::of(&stated.map_err(Failure::Usage)?.0))
}

fn pack_into(args: &Args, file: &Path) -> Result<(), Failure> {
    let folder = &args.folder;
    let look_text = if args.look.is_empty() { "column".to_owned() } else { args.look.join(",") };
    let look = Look::parse(&look_text).map_err(Failure::Usage)?;
    let inputs = Inputs::read(file)?;
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
    // What is run is what was packed: an artifact that does not load is noticed here.
    let (source, scenario) = load(&folder.join(input), &inputs.scenario)?;
    let (seed, count) = (scenario.seed, args.runs.unwrap_or(scenario.runs));
    let ran = Ran::new(source, scenario, seed, count, args.jobs)?;
    let simulation = ran.simulation();
    let comparison = simulation.comparison();
    for checked in claims::check(&args.claim, &comparison) {
        checked.map_err(|why| Failure::Failed(format!("{why}; nothing was packed")))?;
    }
    let claims = claims_of(args, &comparison, &look, &ran.scenario.primary)?;
    // A claim of the authors may be about anything; the reader is to see which were planned.
    let primary = match ran.scenario.primary.as_slice() {
        [] => None,
        primary => Some(Look::page().stated(&comparison, primary).map_err(Failure::Usage)?.0),
    };
    let claims: Vec<Claim> = match args.claim.is_empty() {
        // Claims that were found have the evidence of the comparison.
        true => claims,
        false => {
            let checked = claims::check(&claims, &comparison);
            let claims = claims.into_iter().zip(checked);
            claims.map(|(claim, said)| claim.with_evidence(&said.unwrap_or_default(), primary.as_ref())).collect()
        }
    };
    let mut figures = args.figure.clone();
    if figures.is_empty() {
        figures.push(FigureSpec { name: "comparison".into(), plot: None });
    }
    let manifest = Manifest {
        artifact: 1,
        title: args.title.clone().or_else(|| ran.scenario.sentence.clone()).unwrap_or_else(|| "A simulation".into()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: sums::of_program().unwrap_or_default(),
        seconds: (ran.elapsed.as_secs_f64() * 1e3).ceil() / 1e3,
        processors: ran.jobs,
        scenario: inputs.scenario.display().to_string(),
        seed,
        runs: count,
        digest: ran.digest(),
        digests: ran.digests(),
        look: look_text,
        figures,
        claims,
        primary: ran.scenario.primary.clone(),
        tolerances: args.tolerance.clone(),
        figure_tolerance_percent: FIGURE_TOLERANCE,
        values: simulation.quantities().into_iter().map(Expected::from).collect(),
    };
    let report = ran.report();
    for figure in &manifest.figures {
        let drawing = figure.drawing(&report, &look).map_err(Failure::Usage)?;
        for format in [Format::Svg, Format::Pdf] {
            let name = format!("expected/{}.{}", figure.name, format.ending());
            write(Path::new(&name), &drawing.bytes(format).map_err(Failure::Failed)?)?;
        }
    }
    let mut json = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from)?;
    json.push(b'\n');
    write(Path::new("artifact.json"), &json)?;
    write(Path::new("expected/report.html"), report.html().as_bytes())?;
    let inputs: Vec<String> = inputs.files.keys().map(|path| path.display().to_string()).collect();
    write(Path::new("README.md"), readme::text(&manifest, &ran, &inputs).as_bytes())?;
    write(Path::new("reproduce"), SCRIPT.as_bytes())?;
    let script = folder.join("reproduce");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed(&script))?;
    let list = folder.join(sums::NAME);
    fs::write(&list, sums.text()).map_err(failed(&list))?;
    let mut out = crate::output::stdout();
    writeln!(out, "{}: packed, {} runs, digest {}", folder.display(), manifest.runs, manifest.digest)?;
    writeln!(out, "SHA-256 of {}, to cite for the whole artifact: {}", sums::NAME, sums.of_all())?;
    writeln!(out, "{}/reproduce runs it again, here and on other machines", folder.display())?;
    Ok(())
}
