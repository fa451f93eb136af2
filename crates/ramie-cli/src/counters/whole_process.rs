//! The counters of a whole child process, which need no help of its program: those that the kernel
//! returns at its end.

use std::{
    collections::BTreeMap,
    fs, io,
    process::{Child, ExitStatus},
};

use ramie_workloads::kib_field;
use serde_json::{Map, Value};

use super::{Counted, NAMES, of_kernel, sys};

/// The kernel's counts for a child process, from its start to its end.
#[derive(Clone, Copy)]
pub(crate) struct UsedByProcess(libc::rusage);

/// Waits for the end of a child process. It must not be killed or waited for afterwards, because
/// its id may belong to another process then.
pub(crate) fn wait_for(child: &Child) -> io::Result<(ExitStatus, UsedByProcess)> {
    let (status, usage) = sys::wait_with_usage(child)?;
    Ok((status, UsedByProcess(usage)))
}

impl UsedByProcess {
    /// The counters by their names, and the reasons why the others are not available.
    pub(crate) fn counters(&self) -> (Map<String, Value>, BTreeMap<String, String>) {
        let mut counted = of_kernel(&sys::NOTHING_USED, &self.0);
        counted.push(("peak_rss_bytes", self.peak_rss()));
        let (mut values, mut unavailable) = (Map::new(), BTreeMap::new());
        for name in NAMES {
            let found = counted.iter().find(|(other, _)| *other == name).map(|(_, found)| found);
            let (value, reason) = match found {
                Some(Counted::Count(count)) => ((*count).into(), None),
                Some(Counted::Number(number)) => ((*number).into(), None),
                Some(Counted::Missing(reason)) => (Value::Null, Some(reason.as_str())),
                None => (Value::Null, Some("the program of a peer does not count this")),
            };
            values.insert(name.to_owned(), value);
            unavailable.extend(reason.map(|reason| (name.to_owned(), reason.to_owned())));
        }
        (values, unavailable)
    }

    fn peak_rss(&self) -> Counted {
        // Until it executes its program, a child shares the memory of this process, whose size is
        // therefore the least peak that the kernel returns.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        match (self.0.ru_maxrss as u64, kib_field(&status, "VmHWM:")) {
            (peak, Some(own)) if peak > own => Counted::Count(peak * 1024),
            _ => Counted::Missing("its peak is below that of the lab itself".to_owned()),
        }
    }
}
