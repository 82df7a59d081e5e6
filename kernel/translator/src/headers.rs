//! Makes `kernel/path/src/options.rs` from the headers: the options of a discipline, the sizes of the chassis and the places of the
//! members of mapped structs, for all that read or write these in Rust.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// The sizes that users of the options have to know, each with its header.
const SIZES: [(&str, &str); 15] = [
    ("queues.h", "SLOTS"),
    ("queues.h", "QUEUES"),
    ("queues.h", "MANY_QUEUES"),
    ("queues.h", "SPACE"),
    ("options.h", "OWN_NUMBERS"),
    ("options.h", "POINTS"),
    ("records.h", "RECORDS"),
    ("classes.h", "FBQ_CLASSES"),
    ("classes.h", "FBQ_PROFILES"),
    ("classes.h", "FBQ_PROMISES"),
    ("tree.h", "CBQ_LEAVES"),
    ("tree.h", "CBQ_INNER"),
    ("chassis.bpf.c", "LINES"),
    ("classify.h", "RULES"),
    ("classify.h", "RULE_STEPS"),
];

/// Structs of numbers of 64 bits, each with its header: the words of what is mapped. Those before the first member of another
/// type count.
const STRUCTS: [(&str, &str); 10] = [
    ("chassis.bpf.c", "link"),
    ("marks.h", "marks"),
    ("advice.h", "advice"),
    ("chassis.bpf.c", "counters"),
    ("classes.h", "fbq_options"),
    ("classes.h", "fbq_class_options"),
    ("classes.h", "fbq_profile"),
    ("classes.h", "fbq_promise"),
    ("tree.h", "cbq_options"),
    ("tree.h", "cbq_class_options"),
];

/// The headers that define the counts of arrays in these structs.
const COUNTS: [&str; 3] = ["queues.h", "marks.h", "chassis.bpf.c"];

const HEAD: &str = "\
// SPDX-License-Identifier: MIT OR Apache-2.0
// Made from kernel/*.h by `cargo run -p tidegate-translator -- --write`. Changes belong there: `.ci/run` compares.

";

/// The options in Rust, as made from the headers in `kernel/` under `root`.
pub fn options(root: &Path) -> io::Result<String> {
    let header = |name: &str| fs::read_to_string(root.join("kernel").join(name));
    let missing = |what: &str| io::Error::other(format!("the headers of the twin do not have {what} as expected"));
    let mut out = HEAD.to_owned();
    for (file, name) in SIZES {
        let text = header(file)?;
        let define = format!("#define TWIN_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&define)?.parse::<u64>().ok());
        let value = value.ok_or_else(|| missing(name))?;
        let _ = writeln!(out, "/// `TWIN_{name}` of kernel/{file}.\npub const {name}: u64 = {value};");
    }
    disciplines(&header("options.h")?, &mut out).ok_or_else(|| missing("kinds and options"))?;
    let sizes = COUNTS.iter().map(|file| header(file)).collect::<io::Result<String>>()?;
    for (file, name) in STRUCTS {
        let text = header(file)?;
        let words = words(&text, &sizes, name).ok_or_else(|| missing(&format!("struct twin_{name}")))?;
        let _ = write!(out, "\n/// Words of `struct twin_{name}` of kernel/{file}.\npub mod {name} {{\n");
        let mut next = 0;
        for (member, count) in words {
            let _ = writeln!(out, "    pub const {}: usize = {next};", member.to_uppercase());
            next += count;
        }
        let _ = writeln!(out, "    /// The words of the struct.\n    pub const WORDS: usize = {next};\n}}");
    }
    Ok(out)
}

/// Writes the kinds of disciplines and their options. `None` if the header does not declare them as expected.
fn disciplines(text: &str, out: &mut String) -> Option<()> {
    let body = |begin: &str| text.split(begin).nth(1).and_then(|rest| rest.split("\n};").next());
    out.push_str("\n// `enum twin_kind` of kernel/options.h.\n");
    let kinds = body("enum twin_kind {")?;
    let kinds: Vec<&str> = kinds.lines().filter_map(|line| line.strip_prefix("\tTWIN_")?.strip_suffix(',')).collect();
    let mut next = 0;
    for kind in &kinds {
        let (name, of) = kind.split_once(" = TWIN_").unwrap_or((kind, ""));
        if let Some(value) = kinds.iter().position(|kind| *kind == of) {
            next = value;
        }
        let _ = writeln!(out, "pub const {name}: u64 = {next};");
        next += 1;
    }
    let fields = body("struct twin_options {")?;
    let fields = fields.lines().filter_map(|line| line.strip_prefix("\tu64 ")?.strip_suffix(';'));
    let (mut declared, mut taken, mut names) = (String::new(), Vec::new(), Vec::new());
    for field in fields {
        let (name, count) = match field.split_once('[') {
            Some((name, count)) => (name, count.strip_suffix(']').and_then(|count| count.parse().ok())),
            None => (field, Some(1)),
        };
        let count: usize = count?;
        if field.contains('[') {
            let parts: Vec<String> = (0..count).map(|part| format!("{name}_{part}")).collect();
            let _ = writeln!(declared, "    pub {name}: [u64; {count}],");
            taken.push(format!("{name}: [{}]", parts.join(", ")));
            names.extend(parts);
        } else {
            let _ = writeln!(declared, "    pub {name}: u64,");
            taken.push(name.to_owned());
            names.push(name.to_owned());
        }
    }
    let rows =
        |all: &[String]| all.chunks(5).map(|row| format!("            {},\n", row.join(", "))).collect::<String>();
    let (count, taken, list) = (names.len(), rows(&taken), rows(&names));
    let _ = write!(
        out,
        "
/// `struct twin_options` of kernel/options.h, which describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {{
{declared}}}

impl Options {{
    /// How many numbers they are.
    pub const NUMBERS: usize = {count};

    /// The numbers in their order.
    pub fn numbers(&self) -> [u64; Self::NUMBERS] {{
        let Self {{
{taken}        }} = *self;
        [
{list}        ]
    }}
    /// Options of numbers in their order.
    pub fn of_numbers(numbers: [u64; Self::NUMBERS]) -> Self {{
        let [
{list}        ] = numbers;
        Self {{
{taken}        }}
    }}
}}
"
    );
    Some(())
}

/// The members of a struct that are words, each with how many of them it has.
fn words<'a>(text: &'a str, sizes: &str, name: &str) -> Option<Vec<(&'a str, usize)>> {
    let body = text.split(&format!("struct twin_{name} {{\n")).nth(1)?.split("\n};").next()?;
    let mut lines = body.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("/*") {
            let mut last = line;
            while !last.ends_with("*/") {
                last = lines.next()?;
            }
            continue;
        }
        let Some(declared) = line.strip_prefix("u64 ") else { break };
        for member in declared.strip_suffix(';')?.split(", ") {
            found.push(match member.split_once('[') {
                None => (member, 1),
                Some((member, count)) => {
                    let define = format!("#define {} ", count.strip_suffix(']')?);
                    (member, sizes.lines().find_map(|line| line.strip_prefix(&define)?.parse().ok())?)
                }
            });
        }
    }
    Some(found)
}
