//! The field Range (RFC 9110, section 14).

use std::ops::Range;

use super::Selection;

/// More ranges than this are answered by the whole, because many small parts are a known attack,
/// and cost more than the whole.
pub(super) const MOST_RANGES: usize = 16;

/// One element of the list.
#[derive(Clone, Copy)]
enum Spec {
    /// From the first to the last byte, which is included.
    FromTo(u64, u64),
    /// The last bytes.
    Last(u64),
}

/// Finds the parts of a representation of `length` bytes that the value of a field Range names, in
/// the order of the field. A value that is invalid, of another unit, or asks for too much does not
/// count.
pub(super) fn parse(value: &[u8], length: u64) -> Selection {
    let Some(list) = list_of_bytes(value) else { return Selection::Whole };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    for element in list.split(|byte| *byte == b',') {
        let element = element.trim_ascii();
        if element.is_empty() {
            continue;
        }
        count += 1;
        let Some(spec) = parse_spec(element).filter(|_| count <= MOST_RANGES) else {
            return Selection::Whole;
        };
        match spec.within(length) {
            // Nothing has no place that Content-Range could name.
            Some(part) if part.is_empty() => return Selection::Whole,
            Some(part) if parts.iter().any(|own| overlap(own, &part)) => return Selection::Whole,
            Some(part) => parts.push(part),
            None => {}
        }
    }
    match (count, parts.is_empty()) {
        (0, _) => Selection::Whole,
        (_, true) => Selection::NotSatisfiable,
        (_, false) => Selection::Parts(parts),
    }
}

/// The list behind `bytes=`.
fn list_of_bytes(value: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', value)?;
    value[..equals].trim_ascii().eq_ignore_ascii_case(b"bytes").then(|| &value[equals + 1..])
}

fn parse_spec(element: &[u8]) -> Option<Spec> {
    let dash = memchr::memchr(b'-', element)?;
    let (first, last) = (&element[..dash], &element[dash + 1..]);
    match (first, last) {
        ([], last) => Some(Spec::Last(number(last)?)),
        (first, []) => Some(Spec::FromTo(number(first)?, u64::MAX)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::FromTo(first, last))
        }
    }
}

/// A number of digits; a larger one than fits is the largest.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        digits.iter().fold(0_u64, |number, digit| {
            number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        })
    })
}

impl Spec {
    /// The part of `length` bytes; none if it cannot be satisfied.
    fn within(self, length: u64) -> Option<Range<u64>> {
        match self {
            Spec::FromTo(first, last) => {
                (first < length).then(|| first..last.saturating_add(1).min(length))
            }
            Spec::Last(0) => None,
            Spec::Last(count) => Some(length.saturating_sub(count)..length),
        }
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn parts<const N: usize>(value: &str, length: u64, expected: [(u64, u64); N]) {
        let expected = expected.into_iter().map(|(start, end)| start..end).collect();
        assert_eq!(parse(value.as_bytes(), length), Selection::Parts(expected), "{value}");
    }

    /// The examples of RFC 9110, section 14.1.2.
    #[test]
    fn ranges_name_parts() {
        parts("bytes=0-499", 10_000, [(0, 500)]);
        parts("bytes=500-999", 10_000, [(500, 1000)]);
        parts("bytes=-500", 10_000, [(9500, 10_000)]);
        parts("bytes=9500-", 10_000, [(9500, 10_000)]);
        parts("bytes=0-0,-1", 10_000, [(0, 1), (9999, 10_000)]);
        parts("bytes= 0-999, 4500-5499, -1000", 10_000, [(0, 1000), (4500, 5500), (9000, 10_000)]);
        parts("BYTES=1-1", 2, [(1, 2)]);
        parts("bytes=,0-0,,", 2, [(0, 1)]);
    }

    #[test]
    fn ranges_end_with_the_representation() {
        parts("bytes=5-99", 10, [(5, 10)]);
        parts("bytes=-99", 10, [(0, 10)]);
        parts("bytes=0-99999999999999999999999", 10, [(0, 10)]);
        parts("bytes=9-9,10-", 10, [(9, 10)]);
    }

    #[test]
    fn ranges_behind_the_end_cannot_be_satisfied() {
        for value in [
            "bytes=10-",
            "bytes=10-20",
            "bytes=-0",
            "bytes=11-, 12-",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(parse(value.as_bytes(), 10), Selection::NotSatisfiable, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Selection::NotSatisfiable);
    }

    #[test]
    fn what_is_invalid_does_not_count() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=0-1-2",
            "bytes=0 - 1",
            "bytes=+1-2",
            "bytes=--1",
            "bytes=0x1-2",
            "lines=0-1",
            "0-1",
            "bytes=0-1;2-3",
            "bytes=0-1, x",
            "bytes 0-1",
        ] {
            assert_eq!(parse(value.as_bytes(), 10), Selection::Whole, "{value}");
        }
        assert_eq!(parse(b"bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn too_many_ranges_and_overlapping_ones_are_answered_by_the_whole() {
        for value in ["bytes=0-5,5-9", "bytes=0-,0-", "bytes=3-4,0-9", "bytes=-3,-2"] {
            assert_eq!(parse(value.as_bytes(), 10), Selection::Whole, "{value}");
        }
        let many = |count: u64| {
            let list: Vec<_> = (0..count).map(|at| format!("{0}-{0}", at * 2)).collect();
            parse(format!("bytes={}", list.join(",")).as_bytes(), 10_000)
        };
        let most = many(MOST_RANGES as u64);
        assert!(matches!(most, Selection::Parts(parts) if parts.len() == MOST_RANGES));
        assert_eq!(many(MOST_RANGES as u64 + 1), Selection::Whole);
    }

    fn one_part(part: Range<u64>) -> Selection {
        Selection::Parts(Vec::from([part]))
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_representation(
            value in "bytes=[0-9, -]{0,40}",
            length in prop_oneof![0..30_u64, Just(u64::MAX), any::<u64>()],
        ) {
            if let Selection::Parts(parts) = parse(value.as_bytes(), length) {
                prop_assert!(!parts.is_empty() && parts.len() <= MOST_RANGES);
                for (at, part) in parts.iter().enumerate() {
                    prop_assert!(part.start < part.end && part.end <= length);
                    prop_assert!(parts[..at].iter().all(|own| !overlap(own, part)));
                }
            }
        }

        #[test]
        fn a_range_that_is_written_is_read(length in 1..u64::MAX, one: u64, other: u64) {
            let (one, other) = (one % length, other % length);
            let (first, last) = (one.min(other), one.max(other));
            let value = format!("bytes={first}-{last}");
            prop_assert_eq!(parse(value.as_bytes(), length), one_part(first..last + 1));
            let value = format!("bytes=-{}", length - first);
            prop_assert_eq!(parse(value.as_bytes(), length), one_part(first..length));
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(
            value in proptest::collection::vec(any::<u8>(), 0..60),
            length: u64,
        ) {
            parse(&value, length);
        }
    }
}
