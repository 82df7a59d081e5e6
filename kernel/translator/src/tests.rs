//! The subset, its errors, and short forms of the comparisons.

use std::io::Write as _;
use std::path::PathBuf;

use tidegate_testbed::is_nightly;

use super::equal::{Scratch, compare, compile, compiler};
use super::mutants::mutants;
use super::packets;
use super::source::Sources;
use super::translate::Translator;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Function `T::f` of a file in C, or the error.
fn translate(text: &str) -> Result<String, String> {
    let mut sources = Sources::default();
    sources.add("some/file.rs", "file", text).map_err(|error| error.0)?;
    let mut translator = Translator::new(&sources);
    translator.root("file", "T", "f").map_err(|error| error.0)?;
    Ok(translator.finish())
}

fn function(parameters: &str, body: &str) -> Result<String, String> {
    translate(&format!("struct T {{\n    a: u64,\n}}\nimpl T {{\n    fn f({parameters}) {{\n{body}\n    }}\n}}\n"))
}

/// Whether there is a compiler; says so where there is none.
fn can_compile(test: &str) -> bool {
    let Err(reason) = compiler() else { return true };
    let line = format!("SKIP: tidegate-translator::{test}: {reason}");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
    false
}

#[test]
fn what_is_outside_the_subset_is_named_with_its_place() {
    for (parameters, body, line, what) in [
        ("&self", "let x: i128 = 1;", 6, "128 bits"),
        ("&self, n: u128", "let x: u128 = n * n;", 6, "128 bits"),
        ("&self", "let x: f64 = 1.0;", 6, "a float"),
        ("&self", "\nwhile true {}", 7, "an expression of a kind"),
        ("&self", "let x = 1;", 6, "whose type does not show"),
        ("&self, n: i64", "let x: i64 = n / n;", 6, "signed"),
        ("&self", "let x: u64 = self.a.swap_bytes();", 6, "`swap_bytes`"),
        ("&self", "println!();", 6, "a macro"),
        ("&self", "let x: Vec<u64> = g();", 6, "type arguments"),
        ("&self", "self.f();", 5, "calls itself"),
        ("&self, x: [u64; 3]", "", 5, "no integer"),
        ("&self", "let x = self.other();", 6, "no method `other`"),
    ] {
        let error = function(parameters, body).expect_err(body);
        assert!(error.starts_with(&format!("some/file.rs:{line}: ")) && error.contains(what), "{body}: {error}");
    }
}

#[test]
fn the_order_of_evaluation_is_that_of_rust() {
    let text = "
        struct T { a: u64 }
        impl T {
            fn next(&mut self) -> u64 { self.a += 1; self.a }
            fn f(&mut self) -> u64 { self.a * 10 + self.next() }
            fn g(&mut self, b: bool) -> bool { b && self.next() > 3 }
        }";
    let c = translate(text).unwrap();
    let sum = c.split("file_t_f(").nth(1).unwrap();
    // The field is read before the call that changes it.
    let (read, call) = (sum.find("self->a * 10").unwrap(), sum.find("file_t_next(self)").unwrap());
    assert!(read < call, "{c}");
    let c = translate(&text.replace("fn f", "fn h").replace("fn g", "fn f")).unwrap();
    // The call is made where the left side is true.
    assert!(c.split("if (t").nth(1).is_some_and(|rest| rest.contains("file_t_next(self)")), "{c}");
}

#[test]
fn a_method_that_changes_its_receiver_gets_no_copy_of_it() {
    let text = "
        struct U { n: u64 }
        impl U {
            fn add(&mut self, by: u64) { self.n += by; }
            fn get(&self) -> u64 { self.n }
        }
        struct T { u: U, v: U }
        impl T {
            fn f(&mut self) { self.u.add(self.v.get()); }
        }";
    let c = translate(text).unwrap();
    assert!(c.contains("file_u_add(&self->u, t)"), "{c}");
}

#[test]
fn a_variant_with_fields_is_a_kind_and_its_fields() {
    let text = "
        enum E { None, Some { least: u64, most: u64 }, All(u64) }
        struct T { a: u64 }
        impl T {
            fn g(e: E) -> u64 {
                match e {
                    E::None => 1,
                    E::Some { most, .. } => most,
                    E::All(n) => n,
                }
            }
            fn f(&self) -> u64 { Self::g(E::All(self.a)) + Self::g(E::None) }
        }";
    let c = translate(text).unwrap();
    for part in [
        "\tfile_e_kind kind;\n\tu64 some_least;\n\tu64 some_most;\n\tu64 all;\n} file_e;",
        "if (t.kind == FILE_E_NONE) {",
        "u64 most = t.some_most;",
        "(file_e){ .kind = FILE_E_ALL, .all = self->a }",
    ] {
        assert!(c.contains(part), "{part}\n{c}");
    }
}

#[test]
fn the_generated_file_is_current() {
    assert_eq!(super::generated(&root(), false).unwrap(), Vec::<String>::new());
}

/// The C compiled, in a folder that is removed when the first value is dropped.
fn host(folder: &str) -> (Scratch, PathBuf) {
    let scratch = Scratch::new(folder).unwrap();
    let program = scratch.0.join("host");
    compile(&root(), &root().join("kernel"), &program).unwrap();
    (scratch, program)
}

#[test]
fn the_c_decides_as_the_core() {
    if !can_compile("the_c_decides_as_the_core") {
        return;
    }
    let (_scratch, program) = host("twin-test-equal");
    if let Some(difference) = compare(&program, 300_000, 7).unwrap() {
        panic!("{}", difference.0);
    }
}

#[test]
fn the_c_classifies_as_the_core() {
    if !can_compile("the_c_classifies_as_the_core") {
        return;
    }
    let (_scratch, program) = host("twin-test-packets");
    let (found, counts) = packets::compare(&program, 200_000, 7).unwrap();
    if let Some(difference) = found {
        panic!("{}", difference.0);
    }
    assert!(counts.are_mixed(), "{counts}");
}

#[test]
fn most_mutants_of_the_c_are_found() {
    if !can_compile("most_mutants_of_the_c_are_found") {
        return;
    }
    let count = if is_nightly() { 12 } else { 3 };
    let missed = mutants(&root(), count, 300_000).unwrap();
    assert!(missed.len() < count / 2, "{missed:#?}");
}
