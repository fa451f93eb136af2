//! Null pointers where the header wants an object: each call fails, and none of them crashes.
#![allow(unsafe_code)]

use std::ptr;

use crate::{channel, fiber, guest, runtime};

#[test]
fn a_call_without_a_function_fails() {
    let mut value = 5;
    // SAFETY: options are null, and the value has a place.
    let ran = unsafe { runtime::ramie_run(ptr::null(), None, ptr::null_mut(), &raw mut value) };
    assert_eq!(ran, -libc::EINVAL);
    // SAFETY: as above.
    let blocked = unsafe { fiber::ramie_blocking(None, ptr::null_mut(), &raw mut value) };
    assert_eq!(blocked, -libc::EINVAL);
    assert_eq!(value, 5);
}

/// Nothing could ever end or free it.
#[test]
fn an_object_without_a_place_is_not_made() {
    // SAFETY: null options are the default.
    let started = unsafe { runtime::ramie_start(ptr::null(), ptr::null_mut()) };
    assert_eq!(started, -libc::EINVAL);
    // SAFETY: as above.
    let guest = unsafe { guest::ramie_guest_start(ptr::null(), ptr::null_mut()) };
    assert_eq!(guest, -libc::EINVAL);
    // SAFETY: the place may be null.
    let channel = unsafe { channel::ramie_channel_new(1, ptr::null_mut()) };
    assert_eq!(channel, -libc::EINVAL);
}
