//! Content-Length and Transfer-Encoding in all combinations: what decides where a request ends.
//!
//! Each request is followed by `GET /behind`. If the request is accepted, `/behind` is answered as
//! the second request; if it is refused, nothing behind it is looked at.

use std::collections::BTreeSet;

use ramie_http::Limits;

use super::{
    client::statuses,
    rig::{Rig, Seen, seeing},
};

/// Five bytes that are also an empty body in chunks, so that both readings end at the same place.
const BODY: &str = "0\r\n\r\n";
const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

const LENGTHS: [&[&str]; 17] = [
    &[],
    &["5"],
    &["05"],
    &["5 \t"],
    &["5", "5"],
    &["5", "6"],
    &["5, 5"],
    &["5,"],
    &["+5"],
    &["-5"],
    &["0x5"],
    &["5 5"],
    &["5.0"],
    &["5e0"],
    &[""],
    &["5\u{a0}"],
    &["18446744073709551616"],
];

const CODINGS: [&[&str]; 19] = [
    &[],
    &["chunked"],
    &["ChunKed"],
    &[", chunked ,"],
    &["chunked", "chunked"],
    &["chunked, chunked"],
    &["", "chunked"],
    &["identity"],
    &["identity", "chunked"],
    &["gzip"],
    &["gzip, chunked"],
    &["gzip", "chunked"],
    &["chunked, identity"],
    &["chunked", "identity"],
    &["chunked;a=b"],
    &["xchunked"],
    &["\"chunked\""],
    &["chunked chunked"],
    &[""],
];

/// The statuses with which a request may be refused, by the rules alone; none if it is accepted.
fn refusals(lengths: &[&str], codings: &[&str], is_http_1_0: bool) -> BTreeSet<u16> {
    let mut refusals = BTreeSet::new();
    for length in lengths {
        let digits = length.trim_matches([' ', '\t']);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            refusals.insert(400);
        } else if digits.parse::<u64>().is_err() {
            refusals.insert(413);
        }
    }
    if lengths.len() > 1 {
        refusals.insert(400);
    }
    if codings.is_empty() {
        return refusals;
    }
    if !lengths.is_empty() || is_http_1_0 {
        refusals.insert(400);
    }
    let names: Vec<_> = codings.iter().flat_map(|line| line.split(',')).map(str::trim).collect();
    let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let is_chunked = |name: &&&str| name.eq_ignore_ascii_case("chunked");
    let chunked = names.iter().filter(is_chunked).count();
    match names.last() {
        Some(last) if is_chunked(&last) && chunked == 1 && names.len() > 1 => refusals.insert(501),
        Some(last) if is_chunked(&last) && chunked == 1 => false,
        _ => refusals.insert(400),
    };
    if codings.iter().any(|line| line.is_empty()) {
        refusals.insert(400);
    }
    refusals
}

fn check(rig: &Rig, seen: &Seen, head: &str, refusals: &BTreeSet<u16>) {
    let answers = rig.exchange(format!("{head}\r\n{BODY}{BEHIND}"));
    let seen = seen.take();
    if refusals.is_empty() {
        assert_eq!(statuses(&answers), [200, 200], "{head:?}");
        assert!(seen[1].starts_with("GET /behind"), "{head:?}: {seen:?}");
    } else {
        assert_eq!(answers.len(), 1, "{head:?}: {answers:?}");
        assert!(answers[0].closes() && seen.is_empty(), "{head:?}: {seen:?}");
        assert!(refusals.contains(&answers[0].status), "{head:?}: {answers:?}, {refusals:?}");
    }
}

#[test]
fn each_combination_of_length_and_coding_has_one_reading() {
    let (rig, seen) = seeing(Limits::default());
    for version in ["1.1", "1.0"] {
        for lengths in LENGTHS {
            for codings in CODINGS {
                let refusals = refusals(lengths, codings, version == "1.0");
                let length = |value| format!("Content-Length: {value}\r\n");
                let coding = |value| format!("Transfer-Encoding: {value}\r\n");
                let lengths = lengths.iter().map(length).collect::<String>();
                let codings = codings.iter().map(coding).collect::<String>();
                let start =
                    format!("POST / HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n");
                if lengths.is_empty() && codings.is_empty() {
                    continue; // Without a body, `BODY` is the next request.
                }
                check(&rig, &seen, &format!("{start}{lengths}{codings}"), &refusals);
                check(&rig, &seen, &format!("{start}{codings}{lengths}"), &refusals);
            }
        }
    }
}

#[test]
fn a_coding_that_does_not_end_with_chunked_is_malformed() {
    let (rig, seen) = seeing(Limits::default());
    for (coding, status) in [("gzip", 400), ("identity", 400), ("gzip, chunked", 501)] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n");
        check(&rig, &seen, &head, &[status].into());
    }
}

/// Spellings with which one of two servers in a row overlooks a field.
#[test]
fn disguised_framing_fields_are_refused() {
    let (rig, seen) = seeing(Limits::default());
    for field in [
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\r\n\tfoo",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: chunked\u{c}",
        "Transfer-Encoding: chunked\0",
        "Transfer-Encoding\0: chunked",
        "Transfer Encoding: chunked",
        "Transfer-Encoding\u{a0}: chunked",
        "Content-Length : 5",
        "Content-Length:\r\n 5",
        "Content-Length: 5\r\n ",
        "Content Length: 5",
        "(Content-Length): 5",
        "Content-Length: 5\r",
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        check(&rig, &seen, &head, &[400].into());
        let both = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{field}\r\n");
        check(&rig, &seen, &both, &[400].into());
    }
}

/// Fields whose names are only similar are other fields, so they decide nothing.
#[test]
fn similar_names_decide_nothing() {
    let (rig, seen) = seeing(Limits::default());
    for field in
        ["Transfer_Encoding: chunked", "XTransfer-Encoding: chunked", "Content_Length: 9", "TE: x"]
    {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{field}\r\n");
        check(&rig, &seen, &head, &BTreeSet::new());
    }
}

/// The classical attacks: a second request inside a body, which only one of two readings sees.
#[test]
fn a_request_inside_a_body_is_never_answered() {
    let (rig, seen) = seeing(Limits::default());
    let inside = "GET /inside HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunk = format!("{:x}\r\n{inside}\r\n0\r\n\r\n", inside.len());
    for (fields, body, handled) in [
        (format!("Content-Length: {}", inside.len()), inside.to_owned(), 1),
        ("Transfer-Encoding: chunked".to_owned(), chunk.clone(), 1),
        ("Content-Length: 4\r\nTransfer-Encoding: chunked".to_owned(), chunk.clone(), 0),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4".to_owned(), chunk.clone(), 0),
        ("Transfer-Encoding: x\r\nTransfer-Encoding: chunked".to_owned(), chunk.clone(), 0),
        ("Content-Length: 0\r\nContent-Length: 4".to_owned(), inside.to_owned(), 0),
        ("Transfer-Encoding: chunked".to_owned(), format!("0\r\n\r\r\n{inside}"), 1),
        ("Transfer-Encoding: chunked".to_owned(), format!("0\r\nX\r\n\r\n{inside}"), 1),
        ("Transfer-Encoding: chunked".to_owned(), format!("0\n\n{inside}"), 1),
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
        rig.exchange_and_end(&request);
        let seen = seen.take();
        let inside = seen.iter().filter(|line| line.starts_with("GET /inside")).count();
        assert_eq!((inside, seen.len()), (0, handled), "{request:?}: {seen:?}");
    }
}
