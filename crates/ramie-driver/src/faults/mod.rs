//! A backend around another that makes things go wrong: some ops are short, late, out of order,
//! interrupted, or fail. Compiled with the feature `faults` only (`lib.rs`); for tests.

mod draws;
mod fit;
mod wrapper;

use crate::error::OpenError;
use crate::variables::invalid_value;

pub(crate) use wrapper::Faulty;

const VARIABLE: &str = "RAMIE_FAULTS";

/// The fault of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves fewer bytes than asked for. Only streams and files can; others are spared.
    Short,
    /// It is handed over this many turns late.
    Late(u32),
    /// It fails with this errno, and is not done; but a close is, as the kernel's are.
    Fails(i32),
    /// The kernel answers so many times with this errno, which the driver has to hide: `EINTR`,
    /// `ECANCELED` that nobody asked for, or `EAGAIN` of an op that is to wait.
    Hidden(i32, u8),
}

/// Which ops go wrong, and how.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The same numbers come from the same seed; each driver has its own share.
    pub seed: u64,
    /// One op of so many has a random fault that a program which follows the rules does not see,
    /// and one completion of so many overtakes others; 0 for none.
    pub one_in: u32,
    /// One op of so many fails with this errno, and one wait of so many for an op that completes
    /// again and again; but no errno that such an op never brings.
    pub failing: Option<(u32, i32)>,
    /// This op, counted from 0, has this fault.
    pub at: Option<(u64, Fault)>,
}

impl Faults {
    /// Random faults that a program which follows the rules does not see.
    pub fn harmless(seed: u64) -> Self {
        Faults { seed, one_in: 3, failing: None, at: None }
    }

    /// Nothing but this fault of this op, counted from 0.
    pub fn at(op: u64, fault: Fault) -> Self {
        Faults { seed: 1, one_in: 0, failing: None, at: Some((op, fault)) }
    }

    /// Reads `RAMIE_FAULTS`: a seed; after a comma an errno as a number, with which ops then fail;
    /// after another, one of how many does, four by default. Unset or empty for none.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn from_env() -> Result<Option<Faults>, OpenError> {
        let value = std::env::var(VARIABLE).unwrap_or_default();
        if value.is_empty() {
            return Ok(None);
        }
        let numbers: Result<Vec<u64>, _> = value.split(',').map(str::parse).collect();
        let (seed, failing) = match numbers.as_deref() {
            Ok(&[seed]) => (seed, None),
            Ok(&[seed, errno]) => (seed, Some((4, errno as i32))),
            Ok(&[seed, errno, one_in]) => (seed, Some((one_in as u32, errno as i32))),
            _ => {
                let expected = "numbers: SEED, SEED,ERRNO or SEED,ERRNO,ONE_IN";
                return Err(OpenError::new(None, invalid_value(VARIABLE, &value, expected)));
            }
        };
        Ok(Some(Faults { failing, ..Faults::harmless(seed) }))
    }
}
