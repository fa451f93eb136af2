//! Files over sockets: bodies of files, the handler for directories, conditional requests.

mod body;
#[path = "../common/child.rs"]
mod child;
#[path = "../common/client_thread.rs"]
mod client_thread;
mod conditional;
mod curl;
mod directory;
mod refused;
mod support;
