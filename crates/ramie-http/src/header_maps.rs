//! The header maps of responses that were sent, for the next ones: a map has two allocations.

use std::{cell::RefCell, mem};

use http::HeaderMap;

/// A map for up to this number of fields is kept.
const FIELDS_KEPT: usize = 24;
/// How many maps a thread keeps.
const SPARES: usize = 16;

thread_local! {
    /// Nothing suspends while it is borrowed, because the maps are empty.
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// Gives memory to a map that has none, if there is some.
pub(crate) fn equip(map: &mut HeaderMap) {
    SPARE.with_borrow_mut(|spare| {
        if map.capacity() == 0
            && let Some(spare) = spare.pop()
        {
            // Nothing is leaked, and its destructor would cost more than all else here.
            mem::forget(mem::replace(map, spare));
        }
    });
}

/// Lets others use the memory of a map whose fields nobody needs, and leaves it empty.
pub(crate) fn recycle(map: &mut HeaderMap) {
    map.clear();
    if (1..=FIELDS_KEPT).contains(&map.capacity()) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARES {
                spare.push(mem::take(map));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_small_map_is_used_again_without_its_fields() {
        let mut map = HeaderMap::with_capacity(4);
        map.insert("a", HeaderValue::from_static("b"));
        let capacity = map.capacity();
        recycle(&mut map);
        assert_eq!(map.capacity(), 0);
        recycle(&mut HeaderMap::with_capacity(100));
        let mut in_use = HeaderMap::with_capacity(8);
        in_use.insert("c", HeaderValue::from_static("d"));
        equip(&mut in_use);
        assert_eq!(in_use.len(), 1);
        equip(&mut map);
        assert_eq!((map.len(), map.capacity()), (0, capacity));
        let mut other = HeaderMap::new();
        equip(&mut other);
        assert_eq!(other.capacity(), 0);
    }
}
