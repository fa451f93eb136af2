//! Iterators over the values of a channel.

use super::Receiver;

/// Waits for each value; ends when all senders are gone, or when the strand is cancelled. See
/// [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// Yields the values in the channel, and ends when there is none. See [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// Waits for each value, and owns the receiver; ends when all senders are gone, or when the strand
/// is cancelled.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Receiver<T> {
    /// Iterates over the values, waiting for each, until all senders are gone.
    ///
    /// # Cancellation
    /// Each step is a cancel point; a cancelled step ends the iteration.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Iterates over the values in the channel, without waiting.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }
}

/// Implements the iterators of a receiver in terms of its `recv` and `try_recv`.
macro_rules! receiver_iterators {
    ($receiver:ident, $iter:ident, $try_iter:ident, $into_iter:ident) => {
        impl<T> Iterator for $iter<'_, T> {
            type Item = T;

            #[track_caller]
            fn next(&mut self) -> Option<T> {
                self.0.recv().ok()
            }
        }

        impl<T> Iterator for $try_iter<'_, T> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.0.try_recv().ok()
            }
        }

        impl<T> Iterator for $into_iter<T> {
            type Item = T;

            #[track_caller]
            fn next(&mut self) -> Option<T> {
                self.0.recv().ok()
            }
        }

        impl<'a, T> IntoIterator for &'a $receiver<T> {
            type Item = T;
            type IntoIter = $iter<'a, T>;

            fn into_iter(self) -> $iter<'a, T> {
                self.iter()
            }
        }

        impl<T> IntoIterator for $receiver<T> {
            type Item = T;
            type IntoIter = $into_iter<T>;

            fn into_iter(self) -> $into_iter<T> {
                $into_iter(self)
            }
        }
    };
}

pub(crate) use receiver_iterators;

receiver_iterators!(Receiver, Iter, TryIter, IntoIter);
