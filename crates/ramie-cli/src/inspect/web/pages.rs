//! The answers, with the headers that keep the page from loading or sending anything
//! elsewhere.

use std::{sync::Arc, time::Duration};

use ramie_http::{
    HeaderValue, Html, IntoResponse, Next, Request, Response, Router, StatusCode, extract::Path,
    get, header, sse::Sse,
};

use super::{feed::Feed, gate::Gate, token::Token};
use crate::inspect::source;

const HTML: &str = include_str!("../page/page.html");
const CSS: &str = include_str!("../page/page.css");
const JS: &str = include_str!("../page/page.js");

/// The most bytes of the text of a strand's id.
const MOST_ID: usize = 24;

/// The page about a process, its events and its strands. A question to the process may take
/// `limit`.
pub(super) fn router(gate: Gate, feed: &Arc<Feed>, pid: u32, limit: Duration) -> Router {
    let feed = Arc::clone(feed);
    let strand = move |Path(id): Path<String>| strand(pid, id, limit);
    Router::new()
        .route("/", get(page))
        .route("/events", get(move || events(&feed)))
        .route("/strand/{id}", get(strand))
        .fallback(not_found)
        .layer(move |request, next| gate.admit(request, next))
        .layer(confine)
}

/// Adds the headers of each answer. The token is in the URL, so the page must not send that on as a
/// referrer, and caches must not keep it.
fn confine(request: Request, next: Next<'_>) -> Response {
    let mut response = next.call(request);
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page with its style and its script, which alone may run: each answer has a nonce.
fn page() -> Response {
    let Ok(nonce) = Token::random() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let nonce = nonce.as_str();
    let body =
        HTML.replace("NONCE", nonce).replace("/* page.css */", CSS).replace("/* page.js */", JS);
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(body)).into_response()
}

fn events(feed: &Arc<Feed>) -> Response {
    match feed.subscribe() {
        Some(mut stream) => Sse::new(move |client| stream.forward(&client)).into_response(),
        None => {
            let busy = "too many pages are open; close one of them and load this one again\n";
            (StatusCode::SERVICE_UNAVAILABLE, busy).into_response()
        }
    }
}

/// The text of a strand. Only ids are asked for, because another text could be another request to
/// the process.
fn strand(pid: u32, id: String, limit: Duration) -> Response {
    if !is_id(&id) {
        return not_found();
    }
    match ramie::blocking(move || source::strand(pid, &id, limit)) {
        Ok(text) => text.into_response(),
        Err(failure) => (StatusCode::NOT_FOUND, failure.to_string()).into_response(),
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "expected /, /events or /strand/ID\n").into_response()
}

/// Whether this is the text of an id, such as `12.1`.
fn is_id(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split_once('.');
    text.len() <= MOST_ID && parts.is_some_and(|(a, b)| is_number(a) && is_number(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_parts_and_no_external_resource() {
        let page = page();
        let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
        let body = page.into_body().into_bytes(100_000).unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        let nonce = policy.split_once("script-src 'nonce-").unwrap().1.split_once('\'').unwrap().0;
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(body.matches(nonce).count(), 2);
        assert!(body.contains("EventSource") && body.contains("prefers-color-scheme"));
        for wrong in ["http://", "https://", "NONCE", "page.css", "page.js", "innerHTML", "style="]
        {
            assert!(!body.contains(wrong), "{wrong}");
        }
        assert!(body.len() < 20_000, "{} bytes", body.len());
    }

    #[test]
    fn only_ids_are_asked_for() {
        for id in ["12.1", "0.0", "4294967295.4294967295"] {
            assert!(is_id(id), "{id}");
        }
        for text in ["", "1", ".", "1.", ".1", "1.1\ndump", "1.1.1", "+1.1", &"1.1".repeat(9)] {
            assert!(!is_id(text), "{text:?}");
        }
    }
}
