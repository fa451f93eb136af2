//! Channels for many senders and many receivers, and [`select!`](crate::select!) over them.
//!
//! The API is that of crossbeam-channel. Channels work between fibers, threads, workers and
//! runtimes.
//!
//! # Cancellation
//! In a cancelled scope every send, receive and select fails, whether or not it would have to wait.
//! No value is lost: an unsent value is in the error, an unreceived one stays in the channel, and a
//! value that a peer handed over while the strand waited is returned even if the scope was
//! cancelled at that moment, because only one of the two can claim the wait. `try_send` and
//! `try_recv` ignore the cancellation. [`check_cancelled`](crate::cancel::check_cancelled) returns
//! the reason.
//!
//! # Descriptors and strands among the arms
//! To wait for a descriptor or the end of a strand in a select, spawn a strand that waits for it
//! and then sends to a channel; when an arm was chosen, cancel the scope of these strands. They
//! should only *wait* (until data can be read, until a strand has ended) and not take anything,
//! because data that a cancelled strand has taken is lost.
//! ```
//! use std::io::Read;
//! use ramie::{cancel, channel, fiber, io::{self, Polled}, select};
//!
//! fn line_or_message(pipe: &mut io::PipeReader, messages: &channel::Receiver<String>) -> String {
//!     let message = cancel::scope(|until_found| fiber::scope(|s| {
//!         let (tell, readable) = channel::bounded(1);
//!         let pipe = &*pipe;
//!         s.spawn(move || {
//!             if io::wait_any(&mut [Polled::readable(pipe)]).is_ok() {
//!                 let _ = tell.send(());
//!             }
//!         });
//!         let message = select! {
//!             recv(messages) -> message => message.ok(),
//!             recv(readable) -> _ => None,
//!         };
//!         until_found.cancel();
//!         message
//!     }));
//!     message.unwrap_or_else(|| {
//!         let mut buffer = [0; 80];
//!         let count = pipe.read(&mut buffer).unwrap();
//!         String::from_utf8_lossy(&buffer[..count]).into_owned()
//!     })
//! }
//! # ramie::run(|| {
//! #     use std::io::Write;
//! #     let (sender, messages) = channel::unbounded();
//! #     let (mut pipe, mut writer) = io::pipe().unwrap();
//! #     sender.send("message".to_owned()).unwrap();
//! #     assert_eq!(line_or_message(&mut pipe, &messages), "message");
//! #     writer.write_all(b"line").unwrap();
//! #     assert_eq!(line_or_message(&mut pipe, &messages), "line");
//! # });
//! ```
//! Such a select costs a scope with a strand: 0.5 us if there is a message already, 3 us if it
//! waits for the pipe. If you repeat it, give each source a strand that reads in a loop and sends
//! its data into one channel, and receive from that channel instead of selecting.
//!
//! # Fairness
//! Waiters are served in order. A select starts at a random arm. If the ends of a channel are on
//! different workers, a strand tries a second time before it waits, and until then strands that
//! come later may be served first.

// # Protocol
// A channel is a queue of values and two queues of waiters, all under one spin lock, which is held
// for some ten instructions and never during a suspension or a call into user code.
//
// | state of the queue | receivers wait | senders wait |
// |---|---|---|
// | fewer values than the capacity | only if there are none | never |
// | as many values as the capacity | only if the capacity is 0 | may |
//
// Values are handed over directly. A sender that finds a waiting receiver claims its wait and puts
// the value into that receiver's frame; a receiver that finds a waiting sender claims its wait and
// takes the value out of that sender's frame. Either does it under the lock, and schedules the
// strand afterwards; because only the winner of the claim may schedule the strand, the frame stays
// valid until then. So a strand that wakes has its value or its room, and need not compete for it
// again.
//
// | a waiter is | changed by |
// |---|---|
// | queued | the peer that takes it off; its own strand, when its wait ended otherwise; the unlink hook, when its strand is abandoned |
// | taken off, claimed | - (its operation is done; if a receiver is abandoned before it runs, the hook gives the value to the next) |
// | taken off, not claimed | - (its wait had ended already; the peer went on to the next) |
//
// *Select* puts one waiter on each channel, all with the same wait: at most one peer can claim it,
// so at most one arm is carried out. If an arm can be carried out at once while other arms are in
// their queues already, it first claims its own strand's wait, so that no peer can carry out
// another arm.
//
// *The races to fear*: a value is handed to a receiver that has just timed out, or whose other arm
// was chosen. The claim prevents this: a peer that does not win it puts nothing into the frame, and
// continues with the next waiter or the queue.

mod arm;
mod core;
mod error;
mod futures;
mod iter;
mod random;
mod receiver;
mod remote_hint;
mod select;
mod select_macro;
mod sender;
mod state;
mod timed;
mod waiters;

use self::core::Core;
pub use self::{
    error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError},
    iter::{IntoIter, Iter, TryIter},
    receiver::Receiver,
    select::Select,
    sender::Sender,
    timed::{after, at, never, tick},
};
use crate::core::primitive::Arc;
pub use crate::select;

pub(crate) use iter::receiver_iterators;

/// The expansion of `select!`.
#[doc(hidden)]
pub mod __private {
    pub use super::{
        arm::{ArmRef, RecvArm, SendArm},
        select::{select_by, select_now, select_within},
    };
}

/// Makes a channel that holds at most `capacity` values; with 0, each send waits until its value is
/// received. A capacity of 4,294,967,295 or more means no limit.
///
/// # Examples
/// ```
/// use ramie::{channel, fiber};
/// ramie::run(|| {
///     let (sender, receiver) = channel::bounded(1);
///     fiber::spawn(move || (0..3).for_each(|value| sender.send(value).unwrap()));
///     assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
/// });
/// ```
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    pair(capacity)
}

/// Makes a channel whose number of values is limited only by memory; sends never wait.
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    pair(usize::MAX)
}

fn pair<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender::new(Arc::clone(&core)), Receiver::new(core))
}
