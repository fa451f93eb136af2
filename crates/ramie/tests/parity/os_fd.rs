//! The items of `std::os::fd`, in use.

use super::std;

left_to_std! {
    std::os::fd {
        types: BorrowedFd, OwnedFd, RawFd;
        traits: AsFd, AsRawFd, FromRawFd, IntoRawFd;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
