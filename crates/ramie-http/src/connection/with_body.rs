//! Requests that have a body: the input of the connection is lent to it, and taken back.

use std::io;

use super::{Asked, Http1, Phase, Presence, Step};
use crate::{
    body::{Body, BodySource, Incoming},
    h1::{framing::Framing, head::Head},
    parts_box::PartsBox,
    request::Request,
};

/// How many bytes of a body that the handler has not read are read for it.
pub(super) const SKIPPED: usize = 64 << 10;

/// Input of up to this size is copied, and so is that of a body that has not arrived as a whole,
/// because it would otherwise keep one of the runtime's larger buffers while the handler runs.
const COPIED: u64 = 4 << 10;

impl<P: Presence> Http1<'_, '_, P> {
    #[inline(never)]
    pub(super) fn answer_with_body(&mut self, parts: PartsBox, asked: Asked) -> io::Result<Step> {
        let wants_upgrade = parts.head().wants_upgrade;
        let (body, lent) = self.lend_body(parts.head());
        let request = Request::received(parts, body);
        self.presence.enter(Phase::Handler);
        let step = self.answer_request(&mut Some(request), wants_upgrade, Some(&lent), asked);
        if !matches!(step, Ok(Step::NextRequest)) {
            lent.end(self.wire.stream);
        }
        step
    }

    /// The body of a request, and a second handle.
    fn lend_body(&mut self, head: &Head) -> (Body, Incoming) {
        let here = self.wire.input.unused().len() as u64;
        let is_whole = matches!(head.framing, Framing::Length(length) if length <= here);
        if here <= COPIED || !is_whole {
            self.wire.input.copy();
        }
        let input = std::mem::take(&mut self.wire.input);
        let limits = &self.service.limits;
        let incoming =
            Incoming::new(self.wire.stream, input, head.framing, head.expects_continue, limits);
        (Body::incoming(incoming.share()), incoming)
    }

    /// Ends the reading of a body. If the connection `stays`, the rest of the body is skipped.
    /// Returns whether the next request can be found behind it.
    pub(super) fn take_body_back(&mut self, lent: &Incoming, stays: bool) -> io::Result<bool> {
        let mut taken = lent.try_take_back();
        if taken.is_none() {
            // The client may wait for the response before it sends what another strand reads.
            self.output.flush()?;
            taken = lent.take_back();
        }
        let Some(mut source) = taken else { return Ok(false) };
        if !source.is_at_end() {
            if !stays {
                return Ok(false);
            }
            // The client may wait for the response before it sends the rest.
            self.output.flush()?;
            if !skip(&mut source) {
                return Ok(false);
            }
        }
        self.wire.stream.set_read_timeout(None)?;
        self.wire.input = source.into_input();
        Ok(stays)
    }
}

/// Reads the rest of a body if it is small and arrives in time. Returns whether it is at its end.
#[inline(never)]
fn skip(source: &mut BodySource) -> bool {
    source.hurry();
    let mut left = SKIPPED;
    let mut piece = [0; 4 << 10];
    while left > 0 {
        match source.read(&mut piece) {
            Ok(0) => return source.is_at_end(),
            Ok(read) => left = left.saturating_sub(read),
            Err(_) => return false,
        }
    }
    source.is_at_end()
}
