//! The cancellation that an error reports.

use std::{error::Error, io, iter, sync::Arc};

use super::Cancelled;

/// Finds the [`Cancelled`] of this error: itself, or in its chain of sources. Ramie's other errors
/// that report a cancellation have one as their source.
pub(crate) fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Cancelled> {
    let mut chain = iter::successors(Some(error), |error| inside(*error));
    chain.find_map(|error| error.downcast_ref())
}

/// The error below another one. For an I/O error and an `Arc`, that is the error inside it, which
/// their own `source` skips. Errors that can be cloned, as that of the crate redis, have an `Arc`
/// as their source.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(&**shared);
    }
    if let Some(shared) = error.downcast_ref::<Arc<io::Error>>() {
        return Some(&**shared);
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
