//! Cookies with a signature.

use std::{borrow::Cow, fmt};

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;

use super::{CookieError, Cookies, SetCookie};

/// A secret of the program that signs cookies, so that a client cannot make up or change their
/// values. Clients can read them. With the crate feature `signed-cookies`.
///
/// A signature belongs to the name and the value of a cookie, by HMAC with SHA-256. It holds for
/// ever: a client may keep a value that the program has replaced, and send it again. So a value
/// that must end has the time of its end in it.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, StatusCode, get};
/// use ramie_http::extract::{CookieError, CookieKey, Cookies, SetCookie};
///
/// // From a secret that all processes of the service know.
/// let key = CookieKey::new(b"32 bytes of a file or a variable");
/// let cookie: SetCookie = key.sign("user", "Ada Lovelace")?;
///
/// let greet = move |cookies: Cookies| match key.verify(&cookies, "user") {
///     Some(user) => Ok(format!("hello, {user}")),
///     None => Err(StatusCode::UNAUTHORIZED),
/// };
/// let router = Router::new().route("/", get(greet));
/// let call = |cookie: &str| router.call(Request::get("/").with_header("cookie", cookie));
///
/// let signed = cookie.to_string();
/// let pair = signed.split(';').next().unwrap();
/// assert_eq!(call(pair).into_body().into_bytes(100).unwrap(), "hello, Ada Lovelace");
/// assert_eq!(call(&pair.replace("Ada", "Bob")).status(), StatusCode::UNAUTHORIZED);
/// # Ok::<(), CookieError>(())
/// ```
#[derive(Clone)]
pub struct CookieKey(Hmac<Sha256>);

/// The shortest secret; a shorter one is easier to guess than a signature.
const SHORTEST: usize = 32;
/// Between a value and its signature.
const SEPARATOR: char = '.';

impl CookieKey {
    /// A key from secret bytes, which nobody can guess.
    ///
    /// # Panics
    /// If there are fewer than 32 bytes.
    #[track_caller]
    pub fn new(secret: &[u8]) -> Self {
        let length = secret.len();
        assert!(length >= SHORTEST, "the secret of a cookie's key has {length} bytes, not 32");
        CookieKey(Hmac::new_from_slice(secret).expect("a secret may have any length"))
    }

    /// A cookie with any text and its signature.
    ///
    /// # Errors
    /// As [`SetCookie::encoded`]; the signature takes 65 bytes.
    pub fn sign(&self, name: impl Into<String>, value: &str) -> Result<SetCookie, CookieError> {
        let cookie = SetCookie::encoded(name, value)?;
        let signature = self.mac(cookie.name(), cookie.value()).finalize().into_bytes();
        let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let signed = format!("{}{SEPARATOR}{signature}", cookie.value());
        SetCookie::new(cookie.name(), signed)
    }

    /// The text of the first cookie of this name whose signature is one of this key.
    pub fn verify<'c>(&self, cookies: &'c Cookies, name: &str) -> Option<Cow<'c, str>> {
        cookies.get_all(name).find_map(|signed| {
            let (value, signature) = signed.rsplit_once(SEPARATOR)?;
            let signature = from_hexadecimal(signature)?;
            // In constant time, so that the answer's time does not give a signature away.
            self.mac(name, value).verify_slice(&signature).ok()?;
            percent_decode_str(value).decode_utf8().ok()
        })
    }

    /// A name has no `=`, so no other name and value are the same bytes.
    fn mac(&self, name: &str, value: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(name.as_bytes());
        mac.update(b"=");
        mac.update(value.as_bytes());
        mac
    }
}

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieKey").finish_non_exhaustive()
    }
}

fn from_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> CookieKey {
        CookieKey::new(&[byte; 32])
    }

    fn cookies(field: &str) -> Cookies {
        let mut cookies = Cookies::default();
        cookies.add(field.as_bytes());
        cookies
    }

    #[test]
    fn a_signature_is_the_hmac_of_the_name_and_the_value() {
        let signed = key(b'k').sign("n", "v w").unwrap().value().to_owned();
        // printf 'n=v%%20w' | openssl dgst -sha256 -hmac kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
        let expected = "f2844bc5a6592fa35ea60a9b018d4e6905eb6c5860cd515a59737d524aa4834b";
        assert_eq!(signed, format!("v%20w.{expected}"));
        let cookies = cookies(&format!("n={signed}"));
        assert_eq!(key(b'k').verify(&cookies, "n").unwrap(), "v w");
    }

    #[test]
    fn other_values_names_and_keys_are_not_verified() {
        let signed = key(1).sign("n", "v").unwrap().value().to_owned();
        let (value, signature) = signed.split_once('.').unwrap();
        for field in [
            String::new(),
            format!("n={value}"),
            format!("n={signature}"),
            format!("n=w.{signature}"),
            format!("n=.{signature}"),
            format!("n={value}.{}", signature.to_uppercase()),
            format!("n={value}.{}", &signature[2..]),
            format!("n={signed}0"),
            format!("n={value}.{}", "0".repeat(64)),
            format!("m={signed}"),
        ] {
            assert_eq!(key(1).verify(&cookies(&field), "n"), None, "{field}");
        }
        assert_eq!(key(1).verify(&cookies(&format!("m={signed}")), "m"), None);
        assert_eq!(key(2).verify(&cookies(&format!("n={signed}")), "n"), None);
        // A cookie of another host, which comes first, does not hide the program's own.
        assert!(key(1).verify(&cookies(&format!("n=x; n={signed}")), "n").is_some());
    }

    #[test]
    #[should_panic(expected = "the secret of a cookie's key has 31 bytes, not 32")]
    fn a_short_secret_is_refused() {
        drop(CookieKey::new(&[0; 31]));
    }
}
