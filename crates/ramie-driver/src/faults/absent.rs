//! Stands in for `faults/mod.rs` in a build without the feature `faults`: no fault is injected, and
//! the compiler omits the code that would handle faults, because these types have no values.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::Pool;
use crate::caps::Caps;
use crate::error::OpenError;
use crate::fixed::FixedFile;
use crate::op::OpFrame;
use crate::wake::Waker;

// Same name as `faults::Faults`: stands in for it in builds without faults.
#[derive(Debug)]
pub(crate) enum Faults {}

impl Faults {
    pub(crate) const fn from_env() -> Result<Option<Faults>, OpenError> {
        Ok(None)
    }
}

// Same name as `faults::Faulty`: stands in for it in builds without faults.
#[derive(Debug)]
pub(crate) struct Faulty<B>(Infallible, PhantomData<B>);

impl<B: Backend> Faulty<B> {
    #[expect(clippy::boxed_local, reason = "the wrapper keeps the box")]
    pub(crate) fn around(_inner: Box<B>, faults: Faults) -> Self {
        match faults {}
    }

    pub(crate) fn with(self, _faults: Faults) -> Self {
        match self.0 {}
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn caps(&self) -> &Caps {
        match self.0 {}
    }

    fn submit(&mut self, _frame: &OpFrame) -> Submitted {
        match self.0 {}
    }

    fn attach(&mut self, _frame: &OpFrame, _file: &FixedFile) {
        match self.0 {}
    }

    fn cancel(&mut self, _frame: &OpFrame) {
        match self.0 {}
    }

    fn cancel_all(&mut self, _is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        match self.0 {}
    }

    fn needs_turn(&self) -> bool {
        match self.0 {}
    }

    fn turn(&mut self, _wait: Wait) -> io::Result<()> {
        match self.0 {}
    }

    fn pollable(&mut self) -> io::Result<OwnedFd> {
        match self.0 {}
    }

    fn turn_to_poll(&mut self) -> io::Result<bool> {
        match self.0 {}
    }

    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        match self.0 {}
    }

    fn in_flight(&self) -> usize {
        match self.0 {}
    }

    fn waker(&self) -> Waker {
        match self.0 {}
    }

    fn drain(&mut self) {
        match self.0 {}
    }

    fn pool(&mut self) -> &mut Pool {
        match self.0 {}
    }

    fn has_surplus(&self) -> bool {
        match self.0 {}
    }

    fn give_back_surplus(&mut self) {
        match self.0 {}
    }
}
