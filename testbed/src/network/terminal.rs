//! A command at a pseudo-terminal.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::{OpenptyResult, Winsize, openpty};
use tidegate_sys::process::{AtExec, at_exec};

/// How long a test waits for output that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with the command at its other end.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    shown: String,
    /// The beginning of a character whose end has not come.
    unread: Vec<u8>,
    child: std::process::Child,
}

impl Terminal {
    /// Runs the command at a terminal with so many columns and rows, where given.
    pub fn start(mut command: Command, size: Option<(u16, u16)>) -> Self {
        let size = size.map(|(columns, rows)| Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        let OpenptyResult { master, slave } = openpty(size.as_ref(), None).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        at_exec(&mut command, AtExec::LeadTerminal);
        let child = command.spawn().unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        Self { master: master.into(), shown: String::new(), unread: Vec::new(), child }
    }

    /// Reads what is shown; false when the other end is closed.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4_096];
        match self.master.read(&mut buffer) {
            Ok(length) => {
                self.unread.extend(&buffer[..length]);
                // A character may come in two parts.
                let whole = std::str::from_utf8(&self.unread).map_or_else(|error| error.valid_up_to(), str::len);
                let rest = self.unread.split_off(whole);
                self.shown.push_str(&String::from_utf8_lossy(&std::mem::replace(&mut self.unread, rest)));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(10)),
            Err(_) => return false,
        }
        true
    }

    /// Waits for the question, and answers it.
    pub fn answer(&mut self, question: &str, answer: &str) {
        let deadline = Instant::now() + PATIENCE;
        // A question that is wider than the terminal is broken between words.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        while !words(&self.shown).contains(question) {
            assert!(self.read() && Instant::now() < deadline, "{question} is not asked, but {}", self.shown);
        }
        // What follows is another question.
        self.shown = words(&self.shown).split_once(question).unwrap().1.to_owned();
        writeln!(self.master, "{answer}").unwrap();
    }

    /// Presses keys of a program that draws a screen.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows all of `texts`.
    pub fn shows(&mut self, texts: &[&str]) {
        self.until(|screen| texts.iter().all(|text| screen.contains(text)), texts);
    }

    /// Waits until the screen shows `text` no longer.
    pub fn hides(&mut self, text: &str) {
        self.until(|screen| !screen.contains(text), &["not", text]);
    }

    fn until(&mut self, is_so: impl Fn(&str) -> bool, what: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = screen(&self.shown);
            if is_so(&screen) {
                return;
            }
            assert!(self.read() && Instant::now() < deadline, "{what:?} is not shown, but {screen}");
        }
    }

    /// Waits for the end: the exit code, and what was shown since the last answer.
    pub fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.read() {
            assert!(Instant::now() < deadline, "it does not end: {}", self.shown);
        }
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.shown))
    }
}

/// Returns the text of a screen on which `shown` was drawn: a move of the cursor is ESC [ row ; column H.
fn screen(shown: &str) -> String {
    let (mut rows, mut row, mut column) = (vec![vec![' '; 200]; 60], 0, 0);
    let mut rest = shown.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            let text = rest.as_str();
            let Some(end) = text.find(|c: char| c.is_ascii_alphabetic()) else { break };
            let mut numbers = text[..end].trim_start_matches('[').split(';').map(|number| number.parse().unwrap_or(1));
            if text[end..].starts_with('H') {
                (row, column) = (numbers.next().unwrap_or(1) - 1, numbers.next().unwrap_or(1) - 1);
            } else if text[end..].starts_with('J') {
                rows.iter_mut().for_each(|row| row.fill(' '));
            }
            rest = text[end + 1..].chars();
        } else if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell = c;
            column += 1;
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
