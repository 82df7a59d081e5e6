//! bpf(2).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Commands of bpf(2).
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    CreateMap = 0,
    UpdateMap = 2,
    LoadProgram = 5,
    LoadTypes = 18,
    FreezeMap = 22,
    CreateLink = 28,
}

/// The argument of a command, `union bpf_attr`: what is not set is zero, which the kernel takes as absent.
pub(super) struct Attributes<'a> {
    words: [u64; 20],
    /// The memory that addresses in it refer to.
    lives: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Attributes<'a> {
    pub fn new() -> Self {
        Self { words: [0; 20], lives: std::marker::PhantomData }
    }
    /// Sets the 32 bits at byte `at`, a multiple of 4.
    pub fn set(&mut self, at: usize, value: u32) -> &mut Self {
        let (word, shift) = (at / 8, at % 8 * 8);
        self.words[word] = self.words[word] & !(u64::from(u32::MAX) << shift) | u64::from(value) << shift;
        self
    }
    /// Sets the 64 bits at byte `at`, a multiple of 8, to the address of `memory`, which the kernel reads.
    pub fn set_memory(&mut self, at: usize, memory: &'a [u8]) -> &mut Self {
        self.words[at / 8] = memory.as_ptr().addr() as u64;
        self
    }
    /// The same of memory that the kernel writes to.
    pub fn set_output(&mut self, at: usize, memory: &'a mut [u8]) -> &mut Self {
        // Exposed: the kernel writes there.
        self.words[at / 8] = memory.as_mut_ptr().expose_provenance() as u64;
        self
    }
    /// Sets up to 15 characters at byte `at`, a multiple of 4: a name, in which the kernel takes letters, digits, `_` and `.`.
    pub fn set_name(&mut self, at: usize, name: &str) -> &mut Self {
        let mut bytes = [0; 16];
        let taken = name.bytes().filter(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte)).take(15);
        bytes.iter_mut().zip(taken).for_each(|(to, byte)| *to = byte);
        for (number, four) in bytes.chunks_exact(4).enumerate() {
            self.set(at + 4 * number, u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        }
        self
    }

    /// Executes `command`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn execute(&mut self, command: Command) -> io::Result<i32> {
        // SAFETY: the attributes are initialised memory of the length that is passed. Every address in them is that of a slice
        // that is borrowed for `'a`, which outlives the call, with its length in the attributes; the kernel writes only to
        // those that were borrowed mutably.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command as libc::c_int, self.words.as_mut_ptr(), size_of_val(&self.words))
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    /// Executes `command`, which returns a descriptor.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(&mut self, command: Command) -> io::Result<OwnedFd> {
        let descriptor = self.execute(command)?;
        // SAFETY: the kernel has just made the descriptor, close-on-exec, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_at_the_bytes_that_the_kernel_reads() {
        let mut attributes = Attributes::new();
        attributes.set(0, 2).set(4, 0xffff_ffff).set(4, 7).set_name(28, "twin-slots.of_a_link");
        let bytes: Vec<u8> = attributes.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&bytes[..8], &[2, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(&bytes[28..44], b"twinslots.of_a_\0");
        assert!(bytes[44..].iter().all(|byte| *byte == 0));
    }
}
