//! The header against the library: a program in C that calls every function, compiled and linked as a user would.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that cargo built for these tests: the newest, beside this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = [program.parent().unwrap(), program.parent().unwrap().parent().unwrap()];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let named = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libtidegate_pace_c") && name.ends_with(".a")
    });
    let newest = named.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).unwrap());
    newest.expect("cargo builds the library before its tests")
}

/// Compiles the program by `compiler`; `None` where that is not installed.
fn compiled(compiler: &str, flags: &[&str], to: &Path) -> Option<Output> {
    Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(root().join("include"))
        .arg(root().join("tests/it/sender.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(to)
        .output()
        .ok()
}

#[test]
fn a_program_in_c_uses_every_function() {
    let program = std::env::temp_dir().join(format!("tidegate-pace-c-{}", std::process::id()));
    let output =
        compiled("cc", &["-std=c11"], &program).expect("a C linker is needed to build Tidegate, and cc is one");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let output = Command::new(&program).arg(receiver.local_addr().unwrap().to_string()).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1000);
}

/// The names of functions in `text`, by what stands before them.
fn names(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices("tidegate_pace_").map(|(at, _)| &text[at..]);
    let named = starts.filter_map(|rest| rest.split_once('(').map(|(name, _)| name));
    named.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect()
}

#[test]
fn header_library_and_program_have_the_same_functions() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (header, source, program) = (read("include/tidegate-pace.h"), read("src/lib.rs"), read("tests/it/sender.c"));
    let exported: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub unsafe extern \"C\" fn "))
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
        .collect();
    assert_eq!(exported.len(), 11);
    assert_eq!(names(&header), exported);
    assert_eq!(names(&program), exported);
    // What is exported without the attribute, or with it and not as the header has it.
    assert_eq!(source.matches("#[unsafe(no_mangle)]").count(), exported.len());
}
