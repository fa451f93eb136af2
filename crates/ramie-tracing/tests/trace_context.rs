//! The header `traceparent`: the examples of the specification, and properties of random ones.

use proptest::prelude::*;
use ramie_tracing::trace_context::TraceParent;

const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn parse(header: &str) -> Option<TraceParent> {
    header.parse().ok()
}

#[test]
fn the_examples_of_the_specification() {
    let parent = parse(VALID).unwrap();
    assert_eq!(parent.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
    assert_eq!(parent.parent_id(), 0x00f0_67aa_0ba9_02b7);
    assert!(parent.is_sampled() && !parent.is_random());
    let not_sampled = parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
    assert!(!not_sampled.is_sampled());
    assert_eq!(not_sampled.with_sampled(true), parent);
    assert_eq!(parent.with_sampled(false), not_sampled);
    assert!(parent.with_random(true).is_random());
}

#[test]
fn invalid_headers_are_refused_with_a_reason() {
    for (header, reason) in [
        ("", "too short"),
        ("0", "too short"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", "other lengths"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", "other lengths"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", "four fields"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "four fields"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011", "four fields"),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "version ff"),
        ("0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "digit"),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "digit"),
        ("00-4bf92f3577b34da6a3ce929d0e0e473 -00f067aa0ba902b7-01", "digit"),
        ("00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "other lengths"),
        (" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "digit"),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", "zeros"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "zeros"),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more", "flags"),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", "other lengths"),
    ] {
        let error = header.parse::<TraceParent>().unwrap_err().to_string();
        assert!(error.contains(reason), "{header}: {error}");
    }
}

/// Of a later version, the known fields count.
#[test]
fn later_versions_are_read_as_far_as_they_are_known() {
    let expected = parse(VALID).unwrap();
    for rest in ["01", "01-more-fields", "01-", "ff"] {
        let header = format!("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{rest}");
        assert_eq!(parse(&header), Some(expected), "{header}");
    }
    assert_eq!(expected.to_string(), VALID);
}

#[test]
fn ids_of_zero_cannot_be_made() {
    assert!(TraceParent::new(0, 1).is_none());
    assert!(TraceParent::new(1, 0).is_none());
    let parent = TraceParent::new(1, 2).unwrap();
    assert!(parent.with_parent_id(0).is_none());
    assert_eq!(parent.with_parent_id(3).unwrap(), TraceParent::new(1, 3).unwrap());
    let smallest = "00-00000000000000000000000000000001-0000000000000002-00";
    assert_eq!(parent.to_string(), smallest);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        trace_id in 1_u128..,
        parent_id in 1_u64..,
        sampled: bool,
        random: bool,
    ) {
        let parent = TraceParent::new(trace_id, parent_id).unwrap();
        let parent = parent.with_sampled(sampled).with_random(random);
        prop_assert_eq!(parse(&parent.to_string()), Some(parent));
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(parent) = TraceParent::from_bytes(&bytes) {
            let text = parent.to_string();
            prop_assert_eq!(&bytes[3..52], &text.as_bytes()[3..52]);
        }
    }

    /// A header of version 00 has one form: a changed byte is refused, or changes the value.
    #[test]
    fn a_changed_byte_is_noticed(at in 0..VALID.len(), byte: u8) {
        let mut bytes = VALID.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(parent) = TraceParent::from_bytes(&bytes) {
            let is_known_version = bytes.starts_with(b"00");
            let has_known_flags = bytes[53] == b'0' && bytes[54] <= b'3';
            if is_known_version && has_known_flags {
                prop_assert_eq!(parent.to_string().into_bytes(), bytes);
            }
        }
    }

    /// A prefix is never taken for the whole.
    #[test]
    fn a_cut_header_is_refused(len in 0..VALID.len()) {
        prop_assert!(TraceParent::from_bytes(&VALID.as_bytes()[..len]).is_err());
    }

    #[test]
    fn later_versions_ignore_what_follows(version in 1_u8..255, more in "-[ -~]{0,40}") {
        let header = format!("{version:02x}{}{more}", &VALID[2..]);
        prop_assert_eq!(parse(&header), parse(VALID));
    }
}
