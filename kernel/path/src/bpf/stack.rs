//! The stack of the shipped programs: the kernel's verifier permits 512 bytes for the deepest calls.

use super::object::{INSTRUCTION, Object};
use super::program::OPERATIONS_SECTION;

/// The bytes that the calls of a program take at most, so that another one that is kept does not have the verifier refuse it.
const BYTES: u32 = 496;

const STACK: u8 = 10;
/// Classes of instructions, in the lower three bits of the first byte.
const LOADS: u8 = 1;
const STORES: [u8; 2] = [2, 3];
const CALCULATES: [u8; 2] = [4, 7];
/// Instructions.
const COPIES: u8 = 0xbf;
const ADDS: u8 = 0x07;
const CALLS: u8 = 0x85;

/// A function of linked code.
#[derive(Default)]
struct Function {
    /// The bytes below its frame's end that it reads or writes, or has the address of.
    frame: u32,
    /// The functions that it calls.
    calls: Vec<usize>,
}

/// `outside` are the instructions that refer to something else, such as a function of the kernel.
fn functions(code: &[u8], begins: &[usize], outside: &[usize]) -> Vec<Function> {
    let mut functions: Vec<Function> = begins.iter().map(|_| Function::default()).collect();
    let of = |at: usize| begins.iter().rposition(|begin| *begin <= at).expect("the first one begins the code");
    // Registers that are the end of the frame.
    let mut ends = [false; 16];
    for (at, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
        let [operation, registers, low, high, ..] = *instruction else { unreachable!("a whole instruction") };
        let (to, from) = (registers & 15, registers >> 4);
        let offset = i32::from(i16::from_le_bytes([low, high]));
        let immediate = i32::from_le_bytes(instruction[4..].try_into().expect("four bytes"));
        let class = operation & 7;
        let function = &mut functions[of(at)];
        let mut takes = |below: i32| function.frame = function.frame.max(below.min(0).unsigned_abs());
        match class {
            LOADS if from == STACK => takes(offset),
            class if STORES.contains(&class) && to == STACK => takes(offset),
            _ if operation == ADDS && ends[usize::from(to)] => takes(immediate),
            _ => {}
        }
        if operation == CALLS && from == 1 && !outside.contains(&at) {
            let target = (at as i32 + 1 + immediate) as usize;
            function.calls.push(begins.iter().position(|begin| *begin == target).expect("a call of a function"));
        }
        if class == LOADS || CALCULATES.contains(&class) {
            ends[usize::from(to)] = operation == COPIES && from == STACK;
        }
    }
    functions
}

/// The bytes of the deepest calls from a function on. The verifier permits no function that calls itself.
fn deepest(functions: &[Function], at: usize) -> u32 {
    let below = functions[at].calls.iter().map(|called| deepest(functions, *called)).max();
    functions[at].frame.next_multiple_of(16) + below.unwrap_or(0)
}

fn deepest_of(object: &Object<'_>, main: &str) -> u32 {
    let linked = object.link(main).unwrap();
    let begins: Vec<usize> = linked
        .functions
        .chunks_exact(8)
        .map(|record| u32::from_le_bytes(record[..4].try_into().unwrap()) as usize)
        .collect();
    let outside: Vec<usize> = linked.references.iter().map(|(at, _)| *at).collect();
    deepest(&functions(&linked.code, &begins, &outside), 0)
}

#[test]
fn the_shipped_programs_leave_room_on_the_stack() {
    let objects: [(&str, &[u8]); 4] = [
        ("chassis", include_bytes!("../../../generated/chassis.o")),
        ("chassis-many", include_bytes!("../../../generated/chassis-many.o")),
        ("chassis-trees", include_bytes!("../../../generated/chassis-trees.o")),
        ("chassis-cake", include_bytes!("../../../generated/chassis-cake.o")),
    ];
    for (name, bytes) in objects {
        let object = Object::parse(bytes).unwrap();
        let mut seen = 0;
        for (_, main) in object.references(OPERATIONS_SECTION) {
            let bytes = deepest_of(&object, main);
            println!("{name}: {main} takes {bytes} bytes of stack");
            assert!(bytes <= BYTES, "{name}: {main} takes {bytes} bytes");
            seen = seen.max(bytes);
        }
        // The operations that are measured exist.
        assert!(seen > 256, "{name}: {seen}");
    }
}
