//! A shell at a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use tidegate_live::netns::Namespace;

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
        let (mut master, mut slave) = (0, 0);
        // SAFETY: both numbers are live for the call; name, modes and size may be left out.
        let opened = unsafe {
            libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
        };
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both are descriptors of ours now.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let mut command = host.command("sh").unwrap();
        command.arg("-i").env("PS1", "$ ").env("TERM", "dumb").env_remove("ENV");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let lead = || {
            // SAFETY: system calls on numbers, allowed between fork and exec; 0 is the terminal.
            if unsafe { libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 } {
                return Err(std::io::Error::last_os_error());
            }
            // Who runs tests in the background has them ignored, for good as far as shells go.
            for signal in [libc::SIGINT, libc::SIGQUIT] {
                // SAFETY: no handler is named; allowed between fork and exec.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls and touches nothing of the parent's.
        unsafe { command.pre_exec(lead) };
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
