//! What `ramie serve` serves.

use std::io;

use ramie_http::{Files, Router, get};

use crate::{arguments::Serve, failure::Failure};

/// The handlers of the service that the arguments choose.
pub(super) fn router(serve: &Serve) -> Result<Router, Failure> {
    let Some(directory) = &serve.directory else { return Ok(hello()) };
    let files = Files::new(directory).map_err(|error| {
        let cure = match error.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::NotADirectory => "give the directory that has the file",
            io::ErrorKind::PermissionDenied => {
                "let this user search it and the directories above it (chmod +x)"
            }
            _ => "choose another directory",
        };
        Failure::other(format!("{error}; {cure}"))
    })?;
    Ok(files.listing().precompressed().router())
}

/// Answers every path with the same page.
fn hello() -> Router {
    let page = || "Hello, world!\n";
    Router::new().route("/", get(page)).route("/{*path}", get(page))
}
