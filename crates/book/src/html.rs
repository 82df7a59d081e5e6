//! Renders the book as HTML: a page for each chapter with the contents beside it, in the colours of the reports.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use tidegate_display::assets::THEME_CSS;
use tidegate_display::escape;

use crate::Chapter;
use crate::search::{self, Section};

const CSS: &str = include_str!("../assets/book.css");
const SCRIPT: &str = include_str!("../assets/book.js");

pub fn pages(chapters: &[Chapter], sections: &[Section]) -> Vec<(String, String)> {
    let mut pages = vec![
        ("book.css".to_owned(), format!("{THEME_CSS}\n{CSS}")),
        ("book.js".to_owned(), SCRIPT.to_owned()),
        ("search-index.js".to_owned(), search::index(sections)),
    ];
    for (n, chapter) in chapters.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| &chapters[n]);
        pages.push((format!("{}.html", chapter.slug), page(chapter, before, chapters.get(n + 1), chapters)));
    }
    if let Some(first) = chapters.first() {
        pages.push(("index.html".to_owned(), page(first, None, chapters.get(1), chapters)));
    }
    pages
}

/// Converts a title to one line of HTML. Text in backticks becomes `<code>`.
fn title(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in text.split('`').enumerate() {
        out += &if n % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) };
    }
    out
}

fn page(chapter: &Chapter, before: Option<&Chapter>, after: Option<&Chapter>, all: &[Chapter]) -> String {
    let up = "../".repeat(chapter.slug.matches('/').count());
    let link = |to: &Chapter, rel: &str, sign: &str| {
        format!("<a rel=\"{rel}\" href=\"{up}{}.html\">{sign} {}</a>", to.slug, title(&to.title))
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{} - Tidegate</title>\n\
         <link rel=\"stylesheet\" href=\"{up}book.css\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">To the text</a>\n\
         <nav aria-label=\"Contents\">\n\
         <form id=\"search\" role=\"search\" hidden><label for=\"find\">Search</label>\
         <input id=\"find\" type=\"search\" autocomplete=\"off\" aria-describedby=\"found-count\" placeholder=\"words, or press /\">\
         <p id=\"found-count\" role=\"status\"></p><ol id=\"found\"></ol></form>\n\
         <details id=\"contents\" open><summary>Tidegate: the book</summary>\n{}</details></nav>\n\
         <main id=\"main\">\n{}\n<footer>{}{}</footer>\n</main>\n\
         <script src=\"{up}book.js\" data-up=\"{up}\"></script>\n</body>\n</html>\n",
        escape(&chapter.title.replace('`', "")),
        contents(chapter, all),
        body(chapter, all),
        before.map_or(String::new(), |to| link(to, "prev", "\u{2190}")),
        after.map_or(String::new(), |to| link(to, "next", "\u{2192}")),
    )
}

/// Returns the contents that are shown beside a chapter: all chapters, grouped by the parts of the book. Subordinate
/// chapters are folded, except around the current chapter.
fn contents(current: &Chapter, all: &[Chapter]) -> String {
    let up = "../".repeat(current.slug.matches('/').count());
    let link = |entry: &Chapter| {
        let here = if entry.slug == current.slug { " aria-current=\"page\"" } else { "" };
        format!("<a href=\"{up}{}.html\"{here}>{}</a>", entry.slug, title(&short(&entry.title)))
    };
    let mut out = String::from("<ul>\n");
    let mut rest = all;
    while let Some((entry, after)) = rest.split_first() {
        if let Some(part) = entry.part {
            out += &format!("<li class=\"part\">{}</li>\n", escape(part));
        }
        let (below, after) = after.split_at(after.iter().take_while(|below| below.depth > entry.depth).count());
        out += &format!("<li>{}", link(entry));
        if !below.is_empty() {
            let here = below.iter().chain([entry]).any(|one| one.slug == current.slug);
            let pages = if below.len() == 1 { "1 page".into() } else { format!("{} pages", below.len()) };
            out += &format!("\n<details{}><summary>{pages}</summary>\n<ul>\n", if here { " open" } else { "" });
            for below in below {
                out += &format!("<li class=\"d{}\">{}</li>\n", below.depth.min(2), link(below));
            }
            out += "</ul></details>";
        }
        out += "</li>\n";
        rest = after;
    }
    out + "</ul>"
}

/// Shortens a title for the contents. A manual is listed by its name alone.
fn short(title: &str) -> String {
    match title.strip_prefix('`').and_then(|rest| rest.split_once("`:")) {
        Some((name, _)) => format!("`{name}`"),
        None => title.to_owned(),
    }
}

/// Parses the Markdown of a chapter.
pub(crate) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}

/// Returns the anchor of a heading, formed as mdbook does.
pub(crate) fn anchor(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn body(chapter: &Chapter, all: &[Chapter]) -> String {
    let known = |path: &str| all.iter().any(|chapter| chapter.slug == path);
    let events: Vec<Event<'_>> = parser(&chapter.text).collect();
    let mut out: Vec<Event<'_>> = Vec::with_capacity(events.len());
    let (mut nowhere, mut in_figure) = (false, false);
    for (n, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { level, id: None, classes, attrs }) if *level > HeadingLevel::H1 || n > 0 => {
                let words = events[n + 1..].iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
                let text: String = words
                    .filter_map(|event| match event {
                        Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
                        _ => None,
                    })
                    .collect();
                let id = Some(CowStr::from(anchor(&text)));
                out.push(Event::Start(Tag::Heading {
                    level: *level,
                    id,
                    classes: classes.clone(),
                    attrs: attrs.clone(),
                }));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let outside = dest_url.contains("://") || dest_url.starts_with('#');
                if !outside && !local(&chapter.slug, dest_url).is_some_and(|(path, _)| known(&path)) {
                    // The link points to a file of the repository, which is not part of the pages. Its text is kept.
                    nowhere = true;
                    continue;
                }
                let dest_url = match local(&chapter.slug, dest_url) {
                    Some((path, rest)) if known(&path) => {
                        let up = "../".repeat(chapter.slug.matches('/').count());
                        CowStr::from(format!("{up}{path}.html{rest}"))
                    }
                    _ => dest_url.clone(),
                };
                out.push(Event::Start(Tag::Link {
                    link_type: *link_type,
                    dest_url,
                    title: title.clone(),
                    id: id.clone(),
                }));
            }
            // A page loads no images, so the SVG is inlined.
            Event::Start(Tag::Image { dest_url, .. }) if figure(&chapter.slug, dest_url).is_some() => {
                in_figure = true;
                let svg = figure(&chapter.slug, dest_url).unwrap_or_default();
                out.push(Event::InlineHtml(svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "").into()));
            }
            Event::End(TagEnd::Image) if in_figure => in_figure = false,
            _ if in_figure => {}
            Event::End(TagEnd::Link) if nowhere => nowhere = false,
            Event::Start(Tag::Table(_)) => {
                out.push(Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()));
                out.push(event.clone());
            }
            Event::End(TagEnd::Table) => {
                out.push(event.clone());
                out.push(Event::Html("</div>".into()));
            }
            event => out.push(event.clone()),
        }
    }
    let mut page = String::new();
    html::push_html(&mut page, out.into_iter());
    page
}

/// Returns the SVG that the chapter `from` includes as `path`.
fn figure(from: &str, path: &str) -> Option<&'static str> {
    let path = resolved(from, path)?;
    crate::FIGURES.iter().find(|(known, _)| *known == path).map(|(_, svg)| *svg)
}

/// Resolves `path`, which is relative to the chapter `from`, to a path in the book.
fn resolved(from: &str, path: &str) -> Option<String> {
    if path.contains("://") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Resolves a link in the chapter `from` to a chapter and an anchor. Returns `None` for a link to anything else.
pub(crate) fn local(from: &str, link: &str) -> Option<(String, String)> {
    let (path, rest) = link.find('#').map_or((link, ""), |at| link.split_at(at));
    Some((resolved(from, path.strip_suffix(".md")?)?, rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_chapters_lead_to_pages() {
        assert_eq!(local("cookbook/home", "../concepts.md#laws"), Some(("concepts".into(), "#laws".into())));
        assert_eq!(local("concepts", "disciplines/fifo.md"), Some(("disciplines/fifo".into(), String::new())));
        assert_eq!(local("concepts", "../README.md"), None);
        assert_eq!(local("concepts", "x.html"), None);
    }

    #[test]
    fn every_link_of_the_book_leads_somewhere() {
        let chapters = crate::Book::new().chapters();
        for chapter in &chapters {
            if chapter.slug.starts_with("lab/papers/") {
                // These are READMEs of the repository, which link to its files.
                continue;
            }
            for event in Parser::new(&chapter.text) {
                let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
                if dest_url.contains("://") || dest_url.starts_with('#') {
                    continue;
                }
                let found = local(&chapter.slug, &dest_url);
                let known = found.as_ref().is_some_and(|(path, _)| chapters.iter().any(|other| other.slug == *path));
                assert!(known, "{}: {dest_url}", chapter.slug);
            }
        }
    }

    #[test]
    fn every_figure_is_shown_and_is_there() {
        let chapters = crate::Book::new().chapters();
        let mut shown = Vec::new();
        for chapter in chapters.iter().filter(|chapter| !chapter.slug.starts_with("lab/papers/")) {
            for event in Parser::new(&chapter.text) {
                let Event::Start(Tag::Image { dest_url, .. }) = event else { continue };
                assert!(figure(&chapter.slug, &dest_url).is_some(), "{}: {dest_url}", chapter.slug);
                assert!(body(chapter, &chapters).contains("<svg"), "{}", chapter.slug);
                shown.extend(resolved(&chapter.slug, &dest_url));
            }
        }
        for (path, _) in crate::FIGURES {
            assert!(shown.iter().any(|shown| shown == path), "no chapter shows {path}");
        }
    }

    #[test]
    fn a_page_loads_its_style_and_its_search_and_nothing_else() {
        let pages = crate::Book::new().pages();
        assert!(pages.iter().any(|(path, _)| path == "index.html"));
        let (_, page) = pages.iter().find(|(path, _)| path == "disciplines/fifo.html").expect("the manual of FIFO");
        assert!(page.contains("href=\"../book.css\""));
        let scripts: Vec<&str> = page.split("<script ").skip(1).collect();
        assert!(scripts.len() == 1 && scripts[0].starts_with("src=\"../book.js\" data-up=\"../\">"), "{scripts:?}");
        assert_eq!(page.matches("src=").count(), 1);
        assert!(page.contains("<em>Law</em>"));
        // In the contents beside a manual only the list of manuals is unfolded.
        let contents = page.split_once("id=\"contents\"").and_then(|(_, rest)| rest.split_once("</nav>")).unwrap().0;
        assert_eq!(contents.matches("<details open>").count(), 1, "{contents}");
        assert!(contents.matches("<details>").count() >= 4, "{contents}");
        assert!(
            contents.matches("aria-current=\"page\"").count() == 1 && contents.matches("class=\"part\"").count() >= 4
        );
    }
}
