//! Sections that must fail, which proves that the harness notices what it looks for.

use std::{thread, time::Duration};

use crate::harness::{Section, Tried};

pub(super) const SECTIONS: [Section; 2] = [
    Section { is_canary: true, ..Section::new("blocks", "canaries.rs", blocks) },
    Section { is_canary: true, ..Section::new("computes", "canaries.rs", computes) },
];

fn blocks() -> Tried {
    thread::sleep(Duration::from_millis(100));
    Ok(())
}

fn computes() -> Tried {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        std::hint::spin_loop();
    }
    Ok(())
}
