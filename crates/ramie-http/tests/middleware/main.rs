//! Middleware and server-sent events: by `Router::call`, and over sockets.

mod access_log;
mod deadline;
mod request_id;
mod sockets;
mod sse;
