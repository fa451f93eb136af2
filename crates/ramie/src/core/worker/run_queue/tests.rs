//! Tests of the order, the ring's size, and its words.

use super::*;
use crate::core::{
    strand::FreeList,
    worker::{Shared, ThreadWaker},
};

fn take(headers: &FreeList) -> &'static StrandHeader {
    headers.take(false).expect("memory for a header")
}

fn index(next: Option<Next>) -> Option<u32> {
    match next {
        Some(Next::Fresh(header)) => Some(header.index()),
        Some(_) => Some(u32::MAX),
        None => None,
    }
}

#[test]
fn keeps_the_order_while_it_grows_and_wraps() {
    let headers = FreeList::new();
    let queue = RunQueue::new();
    let mut expected = std::collections::VecDeque::new();
    for round in 1..60_usize {
        for n in 0..round {
            if (n + round) % 3 == 0 {
                queue.push_root();
                expected.push_back(u32::MAX);
            } else {
                let header = take(&headers);
                queue.push_fresh(header);
                expected.push_back(header.index());
            }
        }
        queue.measure();
        for _ in 0..round - round / 3 {
            assert_eq!(index(queue.pop()), expected.pop_front(), "round {round}");
        }
    }
    while let Some(found) = index(queue.pop()) {
        assert_eq!(Some(found), expected.pop_front());
    }
    assert!(expected.is_empty() && queue.is_empty());
}

#[test]
fn a_large_ring_is_given_back() {
    let queue = RunQueue::new();
    (0..10_000).for_each(|_| queue.push_root());
    queue.give_back_surplus();
    (0..10_000).for_each(|_| assert_eq!(index(queue.pop()), Some(u32::MAX)));
    assert!(queue.has_surplus());
    queue.give_back_surplus();
    assert_eq!(queue.capacity(), FIRST);
    queue.push_root();
    assert!(queue.pop().is_some() && queue.pop().is_none());
}

#[test]
fn closures_in_a_row_take_one_word() {
    let headers = FreeList::new();
    let queue = RunQueue::new();
    let fresh: Vec<_> = (0..1000).map(|_| take(&headers)).collect();
    fresh.iter().for_each(|header| queue.push_fresh(header));
    assert_eq!(queue.capacity(), RunQueue::new().capacity());
    for header in &fresh {
        assert!(queue.pop_fresh().is_some_and(|found| ptr::eq(found, *header)));
    }
    assert!(queue.pop_fresh().is_none() && queue.is_empty());
}

#[test]
fn a_fresh_head_is_distinguished_from_the_root() {
    let headers = FreeList::new();
    let header = take(&headers);
    let queue = RunQueue::new();
    assert!(queue.pop_fresh().is_none());
    queue.push_root();
    queue.push_fresh(header);
    assert!(queue.pop_fresh().is_none());
    assert_eq!(index(queue.pop()), Some(u32::MAX));
    assert!(queue.pop_fresh().is_some_and(|found| ptr::eq(found, header)));
    assert!(queue.pop().is_none());
}

#[test]
fn a_run_that_yields_one_by_one_finds_its_places() {
    let headers = FreeList::new();
    let queue = RunQueue::new();
    let count = 4 * queue.capacity();
    (0..count).for_each(|_| queue.push_fresh(take(&headers)));
    let stack = FiberStack::of_thread(Shared::take(ThreadWaker::Thread(std::thread::current())));
    for _ in 0..count {
        assert!(queue.pop_fresh().is_some());
        queue.push_fiber(&stack);
    }
    let mut yielded = 0;
    while let Some(next) = queue.pop() {
        assert!(matches!(next, Next::Fiber(_)));
        yielded += 1;
    }
    assert_eq!(yielded, count);
}
