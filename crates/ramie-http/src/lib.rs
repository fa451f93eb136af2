//! An HTTP server on Ramie's fibers.
#![deny(unsafe_code)]

mod h1;
mod limits;
mod refusal;
