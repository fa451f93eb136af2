//! tokio: readiness, on one thread or on several.

use std::{future::Future, time::Instant};

use ::tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixStream, unix::pipe},
    runtime::Builder,
};

use super::{Buffer, Medium, MessageCheck, PairPlan, Plan, Source};
use crate::workload::Sample;

pub fn run(plan: Plan) -> Sample {
    let mut builder = match plan.threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(plan.threads).enable_io();
    builder.build().expect("a runtime").block_on(measure(plan))
}

async fn measure(plan: Plan) -> Sample {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for pair in 0..plan.pairs {
        match plan.medium {
            Medium::Pipe => {
                let (writer, reader) = pipe::pipe().expect("descriptors");
                spawn_both(&mut tasks, write(writer, plan.of(pair)), read(reader, plan.of(pair)));
            }
            Medium::SocketPair => {
                let (writer, reader) = UnixStream::pair().expect("descriptors");
                spawn_both(&mut tasks, write(writer, plan.of(pair)), read(reader, plan.of(pair)));
            }
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    Sample::timed(start.elapsed())
}

fn spawn_both(
    tasks: &mut Vec<::tokio::task::JoinHandle<()>>,
    writer: impl Future<Output = ()> + Send + 'static,
    reader: impl Future<Output = ()> + Send + 'static,
) {
    tasks.push(::tokio::spawn(writer));
    tasks.push(::tokio::spawn(reader));
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
