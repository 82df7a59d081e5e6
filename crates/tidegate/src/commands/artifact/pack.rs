//! Packs an artifact.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidegate_report::comparison::Comparison;
use tidegate_report::{Format, Look};

use super::claims::{self, Claim};
use super::inputs::{Inputs, load};
use super::sums::{self, Sums};
use super::{Args, Expected, FIGURE_TOLERANCE, FigureSpec, Manifest, Ran, is_plain, readme};
use crate::Failure;

/// The script of an artifact.
const SCRIPT: &str = include_str!("../../../templates/artifact/reproduce");

/// A failure with the path of a file.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Failed(format!("{path}: {error}"))
}

/// The name of the folder of a scenario among several.
fn name(file: &Path) -> Result<&str, Failure> {
    let name = file.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_plain(name));
    name.ok_or_else(|| {
        Failure::Usage(format!(
            "{}: the name of one of several scenarios has letters, digits, - and _ alone",
            file.display()
        ))
    })
}

/// Packs the scenarios into the folder of the arguments: one into itself, and of several each into a folder with its name. A folder that is there and not empty stays as it is, and one in which
/// packing failed is as it was, so that the corrected command finds it free.
pub fn pack(args: &Args, scenarios: &[PathBuf]) -> Result<(), Failure> {
    let folder = &args.folder;
    if scenarios.len() > 1 {
        let mut names = BTreeSet::new();
        for file in scenarios {
            if !names.insert(name(file)?) {
                return Err(Failure::Usage(format!("{}: another scenario has its name, too", file.display())));
            }
        }
        if !args.claim.is_empty() {
            let why = "--claim is about a single scenario; several have the claims that their comparisons state";
            return Err(Failure::Usage(why.to_owned()));
        }
    }
    let was_there = folder.symlink_metadata().is_ok();
    if was_there && fs::read_dir(folder).map_err(failed(folder))?.next().is_some() {
        return Err(Failure::Usage(format!(
            "{} exists and is not empty; nothing is overwritten. Choose another folder",
            folder.display()
        )));
    }
    let packed = match scenarios {
        [file] => pack_into(args, file, folder).map(drop),
        several => pack_parts(args, several),
    };
    let packed = packed.and_then(|()| {
        let mut out = crate::output::stdout();
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
fn claims_of(args: &Args, comparison: &Comparison, look: &Look, primary: &[String]) -> Result<Vec<Claim>, Failure> {
    if !args.claim.is_empty() {
        return Ok(args.claim.clone());
    }
    let stated = match args.figure.is_empty() {
        true => look.stated(comparison, primary),
        false => look.stated_beside_figures(comparison, primary),
    };
    Ok(Claim::of(&stated.map_err(Failure::Usage)?.0))
}

/// Packs several scenarios, each as an artifact in a folder of its own, and the list of them.
fn pack_parts(args: &Args, scenarios: &[PathBuf]) -> Result<(), Failure> {
    let folder = &args.folder;
    let mut sums = Sums::default();
    let mut rows = String::new();
    for file in scenarios {
        let name = Path::new(name(file)?);
        let (manifest, of_part) = pack_into(args, file, &folder.join(name))?;
        for path in of_part.names().map(Path::to_owned).chain([sums::NAME.into()]) {
            let path = name.join(path);
            sums.add(&path, &fs::read(folder.join(&path)).map_err(failed(&path))?)?;
        }
        rows += &readme::row(&name.display().to_string(), &manifest);
    }
    let title = args.title.as_deref().unwrap_or("Simulations");
    let readme = readme::of_parts(title, &rows);
    for (name, bytes) in [("README.md", readme.as_bytes()), ("reproduce", SCRIPT.as_bytes())] {
        sums.add(Path::new(name), bytes)?;
        fs::write(folder.join(name), bytes).map_err(failed(&folder.join(name)))?;
    }
    seal(folder, &sums)
}

/// Makes the script of an artifact executable, and writes its list of files.
fn seal(folder: &Path, sums: &Sums) -> Result<(), Failure> {
    let script = folder.join("reproduce");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed(&script))?;
    let list = folder.join(sums::NAME);
    fs::write(&list, sums.text()).map_err(failed(&list))?;
    let mut out = crate::output::stdout();
    let list = list.display();
    writeln!(out, "SHA-256 of {list}, to cite for the whole artifact: {}", sums.of_all())?;
    Ok(())
}

fn pack_into(args: &Args, file: &Path, folder: &Path) -> Result<(Manifest, Sums), Failure> {
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
        // Where there are several, each has its own, and theirs is in the README of all.
        title: args
            .title
            .clone()
            .filter(|_| args.scenario.len() == 1)
            .or_else(|| ran.scenario.sentence.clone())
            .unwrap_or_else(|| "A simulation".into()),
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
    let mut out = crate::output::stdout();
    writeln!(out, "{}: packed, {} runs, digest {}", folder.display(), manifest.runs, manifest.digest)?;
    seal(folder, &sums)?;
    Ok((manifest, sums))
}
