//! The search of the pages in a real browser: it finds sections by their words, and nothing overlaps, is cut off or
//! overflows, wide and narrow.
//!
//! With `TIDEGATE_SHOTS=folder` the screenshots are kept for inspection.

use std::path::PathBuf;

use tidegate_book::Book;
use tidegate_testbed::browser::{LOOKS, ask, chromium, shoot};
use tidegate_testbed::files::skip;

/// Searches, and posts what is found and what is wrong with it.
const PROBE: &str = r##"<script>
addEventListener("load", () => setTimeout(() => {
  const field = document.getElementById("find");
  field.focus();
  field.value = "queue limit";
  field.dispatchEvent(new Event("input"));
  setTimeout(() => {
    const seen = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
    const name = e => e.tagName + "#" + e.id + " " + e.textContent.trim().slice(0, 20);
    const box = e => e.getBoundingClientRect();
    const items = [...document.querySelectorAll("#found li")];
    const faults = () => {
      const all = [...document.querySelectorAll("nav *")].filter(seen), nav = box(document.querySelector("nav"));
      const wide = all.filter(e => box(e).right > Math.min(innerWidth, nav.right) + 1 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden");
      const parts = [field, document.getElementById("found-count"), ...items.flatMap(item => [...item.children])].filter(seen);
      const over = parts.flatMap((a, n) => parts.slice(n + 1).filter(b => box(a).bottom - box(b).top > 1 && box(a).top < box(b).top + 1).map(b => name(a) + " over " + name(b)));
      return wide.map(e => name(e) + " wide").concat(over).slice(0, 5);
    };
    const found = faults();
    items[1].style.marginTop = "-2em";
    const planted = [faults().length > 0];
    items[1].style.marginTop = "";
    items[0].querySelector("small").style.cssText = "white-space:nowrap;overflow-wrap:normal";
    planted.push(faults().length > 0);
    items[0].querySelector("small").style.cssText = "";
    const excerpts = items.map(item => item.querySelector("small").textContent);
    parent.postMessage({
      width: innerWidth, scroll: document.documentElement.scrollWidth, faults: found, planted,
      items: items.length, raw: excerpts.filter(text => /\]\(|\*\*|`/.test(text)),
      marked: items.every(item => item.querySelector("mark")), links: items.every(item => item.querySelector("a").href.includes(".html")),
      said: document.getElementById("found-count").textContent, hidden: !seen(document.getElementById("contents")),
    }, "*");
  }, 1500);
}, 300));
</script>"##;

/// Searches and stays so, for a picture.
const SEARCH: &str = r#"<script>addEventListener("load", () => {
  const field = document.getElementById("find");
  field.focus();
  field.value = "queue limit";
  field.dispatchEvent(new Event("input"));
});</script>"#;

#[test]
fn a_search_is_whole_wide_and_narrow() {
    let Some(chromium) = chromium() else {
        return skip("no chromium: the search of the book is not looked at in a browser");
    };
    let folder = std::env::temp_dir().join(format!("tidegate-book-{}", std::process::id()));
    let pages = Book::new().pages();
    for (path, text) in &pages {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().expect("it is in the folder")).expect("a folder of our own");
        std::fs::write(file, text).expect("written");
    }
    let (_, index) = pages.iter().find(|(path, _)| path == "index.html").expect("the first page");
    for look in &LOOKS {
        let (found, said) = ask(&chromium, &folder, index, PROBE, look);
        let has = |part: &str| assert!(found.contains(part), "{}: {part} is not in {found}", look.name);
        has(&format!("\"width\":{w},\"scroll\":{w},\"faults\":[],\"planted\":[true,true]", w = look.width));
        has("\"raw\":[],\"marked\":true,\"links\":true");
        has("\"items\":20,");
        has(" sections, the best 20 of them\",\"hidden\":true");
        assert!(said.is_empty(), "{}: {said:?}", look.name);
        if let Some(shots) = std::env::var_os("TIDEGATE_SHOTS").map(PathBuf::from) {
            std::fs::create_dir_all(&shots).expect("a folder for screenshots");
            std::fs::write(folder.join("report.html"), index.replace("</body>", &format!("{SEARCH}</body>")))
                .expect("written");
            shoot(&chromium, &folder, &shots.join(format!("book-{}.png", look.name)), look);
        }
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}
