//! Reading lines and frames as views into one buffer.

use std::{
    fmt,
    io::{self, BufRead, ErrorKind, Read},
    ops::Range,
};

/// The bytes read at once, and the size of the first buffer.
const CHUNK: usize = 8 << 10;

/// The most bytes for which the buffer gets room before they arrive.
const MOST_EMPTY: usize = 64 << 10;

/// The default limit of the bytes of a line.
const LIMIT: usize = 64 << 10;

/// A buffered reader that returns lines, delimited parts and exact counts of bytes as views into
/// its buffer, with a limit on the length of a line.
///
/// [`BufReader`](std::io::BufReader) copies each line into the caller's `String`, and lets a peer
/// that never ends its line fill the memory. Here a line is a slice of the buffer until the next
/// call, and a line longer than the limit is an error. The inner reader is any [`Read`]: a socket,
/// a pipe, TLS.
///
/// A failed call takes nothing, because the data received so far stays for the next call. So a
/// cancelled call may be repeated.
///
/// # Cancellation
/// A call that has to read is a cancel point if a read of the inner reader is one.
///
/// # Examples
/// A reply of Redis consists of a line with a number, then that number of bytes:
/// ```
/// use ramie::io::LineReader;
///
/// let mut reply = LineReader::new(&b"$5\r\nhello\r\n+OK\r\n"[..]);
/// let count = reply.next_str()?.and_then(|line| line.strip_prefix('$')?.parse().ok());
/// assert_eq!(reply.exactly(count.unwrap())?, b"hello");
/// reply.skip(2)?;
/// assert_eq!(reply.next_line()?, Some(&b"+OK"[..]));
/// assert_eq!(reply.next_line()?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct LineReader<R> {
    inner: R,
    buffer: Vec<u8>,
    /// The data that has been read and not yet returned.
    unread: Range<usize>,
    limit: usize,
}

impl<R: Read> LineReader<R> {
    /// Makes a reader with a limit of 64 KiB a line. It allocates at the first read.
    pub fn new(inner: R) -> Self {
        Self::with_limit(inner, LIMIT)
    }

    /// Makes a reader whose lines have at most `limit` bytes, their ends not counted.
    pub fn with_limit(inner: R, limit: usize) -> Self {
        LineReader { inner, buffer: Vec::new(), unread: 0..0, limit }
    }

    /// Takes the next line without its end, `\n` or `\r\n`; `None` at the end of the input. Text
    /// after the last `\n` is a line, too, and a `\r` at its end belongs to it, as in std's
    /// [`lines`](BufRead::lines).
    ///
    /// # Errors
    /// `InvalidData`: the line is longer than the limit. It is not taken;
    /// [`skip_line`](Self::skip_line) discards it. Those of the inner reader.
    #[track_caller]
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        let line = match self.part(b"\n", 1)? {
            Part::Ended(line) if self.buffer[line.clone()].ends_with(b"\r") => {
                line.start..line.end - 1
            }
            Part::Ended(line) => line,
            Part::Last(rest) if rest.is_empty() => return Ok(None),
            Part::Last(rest) => rest,
        };
        if line.len() > self.limit {
            // A line that `part` accepted although it is too long, because its last byte may be
            // `\r`.
            self.unread.start = line.start;
            return Err(self.too_long());
        }
        Ok(Some(&self.buffer[line]))
    }

    /// Takes the next line as text; as [`next_line`](Self::next_line).
    ///
    /// # Errors
    /// As [`next_line`](Self::next_line). `InvalidData` also if the line is not UTF-8; then the
    /// line has been taken.
    #[track_caller]
    pub fn next_str(&mut self) -> io::Result<Option<&str>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        match std::str::from_utf8(line) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
        }
    }

    /// Takes the data before the next `delimiter`, and the delimiter with it; `None` at the end of
    /// the input.
    ///
    /// # Errors
    /// `InvalidData`: more than the limit comes before it; nothing is taken. `UnexpectedEof`: the
    /// input ends before it; nothing is taken. Those of the inner reader.
    ///
    /// # Panics
    /// The delimiter is empty.
    #[track_caller]
    pub fn until(&mut self, delimiter: &[u8]) -> io::Result<Option<&[u8]>> {
        assert!(!delimiter.is_empty(), "a delimiter has at least one byte");
        match self.part(delimiter, 0)? {
            Part::Ended(part) => Ok(Some(&self.buffer[part])),
            Part::Last(rest) if rest.is_empty() => Ok(None),
            Part::Last(rest) => {
                self.unread = rest;
                Err(ended_early("the delimiter"))
            }
        }
    }

    /// Takes exactly `count` bytes. The limit does not apply, because the caller chooses the count.
    /// The buffer grows as the bytes arrive, so a large count alone takes no memory.
    ///
    /// # Errors
    /// `UnexpectedEof`: the input ends before `count` bytes; nothing is taken. Those of the inner
    /// reader.
    #[track_caller]
    pub fn exactly(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.unread.len() < count {
            let missing = count - self.unread.len();
            if self.fill(missing.min(MOST_EMPTY))? == 0 {
                return Err(ended_early("as many bytes"));
            }
        }
        let start = self.unread.start;
        self.unread.start += count;
        Ok(&self.buffer[start..start + count])
    }

    /// Discards `count` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof`: the input ends before `count` bytes. Those of the inner reader. In both
    /// cases the bytes received so far are discarded.
    #[track_caller]
    pub fn skip(&mut self, mut count: u64) -> io::Result<()> {
        loop {
            let here = self.unread.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            self.unread.start += here;
            count -= here as u64;
            if count == 0 {
                return Ok(());
            }
            if self.fill(1)? == 0 {
                return Err(ended_early("as many bytes"));
            }
        }
    }

    /// Discards the next line, however long; returns whether there was one.
    ///
    /// # Errors
    /// Those of the inner reader. The received part of the line is discarded.
    #[track_caller]
    pub fn skip_line(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        loop {
            is_any |= !self.unread.is_empty();
            if let Some(end) = find(self.unread(), b"\n") {
                self.unread.start += end + 1;
                return Ok(true);
            }
            self.unread = 0..0;
            if self.fill(1)? == 0 {
                return Ok(is_any);
            }
        }
    }

    /// Returns the data that has been read from the inner reader and not yet taken.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    /// Returns the inner reader. Data read from it directly bypasses [`unread`](Self::unread).
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// As [`get_ref`](Self::get_ref), but mutably, for example to write the answer.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// Returns the inner reader, and discards the [`unread`](Self::unread) data.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Finds and takes the part before a delimiter, of at most `slack` bytes more than the limit.
    fn part(&mut self, delimiter: &[u8], slack: usize) -> io::Result<Part> {
        let limit = self.limit.saturating_add(slack);
        let mut searched = 0;
        loop {
            let start = self.unread.start;
            let found = find(&self.unread()[searched..], delimiter).map(|at| searched + at);
            if found.unwrap_or(self.unread.len().saturating_sub(delimiter.len() - 1)) > limit {
                return Err(self.too_long());
            }
            if let Some(len) = found {
                self.unread.start += len + delimiter.len();
                return Ok(Part::Ended(start..start + len));
            }
            // The beginning of the delimiter may be in the data already.
            searched = self.unread.len().saturating_sub(delimiter.len() - 1);
            if self.fill(1)? == 0 {
                let rest = self.unread.clone();
                self.unread = rest.end..rest.end;
                return Ok(Part::Last(rest));
            }
        }
    }

    /// Reads once, with room for `wanted` bytes at least; returns how many were read.
    fn fill(&mut self, wanted: usize) -> io::Result<usize> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        if self.buffer.len() - self.unread.end < wanted {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            let needed = (self.unread.end + wanted).next_multiple_of(CHUNK);
            if needed > self.buffer.len() {
                // The buffer doubles, so that the cost of a long line is proportional to its
                // length.
                self.buffer.resize(needed.max(2 * self.buffer.len()), 0);
            }
        }
        loop {
            match self.inner.read(&mut self.buffer[self.unread.end..]) {
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    #[cold]
    fn too_long(&self) -> io::Error {
        let limit = self.limit;
        let what = format!("longer than the limit of {limit} bytes (LineReader::with_limit)");
        io::Error::new(ErrorKind::InvalidData, what)
    }
}

enum Part {
    Ended(Range<usize>),
    Last(Range<usize>),
}

#[cold]
fn ended_early(wanted: &str) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the input ended before {wanted} came"))
}

fn find(bytes: &[u8], delimiter: &[u8]) -> Option<usize> {
    match *delimiter {
        // std's search in a reader compares eight bytes at a time; a loop over single bytes takes
        // four times as long.
        [byte] => {
            let mut rest = bytes;
            let taken = rest.skip_until(byte).expect("a slice does not fail");
            (taken > 0 && bytes[taken - 1] == byte).then(|| taken - 1)
        }
        _ => bytes.windows(delimiter.len()).position(|window| window == delimiter),
    }
}

/// Reads the unread data, then from the inner reader.
impl<R: Read> Read for LineReader<R> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            return self.inner.read(buf);
        }
        let count = self.unread.len().min(buf.len());
        buf[..count].copy_from_slice(&self.unread()[..count]);
        self.unread.start += count;
        Ok(count)
    }
}

impl<R: Read> BufRead for LineReader<R> {
    #[track_caller]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            self.fill(1)?;
        }
        Ok(self.unread())
    }

    fn consume(&mut self, count: usize) {
        self.unread.start = (self.unread.start + count).min(self.unread.end);
    }
}

impl<R: fmt::Debug> fmt::Debug for LineReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unread = self.unread.len();
        f.debug_struct("LineReader")
            .field("inner", &self.inner)
            .field("unread", &unread)
            .field("limit", &self.limit)
            .finish()
    }
}
