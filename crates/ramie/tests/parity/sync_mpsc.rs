//! The items of `std::sync::mpsc`, in use.

use super::std;
use std::{
    fmt::Debug,
    panic::{RefUnwindSafe, UnwindSafe},
    sync::mpsc::{
        self, IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, Sender, SyncSender,
        TryIter, TryRecvError, TrySendError,
    },
    time::Duration,
};

types! {
    IntoIter[()], Iter['static, ()], Receiver[()], Sender[()], SyncSender[()], TryIter['static, ()],
}

functions! {
    mpsc;
    fn channel[T]() -> (Sender<T>, Receiver<T>);
    fn sync_channel[T](bound: usize) -> (SyncSender<T>, Receiver<T>);
}

methods! {
    Receiver {
        fn try_recv[T](this: &Receiver<T>) -> Result<T, TryRecvError>;
        fn recv[T](this: &Receiver<T>) -> Result<T, RecvError>;
        fn recv_timeout[T](this: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError>;
        fn iter[T](this: &Receiver<T>) -> Iter<'_, T>;
        fn try_iter[T](this: &Receiver<T>) -> TryIter<'_, T>;
    }
    Sender {
        fn send[T](this: &Sender<T>, t: T) -> Result<(), SendError<T>>;
    }
    SyncSender {
        fn send[T](this: &SyncSender<T>, t: T) -> Result<(), SendError<T>>;
        fn try_send[T](this: &SyncSender<T>, t: T) -> Result<(), TrySendError<T>>;
    }
}

impls! {
    [T: Debug] IntoIter<T>: [Debug];
    [T] IntoIter<T>: [Iterator] [RefUnwindSafe] [Unpin] [UnwindSafe];
    [T: Send] IntoIter<T>: [Send];
    ['a, T: Debug ] Iter<'a, T>: [Debug];
    ['a, T] Iter<'a, T>: [Iterator] [RefUnwindSafe] [Unpin] [UnwindSafe];
    [T] Receiver<T>: [Debug] [IntoIterator] [RefUnwindSafe] [Unpin] [UnwindSafe];
    ['a, T] &'a Receiver<T>: [IntoIterator];
    [T: Send] Receiver<T>: [Send];
    [T] Sender<T>: [Clone] [Debug] [RefUnwindSafe] [Unpin] [UnwindSafe];
    [T: Send] Sender<T>: [Send] [Sync];
    [T] SyncSender<T>: [Clone] [Debug] [RefUnwindSafe] [Unpin] [UnwindSafe];
    [T: Send] SyncSender<T>: [Send] [Sync];
    ['a, T: Debug ] TryIter<'a, T>: [Debug];
    ['a, T] TryIter<'a, T>: [Iterator] [RefUnwindSafe] [Unpin] [UnwindSafe];
}

lacks! {
    Receiver<()>: Sync;
    IntoIter<()>: Sync;
    Iter<'static, ()>: Send, Sync;
    TryIter<'static, ()>: Send, Sync;
}

left_to_std! {
    std::sync::mpsc {
        types: RecvError, RecvTimeoutError, SendError[()], TryRecvError, TrySendError[()];
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), functions(), methods(), impls(), lacks()].concat()
}
