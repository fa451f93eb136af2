//! Waits for the head of the next request.

use http::StatusCode;

use super::{Http1, NoHead, Phase, Presence, Verdict};
#[cfg(feature = "http2")]
use crate::http2;
use crate::{
    h1::head::{self, End},
    parts_box::PartsBox,
    refusal::Refusal,
};

const NOT_ENCRYPTED: Refusal = Refusal::new(
    StatusCode::MISDIRECTED_REQUEST,
    "the target of the request is of https, and this connection is not encrypted",
);

const LATE_HEAD: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "the head of the request arrives too slowly");

impl<P: Presence> Http1<'_, '_, P> {
    /// Waits for the next head. Inlined for the reason of `Output::flush_inlined`.
    #[inline(always)]
    pub(super) fn next_head(&mut self) -> Result<PartsBox, Box<NoHead>> {
        loop {
            if !self.wire.input.is_empty()
                && let Some(found) = self.parse_head()
            {
                return found;
            }
            self.output.flush_inlined()?;
            if !self.wait_for_input()? {
                return Err(Box::new(NoHead::Closed));
            }
        }
    }

    /// None: the head has not arrived as a whole. Not inlined, because the frame that waits for
    /// requests would have room for its variables.
    #[inline(never)]
    fn parse_head(&mut self) -> Option<Result<PartsBox, Box<NoHead>>> {
        let mut unused = self.wire.input.unused();
        #[cfg(feature = "http2")]
        if self.served == 0 && unused.starts_with(http2::PREFACE) {
            return Some(Err(Box::new(NoHead::Http2)));
        }
        if unused.starts_with(b"\r") && !self.has_skipped_line {
            if !self.skip_line() {
                return None;
            }
            unused = self.wire.input.unused();
        }
        let limits = &self.service.limits;
        let mut parts = PartsBox::take();
        let at_once = match self.wire.input.searched {
            0 => head::parse_at_once(unused, limits, parts.head_mut()),
            _ => None,
        };
        let length = match at_once {
            Some(length) => length,
            None => match self.find_and_parse(&mut parts)? {
                Ok(length) => length,
                Err(refusal) => return Some(Err(refusal.into())),
            },
        };
        if parts.head().is_https() && !self.wire.stream.carries_https() {
            return Some(Err(NOT_ENCRYPTED.into()));
        }
        self.wire.input.consume(length);
        self.is_in_head = false;
        self.has_skipped_line = false;
        self.client.describe(&mut parts);
        Some(Ok(parts))
    }

    /// Skips an empty line before a request; one is allowed (RFC 9112, section 2.2). Returns
    /// whether more input has arrived that can be looked at.
    #[cold]
    #[inline(never)]
    fn skip_line(&mut self) -> bool {
        let unused = self.wire.input.unused();
        if unused == b"\r" {
            self.wire.input.copy();
            return false;
        }
        if unused.starts_with(b"\r\n") {
            self.wire.input.consume(2);
            self.has_skipped_line = true;
            // Some clients send it behind a body, and the next request much later.
            self.is_in_head = false;
        }
        !self.wire.input.is_empty()
    }

    /// As [`parse_head`](Self::parse_head), for a head that is wrong or has not arrived as a whole.
    #[cold]
    #[inline(never)]
    fn find_and_parse(&mut self, parts: &mut PartsBox) -> Option<Result<usize, Refusal>> {
        let limits = &self.service.limits;
        let unused = self.wire.input.unused();
        match head::find_end(unused, self.wire.input.searched) {
            End::At(length) => {
                let parsed = head::parse(&unused[..length], limits, parts.head_mut());
                Some(parsed.map(|()| length))
            }
            End::Later(next) => {
                if let Err(refusal) = head::check_begun(unused, limits) {
                    return Some(Err(refusal));
                }
                self.wire.input.searched = next;
                // The runtime's buffer is for others while this waits.
                self.wire.input.copy();
                None
            }
        }
    }

    /// Receives more. Returns false if the connection is at its end.
    fn wait_for_input(&mut self) -> Result<bool, Box<NoHead>> {
        match self.wire.input.is_empty() {
            true if !self.presence.enter_idle() => return Ok(false),
            // More bytes of a head do not extend its time.
            false if !self.is_in_head => self.begin_head(),
            _ => {}
        }
        let received = self.wire.receiver.receive(&mut self.wire.input)?;
        // Loaded for each head, although it decides only here, so that its cache line is there when
        // `answer` looks at it.
        let is_late = self.presence.verdict() == Verdict::Late;
        if is_late && !received && self.is_in_head {
            return Err(LATE_HEAD.into());
        }
        // The phase of a later head begins at the next wait, because most heads arrive as a whole.
        if received && self.served == 0 && !self.is_in_head {
            self.begin_head();
        }
        Ok(received)
    }

    pub(super) fn begin_head(&mut self) {
        self.is_in_head = true;
        self.presence.enter(Phase::Head);
    }
}
