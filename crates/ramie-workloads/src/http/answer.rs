//! The client's side of HTTP/1.1 without I/O: checks the bytes of one answer after another.

use std::mem::MaybeUninit;

use httparse::{Response, Status};

/// The largest head of an answer, in bytes, and the most fields in it.
const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 16;

/// Compares the answers of one connection with the expected one. One request is on the way at a
/// time, so an answer ends where the received bytes end.
#[derive(Debug)]
pub(super) struct AnswerCheck<'a> {
    body: &'a [u8],
    /// The part of a head that has arrived so far.
    begun: Vec<u8>,
    /// How many bytes of the body have arrived; `None` before the end of the head.
    at: Option<usize>,
}

impl<'a> AnswerCheck<'a> {
    /// Expects answers with this body.
    pub(super) fn new(body: &'a [u8]) -> Self {
        AnswerCheck { body, begun: Vec::new(), at: None }
    }

    /// Checks the bytes of one receive. Returns whether the answer is complete; then the next bytes
    /// are those of the next answer.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if self.at.is_some() {
            return self.take_body(bytes);
        }
        if self.begun.is_empty() {
            return match self.head_of(bytes)? {
                Some(length) => self.take_body(&bytes[length..]),
                None => {
                    self.begun.extend_from_slice(bytes);
                    Ok(false)
                }
            };
        }
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(bytes);
        match self.head_of(&begun)? {
            Some(length) => self.take_body(&begun[length..]),
            None => {
                self.begun = begun;
                Ok(false)
            }
        }
    }

    /// Checks the head; returns its length, or `None` if it is incomplete.
    fn head_of(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut answer = Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut answer,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(Status::Partial) => return Err("an answer has a head without an end".to_owned()),
            Err(error) => return Err(format!("an answer is not HTTP/1.1 ({error})")),
        };
        let status = answer.code.unwrap_or_default();
        if status != 200 {
            return Err(format!("an answer has the status {status} instead of 200"));
        }
        let is_length =
            |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("content-length");
        let announced = answer.headers.iter().find(is_length).map(|field| field.value);
        if announced.and_then(number) != Some(self.body.len()) {
            let announced = announced.map(String::from_utf8_lossy);
            return Err(format!(
                "an answer announces a body of {} bytes instead of {}",
                announced.as_deref().unwrap_or("an unknown number of"),
                self.body.len()
            ));
        }
        Ok(Some(length))
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let at = self.at.unwrap_or(0);
        let end = at + bytes.len();
        match self.body.get(at..end) {
            Some(expected) if expected == bytes => {}
            Some(_) => return Err("an answer has other bytes in its body".to_owned()),
            None => return Err("an answer has more bytes than it announces".to_owned()),
        }
        let is_complete = end == self.body.len();
        self.at = (!is_complete).then_some(end);
        Ok(is_complete)
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::AnswerCheck;

    const BODY: &[u8] = b"a body that is not so short";

    fn answer(status: &str, length: usize, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 {status}\r\nA: b\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    }

    #[test]
    fn answers_are_checked_in_pieces_of_any_size() {
        let good = answer("200 OK", BODY.len(), BODY);
        for piece in 1..=good.len() {
            let mut check = AnswerCheck::new(BODY);
            for _ in 0..3 {
                let pieces = good.chunks(piece);
                let last = pieces.len() - 1;
                for (number, piece) in pieces.enumerate() {
                    assert_eq!(check.take(piece), Ok(number == last), "{number} of {piece:?}");
                }
            }
        }
    }

    #[track_caller]
    fn complaint(bytes: &[u8]) -> String {
        let whole = AnswerCheck::new(BODY).take(bytes).expect_err("the answer is wrong");
        let mut check = AnswerCheck::new(BODY);
        let split = bytes.chunks(5).find_map(|piece| check.take(piece).err());
        assert_eq!(split, Some(whole.clone()));
        whole
    }

    #[test]
    fn wrong_answers_are_found() {
        let length = BODY.len();
        assert!(complaint(&answer("404 Not Found", length, BODY)).contains("status 404"));
        assert!(complaint(&answer("200 OK", length + 1, BODY)).contains("28 bytes instead of 27"));
        assert!(complaint(b"HTTP/1.1 200 OK\r\n\r\n").contains("unknown number"));
        assert!(complaint(b"HTTQ").contains("not HTTP/1.1"));
        let more = [BODY, b"x"].concat();
        assert!(complaint(&answer("200 OK", length, &more)).contains("more bytes"));
        for at in 0..length {
            let mut wrong = BODY.to_vec();
            wrong[at] ^= 1;
            assert!(complaint(&answer("200 OK", length, &wrong)).contains("other bytes"));
        }
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
        assert!(complaint(&endless).contains("without an end"));
    }
}
