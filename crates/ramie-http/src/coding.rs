//! Content codings, and which of them a client accepts (RFC 9110, section 12.5.3).

use http::HeaderMap;

/// A content coding. The order is that of preference among those that a client likes equally well:
/// the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    pub(crate) const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// The name in Content-Encoding.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The ending of the name of a file in this coding.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        let is_x_gzip = name.eq_ignore_ascii_case(b"x-gzip");
        let named = |coding: &Coding| name.eq_ignore_ascii_case(coding.name().as_bytes());
        Coding::ALL.into_iter().find(named).or_else(|| is_x_gzip.then_some(Coding::Gzip))
    }
}

/// How much a client likes each coding, in thousandths; 0 means that it does not accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    codings: [u16; 3],
    identity: u16,
}

/// The weight of content without a coding, if the client does not mention it.
const UNMENTIONED: u16 = 1;

impl Accepted {
    /// What the fields Accept-Encoding say. A client without one accepts everything, but many such
    /// clients cannot decode anything, so it gets no coding.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut by_name: [Option<u16>; 3] = [None; 3];
        let (mut identity, mut others) = (None, None);
        for value in headers.get_all("accept-encoding") {
            for element in value.as_bytes().split(|byte| *byte == b',') {
                let Some((name, weight)) = parse_element(element) else { continue };
                let place = match name {
                    b"*" => &mut others,
                    name if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                    name => match Coding::of_name(name) {
                        Some(coding) => &mut by_name[coding as usize],
                        None => continue,
                    },
                };
                *place = Some(weight);
            }
        }
        let identity = match (identity, others) {
            (Some(weight), _) => weight,
            (None, Some(0)) => 0,
            (None, _) => UNMENTIONED,
        };
        Accepted { codings: by_name.map(|weight| weight.or(others).unwrap_or(0)), identity }
    }

    /// The codings that the client likes as well as none at all, the best first.
    pub(crate) fn best_first(self) -> impl Iterator<Item = Coding> {
        let mut order = Coding::ALL;
        // The sort keeps the order of those that are liked equally well.
        order.sort_by_key(|coding| std::cmp::Reverse(self.codings[*coding as usize]));
        order.into_iter().filter(move |coding| {
            let weight = self.codings[*coding as usize];
            weight > 0 && weight >= self.identity
        })
    }

    /// Whether the client takes content without a coding.
    #[cfg_attr(not(any(feature = "gzip", feature = "brotli", feature = "zstd")), allow(dead_code))]
    pub(crate) fn accepts_identity(self) -> bool {
        self.identity > 0
    }
}

/// The name and the weight of an element of the list; none if it is malformed.
fn parse_element(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = match parts.next() {
        None => 1000,
        Some([b'q' | b'Q', b'=', weight @ ..]) => parse_weight(weight)?,
        Some(_) => return None,
    };
    parts.next().is_none().then_some((name, weight))
}

/// `qvalue`: 0 to 1 with up to three decimals.
fn parse_weight(weight: &[u8]) -> Option<u16> {
    let (whole, decimals) = match weight {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut value = match whole {
        b'0' => 0,
        b'1' => 1,
        _ => return None,
    };
    for at in 0..3 {
        let digit = decimals.get(at).unwrap_or(&b'0');
        value = value * 10 + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn accepted(value: &str) -> Accepted {
        let mut headers = HeaderMap::new();
        headers.append("accept-encoding", HeaderValue::from_str(value).unwrap());
        Accepted::of(&headers)
    }

    #[test]
    fn the_best_coding_is_chosen_by_weight_and_then_by_size() {
        use Coding::{Brotli, Gzip, Zstd};
        for (value, order) in [
            ("", &[][..]),
            ("gzip", &[Gzip]),
            ("X-GZIP", &[Gzip]),
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip]),
            ("gzip;q=1.0, br;q=0.8", &[Gzip, Brotli]),
            ("br ; q=0.5 , zstd;Q=0.501", &[Zstd, Brotli]),
            ("*", &[Brotli, Zstd, Gzip]),
            ("*;q=0.5, br;q=0", &[Zstd, Gzip]),
            ("gzip;q=0", &[]),
            ("identity", &[]),
            ("identity, gzip;q=0.9", &[]),
            ("identity;q=0.5, gzip", &[Gzip]),
            ("identity;q=0, gzip;q=0.1", &[Gzip]),
            ("deflate", &[]),
            ("gzip;q=2", &[]),
            ("gzip;q=0.1234", &[]),
            ("gzip;q=.5", &[]),
            ("gzip;level=9", &[]),
            ("gzip;q=1;x=y, br;q=0.001", &[Brotli]),
        ] {
            let found: Vec<_> = accepted(value).best_first().collect();
            assert_eq!(found, order, "{value}");
        }
        assert_eq!(Accepted::of(&HeaderMap::new()).best_first().count(), 0);
    }

    #[test]
    fn content_without_a_coding_is_accepted_unless_the_client_says_otherwise() {
        for value in ["", "gzip", "*", "identity", "*;q=0, identity;q=0.5", "identity;q=0.001"] {
            assert!(accepted(value).accepts_identity(), "{value}");
        }
        for value in ["identity;q=0", "*;q=0", "gzip, *;q=0.000", "identity;q=0, *;q=1"] {
            assert!(!accepted(value).accepts_identity(), "{value}");
        }
        assert!(Accepted::of(&HeaderMap::new()).accepts_identity());
    }

    #[test]
    fn several_fields_are_one_list() {
        let mut headers = HeaderMap::new();
        headers.append("accept-encoding", HeaderValue::from_static("gzip;q=0.5"));
        headers.append("accept-encoding", HeaderValue::from_static("br;q=0.6"));
        let found: Vec<_> = Accepted::of(&headers).best_first().collect();
        assert_eq!(found, [Coding::Brotli, Coding::Gzip]);
    }

    proptest! {
        #[test]
        fn only_codings_that_the_client_names_are_chosen(value in "[a-z*;,=q0-9. -]{0,40}") {
            for coding in accepted(&value).best_first() {
                prop_assert!(value.contains(coding.name()) || value.contains('*'), "{}", value);
            }
        }

        #[test]
        fn weights_order_codings(weights in proptest::array::uniform3(0..=1000_u16)) {
            let element = |coding: Coding| {
                let weight = weights[coding as usize];
                format!("{};q={}.{:03}", coding.name(), weight / 1000, weight % 1000)
            };
            let value = Coding::ALL.map(element).join(",");
            let order = accepted(&value).best_first();
            let found: Vec<_> = order.map(|coding| weights[coding as usize]).collect();
            prop_assert!(found.is_sorted_by(|one, other| one >= other));
            prop_assert_eq!(found.len(), weights.iter().filter(|weight| **weight > 0).count());
        }
    }
}
