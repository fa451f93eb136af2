//! The text of a dump: the workers, then the strands as a tree of scopes.

use std::{fmt, time::Duration};

use ramie_driver::visible;

use super::{
    descriptor::name_of,
    dump::{
        CancelDump, Dump, StrandDump, StrandName, StrandState, WaitDump, WaitTarget, WorkerDump,
        WorkerStatus,
    },
};
use crate::{core::strand::IdMap, fiber::FiberId};

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |state| self.strands.iter().filter(|strand| strand.state == state).count();
        writeln!(
            f,
            "{} ({} running, {} runnable, {} waiting, {} not started), {}",
            Quantified(self.strands.len() as u64, "strand"),
            count(StrandState::Running),
            count(StrandState::Runnable),
            count(StrandState::Waiting),
            count(StrandState::NotStarted),
            Quantified(self.workers.len() as u64, "worker")
        )?;
        for worker in &self.workers {
            writeln!(f, "{worker}")?;
        }
        if self.backtraces_left_out > 0 {
            let fibers = Quantified(self.backtraces_left_out, "fiber");
            writeln!(f, "{fibers} without a backtrace, because 64 MiB of stacks were copied")?;
        }
        if self.left_out > 0 {
            writeln!(f, "{} with other names left out", Quantified(self.left_out, "strand"))?;
        }
        StrandTree::new(self).write(f)
    }
}

impl fmt::Display for WorkerDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "worker {index}")?,
            None => write!(f, "thread")?,
        }
        let name = visible::line(self.thread_name.as_deref().unwrap_or("unnamed"));
        write!(
            f,
            " ({name}, thread id {}), {}",
            self.thread_id,
            Quantified(self.fibers as u64, "fiber")
        )?;
        match self.status {
            WorkerStatus::Complete => Ok(()),
            WorkerStatus::OutsideLoop => f.write_str(": runs code outside of waits"),
            WorkerStatus::Silent => f.write_str(
                ": did not answer, because it runs a fiber that does not suspend; its strands are \
                 missing",
            ),
        }
    }
}

/// The most strands of a dump whose text has the depth to which each stack was used, because the
/// kernel is asked about each.
const MOST_MEASURED: usize = 10_000;

/// The strands of a dump, with the children of each. In tables by place rather than maps by id: a
/// dump of a million strands is not rare, and its text takes as long as the dump itself.
struct StrandTree<'a> {
    dump: &'a Dump,
    places: IdMap<usize>,
    awaited: IdMap<&'a StrandName>,
    /// The place of each strand's parent, of its first child, and of its parent's next child.
    parents: Vec<Option<usize>>,
    first_children: Vec<Option<usize>>,
    next_siblings: Vec<Option<usize>>,
}

impl<'a> StrandTree<'a> {
    fn new(dump: &'a Dump) -> Self {
        let strands = &dump.strands;
        let mut places = IdMap::with_capacity_and_hasher(strands.len(), Default::default());
        places.extend(strands.iter().enumerate().map(|(place, strand)| (strand.id, place)));
        let parent = |(place, strand): (usize, &StrandDump)| {
            let parent = *places.get(&strand.parent?)?;
            (parent != place).then_some(parent)
        };
        let parents: Vec<_> = strands.iter().enumerate().map(parent).collect();
        let mut first_children = vec![None; strands.len()];
        let mut next_siblings = vec![None; strands.len()];
        // From the last to the first, so that the children come out in the order of their places.
        for (place, parent) in parents.iter().enumerate().rev() {
            if let Some(parent) = *parent {
                next_siblings[place] = first_children[parent].replace(place);
            }
        }
        let awaited = dump.awaited.iter().map(|strand| (strand.id, strand)).collect();
        StrandTree { dump, places, awaited, parents, first_children, next_siblings }
    }

    /// Writes each strand once, under its parent if that is known. Not recursive, because scopes
    /// may be nested deeply.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strands = &self.dump.strands;
        let mut is_written = vec![false; strands.len()];
        let roots = (0..strands.len()).filter(|place| self.parents[*place].is_none());
        // The facts are not of one moment, so parents could form a ring; its strands come last.
        for root in roots.chain(0..strands.len()) {
            let mut left = vec![(root, 0)];
            while let Some((place, depth)) = left.pop() {
                if depth > 0 {
                    let sibling = self.next_siblings[place];
                    left.extend(sibling.map(|sibling| (sibling, depth)));
                }
                if std::mem::replace(&mut is_written[place], true) {
                    continue;
                }
                self.write_strand(f, &strands[place], depth)?;
                left.extend(self.first_children[place].map(|child| (child, depth + 1)));
            }
        }
        Ok(())
    }

    fn name_of(&self, id: &FiberId) -> String {
        match self.places.get(id) {
            Some(place) => Label::of(&self.dump.strands[*place]).to_string(),
            None => match self.awaited.get(id) {
                Some(strand) => format!("{}, which is not in this dump", Label::named(strand)),
                None => format!("strand {id}, which is not in this dump"),
            },
        }
    }

    fn write_strand(
        &self,
        f: &mut fmt::Formatter<'_>,
        strand: &StrandDump,
        depth: usize,
    ) -> fmt::Result {
        let indent = &INDENTS[..2 * depth.min(MOST_INDENTS)];
        write!(f, "\n{indent}{}", Label::of(strand))?;
        match (strand.state, &strand.wait) {
            (StrandState::Waiting, Some(wait)) => {
                f.write_str(" waits for ")?;
                write_purpose(f, wait, &|id| self.name_of(id))?;
                write!(f, " since {}", Short(wait.since))?;
                if let Some(left) = wait.left {
                    write!(f, ", for {} at most", Short(left))?;
                }
                write!(f, "\n{indent}    at {}", wait.location)?;
            }
            (StrandState::Waiting, None) => f.write_str(" waits")?,
            (StrandState::Running, _) => f.write_str(" runs")?,
            (StrandState::Runnable, _) => f.write_str(" waits for its turn")?,
            (StrandState::NotStarted, _) => f.write_str(" has not started")?,
        }
        self.write_origin(f, strand, indent)?;
        if let Some(cancel) = &strand.cancel {
            write!(f, "\n{indent}    {cancel}")?;
        }
        if let Some(backtrace) = &strand.backtrace {
            let indent = format!("{indent}    ");
            write!(f, "\n{indent}{}", backtrace.listed(&indent))?;
        }
        writeln!(f)
    }

    fn write_origin(
        &self,
        f: &mut fmt::Formatter<'_>,
        strand: &StrandDump,
        indent: &str,
    ) -> fmt::Result {
        if let Some(spawned_at) = &strand.spawned_at {
            write!(f, "\n{indent}    spawned at {spawned_at}")?;
        }
        if let Some(age) = strand.age {
            let waits = Quantified(strand.waits.into(), "wait");
            write!(f, "\n{indent}    {} old, {waits}", Short(age))?;
        }
        if let Some(worker) = strand.worker.and_then(|place| self.dump.workers.get(place)) {
            match worker.index {
                Some(index) => write!(f, ", worker {index}")?,
                None if !strand.id.is_thread() => {
                    write!(f, ", on thread id {}", worker.thread_id)?;
                }
                None => {}
            }
        }
        if let Some(stack) = &strand.stack {
            let size = stack.size / 1024;
            if self.dump.strands.len() <= MOST_MEASURED {
                let used = stack.high_water_mark() / 1024;
                write!(f, ", stack {used} of {size} KiB used")?;
            } else {
                write!(f, ", stack of {size} KiB")?;
            }
        }
        Ok(())
    }
}

/// The depth from which strands are not indented further.
const MOST_INDENTS: usize = 20;
const INDENTS: &str = match std::str::from_utf8(&[b' '; 2 * MOST_INDENTS]) {
    Ok(spaces) => spaces,
    Err(_) => unreachable!(),
};

/// Writes the purpose of a wait, with the object's name; `strand` names strands.
pub(super) fn write_purpose(
    f: &mut fmt::Formatter<'_>,
    wait: &WaitDump,
    strand: &dyn Fn(&FiberId) -> String,
) -> fmt::Result {
    let purpose = wait.purpose;
    match &wait.target {
        WaitTarget::None => f.write_str(purpose),
        WaitTarget::Descriptor { fd, offset, name } => {
            let name = name.clone().or_else(|| name_of(*fd)).unwrap_or("closed".into());
            let offset = offset.map(|at| format!(", offset {at}")).unwrap_or_default();
            write!(f, "{purpose} (fd {fd}: {}{offset})", visible::line(&name))
        }
        WaitTarget::Mutex { address, owner: Some(owner) } => {
            write!(f, "{purpose} ({address:#x}, held by {})", strand(owner))
        }
        WaitTarget::RwLock { address, writer: Some(writer), .. } => {
            write!(f, "{purpose} ({address:#x}, held by {} to write)", strand(writer))
        }
        WaitTarget::RwLock { address, readers, .. } if *readers > 0 => {
            let readers = Quantified(*readers, "reader");
            write!(f, "{purpose} ({address:#x}, held by {readers})")
        }
        WaitTarget::Mutex { address, .. }
        | WaitTarget::RwLock { address, .. }
        | WaitTarget::Channel { address }
        | WaitTarget::Object { address }
        | WaitTarget::Scope { address } => write!(f, "{purpose} ({address:#x})"),
        WaitTarget::Select { arms } => write!(f, "{purpose} ({arms} arms)"),
        WaitTarget::Strand { id } => write!(f, "{purpose} ({})", strand(id)),
    }
}

/// A strand, as texts name it.
pub(super) struct Label<'a> {
    id: FiberId,
    name: Option<&'a str>,
}

impl<'a> Label<'a> {
    pub(super) fn of(strand: &'a StrandDump) -> Self {
        Label { id: strand.id, name: strand.name.as_deref() }
    }

    pub(super) fn named(strand: &'a StrandName) -> Self {
        Label { id: strand.id, name: Some(&strand.name) }
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.id.is_thread() { "thread" } else { "fiber" };
        match self.name {
            Some(name) => write!(f, "{noun} '{}' ({})", visible::line(name), self.id),
            None => write!(f, "{noun} {}", self.id),
        }
    }
}

impl fmt::Display for CancelDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("in ")?;
        match self.scope {
            Some(scope) => write!(f, "cancel scope {scope:#x}")?,
            None => f.write_str("a time limit")?,
        }
        if let Some(left) = self.left {
            write!(f, ", {} left", Short(left))?;
        }
        match &self.cancelled {
            Some(reason) => write!(f, ", cancelled: {}", visible::line(reason)),
            None => Ok(()),
        }
    }
}

/// A number of things, with the noun in the singular: `1 worker`, `2 workers`.
pub(super) struct Quantified(pub(super) u64, pub(super) &'static str);

impl fmt::Display for Quantified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

/// A time in the unit that suits it.
pub(super) struct Short(pub(super) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            seconds @ 60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            seconds => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
        }
    }
}
