//! `ramie doctor`.
use crate::{arguments::Doctor, failure::Failure};
pub(crate) fn doctor(_doctor: &Doctor) -> Result<(), Failure> {
    Ok(())
}
