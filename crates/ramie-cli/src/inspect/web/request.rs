//! Requests: the head of one, and the checks before it is answered.
//!
//! | check | keeps out |
//! |---|---|
//! | the `Host` is an address or a name of this server | pages of other sites whose name resolves to this machine (DNS rebinding) |
//! | the token | other users of the machine, and pages that guess the port |
//!
//! Both come before the path is looked at, so an answer reveals nothing to strangers.

use std::net::{IpAddr, SocketAddr};

use super::token::Token;

/// The most bytes of a request's head.
pub(super) const MOST_BYTES: usize = 8 * 1024;
const MOST_HEADERS: usize = 64;
/// The most bytes of the text of a strand's id.
const MOST_ID: usize = 24;

/// What the server has been asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Page,
    Events,
    /// The strand of this id.
    Strand(String),
}

/// A request that is not answered, by the status of the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Malformed,
    TooLong,
    Method,
    Host,
    Token,
    Path,
}

/// The names and addresses by which the server may be asked, and its token.
pub(super) struct Gate {
    pub(super) bound: SocketAddr,
    /// The host that the command line named.
    pub(super) name: String,
    pub(super) token: Token,
    /// Whether other machines may ask, by whatever address of this machine they see.
    pub(super) is_remote: bool,
}

/// Reads the head of a request; `None`: it is not complete yet.
pub(super) fn route(bytes: &[u8], gate: &Gate) -> Option<Result<Route, Refused>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(checked(&request, gate)),
        Ok(httparse::Status::Partial) if bytes.len() < MOST_BYTES => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some(Err(Refused::TooLong))
        }
        Err(_) => Some(Err(Refused::Malformed)),
    }
}

fn checked(request: &httparse::Request<'_, '_>, gate: &Gate) -> Result<Route, Refused> {
    let mut hosts = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => std::str::from_utf8(host.value).map_err(|_| Refused::Host)?,
        _ => return Err(Refused::Host),
    };
    if !gate.knows_host(host.trim()) {
        return Err(Refused::Host);
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut tokens = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
    if !tokens.next().is_some_and(|given| gate.token.is(given)) {
        return Err(Refused::Token);
    }
    if request.method != Some("GET") {
        return Err(Refused::Method);
    }
    match path {
        "/" => Ok(Route::Page),
        "/events" => Ok(Route::Events),
        _ => {
            let id = path.strip_prefix("/strand/").filter(|id| is_id(id));
            Ok(Route::Strand(id.ok_or(Refused::Path)?.to_owned()))
        }
    }
}

/// Whether this is the text of an id, such as `12.1`, so that it cannot be another request to the
/// process.
pub(super) fn is_id(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split_once('.');
    text.len() <= MOST_ID && parts.is_some_and(|(a, b)| is_number(a) && is_number(b))
}

impl Gate {
    /// Whether a `Host` header names this server. A name that is not known may belong to a page
    /// whose owner has let it resolve to this machine; an address cannot be made to do so.
    fn knows_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        if port != Some(self.bound.port()) {
            return false;
        }
        if name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(&self.name) {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let Ok(address) = bare.parse::<IpAddr>() else { return false };
        let is_usual = ["127.0.0.1", "::1"].contains(&bare) || address == self.bound.ip();
        is_usual || self.is_remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(bound: &str, name: &str, is_remote: bool) -> Gate {
        let token = Token::random().unwrap();
        Gate { bound: bound.parse().unwrap(), name: name.to_owned(), token, is_remote }
    }

    fn asked(gate: &Gate, line: &str, rest: &str) -> Option<Result<Route, Refused>> {
        let line = line.replace("TOKEN", gate.token.as_str());
        route(format!("{line}\r\n{rest}\r\n").as_bytes(), gate)
    }

    const HOST: &str = "Host: 127.0.0.1:81\r\n";

    #[test]
    fn the_three_paths_are_routed() {
        let gate = gate("127.0.0.1:81", "127.0.0.1", false);
        let ok = |line: &str| asked(&gate, line, HOST).unwrap().unwrap();
        assert_eq!(ok("GET /?token=TOKEN HTTP/1.1"), Route::Page);
        assert_eq!(ok("GET /events?x=1&token=TOKEN HTTP/1.1"), Route::Events);
        let strand = Route::Strand("12.1".to_owned());
        assert_eq!(ok("GET /strand/12.1?token=TOKEN HTTP/1.1"), strand);
        let refused = |line: &str| asked(&gate, line, HOST).unwrap().unwrap_err();
        for path in ["/x", "/events/", "//", "/strand/", "/strand/1", "/strand/1.1%0adump", "*"] {
            assert_eq!(
                refused(&format!("GET {path}?token=TOKEN HTTP/1.1")),
                Refused::Path,
                "{path}"
            );
        }
        for method in ["POST", "HEAD", "OPTIONS"] {
            let line = format!("{method} /?token=TOKEN HTTP/1.1");
            assert_eq!(refused(&line), Refused::Method, "{method}");
        }
    }

    #[test]
    fn nothing_is_answered_without_the_token() {
        let gate = gate("127.0.0.1:81", "127.0.0.1", false);
        for query in ["", "?", "?token=", "?token=0", "?token=&token=TOKEN", "?Token=TOKEN"] {
            for path in ["/", "/events", "/strand/1.1", "/nothing"] {
                let line = format!("GET {path}{query} HTTP/1.1");
                assert_eq!(asked(&gate, &line, HOST), Some(Err(Refused::Token)), "{line}");
            }
        }
    }

    #[test]
    fn a_foreign_host_is_refused() {
        let is_refused = |gate: &Gate, hosts: &str| {
            let answer = asked(gate, "GET /?token=TOKEN HTTP/1.1", hosts).unwrap();
            assert!(answer == Ok(Route::Page) || answer == Err(Refused::Host), "{answer:?}");
            answer.is_err()
        };
        let gate_v4 = gate("127.0.0.1:81", "my-machine", false);
        for host in ["localhost:81", "LOCALHOST:81", "127.0.0.1:81", "[::1]:81", "my-machine:81"] {
            assert!(!is_refused(&gate_v4, &format!("hOST: {host}\r\n")), "{host}");
        }
        for host in [
            "evil.example:81",
            "localhost",
            "localhost:80",
            "localhost.evil.example:81",
            "192.0.2.1:81",
            "0.0.0.0:81",
            ":81",
            "",
            "127.0.0.1:81:81",
            "[::1",
            "\u{e9}:81",
        ] {
            assert!(is_refused(&gate_v4, &format!("Host: {host}\r\n")), "{host}");
        }
        assert!(is_refused(&gate_v4, ""));
        assert!(is_refused(&gate_v4, "Host: localhost:81\r\nHost: localhost:81\r\n"));
        let usual_port = gate("127.0.0.1:80", "127.0.0.1", false);
        assert!(!is_refused(&usual_port, "Host: localhost\r\n"));
        assert!(!is_refused(&usual_port, "Host: [::1]\r\n"));
        // Any address, but no name that is not known.
        let remote = gate("0.0.0.0:81", "0.0.0.0", true);
        assert!(!is_refused(&remote, "Host: 192.0.2.1:81\r\n"));
        assert!(!is_refused(&remote, "Host: [2001:db8::1]:81\r\n"));
        assert!(is_refused(&remote, "Host: evil.example:81\r\n"));
    }

    #[test]
    fn garbage_is_refused_and_a_part_is_waited_for() {
        let gate = gate("127.0.0.1:81", "127.0.0.1", false);
        for part in ["", "G", "GET / HTTP/1.1\r\nHost: x\r\n"] {
            assert_eq!(route(part.as_bytes(), &gate), None, "{part:?}");
        }
        for garbage in [&b"\0\0\r\n\r\n"[..], b"\x16\x03\x01\x02\0", b"GET / HTTP/3\r\n\r\n"] {
            assert_eq!(route(garbage, &gate), Some(Err(Refused::Malformed)));
        }
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MOST_BYTES));
        assert_eq!(route(long.as_bytes(), &gate), Some(Err(Refused::TooLong)));
        let many = "X: 1\r\n".repeat(MOST_HEADERS + 1);
        assert_eq!(asked(&gate, "GET / HTTP/1.1", &many), Some(Err(Refused::TooLong)));
    }
}
