//! The parts of a page with plots: uPlot as published, and the project's colours.
//!
//! uPlot is vendored as an unmodified file of the npm package (a test compares digests): a report opens without a
//! network, and a build does not need Node.

/// The version of uPlot in [`UPLOT_JS`].
pub const UPLOT_VERSION: &str = "1.6.32";

/// uPlot, `dist/uPlot.iife.min.js` of the npm package: defines the global `uPlot`. Its first line is a comment with
/// the address of its source.
pub const UPLOT_JS: &str = include_str!("../assets/uplot.js");

/// The style of uPlot, `dist/uPlot.min.css` of the npm package.
pub const UPLOT_CSS: &str = include_str!("../assets/uplot.css");

/// The licence of uPlot (MIT), whose notice must accompany the code.
pub const UPLOT_LICENCE: &str = include_str!("../assets/uplot.LICENSE");

/// Colours, light and dark, as CSS variables: `--tg-bg`, `--tg-surface`, `--tg-ink`, `--tg-muted`, `--tg-line`,
/// `--tg-grid`, `--tg-accent`, `--tg-good`, `--tg-bad`, `--tg-warn`, and `--tg-c1` to `--tg-c8` for curves. They
/// follow the system setting; `data-theme` on the root element overrides it.
pub const THEME_CSS: &str = include_str!("../assets/theme.css");

/// uPlot without the address in its first line, for pages that must not contain any address.
pub fn uplot_js_without_address() -> &'static str {
    UPLOT_JS.split_once('\n').map_or(UPLOT_JS, |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a, to detect a modification.
    fn digest(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn the_vendored_files_are_as_they_were_published() {
        assert_eq!((UPLOT_JS.len(), UPLOT_CSS.len()), (51_081, 1_857));
        assert_eq!(digest(UPLOT_JS), UPLOT_JS_DIGEST, "{:#x}", digest(UPLOT_JS));
        assert_eq!(digest(UPLOT_CSS), UPLOT_CSS_DIGEST, "{:#x}", digest(UPLOT_CSS));
        assert!(UPLOT_JS.starts_with("/*! ") && UPLOT_JS[..80].contains(UPLOT_VERSION));
        assert!(UPLOT_LICENCE.contains("Leon Sorokin") && UPLOT_LICENCE.contains("MIT"));
    }

    const UPLOT_JS_DIGEST: u64 = 0xe36e_4ba6_4a14_0428;
    const UPLOT_CSS_DIGEST: u64 = 0xf22a_dd10_2039_a00b;

    #[test]
    fn nothing_points_outside() {
        for text in [uplot_js_without_address(), UPLOT_CSS, THEME_CSS] {
            assert!(!text.contains("://"));
        }
    }
}
