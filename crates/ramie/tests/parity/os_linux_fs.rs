//! The items of `std::os::linux::fs`, in use.

use super::std;

left_to_std! {
    std::os::linux::fs {
        traits: MetadataExt;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
