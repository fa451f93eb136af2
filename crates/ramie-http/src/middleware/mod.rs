//! Functions around handlers, for [`Router::layer`](crate::Router::layer).
//!
//! | function | adds | header |
//! |---|---|---|
//! | [`request_id`] | an id for each request, which handlers get as a [`RequestId`] | `x-request-id` |
//! | [`AccessLog`] | a line for each request, written by a fiber of its own | |
//! | [`deadline`] | a time limit, which the client may shorten; 504 when it has passed | `x-request-timeout-ms`, `grpc-timeout` |
//! | [`request_timeout`] | another time for requests than the server's `request_timeout` | |
//! | `trace_requests` (with the feature `tracing`) | a span for each request | `traceparent` |
//!
//! [`remaining_timeout_header`] and `traceparent_header` are headers for requests to other
//! services.
//!
//! The layer of the last call is the outermost. So an access log that is added last sees the
//! responses of all other layers.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//! use ramie_http::{Request, Router, get, middleware::{self, AccessLog, RequestId}};
//!
//! let log = AccessLog::common(std::io::sink());
//! let router = Router::new()
//!     .route("/", get(|id: RequestId| id.to_string()))
//!     .layer(middleware::deadline(Duration::from_secs(10)))
//!     .layer(middleware::request_id)
//!     .layer(log.layer());
//! let response = router.call(Request::get("/").with_header("x-request-id", "a7"));
//! assert_eq!(response.headers()["x-request-id"], "a7");
//! ```

mod access_log;
mod deadline;
mod request_id;
mod request_timeout;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "tracing")]
pub use self::tracing::{trace_requests, trace_requests_with, traceparent_header};
pub use self::{
    access_log::AccessLog,
    deadline::{deadline, remaining_timeout, remaining_timeout_header},
    request_id::{RequestId, request_id},
    request_timeout::request_timeout,
};
