//! The host and the port of a URI, as the field Host and absolute targets have them.

use std::net::Ipv6Addr;

use super::classes::{HOST, length_of};

/// Whether this is `host`, or `host:port`, without user information (RFC 3986, section 3.2.2; RFC
/// 9110, section 7.2). A Host may be empty.
pub(crate) fn is_valid(authority: &[u8]) -> bool {
    match authority {
        [b'[', rest @ ..] => is_address(rest),
        // The rest of a wrong name is no port.
        _ => is_port(&authority[length_of(authority, HOST)..]),
    }
}

/// Whether this is what follows the bracket before an address of IPv6.
#[cold]
#[inline(never)]
fn is_address(rest: &[u8]) -> bool {
    match memchr::memchr(b']', rest) {
        Some(end) => is_ipv6(&rest[..end]) && is_port(&rest[end + 1..]),
        None => false,
    }
}

/// Whether this is empty, or a colon and the digits of a port.
fn is_port(rest: &[u8]) -> bool {
    let [b':', digits @ ..] = rest else { return rest.is_empty() };
    let add =
        |port: u32, digit: &u8| digit.is_ascii_digit().then(|| port * 10 + u32::from(digit - b'0'));
    digits.len() <= 5 && digits.iter().try_fold(0, add).is_some_and(|port| port <= 65535)
}

fn is_ipv6(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
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
