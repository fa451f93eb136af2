//! A list in pieces of bounded size, for facts about a million strands.
//!
//! A vector of a million facts is freed in one call, for which the kernel takes 16 ms, and a vector
//! that grows to this size is moved. If a strand made a dump that way, its worker would run no
//! other strand meanwhile.

use std::{iter::Flatten, slice, vec};

/// The most values of a piece.
const PIECE: usize = 512;

/// A list whose pieces can be handled, and freed, one by one.
pub(crate) struct Pieces<T>(Vec<Vec<T>>);

impl<T> Pieces<T> {
    pub(crate) fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(value),
            // The first piece grows, because most lists are short.
            Some(_) => self.push_piece(PIECE, value),
            None => self.push_piece(1, value),
        }
    }

    fn push_piece(&mut self, capacity: usize, value: T) {
        let mut piece = Vec::with_capacity(capacity);
        piece.push(value);
        self.0.push(piece);
    }

    /// Adds the values of another list without moving them.
    pub(crate) fn append(&mut self, other: Pieces<T>) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    pub(crate) fn iter(&self) -> Flatten<slice::Iter<'_, Vec<T>>> {
        self.0.iter().flatten()
    }

    /// The pieces, from which values may be removed.
    pub(crate) fn pieces_mut(&mut self) -> slice::IterMut<'_, Vec<T>> {
        self.0.iter_mut()
    }

    /// The pieces, each to be freed when its values have been used.
    pub(crate) fn into_pieces(self) -> vec::IntoIter<Vec<T>> {
        self.0.into_iter()
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces(Vec::new())
    }
}

impl<T> Extend<T> for Pieces<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl<T> IntoIterator for Pieces<T> {
    type Item = T;
    type IntoIter = Flatten<vec::IntoIter<Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_pieces().flatten()
    }
}

impl<'a, T> IntoIterator for &'a Pieces<T> {
    type Item = &'a T;
    type IntoIter = Flatten<slice::Iter<'a, Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_in_pieces_of_bounded_size() {
        let (mut list, mut other) = (Pieces::default(), Pieces::default());
        assert!(list.is_empty());
        list.extend(0..2 * PIECE + 1);
        other.extend(2 * PIECE + 1..3 * PIECE);
        list.append(other);
        list.push(3 * PIECE);
        assert!(list.pieces_mut().all(|piece| piece.capacity() <= PIECE));
        assert_eq!(list.len(), 3 * PIECE + 1);
        list.pieces_mut().for_each(|piece| piece.retain(|value| value % 2 == 0));
        assert!(!list.is_empty());
        let even = || (0..=3 * PIECE).step_by(2);
        assert!(list.iter().copied().eq(even()));
        assert!(list.into_iter().eq(even()));
    }
}
