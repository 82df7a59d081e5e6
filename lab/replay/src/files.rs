//! The files of a recording that was written in parts.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::recording::part_path;
use crate::source::{Kind, Sniffed, sniff};

/// Finds the files that follow `first` of a recording in several files.
pub fn next_part(first: &Path) -> impl FnMut(u64) -> Option<Sniffed<Box<dyn Read>>> + 'static {
    // `FILE.4` follows `FILE.3` if that is the third part of `FILE`, and not a recording with this name.
    let number = first.extension().and_then(|end| end.to_str()?.parse::<u64>().ok()).filter(|number| *number > 0);
    let whole = first.to_owned();
    let mut stem = None;
    move |part| {
        let stem =
            stem.get_or_insert_with(|| match (number.and_then(|number| number.checked_add(1)), whole.file_stem()) {
                (Some(next), Some(stem)) if next == part => whole.with_file_name(stem),
                _ => whole.clone(),
            });
        let file = File::open(part_path(stem, part)).ok()?;
        match sniff(Box::new(BufReader::with_capacity(256 << 10, file)) as Box<dyn Read>).ok()? {
            Kind::Recording(whole) => Some(whole),
            Kind::Capture(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_whose_name_ends_in_a_number_is_no_part_of_another() {
        let folder = std::env::temp_dir().join(format!("tidegate-parts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in ["run.3.1", "run.4"] {
            let whole = [&crate::recording::MAGIC[..], name.as_bytes()].concat();
            std::fs::write(folder.join(name), whole).expect("written");
        }
        let next = |part: u64| {
            let mut text = Vec::new();
            next_part(&folder.join("run.3"))(part)?.read_to_end(&mut text).expect("read");
            Some(String::from_utf8_lossy(&text[crate::recording::MAGIC.len()..]).into_owned())
        };
        assert_eq!(next(4).as_deref(), Some("run.4"), "after the third part of `run`");
        assert_eq!(next(1).as_deref(), Some("run.3.1"), "after the first of `run.3`");
        assert_eq!(next(2), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
