//! The configurations of `--with`.

use std::path::Path;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source as Text};
use tidegate_engine::BuildFailure;
use tidegate_replay::run::Settings;
use tidegate_replay::session::Part;
use tidegate_units::Rate;

use super::Args;
use crate::Failure;
use crate::commands::check;

/// The error for a link of rate zero.
const NO_RATE: &str = "nothing can leave through a link of rate 0; write for example 20mbit";

/// Reads every configuration.
pub fn load(args: &Args) -> Result<Vec<Part>, Failure> {
    let mut parts: Vec<Part> = Vec::new();
    if args.link.is_some_and(Rate::is_zero) {
        return Err(Failure::Usage(format!("--link: {NO_RATE}")));
    }
    for name in &args.with {
        let (config, link) = one(name, check::load)?;
        BuildFailure::without_clock(&config).map_err(|failure| Failure::Usage(format!("{name}: {failure}")))?;
        let mut settings = Settings::seeded(args.seed);
        settings.link = link.or(args.link);
        settings.keep.departures = args.departures.is_some();
        settings.keep.series = args.files.wanted() || args.json;
        let invented = settings.invent_names(&config);
        if !invented.is_empty() {
            message!(
                "tidegate: {name}: a capture does not record which program sent a packet, so nothing matches {}",
                invented.join(", ")
            );
        }
        if settings.link.is_none() && matches!(config.root, shaper::Root::Discipline(_)) {
            message!(
                "tidegate: {name}: a link of infinite rate has no queue; give the rate of the link as {name}@20mbit or with --link"
            );
        }
        let times = parts.iter().filter(|part| part.name == *name).count();
        parts.push(Part { name: name.clone(), config, settings });
        if times > 0 {
            return Err(Failure::Usage(format!("--with names {name} twice")));
        }
    }
    Ok(parts)
}

/// Checks that standard input is not both the `file` and one of the configurations.
///
/// # Errors
/// Wrong usage.
pub fn input_once<'a>(file: &Path, mut with: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    if file.as_os_str() == "-" && with.any(|name| name == "-") {
        return Err(Failure::Usage(
            "standard input can be FILE or a configuration, but not both; give a file name for one of them".into(),
        ));
    }
    Ok(())
}

/// Reads a shaper file, by `load`, or a kind, and the rate of the link.
pub fn one(name: &str, load: impl Fn(&Path) -> Result<Config, Failure>) -> Result<(Config, Option<Rate>), Failure> {
    // A folder of that name may be the crate that the kind is defined in.
    let is_file = |name: &str| Path::new(name).metadata().is_ok_and(|data| !data.is_dir());
    if is_file(name) || name == "-" {
        return Ok((load(Path::new(name))?, None));
    }
    let (what, link) = match name.rsplit_once('@') {
        Some((what, rate)) => match rate.parse::<Rate>() {
            Ok(Rate::ZERO) => return Err(Failure::Usage(format!("--with {name}: {NO_RATE}"))),
            Ok(rate) => (what, Some(rate)),
            Err(error) => return Err(Failure::Usage(format!("--with {name}: the rate after the @: {error}"))),
        },
        None => (name, None),
    };
    if is_file(what) {
        return Ok((load(Path::new(what))?, link));
    }
    if what.contains(['.', '/']) {
        return Err(Failure::Usage(format!("--with {name}: there is no such file")));
    }
    let kind = what.replace('_', "-");
    let text = match (kind.as_str(), link) {
        ("fbq", Some(rate)) => {
            format!("version = 1\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\ndefault = true\n")
        }
        ("fbq", None) => return Err(Failure::Usage("--with fbq: give its rate, for example fbq@20mbit".into())),
        _ => format!("version = 1\n[discipline]\nkind = \"{kind}\"\n"),
    };
    let source = Text::new(format!("--with {name}"), text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    match config {
        Some(config) => Ok((config, link)),
        None => {
            check::say(&diagnostics, &source);
            Err(Failure::Usage(format!(
                "--with {name}: neither a file nor a kind of discipline that needs no more than a rate; write a shaper \
                 file (`tidegate schema --text` has its keys)"
            )))
        }
    }
}
