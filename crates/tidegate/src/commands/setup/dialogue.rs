//! Questions at a terminal.

use std::io::{BufRead, IsTerminal};

use crate::Failure;

/// Asks at the terminal, or not at all.
pub struct Dialogue {
    asks: bool,
    yes: bool,
}

impl Dialogue {
    /// Asks where standard input is a terminal, unless `yes` answers everything.
    pub fn new(yes: bool) -> Self {
        Self { asks: !yes && std::io::stdin().is_terminal(), yes }
    }

    /// Whether anybody answers.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The answer to a question, or `default` for an empty one; without a default the question is repeated.
    ///
    /// # Errors
    /// When the input has ended.
    pub fn ask(&self, question: &str, default: Option<&str>) -> Result<String, Failure> {
        loop {
            match default {
                None | Some("") => message_part!("{question} "),
                Some(default) => message_part!("{question} [{default}] "),
            }
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line)? == 0 {
                return Err(Failure::Failed("there is no answer; nothing was changed".into()));
            }
            match (line.trim(), default) {
                ("", Some(default)) => return Ok(default.into()),
                ("", None) => {}
                (answer, _) => return Ok(answer.into()),
            }
        }
    }

    /// Whether the user agrees; without anybody to ask, whether that was given beforehand.
    ///
    /// # Errors
    /// When the input has ended.
    pub fn agrees(&self, question: &str) -> Result<bool, Failure> {
        if !self.asks {
            return Ok(self.yes);
        }
        loop {
            match self.ask(question, Some("yes"))?.to_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => message!("answer yes or no"),
            }
        }
    }
}
