//! [`Program`]: loads an object, and registers its operations with the kernel.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use tidegate_sys::bpf::{
    Map, MapKind, MapSettings, MapTypes, ProgramKind, ProgramSource, ProgramTypes, Types, load_program,
};

use super::btf::{Btf, FUNCTION, STRUCT};
use super::error::{LoadError, refused};
use super::memory::Mapped;
use super::object::{CONSTANTS, INSTRUCTION, Object, Reference, VARIABLES};
use super::{kernel_types, wrapper};

/// Flags of maps, of `include/uapi/linux/bpf.h`.
const LINKED: u32 = 1 << 13;
const CONSTANT: u32 = 1 << 7;
const MAPPABLE: u32 = 1 << 10;
/// References of a load of 64 bits, in its source register.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;
/// A call of a function of the kernel.
const KERNEL_FUNCTION: u8 = 2;
/// The section with the programs at tc.
const FILTERS_SECTION: &str = "tc";
/// The section with the operations.
pub(super) const OPERATIONS_SECTION: &str = ".struct_ops.link";
/// How often a program is given to the kernel whose verification a signal ends: one that stops the process, or its suspension.
const ATTEMPTS: u32 = 5;
/// The bytes for the verifier's log, of which the last lines are kept.
const LOG: usize = 1 << 20;
const LOG_LINES: usize = 12;

/// A loaded program. Its maps are there, and nothing runs until it is [attached](Self::attach).
#[derive(Debug)]
pub struct Program {
    types: Types,
    /// The programs, one for each operation. The map of the operations refers to them by their numbers.
    _operations: Vec<OwnedFd>,
    filters: Filters,
    /// The map of the operations, as it will be registered, but for the name.
    value: Vec<u8>,
    /// The type of that, and where the name is in it.
    kind: u32,
    name_at: usize,
}

/// A program that is registered under a name, until it is dropped. What uses it by then goes on.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Program {
    /// Loads an object without some of its maps, which then take no memory. For each such map the object has a constant
    /// `has_MAP`, which is set to zero: the kernel leaves out what depends on it. The kernel verifies the rest.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(object: &[u8], without: &[&str]) -> Result<Self, LoadError> {
        let object = Object::parse(object).map_err(|error| LoadError::Object(error.into()))?;
        let kernel = kernel_types()?;
        let (name, of) = operations(&object)?;
        let missing = |what: &str| LoadError::Unavailable(format!("the kernel has no {what}"));
        let kind = kernel.find(STRUCT, &wrapper(&name)).ok_or_else(|| missing(&format!("{name} in BPF")))?;
        let target = kernel.find(STRUCT, &name).ok_or_else(|| missing(&name))?;
        let types = load_types(&object, true)?;
        let maps = create_maps(&object, &types, without)?;
        let data = kernel.member(kind, "data").ok_or_else(|| missing("data in it"))?.offset;
        let member = |wanted: &str| {
            kernel.member(target, wanted).ok_or_else(|| missing(&format!("operation {wanted} in {name}")))
        };
        let mut value = vec![0; kernel.size_or_type(kind) as usize];
        let mut operations = Vec::new();
        for (at, function) in object.references(OPERATIONS_SECTION) {
            let members = object.types.members(of);
            let named = members.iter().find(|(_, member)| u64::from(member.offset) == at);
            let wanted = member(named.map_or("", |(name, _)| name))?;
            let parts = Parts { kernel: &kernel, types: &types, maps: &maps };
            let program = load_one(&object, function, &parts, Some((wanted.number, target)))?;
            let at = (data + wanted.offset) as usize;
            let slot = value.get_mut(at..at + 8).ok_or_else(|| missing("room for the operations"))?;
            slot.copy_from_slice(&(program.as_raw_fd() as u64).to_le_bytes());
            operations.push(program);
        }
        let name_at = (data + member("id")?.offset) as usize;
        let programs = load_filters(&object, &Parts { kernel: &kernel, types: &types, maps: &maps })?;
        Ok(Self { types, _operations: operations, filters: Filters { maps, programs }, value, kind, name_at })
    }

    /// The bytes that the maps of an object take, without some of them.
    ///
    /// # Errors
    /// [`LoadError::Object`].
    pub(super) fn memory(object: &[u8], without: &[&str]) -> Result<u64, LoadError> {
        let object = Object::parse(object).map_err(|error| LoadError::Object(error.into()))?;
        Self::memory_of(&object, without)
    }

    fn memory_of(object: &Object<'_>, without: &[&str]) -> Result<u64, LoadError> {
        let mut bytes = object.size(VARIABLES).saturating_add(object.size(CONSTANTS));
        for variable in object.types.variables(".maps") {
            if !without.contains(&object.types.name(variable)) {
                let array = Array::declared(object, variable)?;
                bytes = bytes.saturating_add(u64::from(array.size) * u64::from(array.entries));
            }
        }
        Ok(bytes)
    }

    /// Reads an object as [`load`](Self::load) does, as far as no kernel is needed: its types, its maps, and its programs linked.
    ///
    /// # Errors
    /// [`LoadError::Object`].
    pub fn check(object: &[u8]) -> Result<(), LoadError> {
        let object = Object::parse(object).map_err(|error| LoadError::Object(error.into()))?;
        Self::memory_of(&object, &[])?;
        object.types.for_kernel(false);
        let operations = object.references(OPERATIONS_SECTION).into_iter().map(|(_, function)| function);
        for function in operations.chain(object.functions(FILTERS_SECTION)) {
            object.link(function).map_err(LoadError::Object)?;
        }
        Ok(())
    }

    /// Checks that the kernel takes the types of an object, which it refuses where it would refuse the programs for want of a privilege.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn check_types(object: &[u8]) -> Result<(), LoadError> {
        let object = Object::parse(object).map_err(|error| LoadError::Object(error.into()))?;
        load_types(&object, true).map(drop)
    }

    /// The programs at tc, and the maps of all.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Registers the operations under a name of up to 15 characters.
    ///
    /// # Errors
    /// [`LoadError::is_taken`] when something has that name.
    pub fn attach(&self, name: &str) -> Result<Attached, LoadError> {
        let operation = format!("register {name} with the kernel");
        let mut value = self.value.clone();
        value[self.name_at..self.name_at + 16].fill(0);
        value[self.name_at..][..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
        let types = MapTypes { types: &self.types, key: 0, value: 0, operations: self.kind };
        let map = Map::create(&MapSettings {
            kind: MapKind::Operations,
            value_size: value.len() as u32,
            entries: 1,
            flags: LINKED,
            name: "operations",
            types: Some(types),
        });
        let map = map.map_err(refused(operation.clone()))?;
        map.set_first(&value).map_err(refused(operation.clone()))?;
        let link = map.link_operations().map_err(refused(operation))?;
        Ok(Attached { _link: link })
    }
}

/// The programs of an object that see packets at tc, and its maps.
#[derive(Debug)]
pub struct Filters {
    maps: HashMap<String, Map>,
    programs: HashMap<String, OwnedFd>,
}

impl Filters {
    /// Loads these programs of an object and none of its operations, which a kernel may not take.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(object: &[u8], without: &[&str]) -> Result<Self, LoadError> {
        let object = Object::parse(object).map_err(|error| LoadError::Object(error.into()))?;
        // They know no packet in a map.
        let (kernel, types) = (kernel_types()?, load_types(&object, false)?);
        let maps = create_maps(&object, &types, without)?;
        let programs = load_filters(&object, &Parts { kernel: &kernel, types: &types, maps: &maps })?;
        Ok(Self { maps, programs })
    }

    /// The value of the map of this name; `.bss` has the variables of the program.
    ///
    /// # Errors
    /// When there is none, or it was not made to be mapped.
    pub fn map(&self, name: &str) -> Result<Mapped, LoadError> {
        let map = self.maps.get(name).ok_or_else(|| LoadError::Object(format!("it has no map {name}")))?;
        Mapped::new(map).map_err(refused(format!("map {name} of the program in BPF")))
    }

    /// A program, to be given to tc.
    ///
    /// # Errors
    /// [`LoadError::Object`] when there is none of this name.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, LoadError> {
        let program = self.programs.get(name).ok_or_else(|| LoadError::Object(format!("it has no program {name}")))?;
        Ok(program.as_fd())
    }
}

fn load_types(object: &Object<'_>, tags: bool) -> Result<Types, LoadError> {
    Types::load(&object.types.for_kernel(tags)).map_err(refused("load the types of a program in BPF"))
}

fn load_filters(object: &Object<'_>, parts: &Parts<'_>) -> Result<HashMap<String, OwnedFd>, LoadError> {
    let load = |name: &str| Ok((name.to_owned(), load_one(object, name, parts, None)?));
    object.functions(FILTERS_SECTION).into_iter().map(load).collect()
}

/// The name and the number of the struct of operations.
fn operations(object: &Object<'_>) -> Result<(String, u32), LoadError> {
    match object.types.variables(OPERATIONS_SECTION)[..] {
        [variable] => {
            let of = object.types.size_or_type(variable);
            Ok((object.types.name(of).to_owned(), of))
        }
        _ => Err(LoadError::Object("it does not implement the operations of one thing".into())),
    }
}

/// A map as an object declares it.
struct Array {
    /// The bytes of a value, and how many there are.
    size: u32,
    entries: u32,
    flags: u32,
    map: MapKind,
    /// The types of its keys and values.
    key: u32,
    value: u32,
}

impl Array {
    fn declared(object: &Object<'_>, variable: u32) -> Result<Self, LoadError> {
        let types = &object.types;
        let (name, of) = (types.name(variable), types.size_or_type(variable));
        let refers =
            |member: &str| Some(types.size_or_type(types.member(of, member)?.kind)).filter(|number| *number != 0);
        let number = |member: &str| refers(member).and_then(|number| types.length(number));
        let declared = || {
            let kinds = [MapKind::Array, MapKind::ProcessorArray];
            let map = number("type").and_then(|number| kinds.into_iter().find(|kind| *kind as u32 == number))?;
            let (key, value) = (refers("key")?, refers("value")?);
            let (size, entries) = (types.size(value)?, number("max_entries")?);
            Some(Self { size, entries, flags: number("map_flags").unwrap_or(0), map, key, value })
        };
        declared().ok_or_else(|| LoadError::Object(format!("its map {name} is not declared as an array")))
    }
}

/// Creates the maps that the object declares, and those of its variables and constants.
fn create_maps(object: &Object<'_>, types: &Types, without: &[&str]) -> Result<HashMap<String, Map>, LoadError> {
    let mut maps = HashMap::new();
    for variable in object.types.variables(".maps") {
        let name = object.types.name(variable);
        let Array { size, entries, flags, map: kind, key, value } = Array::declared(object, variable)?;
        // A map that no program uses has to be there all the same.
        let (size, described) = if without.contains(&name) { (8, false) } else { (size, true) };
        let types = described.then_some(MapTypes { types, key, value, operations: 0 });
        let settings = MapSettings { kind, value_size: size, entries, flags, name, types };
        let map = Map::create(&settings).map_err(refused(format!("make the map {name}")))?;
        maps.insert(name.to_owned(), map);
    }
    for (section, flags) in [(VARIABLES, MAPPABLE), (CONSTANTS, CONSTANT)] {
        let value_size = object.size(section) as u32;
        if value_size == 0 {
            continue;
        }
        let operation = format!("make the map of {section}");
        let settings = MapSettings { kind: MapKind::Array, value_size, entries: 1, flags, name: section, types: None };
        let map = Map::create(&settings).map_err(refused(operation.clone()))?;
        if section == CONSTANTS {
            let mut values = object.contents(section).to_vec();
            for name in without {
                let constant = object.place(&format!("has_{name}")).and_then(|at| values.get_mut(at as usize));
                *constant.ok_or_else(|| LoadError::Object(format!("it cannot be without its map {name}")))? = 0;
            }
            map.set_first(&values).map_err(refused(operation.clone()))?;
            // The kernel relies on the values from here on.
            map.freeze().map_err(refused(operation))?;
        }
        maps.insert(section.to_owned(), map);
    }
    Ok(maps)
}

/// The things that programs refer to.
struct Parts<'a> {
    kernel: &'a Btf,
    types: &'a Types,
    maps: &'a HashMap<String, Map>,
}

/// Loads a program: of an operation, which is given by its number and the type of the struct of operations, or one for tc.
fn load_one(
    object: &Object<'_>,
    function: &str,
    parts: &Parts<'_>,
    of: Option<(u32, u32)>,
) -> Result<OwnedFd, LoadError> {
    let mut linked = object.link(function).map_err(LoadError::Object)?;
    for (at, reference) in std::mem::take(&mut linked.references) {
        let map = |name: &str| {
            let map = parts.maps.get(name).ok_or_else(|| LoadError::Object(format!("it has no map {name}")))?;
            Ok(map.as_fd().as_raw_fd())
        };
        let (source, immediate, next) = match &reference {
            Reference::Map(name) => (MAP, map(name)?, Some(0)),
            Reference::Variable(section, at) => (MAP_VALUE, map(section)?, Some(*at)),
            Reference::Kernel(name) => {
                let number = parts.kernel.find(FUNCTION, name);
                let number = number
                    .ok_or_else(|| LoadError::Unavailable(format!("the kernel has no function {name} for programs")))?;
                (KERNEL_FUNCTION, number as i32, None)
            }
        };
        let bytes = &mut linked.code[at * INSTRUCTION..];
        bytes[1] = bytes[1] & 0xf | source << 4;
        bytes[4..8].copy_from_slice(&immediate.to_le_bytes());
        if let Some(next) = next {
            bytes[12..16].copy_from_slice(&next.to_le_bytes());
        }
    }
    let licence = CStr::from_bytes_until_nul(object.contents("license"))
        .map_err(|_| LoadError::Object("it names no licence".into()))?;
    let types = ProgramTypes { types: parts.types, functions: &linked.functions, relocations: &linked.relocations };
    let source = ProgramSource {
        kind: if of.is_some() { ProgramKind::Operation } else { ProgramKind::Filter },
        name: function,
        code: &linked.code,
        licence,
        types: Some(types),
        operation: of.unwrap_or_default(),
    };
    let operation = format!("load {function}, the program in BPF");
    let is_interrupted =
        |loaded: &io::Result<OwnedFd>| loaded.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    let mut loaded = load_program(&source, None);
    for _ in 1..ATTEMPTS {
        if !is_interrupted(&loaded) {
            break;
        }
        loaded = load_program(&source, None);
    }
    loaded.map_err(|error| {
        if error.raw_os_error() == Some(libc::ENOMEM) {
            return refused(operation)(error);
        }
        let mut log = vec![0; LOG];
        // Refused again, with an explanation, for which there may be too little room: that is not the error.
        let _ = load_program(&source, Some(&mut log));
        match tail(&log) {
            // Access that a program may not have is refused like the right to load one.
            Some(log) => LoadError::Refused { operation, source: error, log: Some(log) },
            None => refused(operation)(error),
        }
    })
}

/// The last lines of a log.
fn tail(log: &[u8]) -> Option<String> {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    (!last.is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever kernel this is, if it takes programs: it need not have queueing disciplines in BPF.
    /// A small object with a program, a subprogram and a map, in which every byte in turn has other values.
    #[test]
    fn an_object_with_any_byte_changed_is_taken_or_refused() {
        const SMALL: &[u8] = include_bytes!("../../../../tools/fuzz/seeds/object/linked");
        let _ = Program::check(SMALL);
        for at in 0..SMALL.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, SMALL[at] ^ 1, SMALL[at].wrapping_add(8)] {
                let mut bytes = SMALL.to_vec();
                bytes[at] = value;
                let _ = (Program::check(&bytes), Program::check(&bytes[..at]));
            }
            let mut bytes = SMALL.to_vec();
            bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0xff);
            let _ = Program::check(&bytes);
        }
    }

    #[test]
    fn the_kernel_takes_the_programs_at_tc() {
        let object = include_bytes!("../../../generated/chassis.o");
        match Filters::load(object, &["twin_tables"]) {
            Ok(filters) => {
                filters.program("twin_leaving").unwrap();
                filters.program("twin_arriving").unwrap();
                assert!(filters.program("twin_enqueue").is_err());
            }
            Err(error @ (LoadError::Permission(_) | LoadError::Unavailable(_))) => println!("SKIP: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
