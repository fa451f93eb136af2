//! Middleware and server-sent events: by `Router::call`, and over sockets.

mod access_log;
#[path = "../common/client_fiber.rs"]
mod client_fiber;
mod deadline;
mod request_id;
mod request_timeout;
mod sockets;
mod sse;
#[path = "../common/written.rs"]
mod written;
