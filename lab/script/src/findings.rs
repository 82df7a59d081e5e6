//! [`Findings`]: the errors of a script.

use std::fmt;

use tidegate_config::{Diagnostics, Source};

/// The errors of a script or of a file to which it refers, with the texts.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Each text with its errors; the script itself is the last.
    pub list: Vec<(Source, Diagnostics)>,
}

impl Findings {
    /// Formats all errors with colours for a terminal.
    pub fn styled(&self) -> String {
        self.list.iter().map(|(source, diagnostics)| diagnostics.render_styled(source)).collect()
    }
    /// The number of errors.
    pub fn errors(&self) -> usize {
        self.list.iter().map(|(_, diagnostics)| diagnostics.errors()).sum()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<String> =
            self.list.iter().map(|(source, diagnostics)| diagnostics.render(source).trim_end().to_owned()).collect();
        f.write_str(&messages.join("\n\n"))
    }
}
