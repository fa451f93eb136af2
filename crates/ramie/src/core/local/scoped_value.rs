//! Values that are bound for the duration of a call, for all calls inside and for the strands of
//! scopes opened there.
//!
//! While [`fiber_local!`](crate::fiber_local) declares a variable of one strand, a scoped value is
//! a parameter that need not be passed: it is bound for the duration of one call, cannot be
//! changed, and the strands of every [`fiber::scope`](crate::fiber::scope()) opened inside have it,
//! too. The idea and the name are Java's (JEP 506).
#![allow(unsafe_code)]

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr,
    // Not the model checker's: a `static` needs an atomic with a const constructor.
    sync::{Arc, atomic::AtomicU8},
};

use ramie_coro::context;

static KEY: context::Key = context::Key::new();

/// The bindings of one or more values, innermost first. The address of a value is its name.
type Bindings = Vec<(usize, Arc<dyn Any + Send + Sync>)>;

/// A value that is bound for the duration of a call; make it a `static`. A constant, which has no
/// identity of its own, does not compile:
/// ```compile_fail,E0716
/// const USER: ramie::scoped_value::ScopedValue<u32> = ramie::scoped_value::ScopedValue::new();
/// USER.bind(1, || {});
/// ```
///
/// # Examples
/// ```
/// use ramie::{fiber, scoped_value::ScopedValue};
///
/// static USER: ScopedValue<String> = ScopedValue::new();
///
/// fn greet() -> String {
///     USER.get().map_or("nobody".to_owned(), |user| format!("hello, {user}"))
/// }
///
/// ramie::run(|| {
///     USER.bind("Ada".to_owned(), || {
///         assert_eq!(greet(), "hello, Ada");
///         // Children have it; a detached strand has not.
///         fiber::scope(|scope| assert_eq!(scope.spawn(greet).join().unwrap(), "hello, Ada"));
///         assert_eq!(fiber::spawn(greet).join().unwrap(), "nobody");
///     });
///     assert_eq!(greet(), "nobody");
/// });
/// ```
pub struct ScopedValue<T: 'static> {
    /// Not of size zero, so that two values have two addresses; interior mutability, so that they
    /// are never merged as equal constants may be. Nobody reads or writes it.
    _identity: AtomicU8,
    value: PhantomData<fn(T) -> T>,
}

impl<T: Send + Sync + 'static> ScopedValue<T> {
    /// Makes a value that is bound nowhere.
    #[must_use]
    pub const fn new() -> Self {
        ScopedValue { _identity: AtomicU8::new(0), value: PhantomData }
    }

    fn name(&'static self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Calls `f` with this value bound to `value`, for `f`, all that it calls on this strand, and
    /// the strands of scopes that are opened there. A binding further out is hidden meanwhile.
    pub fn bind<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        self.bind_shared(Arc::new(value), f)
    }

    /// As [`bind`](Self::bind), for a value that is shared already.
    pub fn bind_shared<R>(&'static self, value: Arc<T>, f: impl FnOnce() -> R) -> R {
        let bindings: Bindings = vec![(self.name(), value)];
        context::with(&KEY, &bindings, f)
    }

    /// Returns the present binding of the value, if there is one.
    ///
    /// In a coroutine, this is the binding of the caller that resumed the coroutine, unless the
    /// coroutine itself has bound the value.
    #[must_use]
    pub fn get(&'static self) -> Option<Arc<T>> {
        let mut found = None;
        visit(|bindings| {
            let own = bindings.iter().find(|(name, _)| *name == self.name());
            found = own.map(|(_, value)| Arc::clone(value));
            found.is_none()
        });
        // Only `bind_shared` of this very value makes bindings of its name, and of this type.
        found.and_then(|value| value.downcast().ok())
    }

    /// Returns whether the value is bound here.
    #[must_use]
    pub fn is_bound(&'static self) -> bool {
        self.get().is_some()
    }
}

impl<T: Send + Sync + 'static> Default for ScopedValue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for ScopedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopedValue { .. }")
    }
}

/// Shows the bindings in reach to `f`, the innermost first, until it returns false. `f` must not
/// suspend.
fn visit(mut f: impl FnMut(&Bindings) -> bool) {
    let mut show = |key: &'static context::Key, value: *const ()| {
        if !ptr::eq(key, &KEY) {
            return true;
        }
        // SAFETY: the values under this key are bindings, by `bind_shared` and
        // `InheritedValues::enter`, which keep them alive.
        f(unsafe { &*value.cast::<Bindings>() })
    };
    // SAFETY: the callers in this file pass closures that look and clone, and never suspend.
    unsafe { context::visit(&mut show) };
}

/// The bindings that the strands of a scope inherit from its opener.
pub(crate) struct InheritedValues(Bindings);

// Unwinding cannot expose values that are half changed, because bindings never change.
impl UnwindSafe for InheritedValues {}
impl RefUnwindSafe for InheritedValues {}

impl InheritedValues {
    /// Records the present bindings; `None` if there are none.
    pub(crate) fn snapshot() -> Option<Self> {
        let mut all = Bindings::new();
        visit(|bindings| {
            for (name, value) in bindings {
                if all.iter().all(|(known, _)| known != name) {
                    all.push((*name, Arc::clone(value)));
                }
            }
            true
        });
        (!all.is_empty()).then_some(InheritedValues(all))
    }

    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        context::with(&KEY, &self.0, f)
    }
}
