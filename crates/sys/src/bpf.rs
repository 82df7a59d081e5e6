//! Maps, types and programs of bpf(2).
//!
//! *Source*: bpf(2), `include/uapi/linux/bpf.h`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::checked;
use crate::map::Shared;

/// Commands of bpf(2).
#[derive(Clone, Copy, Debug)]
enum Command {
    CreateMap = 0,
    UpdateMap = 2,
    LoadProgram = 5,
    QueryPrograms = 16,
    LoadTypes = 18,
    FreezeMap = 22,
    CreateLink = 28,
}

/// The argument of a command, `union bpf_attr`: what is not set is zero, which the kernel takes as absent.
struct Attributes {
    words: [u64; 20],
}

impl Attributes {
    fn new() -> Self {
        Self { words: [0; 20] }
    }
    /// Sets the 32 bits at byte `at`, a multiple of 4.
    fn set(&mut self, at: usize, value: u32) -> &mut Self {
        let (word, shift) = (at / 8, at % 8 * 8);
        self.words[word] = self.words[word] & !(u64::from(u32::MAX) << shift) | u64::from(value) << shift;
        self
    }
    fn get(&self, at: usize) -> u32 {
        (self.words[at / 8] >> (at % 8 * 8)) as u32
    }
    fn set_descriptor(&mut self, at: usize, descriptor: BorrowedFd<'_>) -> &mut Self {
        self.set(at, descriptor.as_raw_fd() as u32)
    }
    /// Sets the 64 bits at byte `at`, a multiple of 8, to an address that the kernel reads or writes.
    fn set_address(&mut self, at: usize, address: *const u8) -> &mut Self {
        self.words[at / 8] = address.expose_provenance() as u64;
        self
    }
    /// Sets up to 15 characters at byte `at`, a multiple of 4: a name, in which the kernel takes letters, digits, `_` and `.`.
    fn set_name(&mut self, at: usize, name: &str) -> &mut Self {
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
    /// # Safety
    /// The memory at each address in the attributes is live for the call and has at least the length that the command takes
    /// for it; nothing else uses what the kernel writes to.
    unsafe fn execute(&mut self, command: Command) -> io::Result<i64> {
        // SAFETY: the attributes are initialised memory of the length that is passed; the caller answers for what they name.
        checked(unsafe {
            libc::syscall(libc::SYS_bpf, command as libc::c_int, self.words.as_mut_ptr(), size_of_val(&self.words))
        })
    }

    /// Executes `command`, which returns a new descriptor.
    ///
    /// # Safety
    /// As [`execute`](Self::execute), and the command returns a descriptor.
    unsafe fn open(&mut self, command: Command) -> io::Result<OwnedFd> {
        // SAFETY: the kernel has just made the descriptor, close-on-exec, and nothing else owns it; the rest as for `execute`.
        unsafe { Ok(OwnedFd::from_raw_fd(self.execute(command)? as i32)) }
    }
}

/// A length as the kernel takes it.
fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Types that were loaded from an object (BTF).
#[derive(Debug)]
pub struct Types(OwnedFd);

impl Types {
    /// Loads them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(described: &[u8]) -> io::Result<Self> {
        let mut attributes = Attributes::new();
        attributes.set_address(0, described.as_ptr()).set(16, length(described)?);
        // SAFETY: the kernel reads so many bytes of `described`, and writes nothing without a log.
        unsafe { attributes.open(Command::LoadTypes) }.map(Self)
    }
}

/// The kinds of maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// An array, whose keys are the numbers of its values.
    Array = 2,
    /// An array that each processor has for itself.
    ProcessorArray = 6,
    /// The operations of something that a program implements, one value.
    Operations = 26,
}

/// The properties of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapSettings<'a> {
    /// Its kind.
    pub kind: MapKind,
    /// The bytes of a value.
    pub value_size: u32,
    /// How many values there are.
    pub entries: u32,
    /// Flags of the kernel, `BPF_F_*`.
    pub flags: u32,
    /// Its name, of which the kernel keeps 15 characters.
    pub name: &'a str,
    /// The types of keys and values, where they are described.
    pub types: Option<MapTypes<'a>>,
}

/// Types of a map, by their numbers; 0 for none.
#[derive(Clone, Copy, Debug)]
pub struct MapTypes<'a> {
    /// Where they are described.
    pub types: &'a Types,
    /// The type of keys.
    pub key: u32,
    /// The type of values.
    pub value: u32,
    /// The type of the kernel of which the operations are.
    pub operations: u32,
}

/// A map of a program. Its keys have 32 bits.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    value_size: usize,
    entries: usize,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(settings: &MapSettings<'_>) -> io::Result<Self> {
        let MapSettings { kind, value_size, entries, flags, name, types } = *settings;
        let mut attributes = Attributes::new();
        attributes.set(0, kind as u32).set(4, 4).set(8, value_size).set(12, entries).set(16, flags).set_name(28, name);
        if let Some(MapTypes { types, key, value, operations }) = types {
            attributes.set_descriptor(48, types.0.as_fd()).set(52, key).set(56, value).set(60, operations);
        }
        // SAFETY: there is no address in the attributes.
        let descriptor = unsafe { attributes.open(Command::CreateMap) }?;
        Ok(Self { descriptor, value_size: value_size as usize, entries: entries as usize })
    }

    /// Sets the first value, which is that of a map with one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when it has another length, and the kernel's.
    pub fn set_first(&self, value: &[u8]) -> io::Result<()> {
        if value.len() != self.value_size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let key = [0_u8; 4];
        let mut attributes = Attributes::new();
        attributes.set_descriptor(0, self.descriptor.as_fd());
        attributes.set_address(8, key.as_ptr()).set_address(16, value.as_ptr());
        // SAFETY: the kernel reads a key of 4 bytes and a value of the size of the map's.
        unsafe { attributes.execute(Command::UpdateMap) }.map(drop)
    }

    /// Refuses changes of its values by system calls from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn freeze(&self) -> io::Result<()> {
        let mut attributes = Attributes::new();
        attributes.set_descriptor(0, self.descriptor.as_fd());
        // SAFETY: there is no address in the attributes.
        unsafe { attributes.execute(Command::FreezeMap) }.map(drop)
    }

    /// Maps its values as numbers of 64 bits, which the kernel reads and writes too.
    ///
    /// # Errors
    /// When it was not made to be mapped.
    pub fn share(&self) -> io::Result<Shared> {
        // A map keeps its size.
        Shared::map(self.descriptor.as_fd(), self.value_size * self.entries)
    }

    /// Registers the operations of this map with the kernel, as long as the result lives.
    ///
    /// # Errors
    /// The kernel's.
    pub fn link_operations(&self) -> io::Result<OwnedFd> {
        const OPERATIONS: u32 = 44;
        let mut attributes = Attributes::new();
        attributes.set_descriptor(0, self.descriptor.as_fd()).set(8, OPERATIONS);
        // SAFETY: there is no address in the attributes.
        unsafe { attributes.open(Command::CreateLink) }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The kinds of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// It sees packets at tc, before they are queued or as they arrive.
    Filter = 3,
    /// It sees packets at a driver.
    Xdp = 6,
    /// It is one of the operations of something.
    Operation = 27,
}

/// A program to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSource<'a> {
    /// Its kind.
    pub kind: ProgramKind,
    /// Its name, of which the kernel keeps 15 characters.
    pub name: &'a str,
    /// Its instructions, of 8 bytes each.
    pub code: &'a [u8],
    /// Its licence, on which it depends what it may call.
    pub licence: &'a CStr,
    /// Its types, where they are described.
    pub types: Option<ProgramTypes<'a>>,
    /// For an operation, the number of it in the struct of operations, and the type of that struct in the kernel.
    pub operation: (u32, u32),
}

/// Types of a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramTypes<'a> {
    /// Where they are described.
    pub types: &'a Types,
    /// Where its functions begin, and their types: 8 bytes each (`struct bpf_func_info`).
    pub functions: &'a [u8],
    /// The places that depend on the kernel: 16 bytes each (`struct bpf_core_relo`).
    pub relocations: &'a [u8],
}

/// Loads a program, which the kernel verifies. With `log` it writes what it has found out, ended by a zero.
///
/// # Errors
/// The kernel's.
pub fn load_program(program: &ProgramSource<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
    let ProgramSource { kind, name, code, licence, types, operation } = *program;
    let mut attributes = Attributes::new();
    attributes
        .set(0, kind as u32)
        .set(4, length(code)? / 8)
        .set_address(8, code.as_ptr())
        .set_address(16, licence.as_ptr().cast())
        .set_name(48, name)
        .set(68, operation.0)
        .set(108, operation.1);
    if let Some(ProgramTypes { types, functions, relocations }) = types {
        attributes.set_descriptor(72, types.0.as_fd());
        attributes.set(76, 8).set_address(80, functions.as_ptr()).set(88, length(functions)? / 8);
        if !relocations.is_empty() {
            attributes.set(116, length(relocations)? / 16).set_address(128, relocations.as_ptr()).set(136, 16);
        }
    }
    if let Some(log) = log {
        attributes.set(24, 1).set(28, length(log)?).set_address(32, log.as_mut_ptr());
    }
    // SAFETY: the kernel reads the licence up to its zero, and of code, functions and relocations so many elements as whole
    // ones of their sizes are there; it writes to the log, which was borrowed for this, up to its length.
    unsafe { attributes.open(Command::LoadProgram) }
}

/// Where programs of tcx are attached to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tcx {
    /// They see what arrives.
    Ingress = 46,
    /// They see what leaves.
    Egress = 47,
}

/// The number of programs that are attached to a link.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` before Linux 6.6, which has none.
pub fn attached_programs(link: u32, at: Tcx) -> io::Result<u32> {
    let mut attributes = Attributes::new();
    attributes.set(0, link).set(4, at as u32);
    // SAFETY: there is no room for identifiers in the attributes, so that the kernel writes their number only, at byte 24.
    unsafe { attributes.execute(Command::QueryPrograms) }?;
    Ok(attributes.get(24))
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
        assert_eq!(attributes.get(4), 7);
    }

    #[test]
    fn a_value_of_another_length_is_not_read() {
        let settings =
            MapSettings { kind: MapKind::Array, value_size: 16, entries: 1, flags: 1 << 10, name: "test", types: None };
        let Ok(map) = Map::create(&settings) else {
            println!("SKIP: this user may not make maps");
            return;
        };
        assert_eq!(map.set_first(&[0; 15]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        map.set_first(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let values = map.share().unwrap();
        let read: Vec<_> =
            values.numbers().iter().map(|value| value.load(std::sync::atomic::Ordering::Acquire)).collect();
        assert_eq!(read, [1, 2]);
    }
}
