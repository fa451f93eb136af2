//! What `ramie serve` serves.

use ramie_http::{Router, get};

use crate::{arguments::Serve, failure::Failure};

/// The handlers of the service that the arguments choose.
pub(super) fn router(_: &Serve) -> Result<Router, Failure> {
    Ok(hello())
}

/// Answers every path with the same page.
fn hello() -> Router {
    let page = || "Hello, world!\n";
    Router::new().route("/", get(page)).route("/{*path}", get(page))
}
