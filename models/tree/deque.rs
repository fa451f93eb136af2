//! The deques from which workers steal, as weak as the workers let them be: a thread may read an
//! old length, and an operation orders no memory but the value that it moves. Only the fence in
//! `Stealer::is_empty`, on which the workers rely, is there.

use std::{cell::RefCell, collections::VecDeque, sync::Arc};

use crate::core::primitive::{AtomicUsize, Ordering, fence};

struct Queue<T> {
    len: AtomicUsize,
    items: RefCell<VecDeque<T>>,
}

pub(crate) struct Worker<T>(Arc<Queue<T>>);
pub(crate) struct Stealer<T>(Arc<Queue<T>>);

// SAFETY: all threads of a model are coroutines on one thread, and the checker switches from none
// of them while it borrows `items`.
unsafe impl<T> Send for Queue<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Queue<T> {}

pub(crate) enum Steal<T> {
    Empty,
    Success(T),
    Retry,
}

impl<T> Queue<T> {
    fn take(&self) -> Option<T> {
        let item = self.items.borrow_mut().pop_front()?;
        self.len.fetch_sub(1, Ordering::AcqRel);
        Some(item)
    }
}

impl<T> Worker<T> {
    pub(crate) fn new_fifo() -> Self {
        Worker(Arc::new(Queue { len: AtomicUsize::new(0), items: RefCell::default() }))
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(Arc::clone(&self.0))
    }

    pub(crate) fn push(&self, item: T) {
        self.0.items.borrow_mut().push_back(item);
        self.0.len.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }
}

impl<T> Stealer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.len.load(Ordering::Acquire) == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }

    /// Takes one, although a batch would be allowed. The rest of its group moves by `steal`.
    pub(crate) fn steal_batch_with_limit_and_pop(&self, _: &Worker<T>, _: usize) -> Steal<T> {
        self.0.take().map_or_else(
            || {
                // Another thief has taken it, and has perhaps not announced that yet.
                loom::thread::yield_now();
                Steal::Empty
            },
            Steal::Success,
        )
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.0.take().map_or(Steal::Empty, Steal::Success)
    }
}
