//! Access to the page: permitted hosts, methods and numbers of connections.

use std::io::{Read, Write};

use tidegate_daemon::web::CONNECTIONS;

use crate::testbed::{Testbed, until};
use tidegate_testbed::Ended;

pub fn the_page_is_read_only_and_ours_alone() -> Ended {
    let testbed = Testbed::start("web");
    let json = |path: &str| serde_json::from_str::<serde_json::Value>(&testbed.get(path).1).expect("JSON");
    until("a history", || json("/api/history?span=600")["series"].as_array().is_some_and(|series| series.len() == 3));
    // Everything that the page refers to is served, and no other source is permitted.
    for (path, kind) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/charts.js", "text/javascript"),
        ("/tables.js", "text/javascript"),
        ("/units.js", "text/javascript"),
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
        let (head, body) = testbed.get(path);
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
    let (_, licence) = testbed.get("/licence");
    assert!(licence.contains("MIT") && licence.contains("Leon Sorokin"));
    assert_eq!(json("/api/now")["directions"][0]["classes"][0]["name"], "calls");
    assert_eq!(json("/api/history?span=600")["step_s"], 1);

    // A foreign name that resolves to our address (DNS rebinding), and no name at all.
    let port = testbed.web.port();
    for (host, status) in [
        (format!("Host: 127.0.0.1:{port}\r\n"), "200"),
        (format!("Host: localhost:{port}\r\n"), "200"),
        (format!("Host: rebound.example:{port}\r\n"), "421"),
        (String::new(), "400"),
    ] {
        let (head, _) = testbed.ask(&format!("GET /api/now HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
        let refused = head.starts_with("http/1.1 421") || head.starts_with("http/1.1 400");
        assert!(if status == "200" { head.starts_with("http/1.1 200") } else { refused }, "{host}: {head}");
    }
    // It can only be read.
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (head, _) = testbed.ask(&format!(
            "{method} /api/now HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            testbed.web
        ));
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: get, head"), "{method}: {head}");
    }
    for path in ["/nothing", "/../etc/passwd", "/api", "/metrics/"] {
        assert!(testbed.get(path).0.starts_with("http/1.1 404"), "{path}");
    }
    // Garbage, and a head without an end, are not served.
    let mut garbage = testbed.connect();
    garbage.write_all(&[0xff; 2_000]).expect("written");
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));

    // Silent connections occupy all places; they are closed after the time for a request, and the page is served.
    let silent: Vec<_> = (0..CONNECTIONS + 8).map(|_| testbed.connect()).collect();
    let (head, _) = testbed.get("/metrics");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    drop(silent);
    Ended::Passed
}
