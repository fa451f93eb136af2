//! Masks: features that are not used although the kernel has them, one by one or as an older kernel
//! lacks them.

use std::sync::OnceLock;

use crate::error::OpenError;
use crate::feature::{Feature, FeatureSet};
use crate::say;
use crate::variables::invalid_value;

/// The environment variable that masks features.
const VARIABLE: &str = "RAMIE_CAPS";

/// An older kernel to imitate: later features are not used.
///
/// # Examples
/// ```
/// use ramie_driver::{Config, Driver, Choice, Feature, Profile};
///
/// let config = Config { masked: Profile::LINUX_5_15.masked(), ..Config::small() };
/// let driver = Driver::open(Choice::Auto, &config)?;
/// assert!(!driver.caps().features.has(Feature::DeferTaskrun));
/// # Ok::<(), ramie_driver::OpenError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    major: u16,
    minor: u16,
    name: &'static str,
}

impl Profile {
    /// The kernel of Ubuntu 22.04: no deferred completions.
    pub const LINUX_5_15: Profile = Profile { major: 5, minor: 15, name: "linux-5.15" };
    /// The kernel of Debian 12.
    pub const LINUX_6_1: Profile = Profile { major: 6, minor: 1, name: "linux-6.1" };
    /// The long-term kernel of late 2023.
    pub const LINUX_6_6: Profile = Profile { major: 6, minor: 6, name: "linux-6.6" };

    /// Every profile, oldest first.
    pub const ALL: [Profile; 3] = [Self::LINUX_5_15, Self::LINUX_6_1, Self::LINUX_6_6];

    /// The name that `RAMIE_CAPS` takes, such as `linux-6.1`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the features that came after this kernel.
    pub fn masked(self) -> FeatureSet {
        let is_later = |feature: &Feature| version(feature.since()) > (self.major, self.minor);
        Feature::ALL.into_iter().filter(is_later).fold(FeatureSet::EMPTY, FeatureSet::with)
    }
}

fn version(text: &str) -> (u16, u16) {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

/// Reads `RAMIE_CAPS`, the features that must not be used.
///
/// It is a list with commas: `-NAME` masks one feature ([`Feature::name`], in either case), and
/// `linux-5.15`, `linux-6.1` or `linux-6.6` mask later features. Unset or empty, it masks nothing.
/// The polling driver uses none of these features.
///
/// [`Driver::open`](crate::Driver::open) uses the value that the variable had at the first call; it
/// ignores a value that does not parse, with a warning in the log.
///
/// # Errors
/// The variable has another value; the error names the allowed ones.
pub fn masked_from_env() -> Result<FeatureSet, OpenError> {
    static FOUND: OnceLock<Result<FeatureSet, OpenError>> = OnceLock::new();
    FOUND.get_or_init(read).clone()
}

fn read() -> Result<FeatureSet, OpenError> {
    match std::env::var_os(VARIABLE) {
        None => Ok(FeatureSet::EMPTY),
        Some(value) => parse(&value.to_string_lossy()),
    }
}

fn parse(list: &str) -> Result<FeatureSet, OpenError> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(masked_by).try_fold(FeatureSet::EMPTY, |set, masked| Ok(set.plus(masked?)))
}

fn masked_by(word: &str) -> Result<FeatureSet, OpenError> {
    if let Some(profile) = Profile::ALL.into_iter().find(|profile| profile.name == word) {
        return Ok(profile.masked());
    }
    let is_named = |feature: &Feature| {
        word.strip_prefix('-').is_some_and(|name| name.eq_ignore_ascii_case(feature.name()))
    };
    match Feature::ALL.into_iter().find(is_named) {
        Some(feature) => Ok(FeatureSet::EMPTY.with(feature)),
        None => Err(OpenError::new(None, refusal(word))),
    }
}

fn refusal(word: &str) -> String {
    let features = Feature::ALL.map(|feature| format!("-{}", feature.name().to_lowercase()));
    let profiles = Profile::ALL.map(Profile::name);
    let expected = format!(
        "an older kernel ({}), or a list, separated by commas, of features to mask ({})",
        profiles.join(", "),
        features.join(", ")
    );
    invalid_value(VARIABLE, word, &expected)
}

/// The features that the environment masks; none if it does not parse.
pub(crate) fn of_drivers() -> FeatureSet {
    masked_from_env().unwrap_or_else(|error| {
        say!(Warn, "{error}");
        FeatureSet::EMPTY
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_features_and_kernels_parse() {
        assert_eq!(parse("").unwrap(), FeatureSet::EMPTY);
        let set = FeatureSet::EMPTY.with(Feature::MsgRing).with(Feature::ExtArg);
        assert_eq!(parse(" -msg_ring,,-EXT_ARG ").unwrap(), set);
        let old = parse("linux-5.15,-ext_arg").unwrap();
        assert_eq!(old, Profile::LINUX_5_15.masked().with(Feature::ExtArg));
        for wrong in ["msg_ring", "-", "-multishto", "linux-2.6", "all", "-msg_ring;-ext_arg"] {
            let sentence = parse(wrong).unwrap_err().to_string();
            assert!(sentence.contains(wrong) && sentence.contains("-msg_ring"), "{sentence}");
            // The short list comes first, because the other one fills a screen.
            assert!(
                sentence.contains("for RAMIE_CAPS: expected an older kernel (linux-5.15, "),
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_kernel_lacks_later_features() {
        let has = |profile: Profile, feature| !profile.masked().has(feature);
        assert!(has(Profile::LINUX_5_15, Feature::ExtArg));
        assert!(has(Profile::LINUX_5_15, Feature::PathCalls));
        assert!(!has(Profile::LINUX_5_15, Feature::MsgRing));
        assert!(has(Profile::LINUX_6_1, Feature::DeferTaskrun));
        assert!(!has(Profile::LINUX_6_1, Feature::NoSqArray));
        assert!(has(Profile::LINUX_6_6, Feature::NoSqArray));
    }
}
