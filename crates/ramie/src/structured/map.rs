//! Applying a function to the items of an iterator, a limited number at a time.

use std::{
    panic::Location,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{AsFailure, Failures, TryScope, merged::FirstPanic, try_scope};
use crate::{channel, core::strand::catch_raised, fiber};

/// Applies `f` to each item, on at most `limit` fibers, and returns the results in the order of the
/// items.
///
/// A free fiber takes the next item from the iterator, so the items need not fit into memory at
/// once; the results are collected.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until `f` has returned for every item.
///
/// # Cancellation
/// Not a cancel point itself; `f` runs inside the cancel scopes around this call.
///
/// # Panics
/// If `limit` is 0. If `f` or the iterator panics: with the first such panic, after the fibers have
/// ended. The remaining items are not taken.
///
/// # Examples
/// ```
/// use ramie::structured::par_map;
///
/// ramie::run(|| {
///     let squares = par_map(1..=5, 2, |n| n * n);
///     assert_eq!(squares, [1, 4, 9, 16, 25]);
/// });
/// ```
#[track_caller]
pub fn par_map<I, R, F>(items: I, limit: usize, f: F) -> Vec<R>
where
    I: IntoIterator<IntoIter: Send>,
    F: Fn(I::Item) -> R + Sync,
    R: Send,
{
    check(limit);
    let called_at = Location::caller();
    let source = ItemSource::new(items.into_iter());
    let results = Mutex::new(Vec::new());
    fiber::scope(|scope| {
        for _ in 0..source.fibers(limit) {
            scope.spawn_at(called_at, || {
                source.for_each(|index, item| {
                    push(&results, index, f(item));
                    true
                });
            });
        }
    });
    source.panic.raise();
    in_order(results)
}

/// Applies `f` as [`par_map`] does, and calls `each` on the calling strand with each result as soon
/// as there is one, in any order. At most `limit` results wait for `each`.
///
/// # Blocking
/// As [`par_map`].
///
/// # Cancellation
/// Not a cancel point itself; `f` runs inside the cancel scopes around this call.
///
/// # Panics
/// As [`par_map`]; also if `each` panics.
#[track_caller]
pub fn par_map_unordered<I, R, F>(items: I, limit: usize, f: F, mut each: impl FnMut(R))
where
    I: IntoIterator<IntoIter: Send>,
    F: Fn(I::Item) -> R + Sync,
    R: Send,
{
    check(limit);
    let called_at = Location::caller();
    let source = ItemSource::new(items.into_iter());
    fiber::scope(|scope| {
        let (sender, receiver) = channel::bounded(limit);
        for _ in 0..source.fibers(limit) {
            let sender = sender.clone();
            let (source, f) = (&source, &f);
            scope.spawn_at(called_at, move || {
                source.for_each(|_, item| {
                    let result = f(item);
                    // The send fails only if `each` has panicked.
                    crate::core::cancel::shield(|| sender.send(result)).is_ok()
                });
            });
        }
        drop(sender);
        while let Ok(result) = crate::core::cancel::shield(|| receiver.recv()) {
            each(result);
        }
    });
    source.panic.raise();
}

/// Applies a function that may fail, as [`par_map`] does: the first failure cancels the running
/// calls, and no more items are taken.
///
/// # Blocking
/// As [`par_map`].
///
/// # Cancellation
/// Not a cancel point itself; `f` runs inside the cancel scopes around this call.
///
/// # Errors
/// Those of `f`, merged [by the rule](super).
///
/// # Panics
/// As [`par_map`].
#[track_caller]
pub fn try_par_map<I, R, E, Via, F>(items: I, limit: usize, f: F) -> Result<Vec<R>, Failures<E>>
where
    I: IntoIterator<IntoIter: Send>,
    F: Fn(I::Item) -> Result<R, E> + Sync,
    R: Send,
    E: AsFailure<Via> + Send,
{
    check(limit);
    let called_at = Location::caller();
    let source = ItemSource::new(items.into_iter());
    let results = Mutex::new(Vec::new());
    let has_failed = AtomicBool::new(false);
    try_scope(|scope: &TryScope<'_, '_, E>| {
        for _ in 0..source.fibers(limit) {
            scope.spawn_at(called_at, || {
                while !has_failed.load(Relaxed)
                    && let Some((index, item)) = source.next()
                {
                    let failure = MarkWhenDropped(&has_failed);
                    let result = f(item)?;
                    std::mem::forget(failure);
                    push(&results, index, result);
                }
                Ok(())
            });
        }
        Ok(())
    })?;
    Ok(in_order(results))
}

/// Records, when it is dropped, that a call ended by an error or a panic. A cancellation from
/// outside is not recorded, because then `f` decides whether it returns results or errors.
struct MarkWhenDropped<'a>(&'a AtomicBool);

impl Drop for MarkWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[track_caller]
fn check(limit: usize) {
    assert!(limit > 0, "the limit is 0, so no fiber could call the function; pass at least 1");
}

fn push<R>(results: &Mutex<Vec<(usize, R)>>, index: usize, result: R) {
    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
}

fn in_order<R>(results: Mutex<Vec<(usize, R)>>) -> Vec<R> {
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The iterator of the items, shared by the fibers, which numbers the items.
struct ItemSource<I> {
    items: crate::sync::Mutex<(usize, Option<I>)>,
    /// Whether no more items are to be taken.
    is_over: AtomicBool,
    /// The first panic of a call or of the iterator.
    panic: FirstPanic,
}

impl<I: Iterator> ItemSource<I> {
    fn new(items: I) -> Self {
        ItemSource {
            items: crate::sync::Mutex::new((0, Some(items))),
            is_over: AtomicBool::new(false),
            panic: FirstPanic::default(),
        }
    }

    /// Calls `f` with one item after another, until `f` returns false, no item is left, or a call
    /// has panicked on any fiber.
    fn for_each(&self, f: impl Fn(usize, I::Item) -> bool) {
        let call_for_each = || {
            while !self.is_over.load(Relaxed)
                && let Some((index, item)) = self.next()
            {
                if !f(index, item) {
                    return;
                }
            }
        };
        if let Err(raised) = catch_raised(call_for_each) {
            self.is_over.store(true, Relaxed);
            self.panic.add(raised);
        }
    }

    /// Returns the number of fibers: `limit`, or the number of items if the iterator knows that
    /// there are fewer.
    fn fibers(&self, limit: usize) -> usize {
        let state = self.items.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let most = state.1.as_ref().and_then(|items| items.size_hint().1);
        // One at least, because the hint may be wrong, and then no item would be mapped.
        most.map_or(limit, |most| most.clamp(1, limit))
    }

    /// Returns the next item; `None` after the iterator has ended or has panicked.
    fn next(&self) -> Option<(usize, I::Item)> {
        let mut state = self.items.lock().ok()?;
        let item = state.1.as_mut()?.next();
        if item.is_none() {
            state.1 = None;
        }
        let index = state.0;
        state.0 += 1;
        Some((index, item?))
    }
}
