//! Forms in parts (RFC 7578, in the format of RFC 2046, section 5.1), without I/O.
//!
//! | state | left at | for |
//! |---|---|---|
//! | start | the first boundary | after boundary |
//! | after boundary | CR LF, or two hyphens | head; or end |
//! | head | an empty line | data |
//! | data | CR LF and a boundary | after boundary |
//! | end | the end of the body, behind at most one CR LF | done |
//!
//! RFC 2046 allows text before the first boundary and behind the last one, and spaces behind
//! each. Clients do not send them, and programs before the server may read them differently, so
//! they are refused. For the same reason a boundary that more text follows on its line is no data.

use std::ops::Range;

use memchr::memmem::Finder;

/// Finds the heads and the data of parts in a body.
#[derive(Debug)]
pub(super) struct MultipartDecoder {
    /// Finds a line end, two hyphens and the boundary.
    delimiter: Finder<'static>,
    state: MultipartState,
    /// Where the search for the end of a head goes on.
    searched: usize,
    head_most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultipartState {
    Start,
    AfterBoundary,
    Head,
    Data,
    End,
    Done,
}

/// The finding of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartFound {
    /// The head of the next part with its empty line, at this place in the input.
    Head(Range<usize>),
    /// Data of the part, at this place in the input.
    Data(Range<usize>),
    /// The end of the part.
    PartEnd,
    /// The end of the body.
    End,
    /// The input must be given again, with more behind it.
    NeedsMore,
}

/// Why a body is not made of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MultipartFault {
    Malformed(&'static str),
    HeadTooLarge,
}

const NO_BOUNDARY: MultipartFault =
    MultipartFault::Malformed("the body does not begin with the boundary of its Content-Type");
const AFTER_BOUNDARY: MultipartFault =
    MultipartFault::Malformed("a boundary of the body is not followed by a line end");
const ENDS_EARLY: MultipartFault =
    MultipartFault::Malformed("the body ends before its last boundary");
const BEHIND_END: MultipartFault =
    MultipartFault::Malformed("the body does not end with its last boundary");

impl MultipartDecoder {
    /// `head_most` is the largest size of the head of one part, in bytes.
    pub(super) fn new(boundary: &str, head_most: usize) -> Self {
        let delimiter = format!("\r\n--{boundary}");
        MultipartDecoder {
            delimiter: Finder::new(&delimiter).into_owned(),
            state: MultipartState::Start,
            searched: 0,
            head_most,
        }
    }

    pub(super) fn set_head_most(&mut self, head_most: usize) {
        self.head_most = head_most;
    }

    /// Finds the next thing in the input. Returns how many bytes are not needed again, and it.
    /// `is_all`: nothing follows the input. After a fault the decoder is of no use.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        is_all: bool,
    ) -> Result<(usize, PartFound), MultipartFault> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let (length, found) = match self.state {
                MultipartState::Start => self.skip_first(rest)?,
                MultipartState::AfterBoundary => self.read_after_boundary(rest)?,
                MultipartState::Head => self.find_head(rest)?,
                MultipartState::Data => self.find_data(rest),
                MultipartState::End => self.find_end(rest, is_all)?,
                MultipartState::Done => (0, Some(PartFound::End)),
            };
            match found {
                None => used += length,
                Some(PartFound::NeedsMore) if is_all => {
                    let is_begun = self.state != MultipartState::Start;
                    return Err(if is_begun { ENDS_EARLY } else { NO_BOUNDARY });
                }
                Some(found) => return Ok((used + length, shifted(found, used))),
            }
        }
    }

    /// The first boundary has no line before it, so its line end is left out.
    fn skip_first(&mut self, input: &[u8]) -> Result<Decoded, MultipartFault> {
        let first = &self.delimiter.needle()[2..];
        let length = first.len();
        match input.get(..length) {
            Some(begin) if begin == first => {
                self.state = MultipartState::AfterBoundary;
                Ok((length, None))
            }
            None if first.starts_with(input) => NEEDS_MORE,
            _ => Err(NO_BOUNDARY),
        }
    }

    fn read_after_boundary(&mut self, input: &[u8]) -> Result<Decoded, MultipartFault> {
        self.state = match input {
            [b'\r', b'\n', ..] => MultipartState::Head,
            [b'-', b'-', ..] => MultipartState::End,
            [] | [b'\r'] | [b'-'] => return NEEDS_MORE,
            _ => return Err(AFTER_BOUNDARY),
        };
        self.searched = 0;
        Ok((2, None))
    }

    fn find_head(&mut self, input: &[u8]) -> Result<Decoded, MultipartFault> {
        // A head without fields is its empty line alone.
        let length = match input {
            [b'\r', b'\n', ..] => Some(0),
            _ => memchr::memmem::find(&input[self.searched..], b"\r\n\r\n")
                .map(|at| self.searched + at + 2),
        };
        // A head that is not found yet may have the first byte of its empty line.
        if length.unwrap_or(input.len().saturating_sub(1)) > self.head_most {
            return Err(MultipartFault::HeadTooLarge);
        }
        let Some(length) = length else {
            self.searched = input.len().saturating_sub(3);
            return NEEDS_MORE;
        };
        self.state = MultipartState::Data;
        Ok((length + 2, Some(PartFound::Head(0..length + 2))))
    }

    fn find_data(&mut self, input: &[u8]) -> Decoded {
        let delimiter = self.delimiter.needle();
        match self.delimiter.find(input) {
            Some(0) => {
                self.state = MultipartState::AfterBoundary;
                (delimiter.len(), Some(PartFound::PartEnd))
            }
            Some(at) => (at, Some(PartFound::Data(0..at))),
            None => match begun(input, delimiter) {
                0 => (0, Some(PartFound::NeedsMore)),
                at => (at, Some(PartFound::Data(0..at))),
            },
        }
    }

    fn find_end(&mut self, input: &[u8], is_all: bool) -> Result<Decoded, MultipartFault> {
        match input {
            b"" | b"\r\n" if is_all => {
                self.state = MultipartState::Done;
                Ok((input.len(), Some(PartFound::End)))
            }
            b"" | b"\r" | b"\r\n" if !is_all => NEEDS_MORE,
            _ => Err(BEHIND_END),
        }
    }
}

/// How many bytes are used, and the finding in them, if there is one.
type Decoded = (usize, Option<PartFound>);

const NEEDS_MORE: Result<Decoded, MultipartFault> = Ok((0, Some(PartFound::NeedsMore)));

/// Where the input ends with the beginning of the delimiter; its length if it does not.
fn begun(input: &[u8], delimiter: &[u8]) -> usize {
    let from = input.len().saturating_sub(delimiter.len() - 1);
    // A delimiter has one carriage return, at its begin.
    let begin = memchr::memrchr(b'\r', &input[from..]).map(|at| from + at);
    begin.filter(|at| delimiter.starts_with(&input[*at..])).unwrap_or(input.len())
}

/// The same, in an input that has `by` more bytes at its begin.
fn shifted(found: PartFound, by: usize) -> PartFound {
    match found {
        PartFound::Head(at) => PartFound::Head(at.start + by..at.end + by),
        PartFound::Data(at) => PartFound::Data(at.start + by..at.end + by),
        found => found,
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
