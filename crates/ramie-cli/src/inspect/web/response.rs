//! Answers, with the headers that keep the page from loading or sending anything elsewhere.

use super::{request::Refused, token::Token};

const HTML: &str = include_str!("../page/page.html");
const CSS: &str = include_str!("../page/page.css");
const JS: &str = include_str!("../page/page.js");

/// The headers of each answer. The token is in the URL, so the page must not send that on as a
/// referrer, and caches must not keep it.
const HEADERS: &str = "Connection: close\r\n\
     Cache-Control: no-store\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\n\
     Referrer-Policy: no-referrer\r\n\
     X-Content-Type-Options: nosniff\r\n";

/// The page with its style and its script, which alone may run: each answer has a nonce.
pub(super) fn page(nonce: &Token) -> String {
    let nonce = nonce.as_str();
    let body =
        HTML.replace("NONCE", nonce).replace("/* page.css */", CSS).replace("/* page.js */", JS);
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; style-src 'nonce-{nonce}'; \
         script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'\r\n"
    );
    answer("200 OK", "text/html", &policy, &body)
}

/// A text, such as that of a strand.
pub(super) fn text(status: &str, body: &str) -> String {
    answer(status, "text/plain", "", body)
}

pub(super) fn refusal(refused: Refused) -> String {
    let (status, body) = match refused {
        Refused::Malformed => ("400 Bad Request", "this is not a request"),
        Refused::TooLong => ("431 Request Header Fields Too Large", "the request is too long"),
        Refused::Method => ("405 Method Not Allowed", "expected GET"),
        Refused::Host => ("403 Forbidden", "this server does not have the name in `Host`"),
        Refused::Token => {
            ("403 Forbidden", "use the URL that `ramie inspect --web` has printed, with its token")
        }
        Refused::Path => ("404 Not Found", "expected /, /events or /strand/ID"),
    };
    let allow = if refused == Refused::Method { "Allow: GET\r\n" } else { "" };
    answer(status, "text/plain", allow, body)
}

/// The head of a stream of events, which has no length.
pub(super) fn head_of_events() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEADERS}\r\n")
}

/// An event. The data has no line break, because JSON escapes them.
pub(super) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn answer(status: &str, kind: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         {HEADERS}{more}\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_parts_and_no_external_resource() {
        let nonce = Token::random().unwrap();
        let page = page(&nonce);
        let (head, body) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("script-src 'nonce-{}'", nonce.as_str())));
        assert!(head.contains("default-src 'none'") && !head.contains("unsafe"));
        assert_eq!(body.matches(nonce.as_str()).count(), 2);
        assert!(body.contains("EventSource") && body.contains("prefers-color-scheme"));
        for wrong in ["http://", "https://", "NONCE", "page.css", "page.js", "innerHTML", "style="]
        {
            assert!(!body.contains(wrong), "{wrong}");
        }
        assert!(body.len() < 20_000, "{} bytes", body.len());
    }
}
