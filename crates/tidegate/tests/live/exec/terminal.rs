//! A shell at a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use nix::pty::{OpenptyResult, openpty};
use tidegate_live::netns::Namespace;
use tidegate_sys::process::{AtExec, at_exec};

use crate::running::PATIENCE;

/// An interactive shell at a terminal of its own.
pub struct Terminal {
    pub shell: std::process::Child,
    master: File,
    shown: Receiver<Vec<u8>>,
    screen: String,
}

impl Terminal {
    pub fn open(host: &Namespace) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let master = File::from(master);
        let mut command = host.command("sh").unwrap();
        command.arg("-i").env("PS1", "$ ").env("TERM", "dumb").env_remove("ENV");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        at_exec(&mut command, AtExec::LeadTerminal);
        let shell = command.spawn().unwrap();
        drop(command);
        let mut from = master.try_clone().unwrap();
        let (to, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length) = from.read(&mut buffer) {
                if length == 0 || to.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { shell, master, shown, screen: String::new() }
    }

    pub fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until it shows `text`, and discards the output up to there.
    pub fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((_, rest)) = self.screen.split_once(text) {
                self.screen = rest.to_owned();
                return;
            }
            match self.shown.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.screen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("{text:?} is not shown, but {:?}", self.screen),
            }
        }
    }
}
