//! Entity tags (RFC 9110, section 8.8.3), and lists of them.

use std::{fmt, time::SystemTime};

use http::HeaderValue;

/// The name of one version of a representation, as in the field ETag.
///
/// A strong tag changes with every byte. A weak one (`W/"…"`) may stay the same for versions that
/// mean the same, so parts of two of them cannot be put together.
///
/// # Examples
/// ```
/// use ramie_http::conditional::ETag;
///
/// let tag = ETag::strong("v7").unwrap();
/// assert_eq!(tag.to_string(), "\"v7\"");
/// assert!(tag.matches_weakly(&ETag::parse(b"W/\"v7\"").unwrap()));
/// assert_eq!(ETag::strong("a\"b"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ETag {
    is_weak: bool,
    /// INVARIANT: made of bytes that a tag may have.
    text: Vec<u8>,
}

impl ETag {
    /// A strong tag; none if `text` has a quotation mark, a space or a control character.
    pub fn strong(text: &str) -> Option<Self> {
        let is_valid = text.bytes().all(is_of_tag);
        is_valid.then(|| ETag { is_weak: false, text: text.into() })
    }

    /// A weak tag; none as for [`strong`](Self::strong).
    pub fn weak(text: &str) -> Option<Self> {
        ETag::strong(text).map(ETag::weakened)
    }

    /// The strong tag of a version of a file. It assumes that a file that has changed has another
    /// time of its change, in nanoseconds, another size or another inode.
    pub fn of_file(inode: u64, length: u64, modified: SystemTime) -> Self {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let text = format!("{inode:x}-{length:x}-{:x}", since.as_nanos());
        ETag { is_weak: false, text: text.into() }
    }

    /// Parses the value of a field ETag.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let (tag, rest) = take_tag(value)?;
        rest.is_empty().then_some(tag)
    }

    /// The weak tag of the same text.
    pub fn weakened(self) -> Self {
        ETag { is_weak: true, ..self }
    }

    /// Whether the tag is weak.
    pub fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// Whether both are strong and the same (RFC 9110, section 8.8.3.2).
    pub fn matches_strongly(&self, other: &ETag) -> bool {
        !self.is_weak && !other.is_weak && self.text == other.text
    }

    /// Whether both are the same, strong or weak.
    pub fn matches_weakly(&self, other: &ETag) -> bool {
        self.text == other.text
    }

    /// The value of a field.
    pub fn to_value(&self) -> HeaderValue {
        let start: &[u8] = if self.is_weak { b"W/\"" } else { b"\"" };
        let value = [start, &self.text, b"\""].concat();
        HeaderValue::from_bytes(&value).expect("the bytes of a tag are those of a value")
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = if self.is_weak { "W/" } else { "" };
        write!(f, "{start}\"{}\"", self.text.escape_ascii())
    }
}

/// `etagc`.
fn is_of_tag(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

/// Takes a tag off the beginning of a list.
fn take_tag(list: &[u8]) -> Option<(ETag, &[u8])> {
    let (is_weak, rest) = match list.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let rest = rest.strip_prefix(b"\"")?;
    let length = memchr::memchr(b'"', rest)?;
    let text = &rest[..length];
    let tag = ETag { is_weak, text: text.to_vec() };
    text.iter().all(|byte| is_of_tag(*byte)).then_some((tag, &rest[length + 1..]))
}

/// Whether a tag of a list, the value of If-Match or If-None-Match, is `wanted`. Behind a tag that
/// is malformed, nothing is found.
pub(super) fn list_has(list: &[u8], wanted: impl Fn(&ETag) -> bool) -> bool {
    let mut rest = list;
    loop {
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        let Some((tag, behind)) = take_tag(rest) else { return false };
        if wanted(&tag) {
            return true;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_parsed_and_written() {
        for text in ["\"\"", "\"a\"", "W/\"a\"", "\"a,b\"", "\"\\\""] {
            let tag = ETag::parse(text.as_bytes()).unwrap();
            assert_eq!(tag.to_value(), text);
            assert_eq!(tag.is_weak(), text.starts_with('W'));
        }
        for bad in ["", "a", "\"", "\"a", "w/\"a\"", "W/a", "\"a\"b", "\"a b\"", "\"a\" \"b\"", "*"]
        {
            assert_eq!(ETag::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(ETag::weak("a").unwrap().to_string(), "W/\"a\"");
    }

    #[test]
    fn a_tag_of_a_file_depends_on_each_fact() {
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1);
        let tag = ETag::of_file(1, 2, time);
        assert_eq!(tag.to_string(), "\"1-2-1\"");
        assert!(!tag.matches_weakly(&ETag::of_file(2, 2, time)));
        assert!(!tag.matches_weakly(&ETag::of_file(1, 1, time)));
        assert!(!tag.matches_weakly(&ETag::of_file(1, 2, SystemTime::UNIX_EPOCH)));
    }

    /// The table of RFC 9110, section 8.8.3.2.
    #[test]
    fn tags_are_compared_strongly_and_weakly() {
        for (one, other, strongly, weakly) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let [one, other] = [one, other].map(|text| ETag::parse(text.as_bytes()).unwrap());
            assert_eq!(one.matches_strongly(&other), strongly);
            assert_eq!(one.matches_weakly(&other), weakly);
        }
    }

    #[test]
    fn lists_are_searched_up_to_what_is_malformed() {
        let has = |list: &str| list_has(list.as_bytes(), |tag| tag.text == b"x");
        for list in ["\"x\"", "\"a\", W/\"x\"", ",, \"a,b\" ,\"x\"", "\"a\"\"x\""] {
            assert!(has(list), "{list}");
        }
        for list in ["", ",", "x", "\"a\", b, \"x\"", "\"x"] {
            assert!(!has(list), "{list}");
        }
    }
}
