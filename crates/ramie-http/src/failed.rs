//! Responses that a connection makes instead of those of handlers, and the id of the request in
//! them.
//!
//! A panic passes the middleware that knows the id. So the middleware leaves the id behind, from a
//! destructor during the unwinding, and the connection takes it where it catches the panic. In
//! between, no other strand runs on the thread, because a strand that unwinds does not wait.
//!
//! If a layer of the program catches the panic, the connection sees no panic. It then forgets the
//! id, so that a later panic on the same strand does not get it. So does the access log before each
//! request, because a program may call a router without a connection.

use std::cell::{Cell, RefCell};

use http::{HeaderName, HeaderValue, StatusCode};
use ramie::fiber::{self, FiberId};

use crate::response::{IntoResponse, Response};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

thread_local! {
    /// Whether `LEFT` has an id; apart, because a look at it must cost nothing.
    static IS_LEFT: Cell<bool> = const { Cell::new(false) };
    static LEFT: RefCell<Option<(FiberId, HeaderValue)>> = const { RefCell::new(None) };
}

/// Leaves the id behind if it is dropped by a panic.
pub(crate) struct LeaveOnPanic<'a>(pub(crate) &'a HeaderValue);

impl Drop for LeaveOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            IS_LEFT.set(true);
            LEFT.replace(Some((fiber::current().id(), self.0.clone())));
        }
    }
}

/// The id that a panic of this strand has left, for a layer that the panic passes later.
pub(crate) fn left() -> Option<HeaderValue> {
    LEFT.with_borrow(|left| {
        let (strand, id) = left.as_ref()?;
        (*strand == fiber::current().id()).then(|| id.clone())
    })
}

/// Takes the id that a panic of this strand has left.
fn take_left() -> Option<HeaderValue> {
    IS_LEFT.set(false);
    let (strand, id) = LEFT.take()?;
    (strand == fiber::current().id()).then_some(id)
}

/// No panic is on its way to the caller: a handler has returned, or is to be called.
#[inline]
pub(crate) fn forget() {
    if IS_LEFT.get() {
        take_left();
    }
}

/// A response without a body, instead of that of a handler which panicked, or which returned one
/// that must not be sent.
#[cold]
#[inline(never)]
pub(crate) fn response(status: StatusCode, replaced: Option<Response>) -> Response {
    let own = replaced.and_then(|mut replaced| replaced.headers_mut().remove(REQUEST_ID));
    let mut response = status.into_response();
    if let Some(id) = own.or_else(take_left) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
