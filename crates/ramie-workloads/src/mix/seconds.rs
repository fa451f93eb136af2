//! A time in seconds on a command line, kept in milliseconds.

use std::{fmt, str::FromStr, time::Duration};

/// A time of 0.01 s to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u32);

const LEAST_MS: u32 = 10;
const MOST_MS: u32 = 86_400_000;

impl Seconds {
    /// A number of whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Seconds(seconds * 1000)
    }

    /// The time, rounded to milliseconds and kept within the bounds.
    pub fn nearest(time: Duration) -> Self {
        let ms = u32::try_from(time.as_millis()).unwrap_or(MOST_MS);
        Seconds(ms.clamp(LEAST_MS, MOST_MS))
    }

    /// The time in seconds.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// The time.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds: Option<f64> = text.parse().ok();
        let ms = seconds.map(|seconds| (seconds * 1e3).round());
        match ms {
            Some(ms) if (f64::from(LEAST_MS)..=f64::from(MOST_MS)).contains(&ms) => {
                Ok(Seconds(ms as u32))
            }
            _ => Err("expected seconds, from 0.01 to 86400".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Seconds;

    #[test]
    fn seconds_may_have_decimals() {
        for (text, ms) in [("1", 1000), ("0.25", 250), ("20", 20_000), ("0.01", 10)] {
            assert_eq!(text.parse(), Ok(Seconds(ms)));
            assert_eq!(Seconds(ms).to_string(), text);
        }
        for bad in ["", "0", "-1", "0.001", "ten", "NaN", "inf", "1e9"] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }
}
