//! The connection of tokio-postgres against a server in this process. `ecosystem/` has the tests
//! with a real one.

mod calls;
mod collected;
mod large;
mod records;
mod server;
