//! The report: sentences about the figures, charts, and the page. All of it is computed from the
//! record of the results.

mod chart;
pub(crate) mod conclusion;
mod counters;
pub(crate) mod finding;
mod marks;
pub(crate) mod page;
mod posts;
mod raw;

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod truth_tests;
