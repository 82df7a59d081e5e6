//! Widths in Computer Modern Roman, the type of a LaTeX document that names no other. Times and Palatino are narrower.

/// The widths of the characters from the space to `~` at 10 pt (`cmr10.tfm`), in thousandths of the size and rounded up. Those that LaTeX
/// takes from another font, such as `<`, have their width there.
const WIDTHS: [u16; 95] = [
    334, 278, 556, 834, 501, 834, 778, 278, 389, 389, 501, 778, 278, 334, 278, 501, 501, 501, 501, 501, 501, 501, 501,
    501, 501, 501, 278, 278, 778, 778, 778, 473, 778, 751, 709, 723, 764, 681, 653, 785, 751, 362, 514, 778, 626, 917,
    751, 778, 681, 778, 737, 556, 723, 751, 751, 1028, 751, 751, 612, 278, 501, 278, 501, 360, 278, 501, 556, 445, 556,
    445, 306, 501, 556, 278, 306, 528, 278, 834, 556, 501, 556, 528, 392, 395, 389, 556, 528, 723, 528, 528, 445, 501,
    278, 501, 501,
];
/// The width of any other character: that of most signs.
const OTHER: u16 = 778;
/// The width of `\pm` between two numbers with its spaces.
const SIGN: f64 = 1.223;

/// The greatest factor by which characters are wider relative to the size than at 10 pt: small type is cut wider.
fn wider(size: f64) -> f64 {
    match size {
        size if size < 5.5 => 1.45,
        size if size < 6.5 => 1.27,
        size if size < 7.5 => 1.17,
        size if size < 8.5 => 1.063,
        size if size < 9.5 => 1.03,
        _ => 1.0,
    }
}

/// The width of a text of this size, in points.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let of = |character: char| {
        let known = (character as usize).checked_sub(usize::from(b' ')).and_then(|at| WIDTHS.get(at));
        f64::from(*known.unwrap_or(&OTHER))
    };
    text.chars().map(of).sum::<f64>() * size * wider(size) / 1000.0
}

/// The width of a number of a table: text with formulas between `$` whose only command beside `\phantom`, `\best` and `\perhaps` is `\pm`.
pub(crate) fn width_of_number(number: &str, size: f64) -> f64 {
    let of_part = |(n, part): (usize, &str)| match n % 2 {
        0 => width(&part.replace("\\ ", " "), size),
        _ => {
            let plain =
                ["\\phantom", "\\best", "\\perhaps"].iter().fold(part.to_owned(), |part, of| part.replace(of, ""));
            let plain = plain.replace(['{', '}', ' '], "");
            let signs = plain.matches("\\pm").count() as f64;
            width(&plain.replace("\\pm", ""), size) + signs * SIGN * size * wider(size)
        }
    };
    number.split('$').enumerate().map(of_part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `\settowidth` of LaTeX has them, in points.
    #[test]
    fn widths_are_those_of_tex() {
        for (text, size, points) in [
            ("completion p50", 8.0, 56.66748),
            ("completion p50", 7.0, 53.22247),
            ("completion p50", 10.0, 66.66682),
            ("Mbit/s", 8.0, 25.77538),
            ("$123.4 \\pm 12.0$", 8.0, 44.86176),
            ("$123.4 \\pm 12.0$", 7.0, 42.54489),
            ("$123.4 \\pm 12.0$", 10.0, 52.77782),
            ("$12 \\pm {<}12.0$", 10.0, 47.7778),
            ("n.r.\\ (2/5)", 8.0, 34.95),
            ("flow short, limit=10240", 8.0, 87.18042),
        ] {
            let ours = width_of_number(text, size);
            assert!(ours >= points && ours < points * 1.03, "{text}: {ours} for {points}");
        }
    }
}
