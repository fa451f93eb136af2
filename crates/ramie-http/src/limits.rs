//! What a server accepts at most.

use std::time::Duration;

/// The limits of a server. Each has a default, so that a server without any settings withstands
/// clients that send too much, too slowly, or too often.
///
/// | limit | default | a client that exceeds it |
/// |---|---|---|
/// | `line_bytes` | 8 KiB | 414, close |
/// | `head_bytes` | 32 KiB | 431, close |
/// | `fields` | 100 | 431, close |
/// | `field_bytes` | 16 KiB | 431, close |
/// | `body_bytes` | 2 MiB | 413, close |
/// | `trailer_bytes` | 8 KiB | 431, close |
/// | `handshake_timeout` | 10 s | close |
/// | `head_timeout` | 10 s | 408, close |
/// | `body_bytes_per_second` | 256 | 408, close |
/// | `body_grace` | 10 s | |
/// | `idle_timeout` | 60 s | close |
/// | `write_timeout` | 30 s | close |
/// | `request_timeout` | 60 s | 503, close |
/// | `requests_per_connection` | 100,000 | close behind the last response |
/// | requests that are pipelined | 64 KiB of them, not to be changed | the server reads no more until the client has taken the responses, for `write_timeout` |
/// | `concurrent_streams` | 100 | that request is refused (HTTP/2) |
/// | `connections` | 100,000 | 503 with Retry-After, close |
/// | `connections_per_address` | 10,000 | 503 with Retry-After, close |
///
/// A time of zero allows no wait, unlike a timeout of 0 in Go, and [`Duration::MAX`] means no
/// limit. A number of zero allows nothing, but for the first request of a connection; the maximum
/// of its type means no limit, except for `head_bytes` and `fields`, which have a largest value.
/// `body_bytes_per_second` is a minimum: 0 means any speed.
///
/// # HTTP/2
/// A connection of HTTP/2 has several requests at once. A request that exceeds a limit gets the
/// same status, and the connection stays open for the others.
///
/// | limit | over HTTP/2 |
/// |---|---|
/// | `line_bytes` | counts the line that the request would have in HTTP/1.1 |
/// | `head_bytes` | is announced to the client; each field counts for 32 bytes more (RFC 9113, section 6.5.2). A head of several times the limit closes the connection |
/// | `head_timeout` | does not apply: a connection whose only request is an incomplete head is idle, for `idle_timeout` |
/// | `idle_timeout` | the time without any request; a request ends when the client has taken the whole response |
/// | `write_timeout` | counts for each piece of a body, and for each write of the connection |
/// | `concurrent_streams` | also limits the memory of a connection, because each request may hold up to 64 KiB of a response that the client has not taken. This memory stays in use while the client makes progress with other requests of the connection |
/// | `requests_per_connection` | the connection sends GOAWAY, and answers the requests that were on their way |
///
/// # Examples
/// ```
/// use ramie_http::Limits;
///
/// let limits = Limits { body_bytes: 100 << 20, ..Limits::default() };
/// # assert_eq!(limits.fields, 100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the first line of a request, its line end included.
    pub line_bytes: usize,
    /// Bytes of the head of a request. A larger value counts as 65,535.
    pub head_bytes: usize,
    /// The number of fields in a head. A larger value counts as 256.
    pub fields: usize,
    /// Bytes of the name and the value of one field.
    pub field_bytes: usize,
    /// Bytes of a body, without the lines of chunks. A route sets another limit by
    /// [`Body::set_limit`](crate::Body::set_limit).
    pub body_bytes: u64,
    /// Bytes of the fields behind a body, with the empty line that ends them.
    pub trailer_bytes: usize,
    /// The time from the accept of a connection to the end of its TLS handshake, and to that of the
    /// header of a proxy.
    pub handshake_timeout: Duration,
    /// The time from the first byte of a request to the end of its head.
    pub head_timeout: Duration,
    /// How fast a body must arrive on average while a read waits for it, once such reads have
    /// waited for `body_grace`; 0 means any speed. The time between two reads does not count.
    pub body_bytes_per_second: u64,
    /// How long reads of one body may wait beyond that speed, and how long the rest of a body may
    /// take that the handler has not read.
    pub body_grace: Duration,
    /// How long a connection may wait for its first request, and between two.
    pub idle_timeout: Duration,
    /// How long a single write may wait until the client takes bytes.
    pub write_timeout: Duration,
    /// The time that a handler has for one request, the arrival of its body included. Then
    /// the handler is cancelled ([which waits that ends](crate#cancellation)). A handler that
    /// computes without a wait is not interrupted, and its response may be sent although the time
    /// is up. A body that is written while the response is sent has no limit but `write_timeout`.
    /// Routes that need another time, such as uploads, get it by
    /// [`middleware::request_timeout`](crate::middleware::request_timeout).
    pub request_timeout: Duration,
    /// How many requests one connection may send.
    pub requests_per_connection: u64,
    /// How many requests of one connection of HTTP/2 are under way at once.
    pub concurrent_streams: u32,
    /// How many connections are open at once. Each is a fiber, of which a process has some 29,000
    /// before Linux 6.13, unless `vm.max_map_count` is raised; later ones are closed, and
    /// [`Server::on_trouble`](crate::Server::on_trouble) reports it.
    pub connections: usize,
    /// How many connections are open at once from one address (of IPv6: from one /64 network).
    pub connections_per_address: usize,
}

impl Limits {
    pub(crate) const DEFAULT: Limits = Limits {
        line_bytes: 8 << 10,
        head_bytes: 32 << 10,
        fields: 100,
        field_bytes: 16 << 10,
        body_bytes: 2 << 20,
        trailer_bytes: 8 << 10,
        handshake_timeout: Duration::from_secs(10),
        head_timeout: Duration::from_secs(10),
        body_bytes_per_second: 256,
        body_grace: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(30),
        request_timeout: Duration::from_secs(60),
        requests_per_connection: 100_000,
        concurrent_streams: 100,
        connections: 100_000,
        connections_per_address: 10_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}
