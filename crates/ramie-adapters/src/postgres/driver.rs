//! The future that moves the bytes of a connection, polled by the strand of a call together with
//! the future of that call.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use ramie::{
    cancel::{Cancelled, check_cancelled},
    fiber,
    future::block_on_or_cancelled,
};

use super::link::Drive;

/// The future of the crate that moves the bytes.
pub(super) type Mover = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// Rounds of polls after which other fibers run, in case that no round had to wait.
const ROUNDS: u32 = 16;

pub(super) struct Driver {
    connection: Moved,
    /// Whether the future of the call was woken.
    call_woken: Woken,
    /// Whether the future that moves the bytes was woken.
    mover_woken: Woken,
}

impl Driver {
    pub(super) fn new(mover: Mover, link: Arc<dyn Drive>) -> Self {
        let connection = Moved { open: Some((mover, link)), end: Ok(()) };
        Driver { connection, call_woken: Woken::new(), mover_woken: Woken::new() }
    }

    /// Returns the future alone, which waits in helper mode.
    pub(super) fn into_mover(self) -> Option<Mover> {
        self.connection.open.map(|(mover, _)| mover)
    }

    /// Returns whether the connection has not been seen to end.
    pub(super) fn is_open(&self) -> bool {
        self.connection.open.is_some()
    }

    /// Returns the error with which the connection has ended.
    pub(super) fn take_end(&mut self) -> Option<tokio_postgres::Error> {
        std::mem::replace(&mut self.connection.end, Ok(())).err()
    }

    /// Waits for a call, in helper mode, so the call may wait for anything.
    ///
    /// A cancel point.
    pub(super) fn wait_by_helpers<F: Future>(
        &mut self,
        mut call: Pin<&mut F>,
    ) -> Result<F::Output, Cancelled> {
        let connection = &mut self.connection;
        connection.set_own(false);
        block_on_or_cancelled(poll_fn(|context| {
            let mut done = call.as_mut().poll(context);
            if done.is_pending() {
                connection.drive(context);
                done = call.as_mut().poll(context);
            }
            if done.is_ready() {
                // Sends the rollback of a transaction that was dropped before its commit.
                connection.drive(context);
            }
            done
        }))
    }

    /// Waits for a call of the crate that needs only the connection, in own mode.
    ///
    /// A cancel point while it waits; the caller has checked for a cancellation before.
    pub(super) fn wait_itself<F: Future>(
        &mut self,
        mut call: Pin<&mut F>,
    ) -> Result<F::Output, Cancelled> {
        let Driver { connection, call_woken, mover_woken } = self;
        connection.set_own(true);
        // Always, because the wakers of the last call may not be these.
        call_woken.set();
        mover_woken.set();
        loop {
            for _ in 0..ROUNDS {
                if call_woken.take()
                    && let Poll::Ready(output) = call.as_mut().poll(&mut call_woken.context())
                {
                    if mover_woken.take() {
                        connection.send_at_once();
                        // Sends that a statement was dropped.
                        connection.drive(&mut mover_woken.context());
                    }
                    return Ok(output);
                }
                if mover_woken.take() {
                    connection.drive(&mut mover_woken.context());
                }
                if call_woken.is_set() || mover_woken.is_set() {
                    continue;
                }
                if !connection.wait()? {
                    return self.wait_by_helpers(call);
                }
                mover_woken.set();
            }
            check_cancelled()?;
            fiber::yield_now();
        }
    }
}

/// The future that moves the bytes of a connection, with the outcome that it had.
struct Moved {
    /// `None` when the connection has ended.
    open: Option<(Mover, Arc<dyn Drive>)>,
    end: Result<(), tokio_postgres::Error>,
}

impl Moved {
    /// Moves the bytes as far as possible. If the connection has ended, drops its future, so that
    /// the client notices.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some((mover, _)) = &mut self.open
            && let Poll::Ready(ended) = mover.as_mut().poll(context)
        {
            self.end = ended;
            self.open = None;
        }
    }

    fn set_own(&self, is_own: bool) {
        if let Some((_, link)) = &self.open {
            link.set_own(is_own);
        }
    }

    fn send_at_once(&self) {
        if let Some((_, link)) = &self.open {
            link.send_at_once();
        }
    }

    fn wait(&self) -> Result<bool, Cancelled> {
        self.open.as_ref().map_or(Ok(false), |(_, link)| link.wait())
    }
}

/// A waker that only sets a flag. `Relaxed`, because wake-ups of another strand, which drops a
/// statement, need not be seen before the next poll.
struct Woken {
    flag: Arc<Flag>,
    waker: Waker,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Woken {
    fn new() -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        Woken { waker: Arc::clone(&flag).into(), flag }
    }

    fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    fn set(&self) {
        self.flag.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }

    /// Returns whether the flag was set, and clears it. No swap, because a wake-up of another
    /// strand that is lost between the two is one that the poll which follows sees.
    fn take(&self) -> bool {
        let was_set = self.is_set();
        if was_set {
            self.flag.0.store(false, Ordering::Relaxed);
        }
        was_set
    }
}
