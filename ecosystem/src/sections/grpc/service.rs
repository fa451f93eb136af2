//! The service: one message with a text, and a method of each kind.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use ramie::{
    channel::{self, Receiver},
    fiber,
    future::RecvFuture,
};
use tonic::{Request, Response, Status, Streaming, codegen::tokio_stream::Stream};

include!(concat!(env!("OUT_DIR"), "/ecosystem.Echo.rs"));

/// `message Text { string text = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

/// What a channel of Ramie yields, as a stream of futures.
pub(super) struct Incoming<T> {
    receiver: Receiver<T>,
    next: RecvFuture<T>,
}

impl<T> Incoming<T> {
    pub(super) fn new(receiver: Receiver<T>) -> Self {
        let next = (&receiver).into_future();
        Incoming { receiver, next }
    }

    /// A stream of values that are there already.
    pub(super) fn of(values: impl IntoIterator<Item = T>) -> Self {
        let (sender, receiver) = channel::unbounded();
        values.into_iter().for_each(|value| drop(sender.send(value)));
        Incoming::new(receiver)
    }
}

impl<T: Unpin> Stream for Incoming<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let received = std::task::ready!(Pin::new(&mut self.next).poll(context));
        self.next = (&self.receiver).into_future();
        Poll::Ready(received.ok())
    }
}

/// How many methods were cancelled.
pub(super) static CANCELLED: Count = Count(AtomicU32::new(0));

pub(super) struct Count(AtomicU32);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until it is this; the harness limits the time.
    pub(super) fn wait_for(&self, count: u32) {
        while self.0.load(Ordering::Relaxed) < count {
            fiber::sleep(Duration::from_millis(1));
        }
    }
}

pub(super) struct EchoService;

#[tonic::async_trait]
impl echo_server::Echo for EchoService {
    async fn unary(&self, request: Request<Text>) -> Result<Response<Text>, Status> {
        match request.into_inner().text {
            text if text == "fail" => Err(Status::invalid_argument("as you wish")),
            text if text == "slow" => {
                // A plain call that waits: the method has a fiber of its own.
                let mut ticks = ramie::time::interval(Duration::from_millis(5));
                loop {
                    ticks.tick().map_err(|_| {
                        CANCELLED.add();
                        Status::deadline_exceeded("too slow")
                    })?;
                }
            }
            text => Ok(Response::new(Text { text: text.to_uppercase() })),
        }
    }

    async fn up(&self, request: Request<Streaming<Text>>) -> Result<Response<Text>, Status> {
        let mut texts = Vec::new();
        let mut stream = request.into_inner();
        while let Some(Text { text }) = stream.message().await? {
            texts.push(text);
        }
        Ok(Response::new(Text { text: texts.join(" ") }))
    }

    type DownStream = Incoming<Result<Text, Status>>;

    async fn down(&self, request: Request<Text>) -> Result<Response<Self::DownStream>, Status> {
        let Text { text } = request.into_inner();
        let (sender, receiver) = channel::bounded(1);
        fiber::spawn(move || {
            for number in 1..=3 {
                fiber::sleep(Duration::from_millis(2));
                // The client may be gone.
                let _ = sender.send(Ok(Text { text: format!("{text} {number}") }));
            }
        });
        Ok(Response::new(Incoming::new(receiver)))
    }

    type BothStream = Incoming<Result<Text, Status>>;

    async fn both(
        &self,
        request: Request<Streaming<Text>>,
    ) -> Result<Response<Self::BothStream>, Status> {
        let mut stream = request.into_inner();
        let (sender, receiver) = channel::bounded(1);
        fiber::spawn_local(move || {
            while let Ok(Some(Text { text })) = ramie::future::block_on(stream.message()) {
                if sender.send(Ok(Text { text: text.to_uppercase() })).is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(Incoming::new(receiver)))
    }
}
