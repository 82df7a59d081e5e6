//! Requests to a running sender, one per line: `rate RATE`, `pause`, `resume` and `status`.

use tidegate_units::Rate;

/// The longest line of a request in bytes.
pub const LONGEST: usize = 1_024;

/// A request to a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Send at this rate, which is not zero.
    Rate(Rate),
    /// Send nothing until [`Resume`](Self::Resume).
    Pause,
    /// Send again.
    Resume,
    /// Report the state.
    Status,
}

impl Request {
    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// States the fault of the line and the valid requests.
    pub fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (command, argument.trim()) {
            ("rate", text) => match text.parse::<Rate>() {
                Ok(rate) if rate.is_zero() => Err("a rate of zero sends nothing; use `pause`".into()),
                Ok(rate) => Ok(Self::Rate(rate)),
                // The error quotes the line and may go to a terminal.
                Err(error) => Err(error.to_string().replace(char::is_control, "?")),
            },
            ("pause", "") => Ok(Self::Pause),
            ("resume", "") => Ok(Self::Resume),
            ("status", "") => Ok(Self::Status),
            _ => {
                Err(format!("`{}` is not a command; there are: rate RATE, pause, resume, status", line.escape_debug()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        assert_eq!(Request::parse("rate  3MB/s\r\n"), Ok(Request::Rate(Rate::from_mbit(24))));
        assert_eq!(Request::parse(" pause"), Ok(Request::Pause));
        assert_eq!(Request::parse("resume"), Ok(Request::Resume));
        assert_eq!(Request::parse("status\n"), Ok(Request::Status));
        for wrong in ["rate", "rate 5", "rate 0bit", "rate -1mbit", "halt", "pause now", ""] {
            assert!(Request::parse(wrong).is_err(), "{wrong}");
        }
        let error = Request::parse("\x1b[2Jhalt").unwrap_err();
        assert!(!error.contains('\x1b') && error.contains("there are: rate RATE"), "{error}");
        let error = Request::parse("rate \x1b[2J").unwrap_err();
        assert!(!error.contains('\x1b') && error.contains("?[2J"), "{error}");
    }
}
