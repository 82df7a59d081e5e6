//! Lists the imports of a WebAssembly module.

use std::io;
use std::path::Path;

use wasmparser::{Parser, Payload};

/// Returns a line for each import of the module.
pub fn check(module: &Path) -> io::Result<Vec<String>> {
    let bytes = std::fs::read(module)?;
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(&bytes) {
        if let Payload::ImportSection(imports) = payload.map_err(io::Error::other)? {
            for import in imports.into_imports() {
                let import = import.map_err(io::Error::other)?;
                found.push(format!("{} imports {}.{}", module.display(), import.module, import.name));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_found() {
        // The magic number and version 1; the type () -> (); an import section with `time` from `env` of that type.
        let plain = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0".to_vec();
        let import = b"\x02\x0c\x01\x03env\x04time\0\0";
        let file = std::env::temp_dir().join(format!("tidegate-checks-{}.wasm", std::process::id()));
        std::fs::write(&file, &plain).expect("a file can be written");
        assert!(check(&file).expect("it is a module").is_empty());
        std::fs::write(&file, [plain, import.to_vec()].concat()).expect("a file can be written");
        assert_eq!(check(&file).expect("it is a module"), [format!("{} imports env.time", file.display())]);
        std::fs::remove_file(&file).expect("the file is ours");
    }
}
