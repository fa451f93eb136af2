//! The target of a request: which of the four forms of RFC 9112, section 3.2, it has.

use http::Method;

use super::{
    authority,
    classes::{Class, PATH, QUERY, length_of},
};
use crate::refusal::Refusal;

/// Where the parts of a target lie in it, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    /// Where the path begins, and where it ends: at the `?`, or at the end.
    pub(crate) path: (u16, u16),
    /// Whether a `?` follows the path; the query is all behind it.
    pub(crate) has_query: bool,
}

impl Target {
    pub(crate) const EMPTY: Target =
        Target { form: TargetForm::Origin, path: (0, 0), has_query: false };

    /// The host and the port of an absolute target.
    pub(crate) fn authority(self, target: &[u8]) -> Option<&[u8]> {
        match self.form {
            TargetForm::Absolute => target.get(scheme_length(target)?..usize::from(self.path.0)),
            TargetForm::Origin | TargetForm::Asterisk => None,
        }
    }

    /// Whether the scheme is `https`.
    #[inline]
    pub(crate) fn is_https(self, target: &[u8]) -> bool {
        self.form == TargetForm::Absolute && scheme_length(target) == Some("https://".len())
    }
}

/// The forms of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetForm {
    /// `/path?query`.
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `*`, of OPTIONS.
    Asterisk,
}

const BAD_TARGET: Refusal = Refusal::malformed("the target of the request is not a URI");

/// Finds the form of a target, and checks each of its bytes. If it is refused, the contents of
/// `parsed` are meaningless.
pub(crate) fn parse(method: &Method, target: &[u8], parsed: &mut Target) -> Result<(), Refusal> {
    match target {
        [b'/', ..] if *method != Method::CONNECT => {
            parsed.form = TargetForm::Origin;
            parse_path(target, 0, parsed)
        }
        _ => parse_rare(method, target, parsed),
    }
}

/// As [`parse`], for targets that do not begin with a path.
#[cold]
#[inline(never)]
fn parse_rare(method: &Method, target: &[u8], parsed: &mut Target) -> Result<(), Refusal> {
    match target {
        _ if *method == Method::CONNECT => Err(Refusal::new(
            http::StatusCode::NOT_IMPLEMENTED,
            "this server is no proxy, so it does not serve CONNECT",
        )),
        b"*" if *method == Method::OPTIONS => {
            *parsed = Target { form: TargetForm::Asterisk, path: (0, 1), has_query: false };
            Ok(())
        }
        _ => {
            let start = scheme_length(target).ok_or(BAD_TARGET)?;
            let rest = &target[start..];
            let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            let authority = &rest[..length.unwrap_or(rest.len())];
            // A URI of http without a host is invalid (RFC 9110, section 4.2.1).
            if authority.is_empty() || authority[0] == b':' || !authority::is_valid(authority) {
                return Err(BAD_TARGET);
            }
            parsed.form = TargetForm::Absolute;
            parse_path(target, start + authority.len(), parsed)
        }
    }
}

/// The length of `http://` or `https://`.
fn scheme_length(target: &[u8]) -> Option<usize> {
    let has = |scheme: &[u8]| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    ["http://", "https://"].into_iter().find(|scheme| has(scheme.as_bytes())).map(str::len)
}

#[inline(always)]
fn parse_path(target: &[u8], start: usize, parsed: &mut Target) -> Result<(), Refusal> {
    let end = start + length_with_escapes(&target[start..], PATH);
    parsed.has_query = match &target[end..] {
        [] => false,
        [b'?', query @ ..] if length_with_escapes(query, QUERY) == query.len() => true,
        _ => return Err(BAD_TARGET),
    };
    let end = u16::try_from(end).map_err(|_| BAD_TARGET)?;
    parsed.path = (start as u16, end);
    Ok(())
}

/// How many bytes at the start are of a class, or escapes.
fn length_with_escapes(text: &[u8], class: Class) -> usize {
    let mut length = length_of(text, class);
    while is_escape(&text[length..]) {
        length += 3;
        length += length_of(&text[length..], class);
    }
    length
}

fn is_escape(text: &[u8]) -> bool {
    matches!(text, [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(method: Method, target: &[u8]) -> Option<Target> {
        // As if an earlier request had left it.
        let form = TargetForm::Absolute;
        let mut parsed = Target { form, path: (3, 9), has_query: true };
        parse(&method, target, &mut parsed).ok().map(|()| parsed)
    }

    #[track_caller]
    fn parts(method: Method, target: &str) -> Option<(TargetForm, &str, Option<&str>)> {
        let parsed = parsed(method, target.as_bytes())?;
        let (start, end) = (usize::from(parsed.path.0), usize::from(parsed.path.1));
        let query = parsed.has_query.then(|| &target[end + 1..]);
        Some((parsed.form, &target[start..end], query))
    }

    #[test]
    fn each_form_has_its_parts() {
        use TargetForm::{Absolute, Asterisk, Origin};
        for (target, form, path, query) in [
            ("/", Origin, "/", None),
            ("/a/b%20c;d=1", Origin, "/a/b%20c;d=1", None),
            ("//a", Origin, "//a", None),
            ("/a?", Origin, "/a", Some("")),
            ("/a?b=c?d/[e]", Origin, "/a", Some("b=c?d/[e]")),
            ("http://a", Absolute, "", None),
            ("HTTP://a:80/b?c", Absolute, "/b", Some("c")),
            ("https://[::1]?c", Absolute, "", Some("c")),
        ] {
            assert_eq!(parts(Method::GET, target), Some((form, path, query)), "{target}");
        }
        assert_eq!(parts(Method::OPTIONS, "*"), Some((Asterisk, "*", None)));
    }

    #[test]
    fn an_absolute_target_has_a_scheme_and_an_authority() {
        for (target, authority, is_https) in [
            ("/http://a", None, false),
            ("http://a:80/b", Some("a:80"), false),
            ("HTTPS://a?b", Some("a"), true),
            ("http://[::1]", Some("[::1]"), false),
        ] {
            let parsed = parsed(Method::GET, target.as_bytes()).unwrap();
            let found = parsed.authority(target.as_bytes());
            assert_eq!(found, authority.map(str::as_bytes), "{target}");
            assert_eq!(parsed.is_https(target.as_bytes()), is_https, "{target}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for bad in [
            "",
            "*",
            "a",
            "a/b",
            "/a b",
            "/%",
            "/%2",
            "/%zz",
            "/a#b",
            "/\u{e4}",
            "/\u{7f}",
            "/a\\b",
            "/a\"",
            "/<a>",
            "/a?\"",
            "http:/a",
            "http://",
            "http:///a",
            "http://u@a/",
            "http://a,b/",
            "ftp://a/",
            "http://:80/",
            "?a",
            "/{a}",
            "/a|b",
        ] {
            assert_eq!(parts(Method::GET, bad), None, "{bad:?}");
        }
        assert_eq!(parts(Method::CONNECT, "a:443"), None);
        assert_eq!(parts(Method::OPTIONS, "**"), None);
    }

    #[test]
    fn each_byte_that_is_accepted_is_one_of_a_uri_of_the_crate_http() {
        for byte in 0..=255_u8 {
            for start in [&b"/a"[..], b"/a?b"] {
                let target = [start, &[byte], b"x"].concat();
                if parsed(Method::GET, &target).is_some() {
                    assert!(http::Uri::try_from(&target[..]).is_ok(), "{target:?}");
                }
            }
        }
    }
}
