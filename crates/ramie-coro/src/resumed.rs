//! The result of a resume.

/// How a coroutine returned control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resumed<Yield, Return> {
    /// It suspended itself with this value.
    Yielded(Yield),
    /// Its body returned this value; it is done.
    Returned(Return),
}

impl<Yield, Return> Resumed<Yield, Return> {
    /// Returns the value with which the coroutine suspended itself, if it did.
    pub fn yielded(self) -> Option<Yield> {
        match self {
            Resumed::Yielded(value) => Some(value),
            Resumed::Returned(_) => None,
        }
    }

    /// Returns the value that the body returned, if it did.
    pub fn returned(self) -> Option<Return> {
        match self {
            Resumed::Yielded(_) => None,
            Resumed::Returned(value) => Some(value),
        }
    }
}
