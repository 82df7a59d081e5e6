//! A file of one discipline, as tests of the kinds read and build it.

use tidegate_config::discipline::{Discipline, Site};
use tidegate_config::{Diagnostics, Source, Spanned, read};
use tidegate_core::{Instant, Packet, Qdisc};

tidegate_config::record! {
    /// A file of one discipline.
    pub struct File as "file" {
        /// The discipline.
        pub discipline: Spanned<Discipline>,
    }
}

/// The discipline of a file with its warnings, or the errors.
pub fn load(text: &str) -> Result<(Discipline, String), String> {
    let source = Source::new("test.toml", text);
    let mut diagnostics = Diagnostics::new();
    let file = read::<File>(&source, &mut diagnostics);
    if let Some(file) = &file {
        file.discipline.value.check(file.discipline.place, &mut diagnostics);
    }
    let report = diagnostics.render(&source);
    match file {
        Some(file) if diagnostics.errors() == 0 => Ok((file.discipline.value, report)),
        _ => Err(report),
    }
}

pub fn build<P: Packet + 'static>(discipline: &Discipline) -> Box<dyn Qdisc<P>> {
    discipline.build(&Site { seed: 1, name: "test".into(), now: Instant::ZERO })
}
