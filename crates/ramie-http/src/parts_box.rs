//! The memory of requests that were answered, for the next ones.

use std::{
    cell::RefCell,
    fmt,
    ops::{Deref, DerefMut},
};

use crate::request::Parts;

/// How many boxes a thread keeps.
const SPARES: usize = 16;

thread_local! {
    /// Nothing suspends while it is borrowed, because its boxes have no values of the program,
    /// whose destructors could wait.
    static SPARE: RefCell<Vec<PartsBox>> = const { RefCell::new(Vec::new()) };
}

/// The parts of a request in a box, which is used again when it is dropped.
pub(crate) struct PartsBox(Option<Box<Parts>>);

impl PartsBox {
    pub(crate) fn new(parts: Parts) -> Self {
        PartsBox(Some(Box::new(parts)))
    }

    /// A box with the parts of no request, and with memory for a head if this thread has some.
    pub(crate) fn take() -> Self {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| PartsBox::new(Parts::new()))
    }

    pub(crate) fn into_parts(mut self) -> Parts {
        *self.0.take().expect(FILLED)
    }
}

const FILLED: &str = "only `into_parts` and `drop`, which end the box, take the parts out of it";

impl Drop for PartsBox {
    fn drop(&mut self) {
        if let Some(parts) = self.0.take() {
            recycle(parts);
        }
    }
}

/// Not inlined, because each handler would have a copy of it.
#[inline(never)]
fn recycle(mut parts: Box<Parts>) {
    // Calls destructors of the program, so nothing is borrowed yet.
    parts.forget();
    // A program may keep a request in a thread-local that is destroyed later than this one.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARES {
            spare.push(PartsBox(Some(parts)));
        }
    });
}

impl Deref for PartsBox {
    type Target = Parts;

    #[inline]
    fn deref(&self) -> &Parts {
        self.0.as_ref().expect(FILLED)
    }
}

impl DerefMut for PartsBox {
    #[inline]
    fn deref_mut(&mut self) -> &mut Parts {
        self.0.as_mut().expect(FILLED)
    }
}

impl fmt::Debug for PartsBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::PartsBox;
    use crate::{h1::head, limits::Limits};

    #[test]
    fn a_box_is_used_again_and_forgets_its_request() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n", "x".repeat(5000));
        for text in ["POST /a?b HTTP/1.0\r\nX: y\r\n\r\n", &long] {
            let mut parts = PartsBox::take();
            head::parse(text.as_bytes(), &Limits::DEFAULT, parts.head_mut()).unwrap();
            parts.set_peer(Some("127.0.0.1:1".parse().unwrap()));
            assert!(parts.path_and_params().1.push("a", "b"));
            parts.set_route(&"/{a}".into());
            parts.extensions_mut().insert(7_u8);
            parts.headers_mut().remove("x");
            let place = &raw const *parts;
            drop(parts);
            let next = PartsBox::take();
            assert_eq!(&raw const *next, place);
            assert!(next.peer_addr().is_none() && next.params().len() == 0);
            assert!(next.route().is_none() && next.extensions().get::<u8>().is_none());
            assert!(next.head().bytes.capacity() < 5000, "much memory is not kept");
        }
        let mut next = PartsBox::take();
        let text = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        head::parse(text.as_bytes(), &Limits::DEFAULT, next.head_mut()).unwrap();
        assert_eq!((next.method(), next.version()), (&http::Method::GET, http::Version::HTTP_11));
        assert_eq!((next.path(), next.query(), next.header("x")), ("/", None, None));
        assert_eq!((next.uri().path(), next.headers().len()), ("/", 1));
    }
}
