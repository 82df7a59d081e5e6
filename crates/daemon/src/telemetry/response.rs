//! The responses of the page: content that nobody else may show, run or keep.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

/// A response as a whole.
pub(super) type Answer = Response<Full<Bytes>>;

pub(super) fn json(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(bytes) => data("application/json", bytes.into()),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be written\n"),
    }
}

pub(super) fn data(kind: &'static str, body: Bytes) -> Answer {
    respond(StatusCode::OK, kind, "no-store", body)
}

pub(super) fn asset(kind: &'static str, text: &'static str) -> Answer {
    respond(StatusCode::OK, kind, "no-cache", Bytes::from_static(text.as_bytes()))
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Answer {
    respond(status, "text/plain; charset=utf-8", "no-store", Bytes::from_static(text.as_bytes()))
}

/// Scripts, styles and data come from this server alone; no page frames this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn respond(status: StatusCode, kind: &'static str, cache: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, cache),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
