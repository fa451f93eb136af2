//! The target of fuzzing: values of the field Range.

use super::{MOST_RANGES, Selection, overlap, parse};
use crate::fuzz::{Random, targets};

/// One range of the grammar, as its first and last byte; none if it is no range, or of no byte.
fn slow_range(text: &str, length: u64) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-')?;
    let number = |digits: &str| -> Option<u64> {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let end = length.checked_sub(1)?;
    let (first, last) = match (first, last) {
        ("", last) => (length.saturating_sub(number(last).filter(|count| *count > 0)?), end),
        (first, "") => (number(first)?, end),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first, last.min(end).max(if first <= last { 0 } else { u64::MAX }))
        }
    };
    (first <= last && last <= end).then_some((first, last))
}

fn check_range(input: &[u8], random: &mut Random) {
    let length = *random.choose(&[0, 1, 2, 10, 10_000, u64::MAX - 1, u64::MAX]);
    let Selection::Parts(parts) = parse(input, length) else { return };
    assert!((1..=MOST_RANGES).contains(&parts.len()));
    for (index, part) in parts.iter().enumerate() {
        assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
        assert!(!parts[..index].iter().any(|own| overlap(own, part)), "{parts:?} overlap");
    }
    let text = str::from_utf8(input).expect("ASCII");
    let (unit, list) = text.split_once('=').expect("a unit");
    assert!(unit.trim().eq_ignore_ascii_case("bytes"));
    let ranges = list.split(',').map(str::trim);
    let expected: Vec<_> = ranges.filter_map(|range| slow_range(range, length)).collect();
    let found: Vec<_> = parts.iter().map(|part| (part.start, part.end - 1)).collect();
    assert_eq!(found, expected, "of {length}");
}

targets! {
    "range" check_range any_range_names_parts_within any_range_for_long,
}
