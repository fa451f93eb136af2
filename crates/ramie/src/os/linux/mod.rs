//! Twins of `std::os::linux`; what cannot block is std's own.

pub mod net;
