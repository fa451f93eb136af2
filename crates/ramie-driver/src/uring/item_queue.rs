//! The items of a multishot op that no strand has taken yet.

use std::collections::VecDeque;
use std::{iter, option};

use crate::buffer::Lease;
use crate::multishot::MultishotItem;

/// A queue whose first items lie in the op itself. Most items are taken before the next one
/// arrives, so most ops need no other memory, which would seldom be in the cache.
#[derive(Default)]
pub(super) struct ItemQueue {
    /// The oldest item if it is bytes, and the queue was empty when it arrived. Without the tag of
    /// an item it is moved in two registers.
    bytes: Option<Lease>,
    /// The next item.
    first: Option<MultishotItem>,
    /// INVARIANT: empty if there is no first item.
    rest: VecDeque<MultishotItem>,
}

impl ItemQueue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_none() && self.first.is_none()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.bytes.is_some()) + usize::from(self.first.is_some()) + self.rest.len()
    }

    #[inline]
    pub(super) fn push_back(&mut self, item: MultishotItem) {
        match item {
            MultishotItem::Bytes(bytes) if self.is_empty() => self.bytes = Some(bytes),
            item => match &mut self.first {
                first @ None => *first = Some(item),
                Some(_) => self.rest.push_back(item),
            },
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<MultishotItem> {
        if let Some(bytes) = self.bytes.take() {
            return Some(MultishotItem::Bytes(bytes));
        }
        let item = self.first.take()?;
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        Some(item)
    }

    /// As [`push_back`](Self::push_back), for an empty queue.
    #[inline]
    pub(super) fn set_bytes(&mut self, bytes: Lease) {
        debug_assert!(self.is_empty(), "bytes would overtake older items");
        self.bytes = Some(bytes);
    }

    /// As [`pop_front`](Self::pop_front), if the oldest item is bytes that arrived when the queue
    /// was empty.
    #[inline]
    pub(super) fn take_bytes(&mut self) -> Option<Lease> {
        self.bytes.take()
    }

    /// The newest item. Nothing if the only item is bytes that arrived when the queue was empty.
    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut MultishotItem> {
        self.rest.back_mut().or(self.first.as_mut())
    }
}

impl IntoIterator for ItemQueue {
    type Item = MultishotItem;
    type IntoIter = iter::Chain<
        iter::Chain<option::IntoIter<MultishotItem>, option::IntoIter<MultishotItem>>,
        std::collections::vec_deque::IntoIter<MultishotItem>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        let bytes = self.bytes.map(MultishotItem::Bytes);
        bytes.into_iter().chain(self.first).chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{ItemQueue, MultishotItem};
    use crate::buffer::Pool;
    use crate::buffer::tests::lease_from;

    fn number(item: &MultishotItem) -> u32 {
        match item {
            MultishotItem::Ready(number) => *number,
            MultishotItem::Bytes(bytes) => bytes.len() as u32,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn items_come_out_in_the_order_in_which_they_went_in() {
        let mut pool = Pool::new();
        // Each digit of `calls` to the base of 3 is a push of one of two kinds or a pop, so that
        // all short histories are tried.
        for calls in 0..3_u32.pow(8) {
            let mut queue = ItemQueue::default();
            let (mut pushed, mut popped) = (0, 0);
            for call in 0..8 {
                let kind = calls / 3_u32.pow(call) % 3;
                if kind > 0 {
                    queue.push_back(match kind {
                        1 => MultishotItem::Ready(pushed),
                        _ => MultishotItem::Bytes(lease_from(&mut pool, pushed as usize)),
                    });
                    pushed += 1;
                } else {
                    let expected = (popped < pushed).then_some(popped);
                    let first = match queue.take_bytes() {
                        Some(bytes) => Some(MultishotItem::Bytes(bytes)),
                        None => queue.pop_front(),
                    };
                    assert_eq!(first.as_ref().map(number), expected);
                    popped += u32::from(expected.is_some());
                }
                let is_lone_bytes = queue.len() == 1 && queue.bytes.is_some();
                let last = (popped < pushed && !is_lone_bytes).then(|| pushed - 1);
                assert_eq!(queue.back_mut().map(|last| number(last)), last);
                assert_eq!(queue.len(), (pushed - popped) as usize);
                assert_eq!(queue.is_empty(), pushed == popped);
            }
            let left: Vec<u32> = queue.into_iter().map(|item| number(&item)).collect();
            assert_eq!(left, (popped..pushed).collect::<Vec<_>>());
        }
    }
}
