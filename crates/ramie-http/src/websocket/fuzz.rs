//! The target of fuzzing: frames from a client.

use std::{
    io::{self, IoSlice},
    sync::{Arc, Mutex},
    time::Duration,
};

use ramie::cancel;
use tungstenite::protocol::WebSocketConfig;

use super::{Message, WebSocket};
use crate::{
    connection::Upgraded,
    fuzz::{Random, targets},
    io::{Duplex, Input},
};

/// The most bytes of a message.
const MOST: usize = 100;

/// A client that sends these pieces, and then its end.
struct ScriptedClient(Mutex<Vec<Vec<u8>>>);

impl Duplex for ScriptedClient {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut pieces = self.0.lock().unwrap();
        let Some(piece) = pieces.first_mut() else { return Ok(0) };
        let count = piece.len().min(buf.len());
        buf[..count].copy_from_slice(&piece[..count]);
        piece.drain(..count);
        if piece.is_empty() {
            pieces.remove(0);
        }
        Ok(count)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn write_all(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self) {}
}

/// The messages of the client, and how the connection ended.
fn received(pieces: Vec<Vec<u8>>) -> (Vec<Message>, Result<(), io::ErrorKind>) {
    let client = Arc::new(ScriptedClient(Mutex::new(pieces)));
    let upgraded = Upgraded::new(client, Input::default(), cancel::scope(|scope| scope.handle()));
    let config = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
    let socket = WebSocket::new(upgraded, config, None, Duration::from_secs(1));
    let mut socket = socket.expect("a stream without errors");
    let mut messages = Vec::new();
    loop {
        match socket.read() {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, Ok(())),
            Err(error) => return (messages, Err(error.kind())),
        }
    }
}

fn check_frames(input: &[u8], random: &mut Random) {
    let whole = if input.is_empty() { Vec::new() } else { vec![input.to_vec()] };
    let (messages, end) = received(whole);
    let pieces = random.pieces(input).into_iter().map(<[u8]>::to_vec).collect();
    assert_eq!(received(pieces), (messages.clone(), end), "it depends on the pieces");
    let total: usize = messages.iter().map(Message::len).sum();
    assert!(total <= input.len(), "more data than bytes");
    assert!(messages.iter().all(|message| message.len() <= MOST));
    let is_known = |kind| matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof);
    assert!(end.is_ok() || end.is_err_and(is_known), "{end:?}");
}

targets! {
    "frames" check_frames any_frames_are_messages_or_refused any_frames_for_long,
}
