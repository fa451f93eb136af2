//! The strands that may hold the other end of a channel, or a lock to read, for which a strand
//! waits in a standstill.
//!
//! A channel does not know who holds its ends, because counting them by strand would cost each
//! clone and each move. So the stacks of the other strands are searched for the channel's address,
//! as a handle that a strand holds lies in its frames. A handle in the heap is not found, and an
//! address in an old frame may be. So the report says `may`.

use std::ops::Range;

use crate::{
    core::{
        wait::park::Subject,
        worker::{StrandFacts, WaitFacts},
    },
    sync::raw_rwlock,
};

/// The most strands that are named for one wait.
const NAMED: usize = 3;
/// How far in front of the address of a channel a handle may point: to the counts of the `Arc`.
const FRONT_OF_CHANNEL: usize = 128;

/// Describes who may have to act before the wait can end; `None` if another part of the report
/// does. `strands` have copies of their frames, `is_complete` says whether all of them; `label`
/// names one.
pub(super) fn describe(
    waiting: &StrandFacts,
    strands: &[&StrandFacts],
    is_complete: bool,
    label: impl Fn(&StrandFacts) -> String,
) -> Option<String> {
    let wait = waiting.wait.as_ref()?;
    let object = object_of(wait)?;
    let is_other = |strand: &&&StrandFacts| {
        // The frames of all that wait for it refer to it.
        strand.wait.as_ref().is_some_and(|other| other.detail[0] != wait.detail[0])
    };
    let refers = |strand: &&&StrandFacts| {
        let start = strand.wait.as_ref().map_or(0, |wait| wait.record_end);
        strand.frames.as_ref().is_some_and(|frames| frames.refers_to(&object, start))
    };
    let holders: Vec<_> = strands.iter().filter(is_other).filter(refers).collect();
    let is_channel = wait.kind.subject == Subject::Channel;
    if holders.is_empty() {
        return is_complete.then(|| nobody(is_channel).to_owned());
    }
    let what = if is_channel { "its other end" } else { "it" };
    let named = holders.iter().take(NAMED).filter_map(|holder| {
        let wait = holder.wait.as_ref()?;
        Some(format!("{}, which waits for {} at {}", label(holder), wait.kind.name, wait.location))
    });
    let named: Vec<_> = named.collect();
    let more = match holders.len() - named.len() {
        0 => String::new(),
        more => format!("; and by {more} more"),
    };
    Some(format!("{what} may be held by {}{more}", named.join("; by ")))
}

/// The text if no other strand's frames refer to what a strand waits for. A sender or a receiver is
/// an address, so a frame that holds one has it. A guard to read need not lie in its holder's
/// frames, because the compiler can find the lock by a constant or by the address of an `Arc`, and
/// the waiting strand may hold one itself.
fn nobody(is_channel: bool) -> &'static str {
    match is_channel {
        true => {
            "no other strand's stack refers to it, so its other end was leaked, or is held in the \
             heap or in a static"
        }
        false => {
            "no other strand's stack refers to it, so this strand may hold it to read itself, or a \
             guard may be leaked, in the heap, or at a place that the compiler knows"
        }
    }
}

/// The addresses by which frames refer to what the strand waits for.
fn object_of(wait: &WaitFacts) -> Option<Range<usize>> {
    let address = wait.detail[0] as usize;
    match wait.kind.subject {
        Subject::Channel => Some(address.saturating_sub(FRONT_OF_CHANNEL)..address + 1),
        // A writer is known by its id.
        Subject::RwLock if wait.lock[1] == 0 => {
            let guarded = address.saturating_sub(raw_rwlock::WORD_OFFSET);
            Some(guarded..guarded + 1)
        }
        _ => None,
    }
}
