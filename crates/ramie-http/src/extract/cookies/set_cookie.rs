//! A cookie that a response sets.

use std::{borrow::Cow, error::Error, fmt, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header::SET_COOKIE};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::response::{IntoResponse, Response, ResponseHeaders};

/// A cookie for the client; in a response before its body, such as `(cookie, "text")`, or several
/// of them in an array or a [`Vec`].
///
/// | attribute | default |
/// |---|---|
/// | `Path` | `/`, so the cookie belongs to the whole host |
/// | `Domain` | none, so the cookie belongs to this host only |
/// | `Max-Age` | none, so the client forgets the cookie when it is closed |
/// | `HttpOnly` | set, so scripts of pages cannot read the cookie |
/// | `SameSite` | `Lax`, so pages of other sites cannot send it along with a POST |
/// | `Secure` | not set; where browsers require it, it is added |
/// | `Partitioned` | not set |
///
/// Browsers require `Secure` for `SameSite=None`, for `Partitioned`, and for names that begin with
/// `__Secure-` or `__Host-`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie_http::IntoResponse;
/// use ramie_http::extract::{SameSite, SetCookie};
///
/// let session = SetCookie::new("session", "f00ba4")?
///     .secure()
///     .same_site(SameSite::Strict)
///     .max_age(Duration::from_secs(3600));
/// let response = (session, "welcome").into_response();
/// assert_eq!(
///     response.headers()["set-cookie"],
///     "session=f00ba4; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict"
/// );
/// # Ok::<(), ramie_http::extract::CookieError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCookie {
    name: String,
    value: String,
    path: Cow<'static, str>,
    domain: Option<Cow<'static, str>>,
    max_age: Option<Duration>,
    is_secure: bool,
    is_http_only: bool,
    same_site: SameSite,
    is_partitioned: bool,
}

/// Whether a client sends a cookie with requests that come from pages of other sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SameSite {
    /// Not at all; not even when its user follows a link to this site.
    Strict,
    /// When its user follows a link to this site.
    Lax,
    /// Always.
    None,
}

/// The characters that are escaped in the value of a cookie: those that RFC 6265 lacks, and `%`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\').add(b'%');
/// Browsers drop cookies whose name and value together are larger.
const LARGEST: usize = 4096;

impl SetCookie {
    /// A cookie with the attributes above.
    ///
    /// # Errors
    /// If the name is empty or has other characters than a token (RFC 9110, section 5.6.2); if the
    /// value has spaces, quotes, commas, semicolons, backslashes, control characters or others that
    /// are not ASCII; if both together have more than 4,096 bytes, because browsers drop such a
    /// cookie.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Result<Self, CookieError> {
        let (name, value) = (name.into(), value.into());
        let is_of_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_of_value = |b: u8| b.is_ascii_graphic() && !b"\",;\\".contains(&b);
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return Err(CookieError("the name of a cookie must be a token"));
        }
        if !value.bytes().all(is_of_value) {
            return Err(CookieError(
                "the value of a cookie has a character that must be escaped; \
                 use `SetCookie::encoded`",
            ));
        }
        if name.len() + value.len() > LARGEST {
            return Err(CookieError("the name and the value of a cookie exceed 4096 bytes"));
        }
        Ok(SetCookie {
            name,
            value,
            path: Cow::Borrowed("/"),
            domain: None,
            max_age: None,
            is_secure: false,
            is_http_only: true,
            same_site: SameSite::Lax,
            is_partitioned: false,
        })
    }

    /// A cookie with any text, of which `%` and the characters that a value cannot have are written
    /// as `%` and two digits. [`Cookies::decoded`](super::Cookies::decoded) decodes it.
    ///
    /// # Errors
    /// As [`new`](Self::new); the size is that of the encoded text.
    pub fn encoded(name: impl Into<String>, value: &str) -> Result<Self, CookieError> {
        SetCookie::new(name, utf8_percent_encode(value, ESCAPED).to_string())
    }

    /// Lets the client forget a cookie. The path and the domain must be those with which it was
    /// set.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn removal(name: impl Into<String>) -> Result<Self, CookieError> {
        Ok(SetCookie::new(name, "")?.max_age(Duration::ZERO))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value, as the client gets it.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The client sends the cookie with requests for this path, and paths below it.
    ///
    /// # Panics
    /// If it does not begin with `/`, or has a semicolon or characters that are not of ASCII's
    /// printable ones.
    #[must_use]
    #[track_caller]
    pub fn path(mut self, path: impl Into<Cow<'static, str>>) -> Self {
        self.path = path.into();
        assert!(
            self.path.starts_with('/') && is_attribute(&self.path),
            "{:?} cannot be the path of a cookie",
            self.path
        );
        self
    }

    /// The client sends the cookie to all hosts of this domain, too.
    ///
    /// # Panics
    /// If it is empty, or has a semicolon or characters that are not of ASCII's printable ones.
    #[must_use]
    #[track_caller]
    pub fn domain(mut self, domain: impl Into<Cow<'static, str>>) -> Self {
        let domain = domain.into();
        assert!(
            !domain.is_empty() && is_attribute(&domain),
            "{domain:?} cannot be the domain of a cookie"
        );
        self.domain = Some(domain);
        self
    }

    /// The client keeps the cookie for this time, in whole seconds.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// The client sends the cookie by TLS only.
    #[must_use]
    pub fn secure(mut self) -> Self {
        self.is_secure = true;
        self
    }

    /// Lets scripts of pages read the cookie.
    #[must_use]
    pub fn readable_by_scripts(mut self) -> Self {
        self.is_http_only = false;
        self
    }

    /// Whether the client sends the cookie with requests that come from other sites.
    #[must_use]
    pub fn same_site(mut self, same_site: SameSite) -> Self {
        self.same_site = same_site;
        self
    }

    /// In a frame of another site, the client keeps a cookie for each such site.
    #[must_use]
    pub fn partitioned(mut self) -> Self {
        self.is_partitioned = true;
        self
    }

    fn must_be_secure(&self) -> bool {
        let has_prefix = |prefix: &str| {
            let begin = self.name.get(..prefix.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
        };
        self.same_site == SameSite::None
            || self.is_partitioned
            || has_prefix("__Secure-")
            || has_prefix("__Host-")
    }
}

fn is_attribute(text: &str) -> bool {
    text.bytes().all(|byte| byte != b';' && (byte.is_ascii_graphic() || byte == b' '))
}

/// The value of the field `Set-Cookie`.
impl fmt::Display for SetCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}; Path={}", self.name, self.value, self.path)?;
        if let Some(domain) = &self.domain {
            write!(f, "; Domain={domain}")?;
        }
        if let Some(age) = self.max_age {
            write!(f, "; Max-Age={}", age.as_secs())?;
        }
        if self.is_secure || self.must_be_secure() {
            f.write_str("; Secure")?;
        }
        if self.is_http_only {
            f.write_str("; HttpOnly")?;
        }
        write!(f, "; SameSite={:?}", self.same_site)?;
        if self.is_partitioned {
            f.write_str("; Partitioned")?;
        }
        Ok(())
    }
}

impl ResponseHeaders for SetCookie {
    fn insert_into(self, headers: &mut HeaderMap) {
        let value = HeaderValue::try_from(self.to_string());
        headers.append(SET_COOKIE, value.expect("its parts are printable ASCII"));
    }
}

impl<const N: usize> ResponseHeaders for [SetCookie; N] {
    fn insert_into(self, headers: &mut HeaderMap) {
        self.into_iter().for_each(|cookie| cookie.insert_into(headers));
    }
}

impl ResponseHeaders for Vec<SetCookie> {
    fn insert_into(self, headers: &mut HeaderMap) {
        self.into_iter().for_each(|cookie| cookie.insert_into(headers));
    }
}

/// Why a cookie cannot be set. As a response: 500, and the reason is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieError(&'static str);

impl fmt::Display for CookieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for CookieError {}

impl IntoResponse for CookieError {
    fn into_response(self) -> Response {
        log::error!("{self}");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cookie: &SetCookie) -> String {
        cookie.to_string()
    }

    #[test]
    fn attributes_are_written_in_one_order() {
        let all = SetCookie::new("a", "b").unwrap().path("/x").domain("example.org");
        let all = all.max_age(Duration::from_millis(1999)).secure().partitioned();
        assert_eq!(
            text(&all),
            "a=b; Path=/x; Domain=example.org; Max-Age=1; Secure; HttpOnly; SameSite=Lax; \
             Partitioned"
        );
        let few = SetCookie::new("a", "").unwrap().readable_by_scripts();
        assert_eq!(text(&few.same_site(SameSite::Strict)), "a=; Path=/; SameSite=Strict");
        let removal = SetCookie::removal("a").unwrap();
        assert_eq!(text(&removal), "a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
    }

    #[test]
    fn secure_is_added_where_browsers_require_it() {
        let new = |name| SetCookie::new(name, "b").unwrap();
        for cookie in [
            new("a").same_site(SameSite::None),
            new("a").partitioned(),
            new("__Secure-a"),
            new("__host-a"),
        ] {
            assert!(text(&cookie).contains("; Secure"), "{cookie}");
        }
        assert!(!text(&new("__Hos")).contains("; Secure"));
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_cookie() {
        for name in ["", "a b", "a=b", "a;b", "\u{e4}", "a\r\n"] {
            assert!(SetCookie::new(name, "b").is_err(), "{name:?}");
        }
        for value in ["a b", "a;b", "a,b", "a\"b", "a\\b", "\u{e4}", "a\r\nb", "\0", "\x7f"] {
            assert!(SetCookie::new("a", value).is_err(), "{value:?}");
            let encoded = SetCookie::encoded("a", value).unwrap();
            let decoded = percent_encoding::percent_decode_str(&encoded.value);
            assert_eq!(decoded.decode_utf8().unwrap(), value);
        }
        let error = SetCookie::new("a", "b".repeat(4096)).unwrap_err();
        assert_eq!(error.to_string(), "the name and the value of a cookie exceed 4096 bytes");
        assert!(SetCookie::new("a", "b".repeat(4095)).is_ok());
        assert_eq!(error.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    #[should_panic(expected = "\"/a; Secure\" cannot be the path of a cookie")]
    fn a_path_has_no_attributes() {
        drop(SetCookie::new("a", "b").unwrap().path("/a; Secure"));
    }

    #[test]
    #[should_panic(expected = "\"a\\r\\nb\" cannot be the domain of a cookie")]
    fn a_domain_has_no_line_ends() {
        drop(SetCookie::new("a", "b").unwrap().domain("a\r\nb"));
    }
}
