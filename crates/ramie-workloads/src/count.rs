//! Numbers on a command line.

use std::str::FromStr;

/// Parses a count: a whole number of 1 or more.
pub fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("expected a whole number of 1 or more, in digits".to_owned());
    }
    let too_large = || format!("too large, at most {}", largest::<T>());
    let value = u64::from_str(digits).map_err(|_| too_large())?;
    if value == 0 {
        return Err("expected 1 or more".to_owned());
    }
    T::try_from(value).map_err(|_| too_large())
}

/// Parses a number that may be 0.
pub(crate) fn count_or_none(text: &str) -> Result<u32, String> {
    match text {
        "0" => Ok(0),
        _ => count(text).map_err(|error| error.replace("1 or more", "0 or more")),
    }
}

fn largest<T>() -> u64 {
    u64::MAX >> (64 - 8 * size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_are_whole_numbers_of_one_or_more() {
        assert_eq!(count::<u32>("2048"), Ok(2048));
        assert_eq!(count::<u32>("4294967295"), Ok(u32::MAX));
        assert_eq!(count::<u64>("18446744073709551615"), Ok(u64::MAX));
        for bad in ["0", "-3", "", "+", "ten", "1.5", "1e3", " 1", "4294967296", "1_000"] {
            assert!(count::<u32>(bad).is_err(), "{bad:?} was taken for a count");
        }
        assert!(count::<u64>("18446744073709551616").unwrap_err().contains("at most"));
    }
}
