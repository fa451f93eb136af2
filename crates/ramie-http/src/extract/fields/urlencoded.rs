//! The format `application/x-www-form-urlencoded`, of queries and of forms.

use std::borrow::Cow;

use http::StatusCode;
use percent_encoding::percent_decode;

use super::{Field, FieldsOf};
use crate::extract::Rejection;

/// The most fields of a form, because a field takes 50 bytes of memory, but 2 bytes of a body.
const FIELDS_MOST: usize = 10_000;

/// Reads `NAME=VALUE` pairs with `&` between them, where `+` stands for a space, and `%` with two
/// digits for a byte. A `%` without two digits stands for itself, as in browsers.
///
/// # Errors
/// 400 if the decoded text is not UTF-8; 413 if there are more than 10,000 pairs.
pub(crate) fn parse_urlencoded(text: &[u8], of: FieldsOf) -> Result<Vec<Field<'_>>, Rejection> {
    let mut fields = Vec::new();
    for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        if fields.len() == FIELDS_MOST {
            let reason = format!("the {} has more than {FIELDS_MOST} fields", of.whole());
            return Err(Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        };
        let (Some(name), Some(value)) = (decode(name), decode(value)) else {
            let reason = format!("the {} is not UTF-8", of.whole());
            return Err(Rejection::new(StatusCode::BAD_REQUEST, reason));
        };
        fields.push((name, value));
    }
    Ok(fields)
}

fn decode(text: &[u8]) -> Option<Cow<'_, str>> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    let spaced: Vec<u8> =
        text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let decoded = percent_decode(&spaced).decode_utf8().ok()?;
    Some(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn encoded_pairs_come_back(pairs in vec(any::<(String, String)>(), 0..5)) {
            let encode = |text: &str| {
                utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().replace("%20", "+")
            };
            let texts = pairs.iter().map(|(name, value)| {
                format!("{}={}", encode(name), encode(value))
            });
            let text = texts.collect::<Vec<_>>().join("&");
            let fields = parse_urlencoded(text.as_bytes(), FieldsOf::Query).unwrap();
            let found: Vec<_> = fields.into_iter().map(|(a, b)| (a.into(), b.into())).collect();
            prop_assert_eq!(found, pairs);
        }

        /// Any bytes are pairs, or are refused.
        #[test]
        fn any_text_is_read(text in vec(prop_oneof![any::<u8>(), Just(b'%'), Just(b'&')], 0..50)) {
            if let Ok(fields) = parse_urlencoded(&text, FieldsOf::Form) {
                prop_assert!(fields.len() <= text.len());
            }
        }
    }

    #[test]
    fn pairs_are_split_and_decoded() {
        let text = b"a=b&&c&=d&e=f=g&%41+=%2B+%zz%&\xc3\xa4=%C3%A4&";
        let fields = parse_urlencoded(text, FieldsOf::Query).unwrap();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("a", "b"),
            ("c", ""),
            ("", "d"),
            ("e", "f=g"),
            ("A ", "+ %zz%"),
            ("\u{e4}", "\u{e4}"),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn other_encodings_and_too_many_fields_are_refused() {
        for text in [&b"a=%ff"[..], b"%C3=a", b"a=\xff"] {
            let error = parse_urlencoded(text, FieldsOf::Form).unwrap_err();
            assert_eq!((error.status().as_u16(), error.reason()), (400, "the form is not UTF-8"));
        }
        let most = vec!["a"; FIELDS_MOST].join("&");
        assert_eq!(parse_urlencoded(most.as_bytes(), FieldsOf::Form).unwrap().len(), FIELDS_MOST);
        let error = parse_urlencoded(format!("{most}&a").as_bytes(), FieldsOf::Form).unwrap_err();
        assert_eq!(error.status().as_u16(), 413);
        assert_eq!(error.reason(), "the form has more than 10000 fields");
    }
}
