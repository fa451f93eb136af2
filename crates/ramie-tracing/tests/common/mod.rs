//! A log of lines in memory, and each kind of runtime.
#![allow(dead_code, unreachable_pub)]

use std::{
    io,
    sync::{Arc, Mutex},
};

use ramie::{Driver, Runtime, Strands};
use ramie_tracing::PerFiber;
use tracing::{Dispatch, Subscriber, span::Id};
use tracing_subscriber::{
    Layer,
    fmt::MakeWriter,
    layer::{Context, SubscriberExt},
    registry,
    registry::LookupSpan,
};

/// The text that a subscriber has written.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines so far, sorted, because strands on several threads write in any order.
    #[track_caller]
    pub fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).expect("text");
        let mut lines: Vec<_> = text.lines().map(|line| line.trim_start().to_owned()).collect();
        lines.sort();
        lines
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// The events in the lives of spans, in order: `+name` entered, `-name` exited, `xname` closed.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    pub fn taken(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }

    fn note<S>(&self, sign: &str, id: &Id, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let name = context.span(id).expect("a span that is open").name();
        self.0.lock().unwrap().push(format!("{sign}{name}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.note("+", id, &context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.note("-", id, &context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.note("x", &id, &context);
    }
}

/// A dispatcher that writes lines such as `INFO outer:inner: text`, and its log.
pub fn log() -> (Dispatch, Log) {
    let log = Log::default();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(log.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time();
    (Dispatch::new(PerFiber::new(registry().with(layer))), log)
}

/// A dispatcher that records the events of spans.
pub fn recorder() -> (Dispatch, Events) {
    let events = Events::default();
    (Dispatch::new(PerFiber::new(registry().with(events.clone()))), events)
}

/// Runs `f` with each driver on one worker and on two, and with strands that are threads.
pub fn on_each(f: impl Fn()) {
    let try_runtime = |driver, workers, strands| {
        let builder = Runtime::builder().driver(driver).workers(workers).strands(strands);
        match builder.build() {
            Ok(runtime) => runtime.run(&f),
            // A container may forbid io_uring.
            Err(error) => assert!(matches!(driver, Driver::Uring), "{error}"),
        }
    };
    for driver in [Driver::Uring, Driver::Poll] {
        try_runtime(driver, 1, Strands::Fibers);
        try_runtime(driver, 2, Strands::Fibers);
        try_runtime(driver, 1, Strands::Threads);
    }
}

pub fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}
