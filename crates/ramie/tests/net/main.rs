//! Sockets: streams, listeners and datagrams, and receives that hand out the driver's buffers.

#[path = "../common/mod.rs"]
mod common;

mod accept;
mod buffer_memory;
mod direct;
mod duplicates;
mod echo;
mod mistakes;
mod multishot;
mod racing;
mod random;
mod readiness_in_vain;
mod recv_each;
mod recv_mixed;
mod std_twins;
mod udp;
mod unix;
mod workers;
