//! What a proxy tells about a connection besides the addresses.

use std::{convert::Infallible, fmt, sync::Arc};

use crate::{extract::FromParts, request::Parts};

/// The fields behind the addresses in a header of the PROXY protocol, version 2
/// ([`proxy_protocol`](crate::Server::proxy_protocol)): an argument of handlers, and an extension
/// of each request whose proxy has sent such fields. Otherwise there are none.
///
/// Each field is a type and a value (`PP2_TYPE_…` in haproxy's `proxy-protocol.txt`). Types from
/// 0xe0 to 0xef belong to the proxy, such as 0xea for the id of a VPC endpoint of AWS.
///
/// # Examples
/// ```
/// use ramie_http::{ProxyFields, Router, get};
///
/// // 5 is the type of the unique id of a connection.
/// let id = |fields: ProxyFields| fields.get(5).map_or("none".into(), <[u8]>::to_vec);
/// let router = Router::new().route("/id", get(id));
/// # let response = router.call(ramie_http::Request::get("/id"));
/// # assert_eq!(response.into_body().into_bytes(100)?, "none");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyFields {
    /// INVARIANT: whole fields, each of a type, a length of two bytes, and as many bytes.
    bytes: Option<Arc<[u8]>>,
}

impl ProxyFields {
    /// None if the bytes are not made of whole fields.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, _, rest) = first(rest)?;
        }
        let bytes = (!bytes.is_empty()).then(|| bytes.into());
        Some(ProxyFields { bytes })
    }

    /// The types and the values of all fields, in the order of the header.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = self.bytes.as_deref().unwrap_or_default();
        std::iter::from_fn(move || {
            let (kind, value, behind) = first(rest)?;
            rest = behind;
            Some((kind, value))
        })
    }

    /// The value of the first field of a type.
    pub fn get(&self, kind: u8) -> Option<&[u8]> {
        self.iter().find(|(own, _)| *own == kind).map(|(_, value)| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_none()
    }
}

/// The type and the value of the first field, and the bytes behind it.
fn first(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([kind, high, low], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
    Some((*kind, value, rest))
}

impl fmt::Debug for ProxyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.iter().map(|(kind, value)| (kind, value.escape_ascii().to_string()));
        f.debug_map().entries(fields).finish()
    }
}

impl<S> FromParts<S> for ProxyFields {
    type Rejection = Infallible;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions().get().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_or_refused() {
        let bytes = [2, 0, 3, b'a', b'.', b'b', 4, 0, 0, 4, 0, 1, 7];
        let fields = ProxyFields::parse(&bytes).unwrap();
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(all, [(2, &b"a.b"[..]), (4, b""), (4, b"\x07")]);
        assert_eq!((fields.get(4), fields.get(5)), (Some(&b""[..]), None));
        assert_eq!(format!("{fields:?}"), r#"{2: "a.b", 4: "", 4: "\\x07"}"#);
        for end in [1, 2, 3, 5, 7, 8, 10, 12] {
            assert_eq!(ProxyFields::parse(&bytes[..end]), None, "{end}");
        }
        assert!(ProxyFields::parse(&[]).unwrap().is_empty());
    }
}
