//! A client that reads responses strictly, so that a response which is framed wrongly fails a test.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// Longer than any limit of a test; a server that does not answer fails the test then.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// Bytes that were received and belong to later answers.
    received: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// Whether the body ended with the connection.
    pub(crate) is_until_close: bool,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(own, _)| own == name);
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {:?}", self.fields);
        first
    }

    pub(crate) fn closes(&self) -> bool {
        self.field("connection") == Some("close")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

pub(crate) fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The server has closed the connection between two answers.
    Closed,
    /// The connection ended within an answer.
    Cut,
    Reset,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, received: Vec::new() }
    }

    /// Sends bytes. A server may have closed the connection before it has read all.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()) {
            Err(error) if is_gone(&error) => {}
            sent => sent.expect("a server that takes bytes"),
        }
    }

    /// Ends the client's side.
    pub(crate) fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer(false).unwrap_or_else(|lost| panic!("no answer: {lost:?}"))
    }

    /// The answer to a HEAD.
    #[track_caller]
    pub(crate) fn answer_to_head(&mut self) -> Answer {
        self.try_answer(true).unwrap_or_else(|lost| panic!("no answer: {lost:?}"))
    }

    #[track_caller]
    pub(crate) fn answers_until_close(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            match self.try_answer(false) {
                Ok(answer) => answers.push(answer),
                Err(Lost::Closed) => return answers,
                Err(lost) => panic!("{lost:?} behind {answers:?}"),
            }
        }
    }

    /// Expects that the server closes the connection, and sends nothing before.
    #[track_caller]
    pub(crate) fn expect_close(&mut self) {
        match self.try_answer(false) {
            Err(Lost::Closed) => {}
            other => panic!("expected a close, not {other:?}"),
        }
    }

    /// The next answer, with its framing checked.
    pub(crate) fn try_answer(&mut self, is_head: bool) -> Result<Answer, Lost> {
        let end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            match (self.receive(), self.received.is_empty()) {
                (Ok(true), _) => {}
                (Ok(false), true) => return Err(Lost::Closed),
                (Ok(false), false) => return Err(Lost::Cut),
                (Err(lost), _) => return Err(lost),
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let (status, fields) = parse_head(&head);
        let mut answer =
            Answer { status, fields, body: vec![], trailers: vec![], is_until_close: false };
        let length = answer.field("content-length").map(|text| text.parse().expect("a length"));
        let coding = answer.field("transfer-encoding").map(str::to_owned);
        assert!(length.is_none() || coding.is_none(), "two framings: {answer:?}");
        if matches!(status, 100..200 | 204) {
            assert!(length.is_none() && coding.is_none(), "{status} has a framing: {answer:?}");
        }
        if is_head || matches!(status, 100..200 | 204 | 304) {
            return Ok(answer);
        }
        match (length, coding.as_deref()) {
            (Some(length), _) => answer.body = self.take(length)?,
            (None, Some(coding)) => {
                assert_eq!(coding, "chunked");
                self.take_chunks(&mut answer)?;
            }
            (None, None) => {
                while self.receive()? {}
                answer.body = std::mem::take(&mut self.received);
                answer.is_until_close = true;
            }
        }
        Ok(answer)
    }

    fn take_chunks(&mut self, answer: &mut Answer) -> Result<(), Lost> {
        loop {
            let line = self.take_line()?;
            let size = usize::from_str_radix(&line, 16).expect("the size of a chunk");
            if size == 0 {
                break;
            }
            answer.body.extend(self.take(size)?);
            assert_eq!(self.take(2)?, b"\r\n");
        }
        loop {
            let line = self.take_line()?;
            if line.is_empty() {
                return Ok(());
            }
            answer.trailers.push(parse_field(&line));
        }
    }

    fn take_line(&mut self) -> Result<String, Lost> {
        loop {
            if let Some(at) = find(&self.received, b"\r\n") {
                let line: Vec<u8> = self.received.drain(..at + 2).collect();
                return Ok(String::from_utf8(line[..at].to_vec()).expect("a line of text"));
            }
            if !self.receive()? {
                return Err(Lost::Cut);
            }
        }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<Vec<u8>, Lost> {
        while self.received.len() < length {
            if !self.receive()? {
                return Err(Lost::Cut);
            }
        }
        Ok(self.received.drain(..length).collect())
    }

    /// Returns false at the end of the stream.
    fn receive(&mut self) -> Result<bool, Lost> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.received.extend_from_slice(&piece[..read]);
                Ok(true)
            }
            Err(error) if is_gone(&error) => Err(Lost::Reset),
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn parse_head(head: &[u8]) -> (u16, Vec<(String, String)>) {
    let text = std::str::from_utf8(head).expect("a head of text");
    let mut lines = text.strip_suffix("\r\n\r\n").expect("an end").split("\r\n");
    let line = lines.next().unwrap_or_default();
    assert!(line.starts_with("HTTP/1.1 "), "{text:?}");
    let status = line[9..12].parse().expect("a status");
    assert_eq!(&line[12..13], " ", "{text:?}");
    (status, lines.map(parse_field).collect())
}

fn parse_field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(": ").expect("a field");
    assert!(!name.is_empty() && !name.contains([' ', '\t']), "{line:?}");
    (name.to_ascii_lowercase(), value.to_owned())
}
