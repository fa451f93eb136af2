//! The items of `std::sync`, in use.

use super::std;
#[allow(deprecated)]
use std::sync::ONCE_INIT;
use std::{
    fmt::{Debug, Display},
    ops::{Deref, DerefMut},
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{
        Barrier, BarrierWaitResult, Condvar, LazyLock, LockResult, Mutex, MutexGuard, Once,
        OnceLock, OnceState, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockResult,
        WaitTimeoutResult,
    },
    time::Duration,
};

types! {
    Barrier, BarrierWaitResult, Condvar, LazyLock[(), ()], Mutex[()], MutexGuard['static, ()], Once,
    OnceLock[()], OnceState, RwLock[()], RwLockReadGuard['static, ()],
    RwLockWriteGuard['static, ()], WaitTimeoutResult,
}

methods! {
    Barrier {
        [const] fn new(n: usize) -> Barrier;
        fn wait(this: &Barrier) -> BarrierWaitResult;
    }
    BarrierWaitResult {
        fn is_leader(this: &BarrierWaitResult) -> bool;
    }
    Condvar {
        [const] fn new() -> Condvar;
        fn wait['a, T](this: &Condvar, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>>;
        fn wait_while['a, T, F](
            this: &Condvar, guard: MutexGuard<'a, T>, condition: F
        ) -> LockResult<MutexGuard<'a, T>>
            where [F: FnMut(&mut T) -> bool];
        fn wait_timeout_ms['a, T](
            this: &Condvar,
            guard: MutexGuard<'a, T>,
            ms: u32) -> LockResult<(MutexGuard<'a, T>, bool,
        )>;
        fn wait_timeout['a, T](
            this: &Condvar,
            guard: MutexGuard<'a, T>,
            dur: Duration) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult,
        )>;
        fn wait_timeout_while['a, T, F](
            this: &Condvar,
            guard: MutexGuard<'a, T>,
            dur: Duration,
            condition: F) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult,
        )>
            where [F: FnMut(&mut T) -> bool];
        fn notify_one(this: &Condvar);
        fn notify_all(this: &Condvar);
    }
    LazyLock {
        [const] fn new[T, F: FnOnce() -> T](f: F) -> LazyLock<T, F>;
        fn force_mut[T, F: FnOnce() -> T](this: &mut LazyLock<T, F>) -> &mut T;
        fn force[T, F: FnOnce() -> T](this: &LazyLock<T, F>) -> &T;
        fn get_mut[T, F](this: &mut LazyLock<T, F>) -> Option<&mut T>;
        fn get[T, F](this: &LazyLock<T, F>) -> Option<&T>;
    }
    Mutex {
        [const] fn new[T](t: T) -> Mutex<T>;
        fn lock[T: ?Sized](this: &Mutex<T>) -> LockResult<MutexGuard<'_, T>>;
        fn try_lock[T: ?Sized](this: &Mutex<T>) -> TryLockResult<MutexGuard<'_, T>>;
        fn is_poisoned[T: ?Sized](this: &Mutex<T>) -> bool;
        fn clear_poison[T: ?Sized](this: &Mutex<T>);
        fn into_inner[T](this: Mutex<T>) -> LockResult<T>;
        fn get_mut[T: ?Sized](this: &mut Mutex<T>) -> LockResult<&mut T>;
    }
    Once {
        [const] fn new() -> Once;
        fn call_once[F](this: &Once, f: F) where [F: FnOnce()];
        fn call_once_force[F](this: &Once, f: F) where [F: FnOnce(&OnceState)];
        fn is_completed(this: &Once) -> bool;
        fn wait(this: &Once);
        fn wait_force(this: &Once);
    }
    OnceLock {
        [const] fn new[T]() -> OnceLock<T>;
        fn get[T](this: &OnceLock<T>) -> Option<&T>;
        fn get_mut[T](this: &mut OnceLock<T>) -> Option<&mut T>;
        fn wait[T](this: &OnceLock<T>) -> &T;
        fn set[T](this: &OnceLock<T>, value: T) -> Result<(), T>;
        fn get_or_init[T, F](this: &OnceLock<T>, f: F) -> &T where [F: FnOnce() -> T];
        fn into_inner[T](this: OnceLock<T>) -> Option<T>;
        fn take[T](this: &mut OnceLock<T>) -> Option<T>;
    }
    OnceState {
        fn is_poisoned(this: &OnceState) -> bool;
    }
    RwLock {
        [const] fn new[T](t: T) -> RwLock<T>;
        fn read[T: ?Sized](this: &RwLock<T>) -> LockResult<RwLockReadGuard<'_, T>>;
        fn try_read[T: ?Sized](this: &RwLock<T>) -> TryLockResult<RwLockReadGuard<'_, T>>;
        fn write[T: ?Sized](this: &RwLock<T>) -> LockResult<RwLockWriteGuard<'_, T>>;
        fn try_write[T: ?Sized](this: &RwLock<T>) -> TryLockResult<RwLockWriteGuard<'_, T>>;
        fn is_poisoned[T: ?Sized](this: &RwLock<T>) -> bool;
        fn clear_poison[T: ?Sized](this: &RwLock<T>);
        fn into_inner[T](this: RwLock<T>) -> LockResult<T>;
        fn get_mut[T: ?Sized](this: &mut RwLock<T>) -> LockResult<&mut T>;
    }
    RwLockWriteGuard {
        fn downgrade['rwlock, T: ?Sized](
            s: RwLockWriteGuard<'rwlock, T>
        ) -> RwLockReadGuard<'rwlock, T>;
    }
    WaitTimeoutResult {
        fn timed_out(this: &WaitTimeoutResult) -> bool;
    }
}

impls! {
    [] Barrier: [Debug] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] BarrierWaitResult: [Debug] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] Condvar: [Debug] [Default] [RefUnwindSafe] [UnwindSafe] [Send] [Sync] [Unpin];
    [T: Debug, F] LazyLock<T, F>: [Debug];
    [T: Default] LazyLock<T>: [Default];
    [T, F: FnOnce() -> T] LazyLock<T, F>: [Deref] [DerefMut];
    [T: RefUnwindSafe + UnwindSafe, F: UnwindSafe] LazyLock<T, F>: [RefUnwindSafe];
    [T: Sync + Send, F: Send] LazyLock<T, F>: [Sync];
    [T: UnwindSafe, F: UnwindSafe] LazyLock<T, F>: [UnwindSafe];
    [T: Send, F: Send] LazyLock<T, F>: [Send];
    [T: Unpin, F: Unpin] LazyLock<T, F>: [Unpin];
    [T: Debug] Mutex<T>: [Debug];
    [T: Default] Mutex<T>: [Default];
    [T] Mutex<T>: [From<T>];
    [T] Mutex<T>: [RefUnwindSafe] [UnwindSafe];
    [T: Send] Mutex<T>: [Send] [Sync];
    [T: Unpin] Mutex<T>: [Unpin];
    [T: ?Sized + Debug] MutexGuard<'_, T>: [Debug];
    [T: ?Sized] MutexGuard<'_, T>: [Deref] [DerefMut];
    [T: ?Sized + Display] MutexGuard<'_, T>: [Display];
    [T: ?Sized + Sync] MutexGuard<'_, T>: [Sync];
    ['a, T: ?Sized] MutexGuard<'a, T>: [RefUnwindSafe] [Unpin] [UnwindSafe];
    [] Once: [Debug] [RefUnwindSafe] [UnwindSafe] [Send] [Sync] [Unpin];
    [T: Clone] OnceLock<T>: [Clone];
    [T: Debug] OnceLock<T>: [Debug];
    [T] OnceLock<T>: [Default] [From<T>];
    [T: PartialEq] OnceLock<T>: [PartialEq<OnceLock<T>>];
    [T: Eq] OnceLock<T>: [Eq];
    [T: RefUnwindSafe + UnwindSafe] OnceLock<T>: [RefUnwindSafe];
    [T: Send] OnceLock<T>: [Send];
    [T: Sync + Send] OnceLock<T>: [Sync];
    [T: UnwindSafe] OnceLock<T>: [UnwindSafe];
    [T: Unpin] OnceLock<T>: [Unpin];
    [] OnceState: [Debug] [Send] [Unpin] [UnwindSafe];
    [T: Debug] RwLock<T>: [Debug];
    [T: Default] RwLock<T>: [Default];
    [T] RwLock<T>: [From<T>];
    [T] RwLock<T>: [RefUnwindSafe] [UnwindSafe];
    [T: Send] RwLock<T>: [Send];
    [T: Send + Sync] RwLock<T>: [Sync];
    [T: Unpin] RwLock<T>: [Unpin];
    [T: ?Sized + Debug] RwLockReadGuard<'_, T>: [Debug];
    [T: ?Sized] RwLockReadGuard<'_, T>: [Deref];
    [T: ?Sized + Display] RwLockReadGuard<'_, T>: [Display];
    [T: ?Sized + Sync] RwLockReadGuard<'_, T>: [Sync];
    ['rwlock, T: RefUnwindSafe + ?Sized] RwLockReadGuard<'rwlock, T>: [RefUnwindSafe] [UnwindSafe];
    ['rwlock, T: ?Sized] RwLockReadGuard<'rwlock, T>: [Unpin];
    [T: ?Sized + Debug] RwLockWriteGuard<'_, T>: [Debug];
    [T: ?Sized] RwLockWriteGuard<'_, T>: [Deref] [DerefMut];
    [T: ?Sized + Display] RwLockWriteGuard<'_, T>: [Display];
    [T: ?Sized + Sync] RwLockWriteGuard<'_, T>: [Sync];
    ['rwlock, T: ?Sized] RwLockWriteGuard<'rwlock, T>: [RefUnwindSafe] [Unpin] [UnwindSafe];
    [] WaitTimeoutResult: [Clone] [Debug] [PartialEq<WaitTimeoutResult>] [Copy] [Eq]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
}

constants! {
    ONCE_INIT: Once;
}

lacks! {
    MutexGuard<'static, ()>: Send;
    RwLockReadGuard<'static, ()>: Send;
    RwLockWriteGuard<'static, ()>: Send;
}

left_to_std! {
    std::sync {
        types: Arc[()], LockResult[()], PoisonError[()], TryLockError[()], TryLockResult[()],
            Weak[()];
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), methods(), impls(), constants(), lacks()].concat()
}
