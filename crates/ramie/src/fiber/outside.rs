//! Spawns into another runtime than that of the caller, from any thread.
#![allow(unsafe_code)]

use std::{io, panic::Location, ptr, sync::Arc};

use ramie_driver::sys::HandedOut;

use super::{
    Builder, JoinHandle, Place,
    builder::{Closure, start_counted_thread},
    join::RawHandle,
};
use crate::core::{
    strand::{self, SpawnOptions, StrandHeader},
    worker::{self, RuntimeRef, ThreadStrands, Worker, Workers},
};

impl Builder {
    /// Spawns a strand of `runtime`. The caller needs no worker of its own.
    ///
    /// # Errors
    /// As [`Builder::spawn`]; and the end of the runtime has begun. The closure is dropped.
    #[track_caller]
    pub(crate) fn spawn_into<F, T>(
        self,
        runtime: &RuntimeRef,
        f: F,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.check()?;
        let raw = match runtime {
            RuntimeRef::Workers(workers) => self.enter_workers(workers, f, spawned_at),
            RuntimeRef::ThreadStrands(threads) => self.start_outside(threads, f, spawned_at),
        }?;
        Ok(JoinHandle::new(raw))
    }

    fn enter_workers<F, T>(
        self,
        workers: &Workers,
        f: F,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<RawHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = match self.place {
            Place::Any => None,
            Place::Worker(index) => Some(workers.check_place(index)?),
            Place::LeastLoaded => Some(workers.least_loaded()),
        };
        // On an error the closure is dropped after these.
        let admission = workers.entrance.admit()?;
        let header = admission.take_header(false)?;
        install(header, f, spawned_at);
        let queued = HandedOut::<Closure>::new();
        // The only worker of a runtime gets its closures through its inbox, as placed ones.
        let is_placed = place.is_some();
        header.attributes.install(ptr::null(), SpawnOptions { is_placed, ..self.options });
        let handle = RawHandle::new(header);
        workers.enqueue_from_outside(&admission, header, place);
        queued.settle();
        Ok(handle)
    }

    fn start_outside<F, T>(
        self,
        threads: &Arc<ThreadStrands>,
        f: F,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<RawHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let builder = self.thread_builder();
        let admission = threads.entrance.admit()?;
        let header = admission.take_header(true)?;
        install(header, f, spawned_at);
        header.attributes.install(ptr::null(), self.options);
        // Once counted, the strand keeps the runtime from ending. If the thread cannot be made, the
        // closure's destructor runs, which may spawn, too.
        let counted = threads.add(header);
        drop(admission);
        start_counted_thread(builder, &worker::current(), header, Some(counted), None)
    }

    /// Spawns a fiber on a worker that another loop of this thread drives, between two turns.
    ///
    /// # Errors
    /// As [`Builder::spawn_local`]; and the end of the runtime has begun. The closure is dropped.
    pub(crate) fn spawn_between_turns<F, T>(
        self,
        worker: &Worker,
        f: F,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        let workers = worker.workers().expect("another loop drives workers of runtimes only");
        let header = {
            // The entrance stays open until the closure is counted.
            let _admission = workers.entrance.admit()?;
            let header = worker.headers.take(false)?;
            worker.shared.note_spawned();
            header
        };
        install(header, f, spawned_at);
        let queued = HandedOut::<Closure>::new();
        header.attributes.install(ptr::null(), self.options);
        let handle = RawHandle::new(header);
        worker::queue_between_turns(worker, header);
        queued.settle();
        Ok(JoinHandle::new(handle))
    }
}

/// Puts a closure into a fresh header for a strand that is spawned from outside.
fn install<F, T>(header: &'static StrandHeader, f: F, spawned_at: &'static Location<'static>)
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    header.note_spawn(spawned_at);
    // SAFETY: a fresh header; closure and value own all they refer to.
    unsafe { strand::install(header, f) };
}
