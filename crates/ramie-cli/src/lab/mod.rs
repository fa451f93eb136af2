//! `ramie lab`.
use crate::{arguments::Lab, failure::Failure};
pub(crate) fn lab(_lab: &Lab) -> Result<(), Failure> {
    Ok(())
}
