//! The items of `std::thread`, in use.

use super::std;
use std::{
    cell::{Cell, RefCell},
    error::Error,
    fmt::{Debug, Display},
    hash::Hash,
    io,
    panic::{RefUnwindSafe, UnwindSafe},
    thread::{
        self, AccessError, Builder, JoinHandle, LocalKey, Scope, ScopedJoinHandle, Thread, ThreadId,
    },
    time::Duration,
};

types! {
    AccessError, Builder, JoinHandle[()], LocalKey[()], Scope['static, 'static],
    ScopedJoinHandle['static, ()], Thread, ThreadId,
}

functions! {
    thread;
    fn current() -> Thread;
    fn park();
    fn park_timeout(dur: Duration);
    fn park_timeout_ms(ms: u32);
    fn scope['env, F, T](f: F) -> T where [F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T];
    fn sleep(dur: Duration);
    fn sleep_ms(ms: u32);
    fn spawn[F, T](f: F) -> JoinHandle<T>
        where [F: FnOnce() -> T + Send + 'static, T: Send + 'static];
    fn yield_now();
}

methods! {
    Builder {
        fn new() -> Builder;
        fn name(this: Builder, name: String) -> Builder;
        fn stack_size(this: Builder, size: usize) -> Builder;
        fn spawn[F, T](this: Builder, f: F) -> io::Result<JoinHandle<T>>
            where [F: FnOnce() -> T + Send + 'static, T: Send + 'static];
        [unsafe] fn spawn_unchecked[F, T](this: Builder, f: F) -> io::Result<JoinHandle<T>>
            where [F: FnOnce() -> T + Send, T: Send];
        fn spawn_scoped['scope, 'env, F, T](
            this: Builder, scope: &'scope Scope<'scope, 'env>, f: F
        ) -> io::Result<ScopedJoinHandle<'scope, T>>
            where [F: FnOnce() -> T + Send + 'scope, T: Send + 'scope];
    }
    JoinHandle {
        fn thread[T](this: &JoinHandle<T>) -> &Thread;
        fn join[T](this: JoinHandle<T>) -> thread::Result<T>;
        fn is_finished[T](this: &JoinHandle<T>) -> bool;
    }
    LocalKey {
        fn with[T: 'static, F, R](this: &'static LocalKey<T>, f: F) -> R where [F: FnOnce(&T) -> R];
        fn try_with[T: 'static, F, R](this: &'static LocalKey<T>, f: F) -> Result<R, AccessError>
            where [F: FnOnce(&T) -> R];
    }
    LocalKey[Cell<_>] {
        fn set[T: 'static](this: &'static LocalKey<Cell<T>>, value: T);
        fn get[T: Copy + 'static](this: &'static LocalKey<Cell<T>>) -> T;
        fn take[T: Default + 'static](this: &'static LocalKey<Cell<T>>) -> T;
        fn replace[T: 'static](this: &'static LocalKey<Cell<T>>, value: T) -> T;
    }
    LocalKey[RefCell<_>] {
        fn with_borrow[T: 'static, F, R](this: &'static LocalKey<RefCell<T>>, f: F) -> R
            where [F: FnOnce(&T) -> R];
        fn with_borrow_mut[T: 'static, F, R](this: &'static LocalKey<RefCell<T>>, f: F) -> R
            where [F: FnOnce(&mut T) -> R];
        fn set[T: 'static](this: &'static LocalKey<RefCell<T>>, value: T);
        fn take[T: Default + 'static](this: &'static LocalKey<RefCell<T>>) -> T;
        fn replace[T: 'static](this: &'static LocalKey<RefCell<T>>, value: T) -> T;
    }
    Scope {
        fn spawn['scope, 'env, F, T](
            this: &'scope Scope<'scope, 'env>, f: F
        ) -> ScopedJoinHandle<'scope, T>
            where [F: FnOnce() -> T + Send + 'scope, T: Send + 'scope];
    }
    ScopedJoinHandle {
        fn thread['me, 'scope, T](this: &'me ScopedJoinHandle<'scope, T>) -> &'me Thread;
        fn join['scope, T](this: ScopedJoinHandle<'scope, T>) -> thread::Result<T>;
        fn is_finished['scope, T](this: &ScopedJoinHandle<'scope, T>) -> bool;
    }
    Thread {
        fn unpark(this: &Thread);
        fn id(this: &Thread) -> ThreadId;
        fn name(this: &Thread) -> Option<&str>;
    }
}

impls! {
    [] AccessError: [Clone] [Debug] [Display] [Error] [PartialEq<AccessError>] [Copy] [Eq]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] Builder: [Debug] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [T] JoinHandle<T>: [Debug] [Unpin];
    [T: Send] JoinHandle<T>: [Send] [Sync];
    [T: 'static] LocalKey<T>: [Debug];
    [T] LocalKey<T>: [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] Scope<'_, '_>: [Debug];
    ['scope, 'env] Scope<'scope, 'env>: [RefUnwindSafe] [Send] [Sync] [Unpin];
    ['scope, T] ScopedJoinHandle<'scope, T>: [Debug] [Unpin];
    ['scope, T: Send] ScopedJoinHandle<'scope, T>: [Send] [Sync];
    [] Thread: [Clone] [Debug] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] ThreadId: [Clone] [Debug] [Hash] [PartialEq<ThreadId>] [Copy] [Eq] [RefUnwindSafe] [Send]
        [Sync] [Unpin] [UnwindSafe];
}

left_to_std! {
    std::thread {
        types: Result[()];
        functions: available_parallelism, panicking;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), functions(), methods(), impls()].concat()
}
