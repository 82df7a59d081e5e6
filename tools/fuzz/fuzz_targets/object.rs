//! No object for BPF panics what reads and links it, and no types (BTF) of an object or of a kernel what reads these.
#![no_main]

use tidegate_kernel::bpf::{Program, check_types};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = match bytes.starts_with(b"\x7fELF") {
        true => Program::check(bytes).map_err(|error| error.to_string()),
        false => check_types(bytes.to_vec()).map(drop).map_err(str::to_owned),
    };
});
