//! Values that block: their owner, for every way in which a call can end.

mod abandoned;
mod calls;
mod cancelled;
mod panics;
mod pooled;
mod tracked;
