//! Cookies (RFC 6265).

mod set_cookie;
#[cfg(feature = "signed-cookies")]
mod signed;

use std::{borrow::Cow, convert::Infallible};

use http::header::COOKIE;
use percent_encoding::percent_decode_str;

pub use self::set_cookie::{CookieError, SameSite, SetCookie};
#[cfg(feature = "signed-cookies")]
pub use self::signed::CookieKey;
use super::FromParts;
use crate::request::Parts;

/// The cookies that the client has sent.
///
/// A pair without a name, without `=` or in another encoding than UTF-8 is left out, because the
/// client's user cannot mend a cookie that another program has set. Values are as the client sends
/// them: neither quotes nor `%` are decoded, unless by [`decoded`](Self::decoded).
///
/// A client can send any cookies, so a value that must not be made up needs a signature
/// (`CookieKey`, with the crate feature `signed-cookies`), or must be hard to guess.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get};
/// use ramie_http::extract::{CookieError, Cookies, SetCookie};
///
/// fn count(cookies: Cookies) -> Result<(SetCookie, String), CookieError> {
///     let visits: u32 = cookies.get("visits").and_then(|text| text.parse().ok()).unwrap_or(0);
///     let cookie = SetCookie::new("visits", (visits + 1).to_string())?;
///     Ok((cookie, format!("your visits before: {visits}")))
/// }
///
/// let router = Router::new().route("/", get(count));
/// let request = Request::get("/").with_header("cookie", "theme=dark; visits=41");
/// let response = router.call(request);
/// assert_eq!(response.headers()["set-cookie"], "visits=42; Path=/; HttpOnly; SameSite=Lax");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Valid pairs, with `;` between them.
    text: String,
}

impl Cookies {
    /// The value of the first cookie of this name. If a client has several, it sends that with
    /// the longest path first.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// The values of all cookies of this name. A name that a site shares with its other hosts may
    /// have been set by one of those.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(move |(own, _)| *own == name).map(|(_, value)| value)
    }

    /// As [`get`](Self::get), with the escapes of [`SetCookie::encoded`] decoded. `None` also if
    /// the decoded value is not UTF-8.
    pub fn decoded(&self, name: &str) -> Option<Cow<'_, str>> {
        percent_decode_str(self.get(name)?).decode_utf8().ok()
    }

    /// All names and values, in the order of the client.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.split(';').filter_map(|pair| pair.split_once('='))
    }

    fn add(&mut self, field: &[u8]) {
        for pair in field.split(|byte| *byte == b';') {
            let Some((name, value)) = str::from_utf8(pair).ok().and_then(|p| p.split_once('='))
            else {
                continue;
            };
            let (name, value) = (name.trim_matches([' ', '\t']), value.trim_matches([' ', '\t']));
            if !name.is_empty() {
                let separator = if self.text.is_empty() { "" } else { ";" };
                self.text.extend([separator, name, "=", value]);
            }
        }
    }
}

impl<S> FromParts<S> for Cookies {
    type Rejection = Infallible;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut cookies = Cookies::default();
        for field in parts.headers().get_all(COOKIE) {
            cookies.add(field.as_bytes());
        }
        Ok(cookies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_field_are_cookies() {
        let read = |field: &[u8]| {
            let mut cookies = Cookies::default();
            cookies.add(field);
            let pairs = cookies.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>()
        };
        let cases: [(&[u8], &[&str]); 8] = [
            (b"", &[]),
            (b"a=b", &["a=b"]),
            (b"a=b; c=d;e=f", &["a=b", "c=d", "e=f"]),
            (b" \ta = b=c \t;; d=", &["a=b=c", "d="]),
            (b"a; =b; c=d", &["c=d"]),
            (b"a=\"b c\", d", &["a=\"b c\", d"]),
            (b"a=\xff; b=\xc3\xa4", &["b=\u{e4}"]),
            (b"a=1; A=2; a=3", &["a=1", "A=2", "a=3"]),
        ];
        for (field, expected) in cases {
            assert_eq!(read(field), expected, "{}", field.escape_ascii());
        }
    }
}
