//! From an address to functions, files and lines.

use std::{
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    BacktraceFrame,
    objects::{Loads, loads},
};
use crate::core::panic;

/// The most addresses whose frames are kept. The fibers of a program are mostly in the same calls.
const KEPT: usize = 10_000;

static FRAMES: Mutex<Option<LookedUp>> = Mutex::new(None);

/// The frames that were looked up, while the same objects are loaded.
struct LookedUp {
    loads: Loads,
    frames: HashMap<usize, Arc<[BacktraceFrame]>>,
}

/// Looks up the call at an address: the function, and the functions into which it was inlined.
pub(super) fn frames_at(address: usize) -> Arc<[BacktraceFrame]> {
    let mut known = FRAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let loads = loads();
    let is_usable = |known: &&mut LookedUp| known.loads == loads && known.frames.len() < KEPT;
    let known = match known.as_mut().filter(is_usable) {
        Some(_) => known.as_mut(),
        None => Some(known.insert(LookedUp { loads, frames: HashMap::new() })),
    };
    let look_up = || panic::catch(|| look_up(address)).unwrap_or_default().into();
    known.map_or_else(look_up, |known| known.frames.entry(address).or_insert_with(look_up).clone())
}

fn look_up(address: usize) -> Vec<BacktraceFrame> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut::<c_void>(address), |symbol| {
        frames.push(BacktraceFrame {
            address,
            // Without the hash.
            function: symbol.name().map(|name| format!("{name:#}")),
            file: symbol.filename().map(|path| path.display().to_string()),
            line: symbol.lineno(),
        });
    });
    if frames.is_empty() {
        frames.push(BacktraceFrame { address, function: None, file: None, line: None });
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_address() {
        let address = frames_at as *const () as usize;
        for _ in 0..2 {
            let frames = frames_at(address + 1);
            let function = frames.last().unwrap().function.as_deref();
            assert!(function.unwrap().ends_with("symbols::frames_at"), "{frames:?}");
        }
        let nowhere = frames_at(8);
        assert_eq!(
            *nowhere,
            [BacktraceFrame { address: 8, function: None, file: None, line: None }]
        );
        assert_eq!(nowhere[0].to_string(), "0x8");
    }
}
