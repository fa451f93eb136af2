//! Lines and frames as views, from whatever comes in whatever pieces.

use std::{
    io::{BufRead, ErrorKind, Read, Result, Write},
    time::Duration,
};

use crate::common::{Random, everywhere};
use ramie::{
    cancel::{is_cancelled, with_timeout},
    io::{self, LineReader},
};

/// A reader that returns its bytes in pieces, and `Interrupted` every second time.
struct Pieces<'a> {
    bytes: &'a [u8],
    random: Random,
    is_interrupted: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        let count = 1 + self.random.below(buf.len().min(20_000) as u64) as usize;
        self.bytes.read(&mut buf[..count])
    }
}

#[test]
fn lines_are_those_of_std_regardless_of_the_pieces() {
    let mut random = Random::new("lines");
    for _ in 0..50 {
        let mut text = Vec::new();
        for _ in 0..random.below(40) {
            let bound = if random.below(4) == 0 { 30_000 } else { 30 };
            let len = random.below(bound) as usize;
            text.resize(text.len() + len, b'a' + random.below(26) as u8);
            text.extend_from_slice(
                [&b"\n"[..], b"\r\n", b"\r\r\n", b"\n\n"][random.below(4) as usize],
            );
        }
        text.resize(text.len() + random.below(3) as usize, b'z');
        // Without a line feed it is no line's end.
        text.resize(text.len() + random.below(3) as usize, b'\r');
        let seed = random.below(u64::MAX);
        let pieces =
            Pieces { bytes: &text, random: Random::from_seed(seed), is_interrupted: false };
        let mut reader = LineReader::new(pieces);
        for line in text.lines() {
            assert!(reader.next_str().unwrap() == Some(line.unwrap().as_str()));
        }
        assert_eq!(reader.next_line().unwrap(), None);
        assert_eq!(reader.next_line().unwrap(), None);
    }
}

#[test]
fn a_carriage_return_that_ends_the_input_is_kept() {
    let mut reader = LineReader::with_limit(&b"line\r\n\r"[..], 4);
    assert_eq!(reader.next_line().unwrap(), Some(&b"line"[..]));
    assert_eq!(reader.next_line().unwrap(), Some(&b"\r"[..]));
    assert_eq!(reader.next_line().unwrap(), None);
    // It counts.
    let mut reader = LineReader::with_limit(&b"line\r"[..], 4);
    assert_eq!(reader.next_line().unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(reader.unread(), b"line\r");
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_a_longer_one_stays() {
    for end in ["\n", "\r\n", ""] {
        let text = format!("four{end}");
        let mut reader = LineReader::with_limit(text.as_bytes(), 4);
        assert_eq!(reader.next_line().unwrap(), Some(&b"four"[..]), "{end:?}");

        let text = format!("fiver{end}");
        let mut reader = LineReader::with_limit(text.as_bytes(), 4);
        for _ in 0..2 {
            let error = reader.next_line().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("limit of 4 bytes"), "{error}");
        }
        assert!(reader.skip_line().unwrap());
        assert_eq!(reader.next_line().unwrap(), None, "{end:?}");
        assert!(!reader.skip_line().unwrap());
    }
    let mut reader = LineReader::with_limit(std::io::repeat(b'x'), 100_000);
    assert_eq!(reader.next_line().unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(reader.unread().len() < 300_000, "an endless line does not fill the memory");
}

#[test]
fn parts_are_taken_up_to_a_delimiter_of_many_bytes() {
    let mut random = Random::new("parts");
    let text = b"one--two---three--\r--";
    for _ in 0..100 {
        let pieces = Pieces {
            bytes: text,
            random: Random::from_seed(random.below(u64::MAX)),
            is_interrupted: false,
        };
        let mut reader = LineReader::with_limit(pieces, 6);
        for part in ["one", "two", "-three", "\r"] {
            assert_eq!(reader.until(b"--").unwrap(), Some(part.as_bytes()));
        }
        assert_eq!(reader.until(b"--").unwrap(), None);
    }
    let mut reader = LineReader::new(&b"unended-"[..]);
    assert_eq!(reader.until(b"--").unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(reader.unread(), b"unended-");
    assert_eq!(reader.next_str().unwrap(), Some("unended-"));
}

#[test]
fn counts_of_bytes_are_exact_or_nothing_is_taken() {
    let text: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
    let mut reader = LineReader::with_limit(&text[..], 1);
    assert_eq!(reader.exactly(0).unwrap(), b"");
    assert!(reader.exactly(20_000).unwrap() == &text[..20_000]);
    reader.skip(10_000).unwrap();
    for count in [20_001, isize::MAX as usize, usize::MAX] {
        assert_eq!(reader.exactly(count).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
    assert!(reader.exactly(20_000).unwrap() == &text[30_000..]);
    reader.skip(0).unwrap();
    assert_eq!(reader.skip(1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn it_is_a_reader_that_goes_on_where_the_lines_ended() {
    let mut reader = LineReader::new(&b"head\nbody of bytes"[..]);
    assert_eq!(reader.next_line().unwrap(), Some(&b"head"[..]));
    assert_eq!(reader.fill_buf().unwrap(), b"body of bytes");
    reader.consume(5);
    let mut word = [0; 2];
    reader.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"of");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " bytes");
    assert!(format!("{reader:?}").contains("unread: 0"));
    let mut reader = LineReader::new(&b"\xff\nnext\n"[..]);
    assert_eq!(reader.next_str().unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(reader.next_str().unwrap(), Some("next"));
}

#[test]
fn a_call_that_was_cancelled_takes_nothing() {
    everywhere(|| {
        let (read, mut write) = io::pipe().unwrap();
        let mut reader = LineReader::new(read);
        write.write_all(b"half").unwrap();
        for _ in 0..3 {
            let late = with_timeout(Duration::from_millis(1), || reader.next_line().map(drop));
            let error = late.unwrap_err().into_value().unwrap_err();
            assert!(is_cancelled(&error), "{error}");
        }
        write.write_all(b" and half\n").unwrap();
        assert_eq!(reader.next_str().unwrap(), Some("half and half"));
    });
}
