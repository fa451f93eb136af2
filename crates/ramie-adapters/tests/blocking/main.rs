//! Values that block: who owns them, in every way in which a call can end.

mod abandoned;
mod calls;
mod cancelled;
mod panics;
mod pooled;
mod tracked;
