//! An HTTP server on Ramie's fibers.
#![deny(unsafe_code)]

mod body;
mod connection;
pub mod extract;
mod h1;
mod handler;
mod io;
mod limits;
mod refusal;
mod request;
mod response;
mod router;
mod server;

pub use body::{Body, BodyError, BodyWriter};
pub use connection::{Upgrade, Upgraded};
pub use handler::{ByParts, ByRequest, Handler};
#[doc(no_inline)]
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
pub use limits::Limits;
pub use request::{Parts, Request};
pub use response::{Html, IntoResponse, Redirect, Response, ResponseHeaders};
pub use router::{MethodRouter, Next, Router, any, delete, get, head, options, patch, post, put};
pub use server::{Server, ServerHandle, Trouble};
