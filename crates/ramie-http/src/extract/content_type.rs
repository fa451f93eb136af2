//! Media types, and values with parameters.

use std::borrow::Cow;

use http::StatusCode;

use super::Rejection;
use crate::request::Parts;

/// The type and the subtype of the body, such as `text/plain`, as the client wrote them.
pub(super) fn media_type(parts: &Parts) -> Option<&str> {
    let value = parts.header_str("content-type")?;
    Some(value.split(';').next().unwrap_or_default().trim_matches([' ', '\t']))
}

/// 415 with a sentence about the type that the body has, and the one that it must have.
pub(super) fn unsupported(found: Option<&str>, expected: &str) -> Rejection {
    let found = match found {
        Some(found) => format!("is `{}`", found.escape_debug()),
        None => "is missing".to_owned(),
    };
    let reason = format!("the Content-Type of the body {found}, but must be {expected}");
    Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason)
}

/// Refuses text in another encoding than UTF-8.
pub(super) fn check_charset(content_type: Option<&str>) -> Result<(), Rejection> {
    let behind = content_type.and_then(|value| value.split_once(';')).map(|(_, behind)| behind);
    let found = behind.and_then(parameters).unwrap_or_default();
    match found.iter().find(|(name, _)| name.eq_ignore_ascii_case("charset")) {
        Some((_, charset)) if !is_utf8(charset) => {
            let reason = format!("the charset is `{}`, but must be utf-8", charset.escape_debug());
            Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason))
        }
        _ => Ok(()),
    }
}

/// ASCII is a part of UTF-8.
fn is_utf8(charset: &str) -> bool {
    ["utf-8", "utf8", "us-ascii"].iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// Reads `NAME=VALUE` pairs with `;` between them, the text behind the first `;` of a value. A
/// value in quotes may have any characters; `\"` and `\\` stand for `"` and `\`, and any other
/// backslash for itself, because browsers send the names of files so. `None`: it is malformed.
pub(super) fn parameters(text: &str) -> Option<Vec<(&str, Cow<'_, str>)>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=')?;
        if !is_token(name) {
            return None;
        }
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = behind.find([';', ' ', '\t']).unwrap_or(behind.len());
                let (value, behind) = behind.split_at(end);
                (is_token(value).then_some(Cow::Borrowed(value))?, behind)
            }
        };
        found.push((name, value));
        rest = behind.trim_start_matches([' ', '\t']);
        if !rest.is_empty() {
            rest = rest.strip_prefix(';')?.trim_start_matches([' ', '\t']);
        }
    }
    Some(found)
}

/// The value of a quoted string, whose first quote is left out, and the text behind it.
fn unquote(quoted: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let at = rest.find(['"', '\\'])?;
        value.push_str(&rest[..at]);
        match &rest.as_bytes()[at..] {
            [b'"', ..] => return Some((Cow::Owned(value), &rest[at + 1..])),
            [_, escaped @ (b'"' | b'\\'), ..] => {
                value.push(char::from(*escaped));
                rest = &rest[at + 2..];
            }
            _ => {
                value.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
}

fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_tokens_or_quoted() {
        let read = |text| {
            let found = parameters(text)?;
            Some(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
        };
        let good: [(_, &[&str]); 6] = [
            ("", &[]),
            (" a=b", &["a=b"]),
            ("a=b;c=d ; e=\"f\"", &["a=b", "c=d", "e=f"]),
            ("a=\"\";", &["a="]),
            (r#"a="b\"c\\d\e""#, &[r#"a=b"c\d\e"#]),
            ("a=\"\u{e4} =\"", &["a=\u{e4} ="]),
        ];
        for (text, expected) in good {
            let expected: Vec<String> = expected.iter().map(|pair| (*pair).to_owned()).collect();
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for bad in [
            "a",
            "a=",
            "=b",
            "a =b",
            "a= b",
            "a=\"b",
            "a=\"b\\\"",
            "a=\"b;c=d\";e=",
            "a=b c",
            "a=\u{e4}",
            ";",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_charsets_within_utf8_are_accepted() {
        for good in ["text/plain", "text/plain; charset=UTF-8", "a/b;charset=\"us-ascii\""] {
            assert!(check_charset(Some(good)).is_ok(), "{good}");
        }
        let error = check_charset(Some("text/plain; a=b; Charset=latin1")).unwrap_err();
        assert_eq!(error.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(error.reason(), "the charset is `latin1`, but must be utf-8");
    }
}
