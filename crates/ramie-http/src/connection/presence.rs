//! What a connection tells its server, so that the server can end what takes too long.

use ramie::cancel::CancelHandle;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It makes its TLS handshake, for `handshake_timeout`.
    Handshake,
    /// It waits for the first byte of a request, for `idle_timeout`, or parses a head that has
    /// arrived as a whole.
    Idle,
    /// It waits for the rest of a head, for `head_timeout`.
    Head,
    /// A handler runs, for `request_timeout`.
    Handler,
    /// It waits for the client to take bytes, for `write_timeout`.
    Write,
    /// The writer of a body runs, for as long as it likes, unless the client goes away.
    Stream,
    /// It is about to close, or speaks another protocol.
    Other,
}

impl Phase {
    pub(crate) fn from_u8(number: u8) -> Self {
        use Phase::{Handler, Handshake, Head, Idle, Other, Stream, Write};
        let all = [Handshake, Idle, Head, Handler, Write, Stream, Other];
        all.into_iter().find(|phase| *phase as u8 == number).unwrap_or(Other)
    }
}

/// Why waits of a handler are cancelled whose verdict is [`Verdict::Late`].
pub(crate) const TIME_IS_UP: &str = "the time of the request is up";

/// Why the server has ended what a connection did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    None,
    /// Its time was up.
    Late,
    /// The client went away, or the server ends.
    Gone,
}

impl Verdict {
    pub(crate) fn from_u8(number: u8) -> Self {
        let all = [Verdict::Late, Verdict::Gone];
        all.into_iter().find(|verdict| *verdict as u8 == number).unwrap_or(Verdict::None)
    }
}

/// The server's view of a connection, which the connection updates.
pub(crate) trait Presence {
    /// The connection enters a phase; the phase's limit counts from now.
    fn enter(&self, phase: Phase);
    /// As [`enter`](Self::enter) for [`Phase::Idle`]. Returns false if the connection should be
    /// closed.
    fn enter_idle(&self) -> bool;
    /// Whether the server stops, so that responses say `close`.
    fn is_stopping(&self) -> bool;
    /// Why the server has ended what the connection did.
    fn verdict(&self) -> Verdict;
    /// The scope by which the server cancels what handlers and the writers of bodies wait for.
    fn scope(&self) -> &CancelHandle;
    /// The scope that the server cancels when it begins to stop, for waits of other protocols.
    fn until_stop(&self) -> &CancelHandle;
}
