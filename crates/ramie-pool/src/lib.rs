//! A pool of connections for fibers and threads, without knowledge of a protocol.
//!
//! A [`ManageConnection`] of the program opens connections and judges them; a [`Pool`] bounds their
//! number, lends them out in the order of the requests, tests and replaces them, and never lends
//! out a connection whose last exchange may be unfinished. The crate `ramie-adapters` has managers
//! for redis, tokio-postgres and clients that block.
//!
//! ```
//! use std::io;
//!
//! use ramie::{io::{Read, Write}, net::{TcpListener, TcpStream}};
//! use ramie_pool::{ManageConnection, Pool};
//!
//! struct Echo(std::net::SocketAddr);
//!
//! impl ManageConnection for Echo {
//!     type Connection = TcpStream;
//!     type Error = io::Error;
//!
//!     fn connect(&self) -> io::Result<TcpStream> {
//!         TcpStream::connect(self.0)
//!     }
//!
//!     fn is_valid(&self, stream: &mut TcpStream) -> io::Result<()> {
//!         stream.write_all(b"?")?;
//!         stream.read_exact(&mut [0])
//!     }
//!
//!     fn has_broken(&self, _: &mut TcpStream) -> bool {
//!         false
//!     }
//! }
//!
//! ramie::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let server = listener.local_addr()?;
//!     ramie::fiber::spawn(move || {
//!         let (stream, _) = listener.accept().unwrap();
//!         let _ = ramie::io::copy(&mut &stream, &mut &stream);
//!     });
//!
//!     let pool = Pool::builder().max_size(10).build(Echo(server));
//!     let mut answer = [0; 5];
//!     pool.with(|stream| {
//!         stream.write_all(b"hello")?;
//!         stream.read_exact(&mut answer)
//!     })?;
//!     assert_eq!(&answer, b"hello");
//!     assert_eq!(pool.stats().idle, 1);
//!     Ok::<(), io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Which connections are used again
//! The pool cannot see whether an answer is still on its way. So it keeps a returned connection
//! only if nothing indicates that, and closes it if one of these holds:
//!
//! - The strand noticed a cancellation after it first used the connection: a cancel point failed or
//!   returned early ([`ramie::cancel::notices`]). It counts, too, if that happened to a strand of
//!   a scope to which the connection was lent, such as a loser of a `race`, or if such a strand
//!   panicked.
//! - The guard was dropped while a panic unwound the strand. A panic that the program catches while
//!   it keeps the guard is not seen: call [`PooledConnection::mark_broken`] then.
//! - One strand used the connection, and another one used or returned it, because the guard does
//!   not see cancellations of the first one. (A guard may be sent to another strand before its
//!   first use.)
//! - The closure of [`Pool::with`] returned an error.
//! - [`PooledConnection::mark_broken`] was called.
//! - [`ManageConnection::has_broken`] returned true.
//! - The connection is older than [`PoolBuilder::max_lifetime`], or the pool is closed.
//!
//! An error that a call on a [`PooledConnection`] returns is none of these, as long as it reports
//! no cancellation: a socket's own timeout, for example. Use [`Pool::with`], or have `has_broken`
//! answer from the state of the connection.
//!
//! Some of these connections were at rest: the strand may have been cancelled in a wait that had
//! nothing to do with the connection. That costs a new connection, never a wrong answer.
//!
//! # Bounds
//! At most [`PoolBuilder::max_size`] connections are open at any time, counted from before
//! `connect` is called until the connection has been dropped. Strands that wait get connections in
//! the order in which they asked; a strand that returns one and asks again stands at the end. The
//! connection that was returned last is lent first. If the program needs fewer connections than are
//! open, the others therefore stay idle until [`PoolBuilder::idle_timeout`], and are closed.
//!
//! # The keeper
//! Connections that have been idle or open for too long are closed, and missing idle ones opened,
//! by a fiber of the pool, the *keeper*. It starts when there is something to do at some time,
//! waits until that time without polling, and ends when nothing is left to do.
//! [`run`](ramie::run) does not wait for it. If its runtime ends before the pool, the next use of
//! the pool starts another one; until then no idle connection is closed or opened.
//!
//! # Outside a fiber
//! A pool serves all workers of a runtime, several runtimes, and threads outside of one; a thread
//! that waits for a connection blocks. There the keeper is a thread.
//!
//! A thread that runs the tasks of tokio, or of another executor, blocks, too, while a task is in
//! [`Pool::get`] or uses the connection. A task should instead spawn a fiber that does both, by a
//! [`Handle`](ramie::Handle) of a runtime in the background, and await the fiber:
//!
//! ```
//! use ramie_pool::{ManageConnection, Pool};
//!
//! async fn is_up<M: ManageConnection>(fibers: ramie::Handle, pool: Pool<M>) -> bool {
//!     let fiber = fibers.spawn(move || pool.get().is_ok()).expect("the runtime runs");
//!     fiber.await.expect("a connection, or an error")
//! }
//! ```
//!
//! # Inside `no_switch`
//! [`Pool::get`] panics if it would have to wait for a connection, and if testing or opening one
//! waits. Returning a connection never waits by itself; closing one waits if its destructor does.
//!
//! # Forgotten guards
//! A connection in a guard that is leaked, by `mem::forget` or on the stack of an abandoned fiber,
//! stays open, and its place in the pool stays taken.
#![forbid(unsafe_code)]

// # Protocol
// A *place* is the right to have one connection that is not idle: one permit of a semaphore with
// `max_size` permits. The semaphore gives the order of the waiters, their deadlines, their
// cancellation and their end at `close`.
//
// | a connection is | owned by | changed by |
// |---|---|---|
// | being opened | a place | its end: in use, or gone |
// | in use | a place (in a guard, or in `get` while it is tested) | its return: idle, or gone |
// | idle | the list of idle connections | `take_idle`: in use; `close`: gone |
//
// Its count among the open ones is part of it (`Open`), from before it is opened until after it is
// dropped, on every way out. A place is given back after its connection has become idle or gone.
//
// *The bound.* Let n be the number of open connections. With a place, a strand opens one only if it
// finds the list empty; then all n belong to other places, so n < max_size. The keeper, which opens
// connections although some are idle, has a place, too, and compares n with max_size. Both
// decisions and the count are made under the lock of the list.
//
// *The race to fear*: a connection is returned and its place is not yet given back, or a strand has
// got a place and not yet looked into the list. Both only make the number of strands that look into
// the list smaller than the number of idle connections allows, and never larger.
//
// *The other race*: the keeper decides how long to wait while a strand returns a connection that
// is due earlier. The keeper stores the time under the lock of the list, in the step in which it
// looks at the list; a strand that returns a connection compares with it under the same lock, and
// unparks the keeper. A token that comes before the keeper parks is kept.
//
// No lock is held while a connection is opened, tested or dropped, because all three may wait.

mod builder;
mod error;
mod guard;
mod idle;
mod keeper;
mod manage;
mod pool;
mod shared;
mod stats;

pub use self::{
    builder::PoolBuilder,
    error::{PoolError, TimeoutPhase},
    guard::PooledConnection,
    manage::ManageConnection,
    pool::Pool,
    stats::PoolStats,
};
