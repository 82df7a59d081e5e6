//! Collects the chapters of `book/src` and the manuals at the heads of the core's files, so that a new chapter or
//! discipline is in the book without a list to maintain.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (book, core) = (root.join("book/src"), root.join("crates/core/src"));
    let experiments = root.join("lab/papers");
    for watched in [&book, &core, &experiments] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }

    let mut code = String::new();
    let mut doctests = String::new();
    let mut list = |name: &str, files: Vec<(String, PathBuf)>, tested: bool| {
        let _ = writeln!(code, "/// Names and texts.\npub(crate) static {name}: &[(&str, &str)] = &[");
        for (n, (slug, path)) in files.iter().enumerate() {
            let include = format!("include_str!({:?})", path.display().to_string());
            let _ = writeln!(code, "    ({slug:?}, {include}),");
            // The HOWTO builds crates of its own, in a test of its own.
            if tested && !slug.starts_with("howto") {
                let _ = writeln!(doctests, "#[cfg(doctest)]\n#[doc = {include}]\nmod chapter_{n} {{}}");
            }
        }
        code.push_str("];\n");
    };

    let mut chapters = Vec::new();
    walk(&book, &mut |path| {
        if path.extension().is_some_and(|extension| extension == "md") {
            chapters.push((slug(&book, path, ".md"), path.to_path_buf()));
        }
    })?;
    chapters.sort();
    list("CHAPTERS", chapters, true);

    let mut figures = Vec::new();
    walk(&book, &mut |path| {
        if path.extension().is_some_and(|extension| extension == "svg") {
            figures.push((slug(&book, path, ""), path.to_path_buf()));
        }
    })?;
    figures.sort();
    list("FIGURES", figures, false);

    // The manual of a file is its first block of lines that begin with `//!`.
    let mut manuals = Vec::new();
    let mut failed = None;
    walk(&core, &mut |path| {
        let Ok(text) = fs::read_to_string(path) else { return };
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        if !head.iter().any(|line| line.contains("*Law*")) {
            return;
        }
        let body: Vec<&str> = head.iter().map(|line| line.strip_prefix("//! ").unwrap_or(&line[3..])).collect();
        let name = slug(&core, path, ".rs");
        // A module is named without its folder, as at the root of the crate.
        let folders = ["aqm/", "classify/", "meter/", "qdisc/", "structures/"];
        let name = folders.iter().find_map(|folder| name.strip_prefix(folder)).unwrap_or(&name).replace('/', "-");
        let file = out.join(format!("manual-{name}.md"));
        failed = fs::write(&file, body.join("\n") + "\n").err().or(failed.take());
        manuals.push((name, file));
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    manuals.sort();
    list("MANUALS", manuals, false);

    let mut pages = Vec::new();
    for entry in fs::read_dir(&experiments)? {
        let path = entry?.path();
        let page = path.join("README.md");
        if page.is_file() {
            pages.push((slug(&experiments, &path, ""), page));
        }
    }
    pages.sort();
    list("EXPERIMENTS", pages, false);
    fs::write(out.join("chapters.rs"), code + &doctests)
}

fn slug(base: &Path, path: &Path, extension: &str) -> String {
    let inside = path.strip_prefix(base).unwrap_or(path).display().to_string();
    inside.strip_suffix(extension).unwrap_or(&inside).to_owned()
}

fn walk(folder: &Path, see: &mut dyn FnMut(&Path)) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() { walk(&path, see)? } else { see(&path) }
    }
    Ok(())
}
