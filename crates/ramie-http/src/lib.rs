//! An HTTP server on Ramie's fibers, whose handlers are ordinary functions.
//!
//! ```no_run
//! use ramie_http::{Router, Server, extract::Path, get};
//!
//! #[ramie::main]
//! fn main() -> std::io::Result<()> {
//!     let greet = |Path(name): Path<String>| format!("Hello, {name}!\n");
//!     let router = Router::new().route("/hello/{name}", get(greet));
//!     Server::bind("127.0.0.1:8080")?.serve(router)
//! }
//! ```
//!
//! - A [`Handler`] takes arguments that are made of the request by their types ([`extract`]), and
//!   returns what can become a response ([`IntoResponse`]). It runs on the fiber of the connection,
//!   so it may wait, by the calls of `ramie` ([`Handler`] says what that excludes). One that may
//!   fail returns `Result<_, Rejection>` ([`extract::Rejection`]): `?` turns an I/O error into a
//!   response.
//! - A [`Router`] chooses the handler by path and method; middleware is a function around handlers
//!   ([`Router::layer`]). [`Router::call`] answers a request without a socket, for tests.
//! - [`Files`] serves a directory; [`conditional`] answers conditional requests and ranges for any
//!   content.
//! - [`middleware`] has an access log, ids of requests, deadlines, other time limits and spans.
//! - A [`Body`] is read as it arrives, and written as it is made; [`sse`] makes one of server-sent
//!   events.
//! - [`Limits`] has a default for all that a client sends, and for every wait.
//!
//! # Strictness
//! A request that breaks RFC 9112 is refused and its connection closed. Nothing is repaired,
//! because a proxy before the server may repair it in another way, and then the two disagree about
//! where the next request begins.
//!
//! # Cancellation
//! When the time of a request is up, or when its client goes away, the server cancels the handler
//! ([`ramie::cancel`]): its calls that are cancel points (I/O, timers, [`ramie::channel`]) return
//! errors. So a handler that returns them with `?` ends early, and releases what it holds. Calls
//! that cannot fail in this way, as in std, are no cancel points and wait on: locks, `Condvar`,
//! `mpsc`, `join`, the end of a scope, [`ramie::blocking`]. (Many have a twin whose name ends in
//! `_or_cancelled`.) Put cleanup that must happen even then, such as the removal of an incomplete
//! file, into [`ramie::cancel::shield`], because its calls would fail as well. A few calls, such as
//! [`ramie::fiber::sleep`], return early without an error, so a loop that only sleeps calls
//! [`ramie::cancel::check_cancelled`] each time. A client that goes away is noticed within about a
//! quarter of a second. Handlers of WebSockets are cancelled only when the server has stopped and
//! its period of grace is over: the module `websocket` says how they end before.
//!
//! # Failures
//! A handler that panics is answered by 500 without a body, and over HTTP/1.1 its connection is
//! closed; all others go on. The panic passes the middleware around the handler, so none of it adds
//! its headers; only `x-request-id` stays. The panic hook alone reports it.
//!
//! # Log
//! The crate writes to the crate [`log`]:
//! - errors: requests that the server has failed to handle: an I/O error that became a 500 (the
//!   client does not get its reason), or an argument that nothing provides,
//! - warnings: what concerns the server as a whole, such as a lack of descriptors
//!   ([`Server::on_trouble`] takes most of these),
//! - at the level debug: connections that fail, and connections and requests that are refused, each
//!   with the reason. They have no line in the access log, because they do not reach the router.
//!
//! # HTTP/2
//! Handlers need not know by which version a request has come. These differ:
//! - All requests of a connection are handled at once, each on a fiber of its own.
//! - A client that resets a stream cancels its handler alone.
//! - No `100 Continue` is sent, because hyper cannot. A client that waits for it sends the body
//!   after a time of its own choice, as the standard demands.
//! - If the response is complete before the whole body of the request has arrived, the server
//!   resets the stream with `NO_ERROR`, as RFC 9113, section 8.1 allows. curl before version 8
//!   (seen with 7.88.1) then reports a stream error instead of the status.
//! - [`Limits`] says which limits mean something else.
//!
//! # Features
//! | feature | for | by |
//! |---|---|---|
//! | `tls` | HTTPS: `Server::tls` | rustls with ring |
//! | `http2` | HTTP/2, chosen by the client: over TLS by ALPN, otherwise by its preface | hyper |
//! | `websocket` | the module `websocket` | tungstenite |
//! | `gzip`, `brotli`, `zstd` | `compress` and `decompress`, middleware for these codings | flate2 with zlib-rs, brotli, zstd |
//! | `headers` | `extract::TypedHeader` | headers |
//! | `signed-cookies` | `extract::CookieKey` | hmac, sha2 |
//! | `tracing` | `middleware::trace_requests` | ramie-tracing |
//!
//! None is on by default.
#![deny(unsafe_code)]

mod body;
mod coding;
#[cfg(any(feature = "gzip", feature = "brotli", feature = "zstd"))]
mod compression;
pub mod conditional;
mod connection;
pub mod extract;
mod failed;
mod files;
#[cfg(test)]
mod fuzz;
mod h1;
mod handler;
mod header_maps;
#[cfg(feature = "http2")]
mod http2;
mod io;
mod limits;
pub mod middleware;
mod network;
mod origin;
mod params;
mod parts_box;
mod proxy_fields;
mod refusal;
mod request;
mod response;
mod router;
mod server;
pub mod sse;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use body::{Body, BodyError, BodyWriter};
#[cfg(any(feature = "gzip", feature = "brotli", feature = "zstd"))]
pub use compression::{Compression, compress, decompress};
pub use connection::{Upgrade, Upgraded};
pub use files::{ByPath, Files};
pub use handler::{ByParts, ByRequest, Handler};
#[doc(no_inline)]
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
pub use limits::Limits;
pub use network::{Network, NetworkError};
pub use proxy_fields::ProxyFields;
pub use request::{Parts, Request};
pub use response::{Html, IntoResponse, Redirect, Response, ResponseHeaders};
pub use router::{MethodRouter, Next, Router, any, delete, get, head, options, patch, post, put};
pub use server::{Server, ServerHandle, Trouble};
#[cfg(feature = "tls")]
pub use tls::{ClientCertificates, Tls, TlsConfig, TlsInfo};
