//! W3C trace context: the header `traceparent`, by which a request names its trace and the span
//! that caused it (<https://www.w3.org/TR/trace-context-2/>).
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace id (16 bytes)        parent id (8)   flags
//! ```

use std::{error, fmt, num::NonZero, str::FromStr};

/// The length of a header of version 00, and the least one of later versions.
const LEN: usize = 55;
/// The flags that this version defines.
const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;

/// The value of a header `traceparent`.
///
/// [`FromStr`] is strict: a header of version 00 is accepted only in the exact form of the
/// specification. Of a later version, the fields that version 00 has are read, and fields after
/// them are ignored, as the specification demands. [`Display`](fmt::Display) writes version 00.
///
/// # Examples
/// ```
/// use ramie_tracing::trace_context::TraceParent;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = header.parse()?;
/// assert_eq!(parent.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
/// assert_eq!(parent.parent_id(), 0x00f0_67aa_0ba9_02b7);
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), header);
///
/// // The header of a request that a server sends for its own span:
/// let own = parent.with_parent_id(7).expect("not zero");
/// assert_eq!(own.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-01");
/// # Ok::<(), ramie_tracing::trace_context::InvalidTraceParent>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceParent {
    trace_id: NonZero<u128>,
    parent_id: NonZero<u64>,
    flags: u8,
}

impl TraceParent {
    /// Makes a value without flags; `None` if an id is zero, which the specification forbids.
    #[must_use]
    pub fn new(trace_id: u128, parent_id: u64) -> Option<Self> {
        let (trace_id, parent_id) = (NonZero::new(trace_id)?, NonZero::new(parent_id)?);
        Some(TraceParent { trace_id, parent_id, flags: 0 })
    }

    /// The id of the whole trace.
    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.trace_id.get()
    }

    /// The id of the span that sent the request.
    #[must_use]
    pub fn parent_id(&self) -> u64 {
        self.parent_id.get()
    }

    /// Whether the sender may have recorded its part of the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Whether at least the last 7 bytes of the trace id are random.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.flags & RANDOM != 0
    }

    /// The same trace with another parent; `None` if the id is zero.
    #[must_use]
    pub fn with_parent_id(self, parent_id: u64) -> Option<Self> {
        Some(TraceParent { parent_id: NonZero::new(parent_id)?, ..self })
    }

    /// The same with this flag.
    #[must_use]
    pub fn with_sampled(self, is_sampled: bool) -> Self {
        self.with_flag(SAMPLED, is_sampled)
    }

    /// The same with this flag, which only the starter of a trace may set.
    #[must_use]
    pub fn with_random(self, is_random: bool) -> Self {
        self.with_flag(RANDOM, is_random)
    }

    fn with_flag(self, flag: u8, is_set: bool) -> Self {
        let others = self.flags & !flag;
        TraceParent { flags: if is_set { others | flag } else { others }, ..self }
    }

    /// Reads the value of a header, which need not be text.
    ///
    /// # Errors
    /// As [`FromStr`]: the value has not the form that the specification prescribes. A server then
    /// starts a new trace.
    pub fn from_bytes(header: &[u8]) -> Result<Self, InvalidTraceParent> {
        let version = hex::<u8>(header.get(..2).ok_or(InvalidTraceParent("it is too short"))?)?;
        let has_form = header.len() >= LEN && [2, 35, 52].into_iter().all(|at| header[at] == b'-');
        match (version, header.get(LEN)) {
            (0xff, _) => return Err(InvalidTraceParent("version ff is forbidden")),
            _ if !has_form => return Err(InvalidTraceParent("its fields have other lengths")),
            (0, Some(_)) => return Err(InvalidTraceParent("version 00 has four fields only")),
            (_, Some(next)) if *next != b'-' => {
                return Err(InvalidTraceParent("its flags have another length"));
            }
            _ => {}
        }
        let trace_id = NonZero::new(hex::<u128>(&header[3..35])?);
        let parent_id = NonZero::new(hex::<u64>(&header[36..52])?);
        let flags = hex::<u8>(&header[53..LEN])? & known_flags(version);
        match (trace_id, parent_id) {
            (Some(trace_id), Some(parent_id)) => Ok(TraceParent { trace_id, parent_id, flags }),
            _ => Err(InvalidTraceParent("an id of zeros is forbidden")),
        }
    }
}

/// The flags that keep their meaning in a header of this version.
fn known_flags(version: u8) -> u8 {
    if version == 0 { SAMPLED | RANDOM } else { SAMPLED }
}

/// Reads a field of hexadecimal digits in lower case.
fn hex<T: TryFrom<u128>>(digits: &[u8]) -> Result<T, InvalidTraceParent> {
    let mut number = 0;
    for digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(InvalidTraceParent("a digit is not one of 0 to 9 and a to f")),
        };
        number = (number << 4) | u128::from(value);
    }
    T::try_from(number).map_err(|_| InvalidTraceParent("a field is too long"))
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// As [`TraceParent::from_bytes`].
    fn from_str(header: &str) -> Result<Self, InvalidTraceParent> {
        TraceParent::from_bytes(header.as_bytes())
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

/// A header `traceparent` does not have the form that the specification prescribes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidTraceParent(&'static str);

impl fmt::Display for InvalidTraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid traceparent: {}; expected 00-<32 digits>-<16 digits>-<2 digits> in lower case",
            self.0
        )
    }
}

impl error::Error for InvalidTraceParent {}
