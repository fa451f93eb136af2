//! The items of `std::os::unix::ffi`, in use.

use super::std;

left_to_std! {
    std::os::unix::ffi {
        traits: OsStrExt, OsStringExt;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
