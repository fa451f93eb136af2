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
        _ => {
            // Hosts are short.
            let end = authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len());
            (is_name(&authority[..end]), &authority[end..])
        }
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

/// Letters, digits and `-._~`. RFC 3986 allows also escapes and the delimiters `!$&'()*+,;=`; no
/// host's name has them, and a comma is how two Hosts look that somebody has joined.
fn is_name(name: &[u8]) -> bool {
    let is_allowed =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    name.iter().all(is_allowed)
}

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
