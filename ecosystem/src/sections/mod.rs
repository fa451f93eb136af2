//! The crates, each with the function that tries it.

mod canaries;
mod databases;
mod formats;
mod grpc;
mod programs;
mod protocols;
mod support;
mod tls;
mod web;

use crate::harness::Section;

/// All sections, in the order of the page.
pub(crate) fn all() -> Vec<Section> {
    let mut all: Vec<_> = web::sections().chain(formats::sections()).collect();
    all.extend(grpc::SECTIONS);
    all.extend(tls::SECTIONS);
    all.extend(databases::sections());
    all.extend(protocols::SECTIONS);
    all.extend(programs::sections());
    all.extend(canaries::SECTIONS);
    all
}
