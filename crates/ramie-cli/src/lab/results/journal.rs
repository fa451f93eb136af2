//! `readings.jsonl`: every event of a lab, one line each, written as it comes.
//!
//! Its first line is the [`Header`]. A lab that is killed loses at most the line that it was
//! writing. If a line cannot be written, because the disk is full, it stays in memory and is
//! written with the next one. The file is locked while a lab writes it, so a second lab cannot use
//! the same folder.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Event, Finished, Outcome, Request, Results, Subject, machine::Machine, record};
use crate::{
    failure::Failure,
    lab::plan::{Experiment, post::Post},
    output,
};

pub(crate) const FILE: &str = "readings.jsonl";

/// The first line: the plan, the machine and the program.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    schema: u32,
    pub(crate) machine: Machine,
    pub(crate) request: Request,
    pub(crate) posts: Vec<Post>,
    pub(crate) experiments: Vec<Experiment>,
    pub(crate) points: Vec<Vec<Subject>>,
}

impl Header {
    pub(crate) fn new(
        machine: Machine,
        request: Request,
        posts: Vec<Post>,
        plan: impl IntoIterator<Item = (Experiment, Vec<Subject>)>,
    ) -> Self {
        let (experiments, points) = plan.into_iter().unzip();
        Header { schema: record::SCHEMA, machine, request, posts, experiments, points }
    }

    /// The difference to another header, if the labs of the two cannot be one.
    pub(crate) fn difference(&self, now: &Header) -> Option<String> {
        if let Some(difference) = self.machine.difference(&now.machine) {
            return Some(difference);
        }
        if self.request.environment != now.request.environment {
            let text = |request: &Request| match request.environment.is_empty() {
                true => "none of the variables RAMIE_*".to_owned(),
                false => {
                    let all = request.environment.iter();
                    let all: Vec<_> = all.map(|(name, value)| format!("{name}={value}")).collect();
                    all.join(" ")
                }
            };
            return Some(format!(
                "it was measured with {}, and this one has {}",
                text(&self.request),
                text(&now.request)
            ));
        }
        let is_same = self.experiments == now.experiments
            && self.posts == now.posts
            && self.points == now.points
            && self.request == now.request;
        (!is_same).then(|| "this version of ramie has another plan for it".to_owned())
    }

    /// The results before the first event.
    pub(crate) fn results(&self) -> Results {
        let outcomes =
            |subjects: &Vec<Subject>| subjects.iter().cloned().map(Outcome::new).collect();
        let finished = self.experiments.iter().zip(&self.points).map(|(experiment, subjects)| {
            Finished { experiment: experiment.clone(), outcomes: outcomes(subjects) }
        });
        Results::empty(
            self.machine.clone(),
            self.request.clone(),
            self.posts.clone(),
            finished.collect(),
        )
    }
}

/// The open file, locked.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Lines that could not be written so far.
    unwritten: String,
    has_warned: bool,
    /// The length of the lines that were written whole.
    length: u64,
}

impl Journal {
    /// Creates the file of a folder. `Ok(None)`: the folder has one.
    pub(crate) fn create(folder: &Path) -> io::Result<Option<Self>> {
        let path = folder.join(FILE);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                Ok(Some(Journal::at_start(file, path)))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn at_start(file: File, path: PathBuf) -> Self {
        Journal { file, path, unwritten: String::new(), has_warned: false, length: 0 }
    }

    /// Opens the file of an earlier lab, and reads its header and its events.
    pub(crate) fn reopen(folder: &Path) -> Result<(Self, Header, Vec<Event>), Failure> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "resume it as the user who owns the folder",
                _ => "name the folder of a report of `ramie lab`",
            };
            Failure::usage(format!(
                "cannot resume {}: cannot open its {FILE} ({error}); {advice}",
                folder.display()
            ))
        })?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::other(format!(
                "another lab is measuring into {} at this moment; wait until it ends, or start a \
                 new one with --out",
                folder.display()
            )));
        }
        let mut journal = Journal::at_start(file, path);
        let mut text = String::new();
        let damaged = |why: String| {
            Failure::usage(format!(
                "cannot resume {}: its {FILE} is damaged ({why}); start a new lab with --out",
                folder.display()
            ))
        };
        journal.file.read_to_string(&mut text).map_err(|error| damaged(error.to_string()))?;
        // A lab that was killed may have left a part of a line, which is written over.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        journal.length = whole as u64;
        let (header, events) = parse(&text[..whole]).map_err(damaged)?;
        Ok((journal, header, events))
    }

    /// Writes the first line. Fails if there is no space for it.
    pub(crate) fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.keep(header);
        self.write()
    }

    /// How many lines could not be written so far.
    pub(crate) fn unwritten_lines(&self) -> usize {
        self.unwritten.lines().count()
    }

    /// Whether the file still has its name, so that a lab can go on from it.
    pub(crate) fn is_there(&self) -> bool {
        let same = |named: std::fs::Metadata| {
            let open = self.file.metadata()?;
            io::Result::Ok(open.dev() == named.dev() && open.ino() == named.ino())
        };
        std::fs::metadata(&self.path).and_then(same).unwrap_or(false)
    }

    fn keep(&mut self, line: &impl Serialize) {
        self.unwritten += &serde_json::to_string(line).expect("numbers and names make JSON");
        self.unwritten.push('\n');
    }

    /// Appends a line. If that fails, it prints the reason once and keeps the line for later.
    pub(crate) fn append(&mut self, line: &impl Serialize) {
        self.keep(line);
        match self.write() {
            Ok(()) => self.has_warned = false,
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                output::warn(&format!(
                    "cannot write {} ({error}); free some disk space: the lab goes on, and keeps \
                     in memory what it could not write",
                    self.path.display()
                ));
            }
            Err(_) => {}
        }
    }

    fn write(&mut self) -> io::Result<()> {
        // Behind the last whole line, because an earlier write may have stopped within a line.
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.file.write_all(self.unwritten.as_bytes())?;
        self.length += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    /// Removes the file, because it has nothing worth keeping.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn parse(text: &str) -> Result<(Header, Vec<Event>), String> {
    let mut lines = text.lines();
    let first = lines.next().ok_or("it is empty")?;
    record::check_schema(first)?;
    let header = serde_json::from_str(first).map_err(|error| error.to_string())?;
    let event = |(index, line)| {
        serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 2))
    };
    Ok((header, lines.enumerate().map(event).collect::<Result<_, _>>()?))
}
