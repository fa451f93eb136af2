//! `ramie inspect`: a summary of a running process, once or as a live page.
//!
//! Modules: [`source`] (asks the process), [`answer`] (its answer), [`view`] (the rows that the
//! page and `ramie top` show), [`web`] (the page).

mod answer;
mod source;
mod view;
mod web;

#[cfg(feature = "top")]
pub(crate) use self::{
    source::{Source, ended, strand},
    view::{PlaceRow, ProcessView, StallRow, WaitRow, WorkerRow, visible},
};
use crate::{arguments::InspectArguments, dump, failure::Failure};

pub(crate) fn inspect(arguments: &InspectArguments) -> Result<(), Failure> {
    if let Some(address) = &arguments.web {
        return web::serve(arguments, address);
    }
    let form = if arguments.json { "json" } else { "text" };
    dump::ask(arguments.pid, &format!("summary {form}"), arguments.json, arguments.timeout)
}
