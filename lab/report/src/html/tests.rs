use super::*;
use crate::model::Source;

fn report() -> Report {
    let mut table = Table::new("Items", ["id", ">value", "holds"]);
    let holds = crate::Cell { text: "NO".into(), mood: Mood::Bad };
    table.row(["a<b".into(), "1.5".into(), holds]);
    let plot = Plot {
        title: "Rate & more".into(),
        x: Axis::new("time", "s"),
        y: Axis::new("rate", "bit/s"),
        style: Style::Lines,
        note: None,
        curves: vec![Curve::new("</script><b>", [(2.0, 3.0), (1.0, 2.0), (1.0, 5.0)])],
    };
    Report {
        title: "A <run>".into(),
        sentence: Some("One sentence".into()),
        facts: vec![("seed".into(), "7".into())],
        sections: vec![Section::new("Flows").note("A note").with(table).with(plot)],
        sources: vec![Source { name: "a.toml".into(), text: "a = \"<1>\"\n".into() }],
        primary: Vec::new(),
    }
}

#[test]
fn a_page_names_no_place_outside_of_itself() {
    let page = report().html();
    assert!(!page.contains("://"), "an address");
    for attribute in ["src=", "url(", "@import", "<link"] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    assert!(page.contains("default-src 'none'"));
}

/// The page begins with the answer of the terminal, word for word, and has no other about the same quantity.
#[test]
fn a_page_answers_about_the_primary_quantities_first() {
    let comparison = crate::comparison::tests::comparison();
    let primary = vec!["delay p99 of flow call".to_owned()];
    let section = Section::new("Answer").with(comparison.clone());
    let page = Report { sections: vec![section], primary: primary.clone(), ..Report::default() }.html();
    let (stated, _) = Look::page().stated(&comparison, &primary).expect("a part");
    let said = stated.sentences();
    assert_ne!(said[0], comparison.sentences()[1], "the correction is another");
    assert!(page.contains(&format!("<ul class=\"answer\">\n<li>{}</li>\n</ul>", escape(&said[0]))), "{page}");
    assert_eq!(page.matches("<li>delay p99 of flow call").count(), 1);
    let (before, others) = page.split_once("<details><summary>Other measures").expect("the others");
    assert!(before.contains("corrected for all 3 differences") && others.contains("<li>goodput of flow call"));
    assert!(others.contains("corrected for all 6 differences"));
}

#[test]
fn sections_of_one_subject_are_listed_once() {
    let titles = ["Answer", "Seed 1: Rates", "Seed 1: Delays", "Seed 2: Rates", "Values"];
    let page = Report { sections: titles.map(Section::new).to_vec(), ..Report::default() }.html();
    let (_, nav) = page.split_once("<nav ").unwrap();
    let listed: Vec<&str> = nav.split_once("</nav>").unwrap().0.split("<li>").skip(1).collect();
    let expected = [("s0", "Answer"), ("s1", "Seed 1"), ("s3", "Seed 2"), ("s4", "Values")];
    assert_eq!(listed.len(), expected.len(), "{listed:?}");
    for (listed, (place, name)) in listed.into_iter().zip(expected) {
        assert!(listed.starts_with(&format!("<a href=\"#{place}\">{name}</a>")), "{listed}");
    }
}

#[test]
fn text_of_others_is_text() {
    let page = report().html();
    assert!(page.contains("<title>A &lt;run&gt;</title>"));
    assert!(page.contains("<th scope=\"row\">a&lt;b</th>") && page.contains("<td class=\"bad\">NO</td>"));
    assert!(page.contains("\\u003c/script\\u003e\\u003cb\\u003e"), "a script element ends where we end it");
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(page.contains("a = &quot;&lt;1&gt;&quot;"));
    assert!(page.contains("Leon Sorokin"), "the notice of uPlot goes with it");
}

#[test]
fn points_are_sorted_and_none_is_lost() {
    let mut page = String::new();
    let report = report();
    let Part::Plot(plot) = &report.sections[0].parts[1] else { panic!("the plot is second") };
    data(plot, &[Pen::default()], &mut page);
    assert!(page.contains("\"x\":[1,1.0000000000000002,2],\"y\":[2,5,3]"), "{page}");
}

#[test]
fn where_there_is_no_point_for_long_no_line_is_drawn() {
    // One curve has a point per second up to 10 s and from 60 s on, the other one every 20 s throughout.
    let halting = (0..=10).chain(60..=70).map(|t| (f64::from(t), 5.0));
    let seldom = [0.0, 20.0, 40.0, 60.0].map(|t| (t, 1.0));
    let plot = Plot {
        title: "t".into(),
        x: Axis::new("time", "s"),
        y: Axis::new("wait", "s"),
        style: Style::Lines,
        note: None,
        curves: vec![Curve::new("halting", halting), Curve::new("seldom", seldom)],
    }
    .with_gaps();
    let mut page = String::new();
    data(&plot, &[Pen::default(); 2], &mut page);
    assert!(page.contains("9,10,35,60,61") && page.contains("5,5,null,5,5"), "{page}");
    assert_eq!(page.matches("null").count(), 1, "{page}");
    // Of 23 points, 22 are counted, because one is a gap. In print the line restarts after the gap, and each curve
    // has its sample in the legend.
    assert!(summary(&plot).rows[0].iter().any(|cell| cell.text == "22"));
    let svg = plot.svg();
    let lines: Vec<_> = svg.lines().filter(|line| line.contains("stroke-width=\"1.8\"")).collect();
    assert_eq!(lines.iter().map(|line| line.matches('M').count()).collect::<Vec<_>>(), [2, 1, 1, 1], "{svg}");
    assert!(!svg.contains("NaN"));
}

#[test]
fn a_long_series_says_what_was_left_out() {
    let curve = Curve::new("long", (0..50_000).map(|n| (f64::from(n), f64::from(n % 100))));
    let plot = Plot {
        curves: vec![curve],
        ..match report().sections.remove(0).parts.remove(1) {
            Part::Plot(plot) => *plot,
            _ => panic!("the plot is second"),
        }
    };
    let page = Report { sections: vec![Section::new("s").with(plot)], ..Report::default() }.html();
    assert!(page.contains("Of 50000 points at most 4000 of a curve are in this page"));
    assert!(page.len() < 200_000, "{}", page.len());
    // The summary is of all points: 0 to 99, mean 49.5.
    assert!(page.contains("<td class=\"n\">50000</td><td class=\"n\">0 bit/s</td><td class=\"n\">49.5 bit/s</td>"));
}
