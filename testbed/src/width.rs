//! Checks text for terminals of several widths: no line is wider than its terminal, and at three widths the text equals a
//! snapshot in `tests/width` of the crate under test.

use std::path::Path;

/// The widths in characters, and whether there is a snapshot.
const WIDTHS: [(u16, bool); 7] =
    [(60, true), (70, false), (80, true), (100, false), (120, true), (160, false), (200, false)];

/// Checks `text` at every width. With `TIDEGATE_WRITE_SNAPSHOTS` the snapshots become what it returns.
///
/// # Panics
/// When a line is too wide, or differs from the snapshot.
pub fn check(name: &str, text: impl Fn(u16) -> String) {
    // Cargo runs tests in the folder of their package.
    let folder = Path::new("tests/width");
    for (columns, is_recorded) in WIDTHS {
        let shown = text(columns);
        for line in shown.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{name} at {columns} columns: {line}");
        }
        if !is_recorded {
            continue;
        }
        let path = folder.join(format!("{name}-{columns}.txt"));
        if std::env::var_os("TIDEGATE_WRITE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(&path, &shown).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), shown, "{}", path.display());
    }
}
