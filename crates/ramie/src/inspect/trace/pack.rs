//! Packing of events: about seven bytes for each of 32, because the same few words come again and
//! again. Sending them is the most expensive part of a trace.
//!
//! | part of a packed event | bytes |
//! |---|---|
//! | the kind (5 bits), a bit for each of the words 1 to 3 that is whole (3), the number of bytes of the time less 1 (3) | 2 |
//! | the time in ticks since that of the event before, or since 0, in zigzag code | 1 to 8 |
//! | each of the words 1 to 3: whole, or the place in the table at which it was last | 8 or 1 |
//!
//! The table has 256 places, at first all 0. Each word is put into it at the place that
//! [`place_of`] gives. The table and the time begin anew with each chunk, so a chunk can be read
//! without the others.

use super::chunk::Unread;
use crate::core::trace::EventWords;

/// The most bytes of an event: each part is written by whole words.
const MOST: usize = 2 + 8 + 3 * 8;
/// The bits of the time in an event.
const TICK_BITS: u32 = 56;
const KIND_BITS: u16 = 5;
const WHOLE: [u16; 3] = [1 << 5, 1 << 6, 1 << 7];
const TIME_SHIFT: u16 = 8;

type Table = [u64; 256];

/// The place of a word in the table.
#[inline(always)]
fn place_of(word: u64) -> u8 {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Zigzag code: small numbers of either sign become small numbers.
#[inline(always)]
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unzigzag(code: u64) -> i64 {
    (code >> 1).cast_signed() ^ -((code & 1).cast_signed())
}

/// The difference of two times, whose upper bits are cut off.
#[inline(always)]
fn difference(time: u64, before: u64) -> i64 {
    let shift = 64 - TICK_BITS;
    (time.wrapping_sub(before) << shift).cast_signed() >> shift
}

/// Appends the events, packed. Calls `note` with each event that has a word which was not in the
/// table.
pub(super) fn pack(events: &[EventWords], bytes: &mut Vec<u8>, mut note: impl FnMut(&EventWords)) {
    let start = bytes.len();
    bytes.resize(start + events.len() * MOST, 0);
    let mut table: Table = [0; 256];
    let (mut at, mut before) = (start, 0);
    for event in events {
        let place = &mut bytes[at..at + MOST];
        let time = event[0] >> 8;
        let code = zigzag(difference(time, before));
        before = time;
        let length = ((71 - (code | 1).leading_zeros()) / 8) as usize;
        place[2..10].copy_from_slice(&code.to_le_bytes());
        let mut head = (event[0] & 0x1f) as u16 | (length as u16 - 1) << TIME_SHIFT;
        let mut end = 2 + length;
        for (word, flag) in event[1..].iter().zip(WHOLE) {
            let slot = place_of(*word);
            let is_known = table[usize::from(slot)] == *word;
            table[usize::from(slot)] = *word;
            let written = if is_known { u64::from(slot) } else { *word };
            place[end..end + 8].copy_from_slice(&written.to_le_bytes());
            end += if is_known { 1 } else { 8 };
            head |= if is_known { 0 } else { flag };
        }
        place[..2].copy_from_slice(&head.to_le_bytes());
        if head & (WHOLE[0] | WHOLE[1] | WHOLE[2]) != 0 {
            note(event);
        }
        at += end;
    }
    bytes.truncate(at);
}

/// Calls `each` with the events, up to the end or to a place at which they are damaged.
pub(super) fn unpack(mut bytes: Unread<'_>, mut each: impl FnMut(&EventWords)) {
    let mut table: Table = [0; 256];
    let mut before = 0;
    while let Some(event) = unpack_one(&mut bytes, &mut table, &mut before) {
        each(&event);
    }
}

fn unpack_one(bytes: &mut Unread<'_>, table: &mut Table, before: &mut u64) -> Option<EventWords> {
    let head = u16::from_le_bytes(bytes.bytes(2)?.try_into().ok()?);
    let length = usize::from(head >> TIME_SHIFT & 7) + 1;
    let mut code = [0; 8];
    code[..length].copy_from_slice(bytes.bytes(length)?);
    let time = before.wrapping_add_signed(unzigzag(u64::from_le_bytes(code)));
    *before = time & ((1 << TICK_BITS) - 1);
    let mut event = [*before << 8 | u64::from(head & ((1 << KIND_BITS) - 1)), 0, 0, 0];
    for (word, flag) in event[1..].iter_mut().zip(WHOLE) {
        *word = match head & flag {
            0 => table[usize::from(bytes.bytes(1)?[0])],
            _ => bytes.u64()?,
        };
        table[usize::from(place_of(*word))] = *word;
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(bytes: &[u8]) -> Vec<EventWords> {
        let mut events = Vec::new();
        unpack(Unread(bytes), |event| events.push(*event));
        events
    }

    #[test]
    fn events_come_back() {
        let mut state = 1_u64;
        let mut random = |bits: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32 ^ state) >> (64 - bits)
        };
        let mut events: Vec<EventWords> = vec![[0x12, 0, 0, 0], [!0xe0, 0, 1, u64::MAX]];
        let mut time = 1 << 40;
        for _ in 0..5_000 {
            time += random(24);
            let jump = if random(6) == 0 { random(50) } else { random(8) };
            let head = (time ^ jump) << 8 | random(5);
            events.push([head, random(4) << 32, random(3), random(2).wrapping_neg()]);
        }
        let mut bytes = vec![7];
        let mut noted = 0;
        pack(&events, &mut bytes, |_| noted += 1);
        assert_eq!(unpacked(&bytes[1..]), events);
        // Each word that was not in the table is noted, and the others are not.
        assert!((4..2_000).contains(&noted), "{noted}");
        assert!(bytes.len() < events.len() * 10, "{} bytes", bytes.len());
        for length in 1..200 {
            let cut = unpacked(&bytes[1..length]);
            assert_eq!(cut, events[..cut.len()]);
        }
    }
}
