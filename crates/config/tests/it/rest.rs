//! Classes without a rate, which have what the others leave of the total.

use tidegate_config::shaper::{Root, load};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::Rate;

fn loaded(text: &str) -> Result<Vec<(u64, bool)>, String> {
    let source = Source::new("rest.toml", format!("version = 1\n{text}"));
    let mut diagnostics = Diagnostics::new();
    let Some(config) = load(&source, &mut diagnostics) else { return Err(diagnostics.render(&source)) };
    let Root::Shaper(shaper) = config.root else { unreachable!("it has classes") };
    assert!(shaper.classes.iter().map(|class| class.rate).sum::<Rate>() <= shaper.rate);
    Ok(shaper.classes.iter().map(|class| (class.rate.as_bps() / 1_000, class.is_rest)).collect())
}

#[test]
fn a_class_without_a_rate_has_what_the_others_leave() {
    let calls = "[[class]]\nname = \"calls\"\nrate = \"2mbit\"\n";
    let total = "[shaper]\nrate = \"20mbit\"\n";
    let rest = "[[class]]\nname = \"rest\"\ndefault = true\n";
    assert_eq!(loaded(&format!("{total}{calls}{rest}")), Ok(vec![(2_000, false), (18_000, true)]));
    // Several have equal parts, and none has more than its ceiling: the others then have the difference.
    let guests = "[[class]]\nname = \"guests\"\nat-most = \"5mbit\"\n";
    assert_eq!(
        loaded(&format!("{total}{calls}{guests}{rest}")),
        Ok(vec![(2_000, false), (5_000, true), (13_000, true)])
    );
    let tight = guests.replace("guests", "cameras").replace("5mbit", "1mbit");
    assert_eq!(
        loaded(&format!("{total}{rest}{guests}{tight}{calls}")),
        Ok(vec![(12_000, true), (5_000, true), (1_000, true), (2_000, false)])
    );
    // Rounding promises nothing that is not there; `loaded` looks at the sum.
    let three = ["a", "b", "c"].map(|name| rest.replace("rest", name).replace("default = true", ""));
    assert!(loaded(&format!("[shaper]\nrate = \"10000001bit\"\n{}default = true\n", three.concat())).is_ok());
    let shown = loaded(&format!("{calls}{rest}")).expect_err("no total");
    assert!(shown.contains("class `rest` has no `rate`, and no total is stated"), "{shown}");
    assert!(shown.contains("under [shaper] the rate of the line"), "{shown}");
    let full = format!("[shaper]\nrate = \"2mbit\"\n{calls}{rest}");
    let shown = loaded(&full).expect_err("nothing is left");
    assert!(shown.contains("the others are promised 2mbit of 2mbit"), "{shown}");
    // Where the others alone are promised too much, that is the one error.
    let shown = loaded(&format!("[shaper]\nrate = \"1mbit\"\n{calls}{rest}")).expect_err("too much");
    assert!(shown.contains("the classes are promised 2mbit") && shown.contains("help: raise the total"), "{shown}");
    assert!(!shown.contains("0bit") && !shown.contains("has no `rate`"), "{shown}");
}
