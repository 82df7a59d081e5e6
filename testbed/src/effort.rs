//! How much a run of the tests does: a short form for every change, and `TIDEGATE_TESTS=nightly` for everything.

/// Whether the environment asks for the nightly form.
pub fn is_nightly() -> bool {
    std::env::var_os("TIDEGATE_TESTS").is_some_and(|form| form == "nightly")
}

/// How many of `all` seeds or operations to run: all of them nightly, otherwise a tenth, but at least one.
pub fn share(all: u64) -> u64 {
    if is_nightly() { all } else { all.div_ceil(10) }
}
