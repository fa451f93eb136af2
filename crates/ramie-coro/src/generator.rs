//! Generators: iterators written as a body that yields items.

use std::{fmt, iter::FusedIterator};

use crate::{Coroutine, Resumed, State, Yielder, bare::MAX_INLINE_BYTES};

/// Yields items from a [`Generator`]'s body.
pub type GeneratorYielder<T> = Yielder<(), T>;

/// Iterates over the items that a body yields. The body runs only as far as the next item.
///
/// Dropping a generator half-way unwinds the body, as dropping a [`Coroutine`] does. A panic of the
/// body propagates out of [`next`](Iterator::next), and ends the iteration.
///
/// # Examples
/// ```
/// use ramie_coro::{Generator, GeneratorYielder};
///
/// enum Tree {
///     Leaf,
///     Node(Box<Tree>, u32, Box<Tree>),
/// }
///
/// fn walk(tree: &Tree, yielder: &GeneratorYielder<u32>) {
///     if let Tree::Node(left, value, right) = tree {
///         walk(left, yielder);
///         yielder.suspend(*value);
///         walk(right, yielder);
///     }
/// }
///
/// let leaf = || Box::new(Tree::Leaf);
/// let one = Box::new(Tree::Node(leaf(), 1, leaf()));
/// let tree = Tree::Node(one, 2, leaf());
/// let values = Generator::new(move |yielder| walk(&tree, yielder));
/// assert_eq!(values.collect::<Vec<_>>(), [1, 2]);
/// ```
pub struct Generator<T> {
    coroutine: Coroutine<(), T, ()>,
}

impl<T: 'static> Generator<T> {
    /// Creates a generator with a stack of the default size from this thread's pool.
    ///
    /// # Panics
    /// If the system provides no memory for a stack; [`Builder`](crate::Builder) and `From` return
    /// that as an error.
    #[must_use]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&GeneratorYielder<T>) + 'static,
    {
        if const { size_of::<F>() > MAX_INLINE_BYTES } {
            let body = Box::new(body);
            Coroutine::new(move |yielder, ()| body(yielder)).into()
        } else {
            Coroutine::new(move |yielder, ()| body(yielder)).into()
        }
    }
}

impl<T> From<Coroutine<(), T, ()>> for Generator<T> {
    fn from(coroutine: Coroutine<(), T, ()>) -> Self {
        Generator { coroutine }
    }
}

impl<T> Iterator for Generator<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self.coroutine.state() {
            State::Done => None,
            State::Suspended | State::Running => match self.coroutine.resume(()) {
                Resumed::Yielded(item) => Some(item),
                Resumed::Returned(()) => None,
            },
        }
    }
}

impl<T> FusedIterator for Generator<T> {}

impl<T> fmt::Debug for Generator<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Generator").field("state", &self.coroutine.state()).finish()
    }
}
