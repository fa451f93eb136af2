//! The page that the server sends: the head and the body of every answer.

use super::WriteMode;

/// The body is as much of this text, again and again, as its length needs.
const TEXT: &[u8] = b"Hello, world!\n";

/// The answer to every GET, apart from the fields about the connection.
#[derive(Clone, Debug)]
pub struct Page {
    head: Vec<u8>,
    body: Vec<u8>,
    is_copied: bool,
}

impl Page {
    /// A page with a body of this length.
    pub fn of(bytes: usize, mode: WriteMode) -> Self {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {bytes}\r\n");
        let body = TEXT.iter().copied().cycle().take(bytes).collect();
        Page { head: head.into_bytes(), body, is_copied: mode == WriteMode::Single }
    }

    /// The head, without the empty line behind it.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether head and body are copied into one buffer to be sent.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied
    }
}
