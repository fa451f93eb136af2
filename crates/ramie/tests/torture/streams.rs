//! Bytes from one end to another: all that were sent arrive, whichever strand is cancelled and
//! when.

use std::{
    io::{BufWriter, Read, Write},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use ramie::{
    cancel::{bytes_moved, is_cancelled, shield, unsent_bytes},
    fiber, io,
};

use crate::{common::Random, ledger::Ledger};

pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// Sends a random amount through a connection, and takes it out at the other end.
pub(crate) fn transfer<W: Write + Send, R: Read + Send>(
    ledger: &Ledger,
    mut random: Random,
    (writer, mut reader): (W, R),
) {
    let data = pattern(1 + random.below(300_000) as usize);
    let sent = AtomicUsize::new(0);
    let mut received = Vec::new();
    fiber::scope(|s| {
        s.spawn(|| {
            let _token = ledger.token("sender");
            sent.store(send(&mut random, writer, &data), SeqCst);
        });
        let _token = ledger.token("receiver");
        receive(&mut reader, &mut received);
    });
    assert!(received == data[..sent.load(SeqCst)], "what was sent has arrived, and no more");
}

/// Reads to the end; bytes that a cancel leaves behind are read under a shield.
pub(crate) fn receive(reader: &mut impl Read, received: &mut Vec<u8>) {
    let mut part = vec![0; 10_000];
    loop {
        match reader.read(&mut part) {
            Ok(0) => return,
            Ok(count) => received.extend_from_slice(&part[..count]),
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                shield(|| reader.read_to_end(received)).unwrap();
                return;
            }
        }
    }
}

/// Sends in one of the ways there are; returns how many bytes went out, by the results of the
/// calls.
pub(crate) fn send(random: &mut Random, mut writer: impl Write, data: &[u8]) -> usize {
    match random.below(4) {
        0 => send_by_writes(random, &mut writer, data),
        1 => send_by_write_all(random, &mut writer, data),
        2 => send_by_copy(&mut writer, data),
        _ => send_buffered(random, &mut writer, data),
    }
}

fn send_by_writes(random: &mut Random, writer: &mut impl Write, data: &[u8]) -> usize {
    let mut sent = 0;
    while sent < data.len() {
        let end = data.len().min(sent + 1 + random.below(50_000) as usize);
        match writer.write(&data[sent..end]) {
            Ok(count) => sent += count,
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                break;
            }
        }
    }
    sent
}

fn send_by_write_all(random: &mut Random, writer: &mut impl Write, data: &[u8]) -> usize {
    let mut sent = 0;
    while sent < data.len() {
        let end = data.len().min(sent + 1 + random.below(100_000) as usize);
        match writer.write_all(&data[sent..end]) {
            Ok(()) => sent = end,
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                return sent + bytes_moved(&error).expect("it counts");
            }
        }
    }
    sent
}

fn send_by_copy(writer: &mut impl Write, data: &[u8]) -> usize {
    let mut rest = data;
    match io::copy(&mut rest, writer) {
        Ok(count) => count as usize,
        Err(error) => {
            assert!(is_cancelled(&error), "{error}");
            let sent = bytes_moved(&error).expect("it counts");
            assert_eq!(sent + unsent_bytes(&error).len() + rest.len(), data.len());
            sent
        }
    }
}

fn send_buffered(random: &mut Random, writer: &mut impl Write, data: &[u8]) -> usize {
    let mut buffered = BufWriter::with_capacity(8000, writer);
    let mut taken = 0;
    while taken < data.len() {
        let end = data.len().min(taken + 1 + random.below(10_000) as usize);
        match buffered.write_all(&data[taken..end]) {
            Ok(()) => taken = end,
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                taken += bytes_moved(&error).unwrap_or(0);
                break;
            }
        }
    }
    shield(|| buffered.flush()).unwrap();
    taken
}
