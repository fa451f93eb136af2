//! compio on io_uring, one runtime per thread.

use ::compio::{
    BufResult,
    fs::pipe,
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
    runtime::spawn,
};

use super::{Medium, MessageCheck, PairPlan, Plan, Source, on_each_thread};
use crate::{rings, workload::Sample};

pub fn run(plan: Plan) -> Sample {
    let (time, _) = on_each_thread(
        plan,
        || rings::compio().expect("a runtime on io_uring"),
        |runtime, pairs| runtime.block_on(transfer(plan, pairs)),
    );
    Sample::timed(time)
}

async fn transfer(plan: Plan, pairs: Vec<u64>) {
    let mut tasks = Vec::new();
    for pair in pairs {
        match plan.medium {
            Medium::Pipe => {
                let (reader, writer) = pipe::anonymous().await.expect("descriptors");
                tasks.push(spawn(write(writer, plan.of(pair))));
                tasks.push(spawn(read(reader, plan.of(pair))));
            }
            Medium::SocketPair => {
                let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("descriptors");
                let reader = UnixStream::from_std(reader).expect("a stream");
                let writer = UnixStream::from_std(writer).expect("a stream");
                tasks.push(spawn(write(writer, plan.of(pair))));
                tasks.push(spawn(read(reader, plan.of(pair))));
            }
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

async fn write(mut writer: impl AsyncWrite, plan: PairPlan) {
    let (mut source, message) = Source::new(plan);
    // compio takes a Vec, whose alignment is malloc's choice.
    let mut message = message.to_vec();
    while source.advance(&mut message) {
        let result;
        BufResult(result, message) = writer.write_all(message).await;
        result.expect("a reader");
    }
}

async fn read(mut reader: impl AsyncRead, plan: PairPlan) {
    let mut check = MessageCheck::new(plan);
    let mut buffer = Vec::with_capacity(plan.bytes);
    loop {
        let result;
        buffer.clear();
        BufResult(result, buffer) = reader.read(buffer).await;
        let count = result.expect("a read");
        if !check.take(&buffer[..count]).expect("the bytes written") {
            return;
        }
    }
}
