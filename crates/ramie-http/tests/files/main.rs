//! Files over sockets: bodies of files, the handler for directories, conditional requests.

mod body;
mod conditional;
mod curl;
mod directory;
mod support;
