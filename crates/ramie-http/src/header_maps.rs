//! The header maps of responses that were sent, for the next ones: a map has two allocations.
//!
//! Most responses have a Content-Type and no other field. Their maps are kept apart, with this
//! field, because to replace its value costs less than to remove and to insert it.

use std::{cell::RefCell, mem, thread::LocalKey};

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

/// A map for up to this number of fields is kept.
const FIELDS_KEPT: usize = 24;
/// How many maps of each kind a thread keeps.
const SPARES: usize = 16;

thread_local! {
    /// Maps without fields. Nothing suspends while this or `TYPED` is borrowed, because the maps
    /// have no values of a program.
    static EMPTY: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
    /// Maps with an empty Content-Type and no other field.
    static TYPED: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// Puts a Content-Type into an empty map without memory.
pub(crate) fn fill(map: &mut HeaderMap, content_type: HeaderValue) {
    debug_assert!(map.capacity() == 0);
    let is_typed = take_from(&TYPED, map);
    match map.values_mut().next() {
        // The replaced value is empty and owns no memory, so it may be forgotten.
        Some(value) if is_typed => mem::forget(mem::replace(value, content_type)),
        _ => insert(map, content_type),
    }
}

#[inline(never)]
fn insert(map: &mut HeaderMap, content_type: HeaderValue) {
    take_from(&EMPTY, map);
    map.insert(CONTENT_TYPE, content_type);
}

/// Replaces an empty map without memory by one that was kept. Returns whether there was one.
#[inline]
fn take_from(kept: &'static LocalKey<RefCell<Vec<HeaderMap>>>, map: &mut HeaderMap) -> bool {
    kept.with_borrow_mut(|kept| match kept.pop() {
        // The destructor of the empty map would cost more than all else here.
        Some(kept) => {
            mem::forget(mem::replace(map, kept));
            true
        }
        None => false,
    })
}

/// The Content-Type of a map that has no other field.
#[inline]
pub(crate) fn only_content_type(map: &HeaderMap) -> Option<&HeaderValue> {
    match map.len() == 1 && map.keys().next() == Some(&CONTENT_TYPE) {
        true => map.values().next(),
        false => None,
    }
}

/// Lets others use the memory of a map whose fields nobody needs, and leaves a map without memory.
#[inline]
pub(crate) fn recycle(map: &mut HeaderMap) {
    if !(1..=FIELDS_KEPT).contains(&map.capacity()) {
        drop(mem::take(map));
        return;
    }
    let is_typed = only_content_type(map).is_some();
    let spare = match map.values_mut().next() {
        Some(value) if is_typed => {
            *value = HeaderValue::from_static("");
            &TYPED
        }
        _ => {
            map.clear();
            &EMPTY
        }
    };
    spare.with_borrow_mut(|spare| match spare.len() < SPARES {
        true => spare.push(mem::take(map)),
        false => drop(mem::take(map)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: HeaderValue = HeaderValue::from_static("text/plain");

    /// The number of fields of a map, and the number that it has room for.
    fn recycled(mut map: HeaderMap) -> usize {
        let capacity = map.capacity();
        recycle(&mut map);
        assert_eq!((map.len(), map.capacity()), (0, 0));
        capacity
    }

    fn with_content_type(content_type: HeaderValue) -> HeaderMap {
        let mut map = HeaderMap::new();
        fill(&mut map, content_type);
        map
    }

    #[test]
    fn a_map_of_a_type_is_used_again_with_another_type() {
        let mut map = with_content_type(HeaderValue::from_static("text/html"));
        map.reserve(20);
        let capacity = recycled(map);
        let map = with_content_type(TEXT);
        assert_eq!((map.len(), map.capacity()), (1, capacity));
        assert_eq!(map[CONTENT_TYPE], TEXT);
        assert!(with_content_type(TEXT).capacity() < capacity, "it is used once");
    }

    #[test]
    fn a_map_of_other_fields_is_used_again_without_them() {
        for fields in [&["a"][..], &["content-type", "a"], &["content-type", "content-type"]] {
            let mut map = HeaderMap::with_capacity(20);
            for field in fields {
                map.append(*field, HeaderValue::from_static("b"));
            }
            let capacity = recycled(map);
            let map = with_content_type(TEXT);
            assert_eq!((map.len(), map.capacity()), (1, capacity));
            assert_eq!(map[CONTENT_TYPE], TEXT);
        }
    }

    #[test]
    fn a_large_map_is_not_kept() {
        let mut map = HeaderMap::with_capacity(100);
        map.append(CONTENT_TYPE, TEXT);
        recycle(&mut map);
        assert!(map.capacity() == 0 && with_content_type(TEXT).capacity() < 100);
    }
}
