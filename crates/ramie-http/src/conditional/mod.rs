//! Conditional requests and ranges (RFC 9110, sections 13 and 14), without I/O.
//!
//! [`respond`] answers a GET or HEAD for a body that is known: with the whole, parts of it, or a
//! status that says why not. [`preconditions`] alone is for methods that change something.
//!
//! | rule of RFC 9110 | test, in `tests/files/conditional.rs` |
//! |---|---|
//! | 13.1.1, If-Match compares strongly; `*` matches what exists | `if_match_compares_strongly` |
//! | 13.1.2, If-None-Match compares weakly; 304 for GET and HEAD, otherwise 412 | `if_none_match_compares_weakly` |
//! | 13.1.3, If-Modified-Since counts for GET and HEAD only, and not beside If-None-Match | `if_modified_since_counts_for_get_and_head` |
//! | 13.1.4, If-Unmodified-Since does not count beside If-Match | `if_unmodified_since_fails_for_what_has_changed` |
//! | 13.1.5, If-Range needs a strong tag or the exact date | `if_range_needs_a_strong_validator` |
//! | 13.2.1, invalid dates do not count | `invalid_dates_do_not_count` |
//! | 13.2.2, the order of the conditions | `conditions_are_evaluated_in_order` |
//! | 14.2, Range counts for GET only | `ranges_count_for_get_only` |
//! | 14.2, invalid, overlapping and too many ranges do not count | `ranges_that_ask_for_too_much_get_the_whole` |
//! | 14.4 and 15.5.17, 416 with the length | `ranges_behind_the_end_get_416` |
//! | 14.6 and 15.3.7.2, several parts | `several_ranges_get_several_parts` |
//! | 15.3.7.1, one part has no multipart | `one_range_gets_one_part` |
//! | 15.4.5, the fields of 304 | `a_304_has_the_fields_of_its_200` |
//!
//! # Examples
//! ```
//! use ramie_http::{HeaderMap, Request, conditional::{self, ETag, Representation}};
//!
//! let answer = |request: &Request| {
//!     let text = "hello, world";
//!     let length = text.len() as u64;
//!     let facts = Representation { etag: ETag::strong("v1"), ..Representation::of(length) };
//!     conditional::respond(request, &facts, HeaderMap::new(), text)
//! };
//! let part = answer(&Request::get("/").with_header("range", "bytes=7-"));
//! assert_eq!(part.status(), 206);
//! assert_eq!(part.headers()["content-range"], "bytes 7-11/12");
//! assert_eq!(part.into_body().into_bytes(100)?, "world");
//! assert_eq!(answer(&Request::get("/").with_header("if-none-match", "\"v1\"")).status(), 304);
//! # Ok::<(), std::io::Error>(())
//! ```

mod etag;
mod multipart;
mod range;
mod respond;

use std::{
    ops::Range,
    time::{Duration, SystemTime},
};

use http::Method;

pub use self::{
    etag::ETag,
    respond::{RangeSource, respond},
};
use crate::request::Parts;

/// The facts about the current representation of a resource that conditions depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Representation {
    /// Its tag.
    pub etag: Option<ETag>,
    /// When it was changed.
    pub modified: Option<SystemTime>,
    /// Its number of bytes.
    pub length: u64,
}

impl Representation {
    /// A representation of `length` bytes, without a tag and a time.
    pub fn of(length: u64) -> Self {
        Representation { length, ..Representation::default() }
    }
}

/// Whether a request may be performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It may.
    Holds,
    /// The client has the current representation: 304.
    NotModified,
    /// Something else has changed the representation: 412.
    Failed,
}

/// What a GET asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole representation.
    Whole,
    /// These parts; none of them overlap.
    Parts(Vec<Range<u64>>),
    /// Parts that the representation does not have: 416.
    NotSatisfiable,
}

/// Evaluates If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since, in the order of
/// RFC 9110, section 13.2.2. `current` is none if the resource has no representation yet.
pub fn preconditions(request: &Parts, current: Option<&Representation>) -> Precondition {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let tag = current.and_then(|facts| facts.etag.as_ref());
    let may_change = match tag_condition(request, "if-match", current.is_some(), |own| {
        tag.is_some_and(|tag| tag.matches_strongly(own))
    }) {
        Some(matches) => matches,
        None => match (date(request, "if-unmodified-since"), modified_second(current)) {
            (Some(limit), Some(modified)) => modified <= limit,
            _ => true,
        },
    };
    if !may_change {
        return Precondition::Failed;
    }
    let is_known = match tag_condition(request, "if-none-match", current.is_some(), |own| {
        tag.is_some_and(|tag| tag.matches_weakly(own))
    }) {
        Some(matches) => matches,
        None => match (date(request, "if-modified-since"), modified_second(current)) {
            (Some(since), Some(modified)) => is_read && modified <= since,
            _ => false,
        },
    };
    match (is_known, is_read) {
        (false, _) => Precondition::Holds,
        (true, true) => Precondition::NotModified,
        (true, false) => Precondition::Failed,
    }
}

/// Evaluates Range and If-Range.
pub fn selection(request: &Parts, current: &Representation) -> Selection {
    if *request.method() != Method::GET || request.header("range").is_none() {
        return Selection::Whole;
    }
    let Some(range) = single(request, "range") else { return Selection::Whole };
    if request.header("if-range").is_some() && !is_unchanged(request, current) {
        return Selection::Whole;
    }
    range::parse(range, current.length)
}

/// Evaluates If-Range.
fn is_unchanged(request: &Parts, current: &Representation) -> bool {
    let Some(value) = single(request, "if-range") else { return false };
    match (ETag::parse(value), &current.etag) {
        (Some(own), Some(tag)) => tag.matches_strongly(&own),
        (Some(_), None) => false,
        (None, _) => {
            let date = date(request, "if-range");
            date.is_some() && date == modified_second(Some(current))
        }
    }
}

/// Evaluates a list of tags, or `*`. None: there is no such field.
fn tag_condition(
    request: &Parts,
    name: &str,
    exists: bool,
    matches: impl Fn(&ETag) -> bool,
) -> Option<bool> {
    request.header(name)?;
    let mut values = request.headers().get_all(name).iter();
    Some(values.any(|value| match value.as_bytes().trim_ascii() {
        b"*" => exists,
        list => etag::list_has(list, &matches),
    }))
}

/// The value of a field that a request may have once.
fn single<'a>(request: &'a Parts, name: &str) -> Option<&'a [u8]> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value.as_bytes())
}

/// The date of a field; none if it is invalid.
fn date(request: &Parts, name: &str) -> Option<SystemTime> {
    request.header(name)?;
    httpdate::parse_http_date(str::from_utf8(single(request, name)?).ok()?).ok()
}

/// The time of the last change, in the whole seconds that dates of HTTP have.
fn modified_second(current: Option<&Representation>) -> Option<SystemTime> {
    let since = current?.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}
