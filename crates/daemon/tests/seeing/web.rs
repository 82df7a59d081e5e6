//! Who may ask for the page, for what, and how many.

use std::io::{Read, Write};

use tidegate_daemon::web::CONNECTIONS;

use crate::scene::{Scene, until};
use crate::support::Ended;

pub fn the_page_is_read_only_and_ours_alone() -> Ended {
    let scene = Scene::start("web");
    let json = |path: &str| serde_json::from_str::<serde_json::Value>(&scene.get(path).1).expect("JSON");
    until("a history", || json("/api/history?span=600")["series"].as_array().is_some_and(|series| series.len() == 3));
    // Everything that the page names is there, and nothing may come from elsewhere.
    for (path, kind) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/app.css", "text/css"),
        ("/theme.css", "text/css"),
        ("/uplot.js", "text/javascript"),
        ("/uplot.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
        ("/licence", "text/plain"),
        ("/metrics", "application/openmetrics-text"),
        ("/api/now", "application/json"),
        ("/api/history?span=600", "application/json"),
    ] {
        let (head, body) = scene.get(path);
        assert!(head.starts_with("http/1.1 200") && head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(header), "{path}: {header} in {head}");
        }
        assert!(!head.contains("access-control-allow-origin") && body.len() > 50, "{path}");
    }
    let (_, licence) = scene.get("/licence");
    assert!(licence.contains("MIT") && licence.contains("Leon Sorokin"));
    assert_eq!(json("/api/now")["directions"][0]["classes"][0]["name"], "calls");
    assert_eq!(json("/api/history?span=600")["step_s"], 1);

    // A name that somebody bent to our address, no name at all.
    let port = scene.web.port();
    for (host, status) in [
        (format!("Host: 127.0.0.1:{port}\r\n"), "200"),
        (format!("Host: localhost:{port}\r\n"), "200"),
        (format!("Host: rebound.example:{port}\r\n"), "421"),
        (String::new(), "400"),
    ] {
        let (head, _) = scene.ask(&format!("GET /api/now HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
        let refused = head.starts_with("http/1.1 421") || head.starts_with("http/1.1 400");
        assert!(if status == "200" { head.starts_with("http/1.1 200") } else { refused }, "{host}: {head}");
    }
    // It can only be read.
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (head, _) = scene.ask(&format!(
            "{method} /api/now HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            scene.web
        ));
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{method}: {head}");
    }
    for path in ["/nothing", "/../etc/passwd", "/api", "/metrics/"] {
        assert!(scene.get(path).0.starts_with("http/1.1 404"), "{path}");
    }
    // Garbage, and a head without an end, are not served.
    let mut garbage = scene.connect();
    garbage.write_all(&[0xff; 2_000]).expect("written");
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));

    // Silent connections take all places; they give way after the time for a request, and the page comes.
    let silent: Vec<_> = (0..CONNECTIONS + 8).map(|_| scene.connect()).collect();
    let (head, _) = scene.get("/metrics");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    drop(silent);
    Ended::Passed
}
