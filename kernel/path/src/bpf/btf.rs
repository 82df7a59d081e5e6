//! Types as the kernel and compilers for BPF describe them (BTF), and the types of an object in the form that the kernel takes.

use std::ops::Range;

/// Kinds of types.
pub(super) const POINTER: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCT: u32 = 4;
pub(super) const FUNCTION: u32 = 12;
pub(super) const VARIABLE: u32 = 14;
pub(super) const SECTION: u32 = 15;
const INTEGER: u32 = 1;
const FORWARD: u32 = 7;
const CONSTANT: u32 = 10;
const TAG: u32 = 18;
/// A function that is declared only.
const EXTERNAL: u32 = 2;

/// The kernel, too, follows types that refer to others for 32 steps.
const DEPTH: usize = 32;
const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;

/// Reads the little-endian 32 bits at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// All types of a program or of a kernel.
#[derive(Debug)]
pub(super) struct Btf {
    bytes: Vec<u8>,
    /// Where each type is, from number 1 on; number 0 is `void`.
    places: Vec<usize>,
    strings: Range<usize>,
}

/// A member of a struct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    /// Its number among the members.
    pub number: u32,
    /// The number of its type.
    pub kind: u32,
    /// Where it is, in bytes.
    pub offset: u32,
}

impl Btf {
    /// # Errors
    /// The fault of `bytes`.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let field = |at: usize| u32_at(&bytes, at).map(|value| value as usize).ok_or("it ends within its header");
        if bytes.get(..2) != Some(&MAGIC.to_le_bytes()[..]) {
            return Err("it does not begin as types do");
        }
        let (header, types, types_length) = (field(4)?, field(8)?, field(12)?);
        let (strings, strings_length) = (field(16)?, field(20)?);
        let area = |from: usize, length: usize| {
            let from = header.checked_add(from)?;
            let to = from.checked_add(length)?;
            (to <= bytes.len()).then_some(from..to)
        };
        let (types, strings) = (area(types, types_length), area(strings, strings_length));
        let (Some(types), Some(strings)) = (types, strings) else { return Err("it ends within its types") };
        let (mut places, mut at) = (Vec::new(), types.start);
        while at < types.end {
            let info = u32_at(&bytes, at + 4).ok_or("it ends within a type")?;
            places.push(at);
            at += 12 + extra(info).ok_or("it has a type of an unknown kind")?;
        }
        if at != types.end {
            return Err("it ends within a type");
        }
        Ok(Self { bytes, places, strings })
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.get((number as usize).checked_sub(1)?).copied()
    }
    fn info(&self, number: u32) -> u32 {
        self.place(number).and_then(|at| u32_at(&self.bytes, at + 4)).unwrap_or(0)
    }
    /// The kind of a type; 0 for none.
    pub fn kind(&self, number: u32) -> u32 {
        kind(self.info(number))
    }
    /// The size of a struct in bytes, or the type that another type refers to.
    pub fn size_or_type(&self, number: u32) -> u32 {
        self.place(number).and_then(|at| u32_at(&self.bytes, at + 8)).unwrap_or(0)
    }
    /// The name of a type; empty without one.
    pub fn name(&self, number: u32) -> &str {
        self.place(number).and_then(|at| u32_at(&self.bytes, at)).map_or("", |offset| self.string(offset))
    }
    /// The string at `offset`.
    pub fn string(&self, offset: u32) -> &str {
        let bytes = self.bytes.get(self.strings.clone()).and_then(|all| all.get(offset as usize..)).unwrap_or(&[]);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).unwrap_or("")
    }
    /// The numbers of all types.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        1..=self.places.len() as u32
    }
    /// The type of a kind and a name.
    pub fn find(&self, wanted: u32, name: &str) -> Option<u32> {
        self.numbers().find(|&number| self.kind(number) == wanted && self.name(number) == name)
    }

    /// The words after the first three of a type.
    fn words(&self, number: u32) -> impl Iterator<Item = u32> {
        let area = self.place(number).map_or(0..0, |at| at + 12..at + 12 + extra(self.info(number)).unwrap_or(0));
        self.bytes[area].chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    }
    /// The members of a struct with their names.
    pub fn members(&self, number: u32) -> Vec<(&str, Member)> {
        let words: Vec<u32> = self.words(number).collect();
        let bits = |offset: u32| if self.info(number) >> 31 == 1 { offset & 0xff_ffff } else { offset };
        let member = |(at, words): (usize, &[u32])| {
            (self.string(words[0]), Member { number: at as u32, kind: words[1], offset: bits(words[2]) / 8 })
        };
        words.chunks_exact(3).enumerate().map(member).collect()
    }
    /// The member of a name.
    pub fn member(&self, number: u32, name: &str) -> Option<Member> {
        self.members(number).into_iter().find(|(known, _)| *known == name).map(|(_, member)| member)
    }
    /// The offset and the type of the member of a name, which may be in a struct or union without one.
    pub fn member_within(&self, number: u32, name: &str) -> Option<(u32, u32)> {
        self.members(number).into_iter().find_map(|(known, Member { kind, offset, .. })| match known {
            "" => self.member_within(self.plain(kind), name).map(|(at, kind)| (offset + at, kind)),
            _ => (known == name).then_some((offset, kind)),
        })
    }
    /// The type of the elements of an array.
    pub fn element(&self, number: u32) -> Option<u32> {
        self.words(number).next().filter(|_| self.kind(number) == ARRAY)
    }
    /// A type without what only its name or its use adds: typedef, volatile, const, restrict, and tags; 0 where that does not end
    /// within [`DEPTH`] steps.
    pub fn plain(&self, mut number: u32) -> u32 {
        for _ in 0..DEPTH {
            match self.kind(number) {
                8..=11 | 18 => number = self.size_or_type(number),
                _ => return number,
            }
        }
        0
    }
    /// The length of an array.
    pub fn length(&self, number: u32) -> Option<u32> {
        self.words(number).nth(2).filter(|_| self.kind(number) == ARRAY)
    }
    /// The variables of a section: the type of each and where it is, by the compiler.
    pub fn variables(&self, section: &str) -> Vec<u32> {
        let Some(number) = self.find(SECTION, section) else { return Vec::new() };
        self.words(number).step_by(3).collect()
    }

    /// The size of a type in bytes, as far as keys and values of maps need it.
    pub fn size(&self, number: u32) -> Option<u32> {
        let (mut number, mut elements) = (number, 1_u32);
        for _ in 0..DEPTH {
            number = self.plain(number);
            match self.kind(number) {
                INTEGER | STRUCT | 5 => return self.size_or_type(number).checked_mul(elements),
                POINTER => return elements.checked_mul(8),
                ARRAY => {
                    elements = elements.checked_mul(self.length(number)?)?;
                    number = self.element(number)?;
                }
                _ => return None,
            }
        }
        None
    }

    /// The bytes that the kernel takes of an object: sections become empty structs, variables integers, and declared functions
    /// declared types. Each type keeps its number. The kernel checks sections and variables against what only a linker knows,
    /// and needs none of them. Without tags, which say what programs may do with pointers in maps, a kernel need not know how.
    pub fn for_kernel(&self, tags: bool) -> Vec<u8> {
        let mut types = Vec::new();
        for (&at, number) in self.places.iter().zip(self.numbers()) {
            let (info, length) = (self.info(number), 12 + extra(self.info(number)).unwrap_or(0));
            let name = u32_at(&self.bytes, at).unwrap_or(0);
            let mut put = |words: &[u32]| types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            match kind(info) {
                SECTION => put(&[0, STRUCT << 24, 0]),
                VARIABLE => put(&[name, INTEGER << 24, 1, 8]),
                FUNCTION if info & 0xffff == EXTERNAL => put(&[name, FORWARD << 24, 0]),
                TAG if !tags => put(&[0, CONSTANT << 24, self.size_or_type(number)]),
                _ => types.extend_from_slice(&self.bytes[at..at + length]),
            }
        }
        let strings = &self.bytes[self.strings.clone()];
        let mut all = vec![MAGIC.to_le_bytes()[0], MAGIC.to_le_bytes()[1], 1, 0];
        for word in [HEADER, 0, types.len(), types.len(), strings.len()] {
            all.extend_from_slice(&(word as u32).to_le_bytes());
        }
        all.extend_from_slice(&types);
        all.extend_from_slice(strings);
        all
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// The bytes of a type after its first twelve.
fn extra(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match kind(info) {
        // Integer, variable, tag of a declaration.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Struct, union, section, enum of 64 bits.
        4 | 5 | 15 | 19 => 12 * count,
        // Enum, parameters of a function.
        6 | 13 => 8 * count,
        // Pointer, forward, typedef, volatile, const, restrict, function, float, tag of a type.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with these records and strings.
    fn types(records: &[&[u32]], strings: &str) -> Vec<u8> {
        let records: Vec<u8> =
            records.iter().flat_map(|words| words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, records.len(), records.len(), strings.len()] {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&records);
        bytes.extend_from_slice(strings.as_bytes());
        bytes
    }

    const STRINGS: &str = "\0int\0pair\0first\0second\0.maps\0now\0";

    fn example() -> Vec<u8> {
        types(
            &[
                &[1, INTEGER << 24, 4, 32],
                &[5, STRUCT << 24 | 2, 8, 10, 1, 0, 16, 1, 32],
                &[10, VARIABLE << 24, 2, 1],
                &[23, SECTION << 24 | 1, 8, 3, 0, 8],
                &[0, 13 << 24, 1],
                &[29, FUNCTION << 24 | EXTERNAL, 5],
            ],
            STRINGS,
        )
    }

    #[test]
    fn types_are_found_by_kind_and_name() {
        let types = Btf::parse(example()).expect("valid");
        assert_eq!(types.find(STRUCT, "pair"), Some(2));
        assert_eq!(types.find(INTEGER, "pair"), None);
        assert_eq!(types.member(2, "second"), Some(Member { number: 1, kind: 1, offset: 4 }));
        assert_eq!((types.size(2), types.size(1), types.size(0)), (Some(8), Some(4), None));
        assert_eq!(types.variables(".maps"), [3]);
        assert_eq!(types.find(FUNCTION, "now"), Some(6));
    }

    #[test]
    fn the_kernel_gets_no_section_no_variable_and_no_declaration_of_a_function() {
        let types = Btf::parse(example()).expect("valid");
        let taken = Btf::parse(types.for_kernel(true)).expect("valid");
        let kinds: Vec<u32> = taken.numbers().map(|number| taken.kind(number)).collect();
        assert_eq!(kinds, [INTEGER, STRUCT, INTEGER, STRUCT, 13, FORWARD]);
        assert_eq!((taken.name(2), taken.member(2, "first").map(|first| first.kind)), ("pair", Some(1)));
    }

    #[test]
    fn types_that_refer_to_themselves_have_no_size() {
        let (typedef, array) = (8 << 24, ARRAY << 24);
        let types =
            Btf::parse(types(&[&[0, typedef, 1], &[0, array, 0, 2, 1, 7], &[0, typedef, 4], &[0, typedef, 3]], "\0"));
        let types = types.expect("valid");
        assert_eq!([1, 2, 3, 4].map(|number| types.size(number)), [None; 4]);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let whole = example();
        for length in 0..whole.len() {
            assert!(Btf::parse(whole[..length].to_vec()).is_err(), "{length}");
        }
    }
}
