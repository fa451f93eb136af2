//! smol: readiness, on one thread or on several.

use std::{future::Future, os::fd::OwnedFd, thread, time::Instant};

use ::smol::{
    Async, Executor, Task,
    channel::bounded,
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::unix::UnixStream,
};

use super::{Buffer, Medium, MessageCheck, PairPlan, Plan, Source};
use crate::workload::Sample;

pub fn run(plan: Plan) -> Sample {
    let executor = Executor::new();
    let (stop, stopped) = bounded::<()>(1);
    thread::scope(|scope| {
        for _ in 1..plan.threads {
            let (executor, stopped) = (&executor, stopped.clone());
            // Not `future::block_on`, which never waits for descriptors.
            scope
                .spawn(move || ::smol::block_on(executor.run(async move { stopped.recv().await })));
        }
        let sample = ::smol::block_on(executor.run(measure(&executor, plan)));
        // The other threads end when the channel is closed.
        drop(stop);
        sample
    })
}

async fn measure(executor: &Executor<'_>, plan: Plan) -> Sample {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for pair in 0..plan.pairs {
        match plan.medium {
            Medium::Pipe => {
                let (reader, writer) = std::io::pipe().expect("descriptors");
                // A file, because a pipe of std is no type that smol takes.
                let [reader, writer] = [OwnedFd::from(reader), OwnedFd::from(writer)]
                    .map(|end| Async::new(std::fs::File::from(end)).expect("a pipe"));
                spawn_both(
                    executor,
                    &mut tasks,
                    write(writer, plan.of(pair)),
                    read(reader, plan.of(pair)),
                );
            }
            Medium::SocketPair => {
                let (writer, reader) = UnixStream::pair().expect("descriptors");
                spawn_both(
                    executor,
                    &mut tasks,
                    write(writer, plan.of(pair)),
                    read(reader, plan.of(pair)),
                );
            }
        }
    }
    for task in tasks {
        task.await;
    }
    Sample::timed(start.elapsed())
}

fn spawn_both<'a>(
    executor: &Executor<'a>,
    tasks: &mut Vec<Task<()>>,
    writer: impl Future<Output = ()> + Send + 'a,
    reader: impl Future<Output = ()> + Send + 'a,
) {
    tasks.push(executor.spawn(writer));
    tasks.push(executor.spawn(reader));
}

async fn write(mut writer: impl AsyncWrite + Unpin, plan: PairPlan) {
    let (mut source, mut message) = Source::new(plan);
    while source.advance(&mut message) {
        writer.write_all(&message).await.expect("a reader");
    }
}

async fn read(mut reader: impl AsyncRead + Unpin, plan: PairPlan) {
    let mut check = MessageCheck::new(plan);
    let mut buffer = Buffer::new(plan.bytes);
    loop {
        let count = reader.read(&mut buffer).await.expect("a read");
        if !check.take(&buffer[..count]).expect("the bytes written") {
            return;
        }
    }
}
