//! The items of `std::os::raw`, in use.

use super::std;

left_to_std! {
    std::os::raw {
        types: c_char, c_double, c_float, c_int, c_long, c_longlong, c_schar, c_short, c_uchar,
            c_uint, c_ulong, c_ulonglong, c_ushort, c_void;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
