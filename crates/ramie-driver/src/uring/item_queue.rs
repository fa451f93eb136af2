//! The items of a multishot op that no strand has taken yet.

use std::collections::VecDeque;
use std::{iter, option};

use crate::buffer::Lease;
use crate::multishot::MultishotItem;

/// A queue whose first item lies in the op itself. Most items are taken before the next one
/// arrives, so most ops need no other memory, which would seldom be in the cache.
#[derive(Default)]
pub(super) struct ItemQueue {
    first: Option<MultishotItem>,
    /// INVARIANT: empty if there is no first item.
    rest: VecDeque<MultishotItem>,
}

impl ItemQueue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    #[inline]
    pub(super) fn push_back(&mut self, item: MultishotItem) {
        match &mut self.first {
            first @ None => *first = Some(item),
            Some(_) => self.rest.push_back(item),
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<MultishotItem> {
        let item = self.first.take()?;
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        Some(item)
    }

    /// As [`pop_front`](Self::pop_front), if the first item is bytes.
    #[inline]
    pub(super) fn pop_front_bytes(&mut self) -> Option<Lease> {
        if !matches!(self.first, Some(MultishotItem::Bytes(_))) {
            return None;
        }
        match self.pop_front() {
            Some(MultishotItem::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut MultishotItem> {
        self.rest.back_mut().or(self.first.as_mut())
    }
}

impl IntoIterator for ItemQueue {
    type Item = MultishotItem;
    type IntoIter = iter::Chain<
        option::IntoIter<MultishotItem>,
        std::collections::vec_deque::IntoIter<MultishotItem>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{ItemQueue, MultishotItem};

    fn number(item: &MultishotItem) -> u32 {
        match item {
            MultishotItem::Ready(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn items_come_out_in_the_order_in_which_they_went_in() {
        // Each bit of `calls` is a push or a pop, so that all short histories are tried.
        for calls in 0..1_u32 << 10 {
            let mut queue = ItemQueue::default();
            let (mut pushed, mut popped) = (0, 0);
            for call in 0..10 {
                if calls >> call & 1 == 0 {
                    queue.push_back(MultishotItem::Ready(pushed));
                    pushed += 1;
                } else {
                    let expected = (popped < pushed).then_some(popped);
                    assert_eq!(queue.pop_front().as_ref().map(number), expected);
                    popped += u32::from(expected.is_some());
                }
                let last = (popped < pushed).then(|| pushed - 1);
                assert_eq!(queue.back_mut().map(|item| number(item)), last);
                assert_eq!(queue.len(), (pushed - popped) as usize);
                assert_eq!(queue.is_empty(), pushed == popped);
            }
            let left: Vec<u32> = queue.into_iter().map(|item| number(&item)).collect();
            assert_eq!(left, (popped..pushed).collect::<Vec<_>>());
        }
    }
}
