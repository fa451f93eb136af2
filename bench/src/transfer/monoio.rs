//! monoio on its io_uring driver, one runtime per thread. Its pipes cannot be read, so it has no
//! row for pipes.

use ::monoio::{
    io::{AsyncReadRent, AsyncWriteRentExt},
    net::UnixStream,
};

use super::{Medium, MessageCheck, PairPlan, Plan, Source, on_each_thread};
use crate::{rings, workload::Sample};

pub fn run(plan: Plan) -> Option<Sample> {
    if plan.medium == Medium::Pipe {
        return None;
    }
    let (time, _) = on_each_thread(
        plan,
        || rings::monoio().expect("a runtime on io_uring"),
        |runtime, pairs| runtime.block_on(transfer(plan, pairs)),
    );
    Some(Sample::timed(time))
}

async fn transfer(plan: Plan, pairs: Vec<u64>) {
    let mut tasks = Vec::new();
    for pair in pairs {
        let (writer, reader) = UnixStream::pair().expect("descriptors");
        tasks.push(::monoio::spawn(write(writer, plan.of(pair))));
        tasks.push(::monoio::spawn(read(reader, plan.of(pair))));
    }
    for task in tasks {
        task.await;
    }
}

async fn write(mut writer: UnixStream, plan: PairPlan) {
    let (mut source, message) = Source::new(plan);
    // monoio takes a Vec, whose alignment is malloc's choice.
    let mut message = message.to_vec();
    while source.advance(&mut message) {
        let result;
        (result, message) = writer.write_all(message).await;
        result.expect("a reader");
    }
}

async fn read(mut reader: UnixStream, plan: PairPlan) {
    let mut check = MessageCheck::new(plan);
    let mut buffer = vec![0; plan.bytes];
    loop {
        let result;
        (result, buffer) = reader.read(buffer).await;
        let count = result.expect("a read");
        if !check.take(&buffer[..count]).expect("the bytes written") {
            return;
        }
    }
}
