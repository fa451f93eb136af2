//! The protocol of every server of the bench: the same parser, the same answer.

use std::{io, mem::MaybeUninit, sync::OnceLock};

use ramie_workloads::mix::{compute, iterations_per_ms};

/// The text that bodies repeat; once, it is the body of `ramie serve --hello`.
const TEXT: &str = "Hello, world!\n";

/// What every server of this process does for a request.
static DUTY: OnceLock<Duty> = OnceLock::new();

struct Duty {
    answer: Vec<u8>,
    body: String,
    iterations: u64,
}

/// The parameters of a server.
#[derive(clap::Args, Clone, Copy)]
pub struct Service {
    /// Length of the body of an answer, in bytes.
    #[arg(long, default_value_t = TEXT.len() as u32)]
    pub body: u32,
    /// CPU time that the server computes for each request, in microseconds.
    #[arg(long, default_value_t = 0)]
    pub work: u32,
}

impl Service {
    /// That of `ramie serve --hello`.
    pub const HELLO: Service = Service { body: TEXT.len() as u32, work: 0 };

    /// The arguments that select it.
    pub fn arguments(self) -> [String; 2] {
        [format!("--body={}", self.body), format!("--work={}", self.work)]
    }

    /// Makes it the service of all servers of this process, which has not answered anything yet.
    pub fn begin(self) {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            self.body
        );
        let body: String = TEXT.chars().cycle().take(self.body as usize).collect();
        let answer = (head + &body).into_bytes();
        let per_ms = if self.work == 0 { 0 } else { iterations_per_ms() };
        let _ = DUTY.set(Duty { answer, body, iterations: per_ms * u64::from(self.work) / 1000 });
    }
}

/// The largest head of a request, in bytes, and the most fields in it.
pub const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;

/// Answers all requests that are complete and returns their length.
pub fn answer(input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    let duty = DUTY.get().ok_or_else(|| io::Error::other("no service has begun"))?;
    let mut used = 0;
    loop {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(&input[used..], &mut fields);
        match parsed.map_err(io::Error::other)? {
            httparse::Status::Complete(length) => used += length,
            httparse::Status::Partial => return Ok(used),
        }
        compute(1, duty.iterations);
        output.extend_from_slice(&duty.answer);
    }
}

/// Does the work of a request and returns the body of the answer, for servers with their own
/// protocol.
///
/// # Panics
/// If no service has begun.
pub fn body() -> &'static str {
    let duty = DUTY.get().expect("a service has begun");
    compute(1, duty.iterations);
    &duty.body
}

/// The protocol state of one connection: input that is not parsed yet, and answers to be sent.
pub struct Exchange {
    input: Box<[u8]>,
    filled: usize,
    pub output: Vec<u8>,
}

impl Exchange {
    pub fn new() -> Self {
        let input = vec![0; HEAD_MAX].into_boxed_slice();
        Exchange { input, filled: 0, output: Vec::new() }
    }

    /// Space for the next bytes. Empty if a head is too large: then nothing can be received, and
    /// the connection ends.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// Records that `count` bytes were put into `space`.
    pub fn received(&mut self, count: usize) -> io::Result<()> {
        self.filled += count;
        let used = answer(&self.input[..self.filled], &mut self.output)?;
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }

    /// Like `received`, for bytes in another buffer. They are copied only if a request is
    /// incomplete.
    pub fn received_elsewhere(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.filled > 0 {
            let space = self.space().get_mut(..bytes.len());
            space.ok_or_else(|| io::Error::other("a head too large"))?.copy_from_slice(bytes);
            return self.received(bytes.len());
        }
        let used = answer(bytes, &mut self.output)?;
        let rest = &bytes[used..];
        self.input[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::{Service, answer};

    /// The service of all tests, because a process has only one.
    pub const TESTED: Service = Service { body: 30, work: 1 };

    #[test]
    fn each_request_gets_the_answer_of_the_service() {
        TESTED.begin();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut output = Vec::new();
        let twice_and_a_part = [request.as_slice(), request, b"GET"].concat();
        assert_eq!(answer(&twice_and_a_part, &mut output).unwrap(), 2 * request.len());
        let one = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 30\r\n\r\n\
                   Hello, world!\nHello, world!\nHe";
        assert_eq!(String::from_utf8(output).unwrap(), one.repeat(2));
    }
}
