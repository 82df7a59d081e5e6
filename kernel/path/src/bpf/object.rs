//! The object that a compiler for BPF writes, an ELF file, and a program of it with its subprograms, linked.

use super::btf::{Btf, u32_at};

const SYMBOL: usize = 24;
const RELOCATION: usize = 16;
/// Types of sections.
const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;
/// Types of relocations: a number of 64 bits that is loaded, and a call.
const LOADS: u32 = 1;
const CALLS: u32 = 10;
/// The sections of variables, which begin as zero, and of constants.
pub(super) const VARIABLES: &str = ".bss";
pub(super) const CONSTANTS: &str = ".rodata";
/// Bytes of an instruction.
pub(super) const INSTRUCTION: usize = 8;

/// Instructions that are linked.
const CALL: u8 = 0x85;
/// A call of a subprogram, in its source register.
const SUBPROGRAM: u8 = 1;

/// An object.
#[derive(Debug)]
pub(super) struct Object<'a> {
    sections: Vec<Section<'a>>,
    symbols: Vec<Symbol<'a>>,
    pub types: Btf,
}

#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    /// Without contents for variables that begin as zero.
    contents: &'a [u8],
    size: u64,
    link: u32,
    /// For relocations, the section that they apply to.
    info: u32,
}

/// A function, a variable or a section by its name.
#[derive(Clone, Copy, Debug)]
struct Symbol<'a> {
    name: &'a str,
    section: usize,
    value: u64,
    size: u64,
}

/// Something that only the running kernel or the loader knows, at an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reference {
    /// The map of this name.
    Map(String),
    /// A variable or constant at this place of a section.
    Variable(&'static str, u32),
    /// A function of the kernel.
    Kernel(String),
}

/// A program with its subprograms behind it.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// The instructions.
    pub code: Vec<u8>,
    /// References to be filled in, by the number of the instruction.
    pub references: Vec<(usize, Reference)>,
    /// For each subprogram its first instruction and its type, as the kernel reads them.
    pub functions: Vec<u8>,
    /// The places that depend on the kernel, as the kernel reads them.
    pub relocations: Vec<u8>,
}

/// A part of the description of code: the size of a record, and the records of a section.
type Records<'a> = Vec<(&'a str, Vec<&'a [u8]>)>;

impl<'a> Object<'a> {
    /// # Errors
    /// The fault of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        // 64 bits, little-endian, relocatable, for BPF.
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") || bytes.get(16..20) != Some(&[1, 0, 247, 0]) {
            return Err("it is no object for BPF");
        }
        let table = number(bytes, 40, 8).ok_or("it ends within its header")? as usize;
        let count = number(bytes, 60, 2).ok_or("it ends within its header")? as usize;
        let names = number(bytes, 62, 2).ok_or("it ends within its header")? as usize;
        let mut raw = Vec::new();
        for at in 0..count {
            let header = bytes.get(table..).and_then(|headers| headers.get(64 * at..64 * at + 64));
            raw.push(header.ok_or("it ends within its sections")?);
        }
        let mut sections = Vec::new();
        for header in &raw {
            let field = |at, length| number(header, at, length).unwrap_or(0);
            let (kind, size) = (field(4, 4) as u32, field(32, 8));
            // Variables that begin as zero have no contents.
            let length = if kind == 8 { 0 } else { size as usize };
            let from = field(24, 8) as usize;
            let contents = from.checked_add(length).and_then(|to| bytes.get(from..to)).ok_or("a section is cut off")?;
            sections.push(Section {
                name: "",
                kind,
                contents,
                size,
                link: field(40, 4) as u32,
                info: field(44, 4) as u32,
            });
        }
        let strings = sections.get(names).map_or(&[][..], |section| section.contents);
        for (section, header) in sections.iter_mut().zip(&raw) {
            section.name = string(strings, number(header, 0, 4).unwrap_or(0) as usize);
        }
        let mut symbols = Vec::new();
        for table in sections.iter().filter(|section| section.kind == SYMBOLS) {
            let strings = sections.get(table.link as usize).map_or(&[][..], |section| section.contents);
            for entry in table.contents.chunks_exact(SYMBOL) {
                let field = |at, length| number(entry, at, length).unwrap_or(0);
                symbols.push(Symbol {
                    name: string(strings, field(0, 4) as usize),
                    section: field(6, 2) as usize,
                    value: field(8, 8),
                    size: field(16, 8),
                });
            }
        }
        let types = sections.iter().find(|section| section.name == ".BTF").ok_or("it has no types")?;
        let types = Btf::parse(types.contents.to_vec())?;
        Ok(Self { sections, symbols, types })
    }

    /// The contents of a section; empty without one.
    pub fn contents(&self, name: &str) -> &'a [u8] {
        self.sections.iter().find(|section| section.name == name).map_or(&[], |section| section.contents)
    }
    /// The size of a section in bytes; 0 without one.
    pub fn size(&self, name: &str) -> u64 {
        self.sections.iter().find(|section| section.name == name).map_or(0, |section| section.size)
    }
    /// The place in its section of a function, a variable or a constant.
    pub fn place(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.value)
    }
    /// The names of the functions in a section.
    pub fn functions(&self, section: &str) -> Vec<&'a str> {
        let Some(of) = self.sections.iter().position(|known| known.name == section && known.kind != RELOCATIONS) else {
            return Vec::new();
        };
        self.symbols.iter().filter(|symbol| symbol.section == of && symbol.size > 0).map(|symbol| symbol.name).collect()
    }
    /// The places in a section that refer to a symbol, with its name.
    pub fn references(&self, name: &str) -> Vec<(u64, &'a str)> {
        let Some(of) = self.sections.iter().position(|section| section.name == name) else { return Vec::new() };
        self.relocations(of).filter_map(|(at, symbol, _)| Some((at, self.symbols.get(symbol)?.name))).collect()
    }

    /// Place, symbol and type of each relocation of a section.
    fn relocations(&self, of: usize) -> impl Iterator<Item = (u64, usize, u32)> {
        let own = |section: &&Section<'a>| section.kind == RELOCATIONS && section.info as usize == of;
        let all = self.sections.iter().find(own).map_or(&[][..], |section| section.contents);
        all.chunks_exact(RELOCATION).map(|entry| {
            let (at, info) = (number(entry, 0, 8).unwrap_or(0), number(entry, 8, 8).unwrap_or(0));
            (at, (info >> 32) as usize, info as u32)
        })
    }

    /// The length of the function at a place.
    fn function(&self, section: usize, at: u64) -> Option<u64> {
        let found = |symbol: &&Symbol<'a>| symbol.section == section && symbol.value == at && symbol.size > 0;
        self.symbols.iter().find(found).map(|symbol| symbol.size)
    }

    /// Links the function of this name with the subprograms that it calls.
    ///
    /// # Errors
    /// The reference that is missing or not supported.
    pub fn link(&self, main: &str) -> Result<Linked, String> {
        let symbol = self.symbols.iter().find(|symbol| symbol.name == main && symbol.size > 0);
        let symbol = symbol.ok_or_else(|| format!("there is no function {main}"))?;
        let mut linked = Linked::default();
        // Where each function was, and its first instruction here.
        let mut functions: Vec<(usize, u64, usize)> = vec![(symbol.section, symbol.value, 0)];
        // Instructions that call, and which of the functions.
        let mut calls: Vec<(usize, usize)> = Vec::new();
        let mut done = 0;
        while let Some(&(section, from, _)) = functions.get(done) {
            let first = linked.code.len() / INSTRUCTION;
            functions[done].2 = first;
            done += 1;
            let size = self.function(section, from).ok_or_else(|| format!("{main} calls no function at {from:#x}"))?;
            let range = from as usize..from.saturating_add(size) as usize;
            let code = self.sections.get(section).and_then(|section| section.contents.get(range.clone()));
            let code = code.filter(|code| code.len().is_multiple_of(INSTRUCTION)).ok_or("a function is cut off")?;
            linked.code.extend_from_slice(code);
            let mut target = |section: usize, at: u64| {
                functions.iter().position(|(s, a, _)| (*s, *a) == (section, at)).unwrap_or_else(|| {
                    functions.push((section, at, 0));
                    functions.len() - 1
                })
            };
            let mut known = Vec::new();
            for (at, symbol, kind) in self.relocations(section).filter(|(at, ..)| range.contains(&(*at as usize))) {
                let symbol = self.symbols.get(symbol).ok_or("a symbol is missing")?;
                let local = (at - from) as usize;
                if !local.is_multiple_of(INSTRUCTION) {
                    return Err(format!("{main} refers to {} within an instruction", symbol.name));
                }
                let place = first + local / INSTRUCTION;
                let immediate = number(code, local + 4, 4).unwrap_or(0) as i32;
                known.push(local);
                let of = self.sections.get(symbol.section).map_or("", |section| section.name);
                match (kind, of) {
                    (LOADS, ".maps") => linked.references.push((place, Reference::Map(symbol.name.into()))),
                    (LOADS, VARIABLES | CONSTANTS) => {
                        let of = if of == VARIABLES { VARIABLES } else { CONSTANTS };
                        let at = (symbol.value as u32).wrapping_add_signed(immediate);
                        linked.references.push((place, Reference::Variable(of, at)));
                    }
                    (CALLS, "") => linked.references.push((place, Reference::Kernel(symbol.name.into()))),
                    (CALLS, _) => {
                        let to = symbol.value.wrapping_add_signed(8 * (i64::from(immediate) + 1));
                        calls.push((place, target(symbol.section, to)));
                    }
                    _ => return Err(format!("{main} refers to {} in {of}, which is not supported", symbol.name)),
                }
            }
            // Calls within a section need no relocation.
            for (at, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
                if instruction[0] == CALL && instruction[1] >> 4 == SUBPROGRAM && !known.contains(&(at * INSTRUCTION)) {
                    let immediate = number(instruction, 4, 4).unwrap_or(0) as i32;
                    let to = from.wrapping_add_signed(8 * (at as i64 + 1 + i64::from(immediate)));
                    calls.push((first + at, target(section, to)));
                }
            }
        }
        for (place, to) in calls {
            let distance = functions[to].2 as i32 - (place as i32 + 1);
            linked.code[place * INSTRUCTION + 4..place * INSTRUCTION + 8].copy_from_slice(&distance.to_le_bytes());
        }
        self.describe(&functions, &mut linked)?;
        Ok(linked)
    }

    /// Adds the types of the functions, and the places that depend on the kernel.
    fn describe(&self, functions: &[(usize, u64, usize)], linked: &mut Linked) -> Result<(), String> {
        let (types, relocations) = (self.records(8, 8), self.records(24, 16));
        for &(section, from, first) in functions {
            let name = self.sections.get(section).map_or("", |section| section.name);
            let size = self.function(section, from).unwrap_or(0);
            let of = |records: &Records<'a>| -> Vec<&'a [u8]> {
                records
                    .iter()
                    .filter(|(section, _)| *section == name)
                    .flat_map(|(_, records)| records.clone())
                    .collect()
            };
            let place = |record: &[u8]| u64::from(u32_at(record, 0).unwrap_or(u32::MAX));
            let own = of(&types).into_iter().find(|record| place(record) == from);
            let own = own.ok_or_else(|| format!("a function of {name} has no type"))?;
            linked.functions.extend_from_slice(&(first as u32).to_le_bytes());
            linked.functions.extend_from_slice(&own[4..8]);
            let code = from..from.saturating_add(size);
            for record in of(&relocations).into_iter().filter(|record| code.contains(&place(record))) {
                let at = (place(record) - from) as u32 + (first * INSTRUCTION) as u32;
                linked.relocations.extend_from_slice(&at.to_le_bytes());
                linked.relocations.extend_from_slice(&record[4..16]);
            }
        }
        Ok(())
    }

    /// The records of a part of `.BTF.ext` whose place is at byte `at` of its header, by section. Each has `least` bytes or more.
    fn records(&self, at: usize, least: usize) -> Records<'a> {
        let all = self.contents(".BTF.ext");
        let field = |at: usize| u32_at(all, at).unwrap_or(0) as usize;
        let from = field(4) + field(at);
        let mut rest = all.get(from..from + field(at + 4)).unwrap_or(&[]);
        let mut found = Vec::new();
        let size = u32_at(rest, 0).unwrap_or(0) as usize;
        rest = rest.get(4..).unwrap_or(&[]);
        while let (Some(name), Some(count)) = (u32_at(rest, 0), u32_at(rest, 4)) {
            let length = size * count as usize;
            let Some(records) = rest.get(8..8 + length).filter(|_| size >= least) else { break };
            let name = self.types.string(name).to_owned();
            let name = self.sections.iter().map(|section| section.name).find(|known| *known == name);
            found.extend(name.map(|name| (name, records.chunks_exact(size).collect())));
            rest = &rest[8 + length..];
        }
        found
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut number = [0; 8];
    number[..length].copy_from_slice(bytes.get(at..at + length)?);
    Some(u64::from_le_bytes(number))
}

fn string(bytes: &[u8], at: usize) -> &str {
    let bytes = bytes.get(at..).unwrap_or(&[]);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHASSIS: &[u8] = include_bytes!("../../../generated/chassis.o");
    const OPERATIONS: [&str; 5] = ["twin_enqueue", "twin_dequeue", "twin_init", "twin_reset", "twin_destroy"];

    /// Each operation is followed by the subprograms that it calls, directly or not, and by no others.
    #[test]
    fn subprograms_are_linked_behind_what_calls_them() {
        let object = Object::parse(CHASSIS).expect("an object");
        for name in OPERATIONS {
            let linked = object.link(name).expect(name);
            let count = linked.code.len() / INSTRUCTION;
            let firsts: Vec<usize> =
                linked.functions.chunks_exact(8).map(|record| u32_at(record, 0).expect("a record") as usize).collect();
            assert!(firsts[0] == 0 && firsts.is_sorted() && firsts.iter().all(|first| *first < count), "{firsts:?}");
            let mut called = vec![0];
            for (at, instruction) in linked.code.chunks_exact(INSTRUCTION).enumerate() {
                // A call of the kernel looks the same until its number is filled in.
                let is_kernel = linked.references.iter().any(|(of, _)| *of == at);
                if instruction[0] == CALL && instruction[1] >> 4 == SUBPROGRAM && !is_kernel {
                    let distance = i32::from_le_bytes(instruction[4..8].try_into().expect("four bytes"));
                    called.push((at as i64 + 1 + i64::from(distance)) as usize);
                }
            }
            called.sort_unstable();
            called.dedup();
            assert_eq!(called, firsts, "{name}");
            assert!(linked.references.iter().all(|(at, _)| *at < count), "{name}");
        }
        let dequeue = object.link("twin_dequeue").expect("it is there");
        for wanted in [Reference::Map("twin_slots".into()), Reference::Kernel("bpf_kfree_skb".into())] {
            assert!(dequeue.references.iter().any(|(_, known)| *known == wanted), "{wanted:?}");
        }
        assert!(!dequeue.relocations.is_empty() && dequeue.relocations.len().is_multiple_of(16));
        assert!(object.link("twin_record_everything").is_err());
    }

    #[test]
    fn the_operations_are_found_by_their_functions() {
        let object = Object::parse(CHASSIS).expect("an object");
        let functions: Vec<&str> = object.references(".struct_ops.link").iter().map(|(_, name)| *name).collect();
        assert_eq!(functions, OPERATIONS);
        assert_eq!(object.contents("license"), b"Dual MIT/GPL\0");
        assert!(object.size(VARIABLES) > 0 && object.contents(VARIABLES).is_empty());
        let place = object.place("has_twin_tables").expect("it is there") as usize;
        assert_eq!(object.contents(CONSTANTS)[place], 1);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for length in (0..CHASSIS.len()).step_by(97) {
            assert!(Object::parse(&CHASSIS[..length]).is_err(), "{length}");
        }
    }
}
