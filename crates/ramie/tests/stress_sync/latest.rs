//! Broadcast and watch.
