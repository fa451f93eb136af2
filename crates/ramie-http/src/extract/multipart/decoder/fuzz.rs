//! The target of fuzzing: forms in parts, beside a slow reference.

use super::tests::{FoundParts, HEAD_MOST, decode};
use crate::{
    extract::multipart::part_head::PartHead,
    fuzz::{Random, targets},
};

fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// The parts of a form with the boundary `b`.
fn parts_of(body: &[u8]) -> Option<FoundParts> {
    let mut rest = body.strip_prefix(b"--b")?;
    let mut parts = FoundParts::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return matches!(end, b"" | b"\r\n").then_some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let fields = match rest.starts_with(b"\r\n") {
            true => 0,
            false => position(rest, b"\r\n\r\n")? + 2,
        };
        if fields > HEAD_MOST {
            return None;
        }
        let (head, behind) = rest.split_at(fields + 2);
        let end = position(behind, b"\r\n--b")?;
        parts.push((head.to_vec(), behind[..end].to_vec()));
        rest = &behind[end + 5..];
    }
}

fn check_form(input: &[u8], random: &mut Random) {
    let whole = decode(input, &[usize::MAX]);
    assert_eq!(whole.as_ref().ok(), parts_of(input).as_ref());
    let sizes: Vec<_> = (0..4).map(|_| 1 + random.below(20)).collect();
    assert_eq!(decode(input, &sizes), whole, "the parts depend on the pieces");
    for (head, _) in whole.into_iter().flatten() {
        match PartHead::parse(&head) {
            Ok(parsed) => assert_eq!(
                parsed.headers.get_all(http::header::CONTENT_DISPOSITION).iter().count(),
                1
            ),
            Err(error) => assert!(matches!(error.status().as_u16(), 400 | 415 | 431), "{error}"),
        }
    }
}

targets! {
    "multipart" check_form any_form_has_its_parts_or_is_refused any_form_for_long,
}
