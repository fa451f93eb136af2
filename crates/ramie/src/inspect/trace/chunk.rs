//! The chunks of a trace: writing them, and reading their numbers and texts.

/// The tags of chunks.
pub(super) const HEAD: &[u8; 4] = b"RMTR";
pub(super) const TIME: &[u8; 4] = b"TIME";
pub(super) const BUFFER: &[u8; 4] = b"BUFR";
pub(super) const TEXTS: &[u8; 4] = b"TEXT";
pub(super) const EVENTS: &[u8; 4] = b"EVTS";
pub(super) const STRAND: &[u8; 4] = b"STRD";
pub(super) const DONE: &[u8; 4] = b"DONE";

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// The index of a worker that has none.
pub(super) const NO_INDEX: u32 = u32::MAX;
/// The most bytes of a text; the rest is left out.
const MOST_TEXT: usize = 4096;

/// A chunk that is being written.
pub(super) struct Chunk(Vec<u8>);

impl Chunk {
    pub(super) fn new(tag: &[u8; 4]) -> Chunk {
        Chunk::reusing(Vec::new(), tag)
    }

    /// The same, in the memory of an earlier chunk.
    pub(super) fn reusing(mut bytes: Vec<u8>, tag: &[u8; 4]) -> Chunk {
        bytes.clear();
        bytes.extend(tag);
        bytes.extend([0; 4]);
        Chunk(bytes)
    }

    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.floor_char_boundary(MOST_TEXT)];
        let mut with_length = self.u32(bytes.len() as u32);
        with_length.0.extend(bytes);
        with_length
    }

    /// Lets `write` append bytes.
    pub(super) fn with(mut self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(&mut self.0);
        self
    }

    /// The bytes of the whole chunk.
    pub(super) fn end(mut self) -> Vec<u8> {
        let length = (self.0.len() - 8) as u32;
        self.0[4..8].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The rest of a chunk, or of a trace, that has not been read.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a>(pub(super) &'a [u8]);

impl<'a> Unread<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.u32()?;
        Some(String::from_utf8_lossy(self.bytes(length as usize)?).into_owned())
    }

    /// The next chunk; none: the trace ends, or is cut off.
    pub(super) fn chunk(&mut self) -> Option<(&'a [u8], Unread<'a>)> {
        let mut ahead = *self;
        let tag = ahead.bytes(4)?;
        let length = ahead.u32()?;
        let content = ahead.bytes(length as usize)?;
        *self = ahead;
        Some((tag, Unread(content)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back() {
        let mut bytes = Chunk::new(HEAD).u32(7).text("seven").u64(u64::MAX).end();
        bytes
            .extend(Chunk::new(DONE).with(|bytes| bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 9])).end());
        let mut rest = Unread(&bytes);
        let (tag, mut content) = rest.chunk().unwrap();
        assert_eq!(tag, HEAD);
        assert_eq!(content.u32(), Some(7));
        assert_eq!(content.text().as_deref(), Some("seven"));
        assert_eq!(content.u64(), Some(u64::MAX));
        assert_eq!(content.u32(), None);
        let (tag, mut content) = rest.chunk().unwrap();
        assert_eq!((tag, content.u64(), content.0.len()), (&DONE[..], Some(1), 1));
        assert!(rest.chunk().is_none());
        assert!(Unread(&bytes[..bytes.len() - 1]).chunk().is_some());
        assert!(Unread(&bytes[..10]).chunk().is_none());
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let long = "é".repeat(MOST_TEXT);
        let bytes = Chunk::new(HEAD).text(&format!("x{long}")).end();
        let text = Unread(&bytes[8..]).text().unwrap();
        assert_eq!(text.len(), MOST_TEXT - 1);
        assert!(text.ends_with('é'));
    }
}
