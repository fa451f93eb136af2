//! `ramie serve`.
use crate::{arguments::Serve, failure::Failure};
pub(crate) fn serve(_serve: &Serve) -> Result<(), Failure> {
    Ok(())
}
