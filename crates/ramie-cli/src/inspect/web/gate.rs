//! The checks of a request before it is answered.
//!
//! | check | keeps out |
//! |---|---|
//! | the `Host` is an address or a name of this server | pages of other sites whose name resolves to this machine (DNS rebinding) |
//! | the token | other users of the machine, and pages that guess the port |
//!
//! Both come before the path is looked at, so an answer reveals nothing to strangers.

use std::net::{IpAddr, SocketAddr};

use ramie_http::{
    IntoResponse, Next, Request, Response, StatusCode,
    extract::{FromParts, Host},
};

use super::token::Token;

/// The names and addresses by which the server may be asked, and its token.
pub(super) struct Gate {
    pub(super) bound: SocketAddr,
    /// The host that the command line named.
    pub(super) name: String,
    pub(super) token: Token,
    /// Whether other machines may ask, by whatever address of this machine they see.
    pub(super) is_remote: bool,
}

impl Gate {
    /// Hands a request on that passes the checks.
    pub(super) fn admit(&self, mut request: Request, next: Next<'_>) -> Response {
        let host = Host::from_parts(request.parts_mut(), &());
        if !host.is_ok_and(|host| self.knows_host(&host)) {
            let why = "this server does not have the name in `Host`\n";
            return (StatusCode::FORBIDDEN, why).into_response();
        }
        if !self.has_token(request.query().unwrap_or_default()) {
            let why = "use the URL that `ramie inspect --web` has printed, with its token\n";
            return (StatusCode::FORBIDDEN, why).into_response();
        }
        next.call(request)
    }

    fn has_token(&self, query: &str) -> bool {
        let mut tokens = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
        tokens.next().is_some_and(|given| self.token.is(given))
    }

    /// Whether a `Host` header names this server. A name that is not known may belong to a page
    /// whose owner has let it resolve to this machine; an address cannot be made to do so.
    fn knows_host(&self, host: &Host) -> bool {
        let port = if host.0 == host.name() { Some(80) } else { host.port() };
        if port != Some(self.bound.port()) {
            return false;
        }
        let name = host.name();
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
    use ramie_http::Router;

    use super::*;

    fn gate(bound: &str, name: &str, is_remote: bool) -> Gate {
        let token = Token::random().unwrap();
        Gate { bound: bound.parse().unwrap(), name: name.to_owned(), token, is_remote }
    }

    /// Asks a router behind the gate, in which TOKEN stands for the token.
    fn asked(gate: Gate, target: &str, host: Option<&str>) -> StatusCode {
        let mut request = Request::get(&target.replace("TOKEN", gate.token.as_str()));
        if let Some(host) = host {
            request = request.with_header("host", host);
        }
        let router = Router::new().fallback(|| "behind the gate");
        router.layer(move |request, next| gate.admit(request, next)).call(request).status()
    }

    #[test]
    fn nothing_is_answered_without_the_token() {
        for query in ["", "?", "?token=", "?token=0", "?token=&token=TOKEN", "?Token=TOKEN"] {
            for path in ["/", "/events", "/strand/1.1", "/nothing"] {
                let gate = gate("127.0.0.1:81", "127.0.0.1", false);
                let target = format!("{path}{query}");
                let status = asked(gate, &target, Some("127.0.0.1:81"));
                assert_eq!(status, StatusCode::FORBIDDEN, "{target}");
            }
        }
        for target in ["/?token=TOKEN", "/x?a=1&token=TOKEN", "/?token=TOKEN&token="] {
            let gate = gate("127.0.0.1:81", "127.0.0.1", false);
            assert_eq!(asked(gate, target, Some("127.0.0.1:81")), StatusCode::OK, "{target}");
        }
    }

    #[test]
    fn a_foreign_host_is_refused() {
        let is_refused = |bound: &str, name: &str, is_remote: bool, host: Option<&str>| {
            let status = asked(gate(bound, name, is_remote), "/?token=TOKEN", host);
            assert!([StatusCode::OK, StatusCode::FORBIDDEN].contains(&status), "{host:?}");
            status == StatusCode::FORBIDDEN
        };
        let is_refused_by_v4 =
            |host: Option<&str>| is_refused("127.0.0.1:81", "my-machine", false, host);
        for host in ["localhost:81", "LOCALHOST:81", "127.0.0.1:81", "[::1]:81", "my-machine:81"] {
            assert!(!is_refused_by_v4(Some(host)), "{host}");
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
        ] {
            assert!(is_refused_by_v4(Some(host)), "{host}");
        }
        assert!(is_refused_by_v4(None));
        assert!(!is_refused("127.0.0.1:80", "127.0.0.1", false, Some("localhost")));
        assert!(!is_refused("127.0.0.1:80", "127.0.0.1", false, Some("[::1]")));
        // Any address, but no name that is not known.
        for (host, is_foreign) in
            [("192.0.2.1:81", false), ("[2001:db8::1]:81", false), ("evil.example:81", true)]
        {
            assert_eq!(is_refused("0.0.0.0:81", "0.0.0.0", true, Some(host)), is_foreign, "{host}");
        }
    }
}
