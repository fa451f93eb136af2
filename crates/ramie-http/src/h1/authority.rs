//! The host and the port of a URI, as the field Host and absolute targets have them.

use std::net::Ipv6Addr;

/// Whether this is `host`, or `host:port`, without user information (RFC 3986, section 3.2.2; RFC
/// 9110, section 7.2). A Host may be empty.
pub(crate) fn is_valid(authority: &[u8]) -> bool {
    let (is_host, rest) = match authority {
        [b'[', rest @ ..] => match memchr::memchr(b']', rest) {
            Some(end) => (is_ipv6(&rest[..end]), &rest[end + 1..]),
            None => return false,
        },
        // The rest of a wrong name is no port.
        _ => (true, &authority[name_length(authority)..]),
    };
    is_host && is_port(rest)
}

/// Whether this is empty, or a colon and the digits of a port.
fn is_port(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b':', digits @ ..] => {
            digits.len() <= 5
                && digits.iter().all(u8::is_ascii_digit)
                && digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0'))
                    <= u32::from(u16::MAX)
        }
        _ => false,
    }
}

#[inline(never)]
fn is_ipv6(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// The length of the name at the start. RFC 3986 allows also escapes and the delimiters
/// `!$&'()*+,;=`; no host's name has them, and a comma is how two Hosts look that somebody has
/// joined.
fn name_length(authority: &[u8]) -> usize {
    let is_other = |byte: &u8| !IS_OF_NAME[usize::from(*byte)];
    authority.iter().position(is_other).unwrap_or(authority.len())
}

/// Letters, digits and `-._~`. A table, because most bytes of a host would pass several
/// comparisons.
const IS_OF_NAME: [bool; 256] = {
    let mut is_of_name = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let of = byte as u8;
        is_of_name[byte] = of.is_ascii_alphanumeric() || matches!(of, b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    is_of_name
};

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn hosts_are_names_or_addresses_with_a_port() {
        let good = ["a", "a.b-c_d", "127.0.0.1:80", "a:", "[::1]", "[::1]:8080", "", "A:65535"];
        for good in good {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in [
            "a b", "a,b", "a, b", "u@a", "u:p@a", "a/b", "a?b", "a#b", "a:80:80", "a:b", "a:65536",
            "a:123456", "::1", "[::1", "[a]", "[]", "[::1]a", "\u{e4}", "a%20", "a\\b", "a:-1",
            "a\t", " a",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
    }
}
