//! The items of `std::os::unix::thread`: none of them.

pub(crate) fn left_to_std() -> Vec<&'static str> {
    Vec::new()
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
