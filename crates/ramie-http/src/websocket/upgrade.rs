//! The change from HTTP to WebSocket (RFC 6455, section 4.2; RFC 8441 for HTTP/2).

use std::{fmt, io, time::Duration};

use http::{HeaderValue, Method, StatusCode, Version, header};
use tungstenite::{handshake::derive_accept_key, protocol::WebSocketConfig};

use super::WebSocket;
use crate::{
    connection::{ByConnect, Upgrade},
    extract::FromParts,
    request::Parts,
    response::{IntoResponse, Response},
};

/// The size of tungstenite's buffers. A message that is larger gets the room that it needs.
const BUFFER: usize = 4 << 10;

/// An argument of a handler that speaks WebSocket: the request for it, which was checked.
///
/// # Origins
/// Browsers let the pages of any site open WebSockets to any server, with the cookies of the user.
/// A handler that trusts cookies must compare the header `Origin` with its own sites, and refuse
/// the others, for example with 403. Clients that are no browsers send no `Origin`.
///
/// # Limits
/// | limit | default | a client that exceeds it |
/// |---|---|---|
/// | [`message_bytes`](Self::message_bytes) | 1 MiB | close 1009 |
/// | [`frame_bytes`](Self::frame_bytes) | 1 MiB | close 1009 |
/// | [`idle_timeout`](Self::idle_timeout) | 60 s | close |
pub struct WebSocketUpgrade {
    /// The answer to the client's key; HTTP/2 has none.
    accept: Option<String>,
    offered: Vec<String>,
    chosen: Option<String>,
    message_bytes: usize,
    frame_bytes: usize,
    idle_timeout: Duration,
}

/// Why a request cannot become a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeRefusal {
    /// It does not ask for WebSocket, by the means of HTTP/1.1 or of HTTP/2: 426.
    NotAsked,
    /// It asks for another version of WebSocket than 13: 426 with the version.
    Version,
    /// Its method is not GET, or its key is not one: 400.
    Malformed,
}

impl fmt::Display for UpgradeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpgradeRefusal::NotAsked => "this resource speaks WebSocket",
            UpgradeRefusal::Version => "the version of WebSocket must be 13",
            UpgradeRefusal::Malformed => "the request for WebSocket is malformed",
        })
    }
}

impl std::error::Error for UpgradeRefusal {}

impl IntoResponse for UpgradeRefusal {
    fn into_response(self) -> Response {
        let status = match self {
            UpgradeRefusal::Malformed => StatusCode::BAD_REQUEST,
            _ => StatusCode::UPGRADE_REQUIRED,
        };
        let mut response = (status, format!("{self}\n")).into_response();
        if status == StatusCode::UPGRADE_REQUIRED {
            let headers = response.headers_mut();
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

impl<S> FromParts<S> for WebSocketUpgrade {
    type Rejection = UpgradeRefusal;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, UpgradeRefusal> {
        let by_connect = parts.extensions().get::<ByConnect>().is_some();
        if !by_connect && !asks(parts) {
            return Err(UpgradeRefusal::NotAsked);
        }
        if parts.header("sec-websocket-version") != Some(b"13") {
            return Err(UpgradeRefusal::Version);
        }
        let accept = match by_connect {
            true => None,
            false => Some(accept(parts).ok_or(UpgradeRefusal::Malformed)?),
        };
        Ok(WebSocketUpgrade {
            accept,
            offered: tokens(parts, header::SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect(),
            chosen: None,
            message_bytes: 1 << 20,
            frame_bytes: 1 << 20,
            idle_timeout: Duration::from_secs(60),
        })
    }
}

impl WebSocketUpgrade {
    /// The subprotocols that the client offers, the preferred one first.
    pub fn offered(&self) -> impl Iterator<Item = &str> {
        self.offered.iter().map(String::as_str)
    }

    /// Chooses the first of these subprotocols that the client offers, too. If there is none, the
    /// connection has no subprotocol.
    #[must_use]
    pub fn subprotocols(mut self, known: &[&str]) -> Self {
        let is_offered = |name: &&&str| self.offered.iter().any(|offered| offered == **name);
        self.chosen = known.iter().find(is_offered).map(|name| (*name).to_owned());
        self
    }

    /// How many bytes a message from the client may have, in all its frames.
    #[must_use]
    pub fn message_bytes(mut self, most: usize) -> Self {
        self.message_bytes = most;
        self
    }

    /// How many bytes a frame from the client may have.
    #[must_use]
    pub fn frame_bytes(mut self, most: usize) -> Self {
        self.frame_bytes = most;
        self
    }

    /// How long the client may be silent. After half of the time it gets a ping, which every client
    /// answers by itself. Sending a message may take as long, too.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// The response that makes the connection a WebSocket. Then `f` runs on the fiber of the
    /// connection, which is closed when `f` returns; an error goes to the log at the level `debug`.
    pub fn on_upgrade(
        self,
        f: impl FnOnce(WebSocket) -> io::Result<()> + Send + 'static,
    ) -> Response {
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Some(Ok(accept)) = self.accept.as_ref().map(HeaderValue::try_from) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(Ok(chosen)) = self.chosen.as_ref().map(HeaderValue::try_from) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
        }
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(self.message_bytes))
            .max_frame_size(Some(self.frame_bytes.min(self.message_bytes)));
        response.extensions_mut().insert(Upgrade::new(move |stream| {
            let socket = WebSocket::new(stream, config, self.chosen, self.idle_timeout);
            if let Err(error) = socket.and_then(f) {
                log::debug!("a WebSocket has failed: {error}");
            }
        }));
        response
    }
}

impl fmt::Debug for WebSocketUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketUpgrade")
            .field("offered", &self.offered)
            .field("chosen", &self.chosen)
            .finish_non_exhaustive()
    }
}

/// Whether a request of HTTP/1.1 asks for WebSocket.
fn asks(parts: &Parts) -> bool {
    parts.version() == Version::HTTP_11
        && has_token(parts, header::CONNECTION, "upgrade")
        && has_token(parts, header::UPGRADE, "websocket")
}

/// The answer to the key of a request of HTTP/1.1.
fn accept(parts: &Parts) -> Option<String> {
    let key = parts.header("sec-websocket-key").filter(|key| is_key(key))?;
    (parts.method() == Method::GET).then(|| derive_accept_key(key))
}

/// The elements of a list in all fields of a name.
fn tokens(parts: &Parts, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = parts.headers().get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',').map(str::trim)).filter(|token| !token.is_empty())
}

fn has_token(parts: &Parts, name: header::HeaderName, token: &str) -> bool {
    tokens(parts, name).any(|own| own.eq_ignore_ascii_case(token))
}

/// Whether it is 16 bytes in Base64: 22 digits, the last of which has four bits of zero, and `==`.
fn is_key(key: &[u8]) -> bool {
    let Some((digits, b"==")) = key.split_at_checked(22) else { return false };
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    digits.iter().all(is_digit) && matches!(digits[21], b'A' | b'Q' | b'g' | b'w')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn asked() -> Request {
        Request::get("/")
            .with_header("connection", "keep-alive, Upgrade")
            .with_header("upgrade", "WebSocket")
            .with_header("sec-websocket-version", "13")
            .with_header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    fn upgrade(mut request: Request) -> Result<WebSocketUpgrade, UpgradeRefusal> {
        WebSocketUpgrade::from_parts(request.parts_mut(), &())
    }

    fn changed(name: &str, value: &str) -> Option<UpgradeRefusal> {
        let mut request = asked();
        request
            .headers_mut()
            .insert(header::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
        upgrade(request).err()
    }

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        let response = upgrade(asked()).unwrap().on_upgrade(|_| Ok(()));
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let accept = &response.headers()["sec-websocket-accept"];
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert_eq!(response.headers()["connection"], "upgrade");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn malformed_requests_are_refused() {
        use UpgradeRefusal::{Malformed, NotAsked, Version};
        for (name, value, refusal) in [
            ("connection", "close", Some(NotAsked)),
            ("connection", "upgraded", Some(NotAsked)),
            ("upgrade", "h2c", Some(NotAsked)),
            ("upgrade", "h2c, websocket", None),
            ("sec-websocket-version", "8", Some(Version)),
            ("sec-websocket-version", "", Some(Version)),
            ("sec-websocket-key", "", Some(Malformed)),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=", Some(Malformed)),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZR==", Some(Malformed)),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25j*Q==", Some(Malformed)),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==AAAA", Some(Malformed)),
        ] {
            assert_eq!(changed(name, value), refusal, "{name}: {value}");
        }
        let post = Request::from_parts(Request::post("/", "").into_parts().0, "".into());
        assert_eq!(upgrade(post).err(), Some(NotAsked));
        let response = Version.into_response();
        assert_eq!(response.status(), StatusCode::UPGRADE_REQUIRED);
        assert_eq!(response.headers()["sec-websocket-version"], "13");
    }

    #[test]
    fn the_servers_order_chooses_the_subprotocol() {
        let offering = |list: &str| upgrade(asked().with_header("sec-websocket-protocol", list));
        for (offered, chosen) in [("a, b", Some("b")), ("a,c", Some("a")), ("c", None), ("B", None)]
        {
            let upgrade = offering(offered).unwrap();
            assert_eq!(
                upgrade.offered().collect::<Vec<_>>().join(", "),
                offered.replace(",c", ", c")
            );
            assert_eq!(upgrade.subprotocols(&["b", "a"]).chosen.as_deref(), chosen, "{offered}");
        }
    }
}
