//! Buffers that are offered, filled, leased, and come back.

use super::*;
use crate::uring::tests::{skipped, unless_refused};

/// Handles a completion of `len` bytes from the buffer with this ID on, without `F_BUF_MORE`.
fn complete(groups: &mut Groups, at: usize, len: usize) -> Vec<Lease> {
    const BUFFER: u32 = 1;
    let group = groups.groups[Size::Large as usize].as_mut().unwrap();
    let flags = BUFFER | u32::from(group.offered[at]) << 16;
    let mut leases = Vec::new();
    let filled = Filled::of(len as i32, flags).unwrap();
    groups.lease_each(Size::Large, filled, |lease| leases.push(lease));
    leases
}

/// A ring with a group of large buffers, whose memory is initialized. None: this kernel does
/// not fill buffers part by part.
fn offered() -> Option<(IoUring, Groups, Pool)> {
    let ring = unless_refused(IoUring::new(4))?;
    if lacking(&ring).has(Feature::IncrementalBuffers) {
        skipped("this kernel does not fill buffers part by part");
        return None;
    }
    let (mut groups, mut pool) = (Groups::new(true), Pool::new());
    assert!(groups.prepare(&ring, &mut pool, (Size::Large, true), false));
    for buffer in groups.groups[Size::Large as usize].iter().flat_map(|group| &group.buffers) {
        let Some(buffer) = buffer.buffer else { continue };
        // SAFETY: held by the entry of `buffers`.
        let memory = unsafe { buffer.as_ref() }.memory();
        // SAFETY: the memory belongs to the buffer, and no receive is in flight.
        unsafe { memory.write_bytes(0, Size::Large.bytes()) };
    }
    Some((ring, groups, pool))
}

#[test]
fn a_buffer_is_the_kernels_until_it_is_full() {
    let Some((ring, mut groups, _pool)) = offered() else { return };
    let size = Size::Large.bytes();
    let on_offer =
        |groups: &Groups| groups.groups[Size::Large as usize].as_ref().unwrap().on_offer();
    let lens = |leases: &[Lease]| leases.iter().map(|lease| lease.len()).collect::<Vec<_>>();
    let first = complete(&mut groups, 0, size + 100);
    assert_eq!((lens(&first), on_offer(&groups)), (vec![size, 100], FIRST - 1));
    let end = complete(&mut groups, 1, 0);
    assert_eq!((lens(&end), on_offer(&groups)), (vec![0], FIRST - 1));
    let rest = complete(&mut groups, 1, size - 100);
    assert_eq!((lens(&rest), on_offer(&groups)), (vec![size - 100], FIRST - 2));
    assert_eq!(rest[0].as_ptr(), first[1].as_ptr().wrapping_add(100));
    groups.close(&ring);
}

fn drop_all(leases: Vec<Lease>, elsewhere: bool) {
    match elsewhere {
        true => std::thread::spawn(|| drop(leases)).join().unwrap(),
        false => drop(leases),
    }
}

#[test]
fn a_full_buffer_comes_back_with_its_last_lease() {
    for (early, elsewhere) in [(false, false), (false, true), (true, false), (true, true)] {
        let Some((ring, mut groups, pool)) = offered() else { return };
        let part = complete(&mut groups, 0, 100);
        let empty = complete(&mut groups, 0, 0);
        let (on_offer, later) = if early { (part, empty) } else { (empty, part) };
        drop_all(on_offer, elsewhere);
        let rest = complete(&mut groups, 0, Size::Large.bytes() - 100);
        drop_all(rest, elsewhere);
        assert!(!pool.has_returns(), "{early} {elsewhere}");
        drop_all(later, elsewhere);
        assert!(pool.has_returns(), "{early} {elsewhere}");
        groups.close(&ring);
    }
}

#[test]
fn a_buffer_of_a_closed_group_comes_back_with_its_last_lease() {
    for elsewhere in [false, true] {
        let Some((ring, mut groups, mut pool)) = offered() else { return };
        let first = complete(&mut groups, 0, 100);
        let second = complete(&mut groups, 0, 100);
        drop_all(first, elsewhere);
        groups.close(&ring);
        pool.reclaim();
        drop_all(second, elsewhere);
        assert!(pool.has_returns(), "{elsewhere}");
    }
}
