//! The wire of HTTP/1.1 over real sockets: odd, malformed and hostile input.
//!
//! `rig` starts servers and `client` is a strict client, which checks the framing of each response.
//! `docs/rules.md` lists the rules of RFC 9110 and RFC 9112 with the test of each.

mod admission;
mod attackers;

mod chunks;
mod client;
mod expect;
mod failures;
mod framing;
mod heads;
mod limits;
mod nginx;
mod persistence;
mod responses;
mod rig;
mod rules;
mod splits;
mod stopping;
mod timeouts;
mod upgrades;
