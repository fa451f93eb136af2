//! Attacks of safe code on the count of holders.

use std::process::Command;
use std::sync::atomic::Ordering;

use super::*;

/// A lease of a buffer's first `len` bytes, and the pool of the buffer.
fn lease(len: usize) -> (Pool, Lease) {
    let mut pool = Pool::new();
    let lease = lease_from(&mut pool, len);
    (pool, lease)
}

/// A lease of the first `len` bytes of a buffer from `pool`.
pub(crate) fn lease_from(pool: &mut Pool, len: usize) -> Lease {
    let receive = |room: NonNull<u8>, most: usize| {
        assert!(len <= most);
        // SAFETY: the room has at least `len` bytes.
        unsafe { room.write_bytes(7, len) };
        len as i32
    };
    // SAFETY: as many bytes are initialized as are returned.
    unsafe { pool.fill_whole(Size::Large, receive) }.expect("a lease")
}

fn holders(lease: &Lease) -> &AtomicU32 {
    // SAFETY: held by the lease.
    unsafe { &lease.buffer.as_ref().holders }
}

/// A buffer that a part still holds must not be handed out again.
#[test]
fn a_part_of_a_lease_holds_the_buffer() {
    let (mut pool, mut first) = lease(8);
    let mut second = first.split_off(4);
    let third = second.split_off(2);
    assert_eq!(holders(&first).load(Ordering::Relaxed), 3);
    drop(first);
    drop(third);
    assert!(!pool.has_returns(), "a lease of the buffer is alive");
    let other = pool.take(Size::Large).expect("memory");
    assert_ne!(other, second.buffer, "the buffer of a lease was handed out");
    assert_eq!(&*second, [7, 7]);
    drop(second);
    assert!(pool.has_returns(), "nobody holds the buffer any more");
    // SAFETY: the hold of `take`.
    unsafe { let_go(other, 1) };
}

/// The driver's own thread counts its releases, other threads release at once, and none is lost.
#[test]
fn releases_during_an_offer_count_when_it_ends() {
    const PARTS: u32 = 3;
    let mut pool = Pool::new();
    let buffer = pool.take(Size::Large).expect("memory");
    // SAFETY: held since `take`.
    let head = unsafe { buffer.as_ref() };
    head.offer(PARTS);
    // SAFETY: each lease gets a hold of `offer`, and no bytes.
    let [own, others, last] = [(); PARTS as usize].map(|()| unsafe { Lease::new(buffer, 0, 0) });
    drop(own);
    let counts = || (head.holders.load(Ordering::Relaxed), head.released.load(Ordering::Relaxed));
    assert_eq!(counts(), (1 + PARTS, 1), "counted and not subtracted");
    std::thread::spawn(|| drop(others)).join().expect("no panic");
    assert_eq!(counts(), (PARTS, 1), "subtracted by another thread");
    let released = head.withdraw();
    assert_eq!((released, counts()), (1, (PARTS, 0)));
    // SAFETY: the hold of `take`, and the released one.
    unsafe { let_go(buffer, 1 + released) };
    assert!(!pool.has_returns(), "a lease of the buffer is alive");
    assert_eq!(counts(), (1, 0));
    drop(last);
    assert!(pool.has_returns(), "nobody holds the buffer any more");
}

/// A program may split a lease and drop the part as often as it wants.
#[test]
fn counted_releases_are_subtracted_before_they_are_too_many() {
    let mut pool = Pool::new();
    let buffer = pool.take(Size::Large).expect("memory");
    // SAFETY: held since `take`.
    let head = unsafe { buffer.as_ref() };
    head.offer(1);
    // SAFETY: the lease gets the hold of `offer`, and no bytes.
    let mut lease = unsafe { Lease::new(buffer, 0, 0) };
    for _ in 0..2 * MOST_RELEASED {
        drop(lease.split_off(0));
    }
    assert!(head.holders.load(Ordering::Relaxed) <= 2 + MOST_RELEASED);
    drop(lease);
    let released = head.withdraw();
    // SAFETY: the hold of `take`, and the released ones.
    unsafe { let_go(buffer, 1 + released) };
    assert!(pool.has_returns(), "nobody holds the buffer any more");
}

#[test]
fn forgotten_parts_of_a_lease_end_the_process_before_their_count_wraps_around() {
    let test = "buffer::tests::forgets_parts_of_a_lease";
    let program = std::env::current_exe().expect("the test's program");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("more than 2147483647 leases"), "{text}");
    assert!(text.contains("left at the limit: 2147483647"), "{text}");
}

/// Begins close to the limit: to come there takes seconds, or a minute without optimization.
#[test]
#[ignore = "ends the process: run as a child"]
fn forgets_parts_of_a_lease() {
    let (_pool, mut lease) = lease(8);
    holders(&lease).store(i32::MAX as u32 - 10, Ordering::Relaxed);
    for _ in 0..10 {
        std::mem::forget(lease.split_off(8));
    }
    eprintln!("left at the limit: {}", holders(&lease).load(Ordering::Relaxed));
    for _ in 0..10 {
        std::mem::forget(lease.split_off(8));
    }
    panic!("the count went on to {}", holders(&lease).load(Ordering::Relaxed));
}
