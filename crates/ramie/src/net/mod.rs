//! Twins of `std::net`.
