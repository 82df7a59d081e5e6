//! [`build`]: from a decider in Rust to the chassis with it.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::generate::generate;
use super::super::problem::{Outside, Problem, Result};
use super::super::source::{Definition, Key, Sources, fields};
use super::super::translate::{Signature, Translator};
use super::super::types::{self, Ty, Types, local};
use super::{MOST_NUMBERS, tree};

/// The module of the decider; its names in C begin with it.
const MODULE: &str = "own";
/// The compilers that are tried: older ones write no type tags.
const COMPILERS: [&str; 7] = ["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"];
/// The header of libbpf that the chassis includes.
const HEADER: &str = "/usr/include/bpf/bpf_helpers.h";

/// The functions of a decider, as the chassis calls them.
const CONTRACT: [(&str, &str); 3] = [
    ("new", "pub fn new(params: Params, random: Stream) -> Self"),
    ("arrive", "pub fn arrive(&mut self, now: Instant, queue: Backlog, size: Bytes, capable: bool) -> Verdict"),
    (
        "depart",
        "pub fn depart(&mut self, now: Instant, queue: Backlog, size: Bytes, wait: Span, capable: bool) -> Verdict",
    ),
];

/// The deciders of the core and that of the file at `path`, which has `text`, in C.
///
/// # Errors
/// An error names what is missing or not in the subset, and its place.
pub fn translate(path: &str, text: &str) -> io::Result<String> {
    translate_beside(Sources::of_tidegate(&tree())?, path, text)
}

/// The decider in `text` and those of `sources` in C.
pub(crate) fn translate_beside(mut sources: Sources, path: &str, text: &str) -> io::Result<String> {
    sources.add(path, &[MODULE.to_owned()], text)?;
    generate(&tree(), &sources, |translator| glue(translator, path))
}

/// The function that makes parameters of numbers, once the decider is found to be as the chassis calls it.
fn glue(translator: &mut Translator<'_>, path: &str) -> Result<String> {
    let sources = translator.sources;
    for (name, wanted) in CONTRACT {
        let key = Key { module: MODULE.into(), of: Some("Decider".into()), name: name.into(), right: None };
        let missing =
            || Outside::new(path, 1, "", Problem::Contract, &format!("there is no `{wanted}` in `impl Decider`"));
        let found = translator.function(&key)?.ok_or_else(missing)?;
        if shown(&found) != shape(name) {
            let line = &sources.functions[&key].item.0;
            let detail = format!("it must be `{wanted}`");
            return Err(sources.outside(sources.functions[&key].file, &line.ident, Problem::Contract, &detail));
        }
    }
    let name = (MODULE.to_owned(), "Params".to_owned());
    let Some((file, Definition::Struct(item))) = sources.types.get(&name).map(|(file, of)| (*file, of)) else {
        return Err(Outside::new(path, 1, "", Problem::Contract, "there is no `pub struct Params`"));
    };
    let mut parts = Vec::new();
    for (field, ty) in fields(item) {
        let read = translator.types.read(sources, file, Some(&name), ty)?;
        if !is_number(sources, &mut translator.types, &read)? {
            return Err(sources.outside(
                file,
                ty,
                Problem::Contract,
                "a parameter is a number, a bool, or a newtype of one",
            ));
        }
        parts.push(format!(".{} = numbers[{}]", local(&field), parts.len()));
    }
    if parts.len() > MOST_NUMBERS {
        return Err(sources.outside(
            file,
            &item.ident,
            Problem::Contract,
            &format!("more than {MOST_NUMBERS} parameters"),
        ));
    }
    Ok(format!(
        "/* The parameters of the numbers that the chassis has. */\nTWIN_INLINE own_params own_params_of(const u64 *numbers)\n{{\n\t\
         return (own_params){{ {} }};\n}}\n\n",
        parts.join(", ")
    ))
}

/// Whether a type is one number in C.
fn is_number(sources: &Sources, types: &mut Types, ty: &Ty) -> Result<bool> {
    Ok(match ty {
        Ty::Int(name) => *name != "u128",
        Ty::Bool => true,
        Ty::Named(name) => match types::inner(sources, types, name)? {
            Some(inner) => is_number(sources, types, &inner)?,
            None => false,
        },
        _ => false,
    })
}

/// The types of a function, as the chassis needs them.
fn shape(name: &str) -> &'static str {
    match name {
        "new" => "Params, Stream -> Decider",
        "arrive" => "&mut Decider, Instant, Backlog, Bytes, bool -> Verdict",
        _ => "&mut Decider, Instant, Backlog, Bytes, Span, bool -> Verdict",
    }
}

fn shown(signature: &Signature) -> String {
    let parameters: Vec<String> = signature.parameters.iter().map(ToString::to_string).collect();
    format!("{} -> {}", parameters.join(", "), signature.returns)
}

/// For the build script of the crate: translates the decider in the file at `path`, a path in the crate, to `deciders.h` in the folder
/// of the build (`OUT_DIR`), and compiles the chassis with it to `chassis.o` beside it. Without a compiler this file is empty, and
/// Cargo reports why.
///
/// # Errors
/// An error names what is not in the subset, its place and what to write instead, or gives the compiler's report.
pub fn build(path: &str) -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("this is for a build script"))?);
    println!("cargo::rerun-if-changed={path}");
    for source in ["kernel", "crates/core/src", "crates/units/src"] {
        println!("cargo::rerun-if-changed={}", tree().join(source).display());
    }
    let c = translate(path, &fs::read_to_string(path).map_err(|error| io::Error::other(format!("{path}: {error}")))?)?;
    fs::write(out.join("deciders.h"), c)?;
    match compiler() {
        Ok(compiler) => compile(&compiler, &out),
        Err(missing) => {
            println!(
                "cargo::warning={missing}: the program runs everywhere but in the kernel; install clang and libbpf-dev, and build again"
            );
            // What is not there is looked for at the next build.
            println!("cargo::rerun-if-changed={HEADER}");
            println!("cargo::rerun-if-changed=/usr/bin/clang");
            fs::write(out.join("chassis.o"), [])
        }
    }
}

/// The compiler for the kernel, or what is missing.
fn compiler() -> std::result::Result<String, String> {
    let major = |name: &&&str| {
        let output = Command::new(name).arg("-dumpversion").output().ok()?;
        String::from_utf8_lossy(&output.stdout).split('.').next()?.parse::<u32>().ok()
    };
    let found = COMPILERS.iter().find(|name| major(name).is_some_and(|major| major >= 15));
    let found = found.ok_or("there is no clang from 15 on")?;
    if !Path::new(HEADER).exists() {
        return Err(format!("there is no {HEADER}"));
    }
    Ok((*found).to_owned())
}

/// Compiles the chassis in BPF with the `deciders.h` of the folder `out`, as `kernel/build` does that of the core.
fn compile(compiler: &str, out: &Path) -> io::Result<()> {
    let kernel = tree().join("kernel");
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-target", "bpfel", "-mcpu=v3", "-Wall", "-DTWIN_WITH_OWN", "-I"])
        .arg(out)
        .arg("-I")
        .arg(&kernel)
        .arg("-c")
        .arg(kernel.join("chassis.bpf.c"))
        .arg("-o")
        .arg(out.join("chassis.o"))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "{compiler} does not compile the C of the decider in {}/deciders.h:\n{errors}",
        out.display()
    )))
}
