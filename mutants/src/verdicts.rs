//! The verdicts of this run and of earlier ones, one line each, added as soon as it is known.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs::{self, File, OpenOptions},
    hash::{Hash, Hasher},
    io::Write,
    sync::Mutex,
};

use crate::list::Mutant;

/// The test that caught a mutant, and how; `None`: it survived.
pub type Verdict = Option<String>;

pub struct Verdicts {
    known: Mutex<BTreeMap<String, Verdict>>,
    file: Mutex<File>,
}

/// The mutant's name, and a hash of all that the verdict depends on in its entry: an entry that
/// was changed has no verdict.
fn key(mutant: &Mutant) -> String {
    let mut hasher = DefaultHasher::new();
    (&mutant.file, &mutant.at, &mutant.to, &mutant.tests).hash(&mut hasher);
    format!("{} {:016x}", mutant.full_name(), hasher.finish())
}

impl Verdicts {
    /// Opens the file; only with `resumes` are the verdicts of earlier runs taken from it.
    pub fn open(path: &str, resumes: bool) -> Result<Verdicts, String> {
        let complain = |error| format!("{path}: {error}");
        let mut known = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines().filter(|_| resumes) {
            if let Some((key, by)) = line.split_once('\t') {
                known.insert(key.to_owned(), Some(by.to_owned()).filter(|by| !by.is_empty()));
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(complain)?;
        Ok(Verdicts { known: Mutex::new(known), file: Mutex::new(file) })
    }

    pub fn of(&self, mutant: &Mutant) -> Option<Verdict> {
        self.known.lock().expect("no holder panics").get(&key(mutant)).cloned()
    }

    /// Whether the mutant's tests need not run. Those of a survivor without a reason always run: a
    /// test may have been written since.
    pub fn is_settled(&self, mutant: &Mutant) -> bool {
        self.of(mutant).is_some_and(|verdict| verdict.is_some() || mutant.lives.is_some())
    }

    pub fn note(&self, mutant: &Mutant, verdict: Verdict) -> Result<(), String> {
        let (key, by) = (key(mutant), verdict.clone().unwrap_or_default());
        let mut file = self.file.lock().expect("no holder panics");
        writeln!(file, "{key}\t{by}").map_err(|error| format!("verdicts: {error}"))?;
        self.known.lock().expect("no holder panics").insert(key, verdict);
        Ok(())
    }
}
