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
    /// The op moves fewer bytes than requested. Only ops on streams and files can.
    Short,
    /// The op is submitted this many turns late.
    Late(u32),
    /// The op fails with this errno and has no effect. Only a close has its effect nevertheless,
    /// because the kernel closes a descriptor even if it returns an error.
    Fails(i32),
    /// The kernel answers with this errno, this many times, and the driver must hide it: `EINTR`,
    /// `ECANCELED` without a request, or `EAGAIN` of an op that must wait.
    Hidden(i32, u8),
}

/// Which ops go wrong, and how.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The seed of the random numbers, from which each driver of a process derives its own.
    pub seed: u64,
    /// One op in `one_in` has a random fault that a correct program does not see, and one
    /// completion in `one_in` overtakes others; 0 for none.
    pub one_in: u32,
    /// A number and an errno: one op in this number fails with this errno, and so does one wait in
    /// this number for an item of a multishot op. An errno that multishot ops do not report, such
    /// as `EINTR`, only ends the multishot op, and the caller arms it again.
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
    /// after another comma N, if one op in N fails, 4 by default. Returns `None` if the variable is
    /// unset or empty.
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
