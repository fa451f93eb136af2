//! Listing a folder while it changes. Which of the changed names are listed is open; each of the
//! others is listed, once.

use std::{collections::BTreeSet, path::PathBuf};

use proptest::{prelude::*, strategy::Strategy};

use crate::compare;

/// The change after some names were listed.
#[derive(Clone, Debug)]
enum Step {
    List(usize),
    Add(usize),
    Remove(usize),
    Rename { from: usize, to: usize },
    Write(usize),
    AddFolder(usize),
    Restart,
}

/// Half of them are there at first: more than are taken from the kernel at once.
const NAMES: usize = 400;

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let name = || 0..NAMES;
    prop_oneof![
        8 => (1..90usize).prop_map(List),
        2 => (NAMES..2 * NAMES).prop_map(Add),
        3 => name().prop_map(Remove),
        3 => (name(), 0..2 * NAMES).prop_map(|(from, to)| Rename { from, to }),
        1 => name().prop_map(Write),
        1 => (NAMES..2 * NAMES).prop_map(AddFolder),
        1 => Just(Restart),
    ]
}

/// The folder of one sequence, with its names, and those that have changed since the listing began.
struct Folder {
    path: PathBuf,
    names: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("ramie-folder-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let names: BTreeSet<_> =
            (0..NAMES).step_by(2).map(|name| format!("{name:-<200}")).collect();
        names.iter().for_each(|name| std::fs::write(path.join(name), "").unwrap());
        Folder { path, names, changed: BTreeSet::new() }
    }

    fn change(&mut self, name: &str, is_there: bool) {
        self.changed.insert(name.to_owned());
        match is_there {
            true => self.names.insert(name.to_owned()),
            false => self.names.remove(name),
        };
    }

    /// The result of a whole listing.
    fn judge(&self, listed: &[String]) -> String {
        let unchanged = |names: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            let mut names: Vec<_> =
                names.filter(|name| !self.changed.contains(*name)).cloned().collect();
            names.sort();
            names
        };
        let (listed, there) = (unchanged(&mut listed.iter()), unchanged(&mut self.names.iter()));
        format!("{} unchanged names, each of them listed once: {}", there.len(), listed == there)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::fs::{self, ReadDir};

            use $library as std;

            use super::{Folder, Step};
            use crate::told;

            struct Listing {
                entries: ReadDir,
                listed: Vec<String>,
            }

            impl Listing {
                fn new(folder: &mut Folder) -> Listing {
                    folder.changed.clear();
                    Listing { entries: fs::read_dir(&folder.path).unwrap(), listed: Vec::new() }
                }

                fn list(&mut self, most: usize) {
                    for entry in self.entries.by_ref().take(most) {
                        let name = entry.expect("an entry").file_name();
                        self.listed.push(name.into_string().unwrap());
                    }
                }
            }

            fn call(folder: &mut Folder, step: &Step) -> String {
                let name = |name: usize| format!("{name:-<200}");
                let at = |of: &str| folder.path.join(of);
                match *step {
                    Step::Add(added) => {
                        let added = name(added);
                        let result = told(fs::File::create_new(at(&added)).map(drop));
                        folder.change(&added, true);
                        result
                    }
                    Step::AddFolder(added) => {
                        let added = name(added);
                        let result = told(fs::create_dir(at(&added)));
                        folder.change(&added, true);
                        result
                    }
                    Step::Remove(gone) => {
                        let gone = name(gone);
                        let result = fs::remove_file(at(&gone));
                        if result.is_ok() {
                            folder.change(&gone, false);
                        }
                        told(result)
                    }
                    Step::Rename { from, to } => {
                        let (from, to) = (name(from), name(to));
                        let result = fs::rename(at(&from), at(&to));
                        if result.is_ok() && from != to {
                            folder.change(&from, false);
                            folder.change(&to, true);
                        }
                        told(result)
                    }
                    Step::Write(written) => {
                        let written = name(written);
                        let is_new = !folder.names.contains(&written);
                        let result = told(fs::write(at(&written), "text"));
                        if is_new {
                            folder.change(&written, true);
                        }
                        result
                    }
                    Step::List(_) | Step::Restart => String::new(),
                }
            }

            pub(super) fn run(steps: &[Step]) -> Vec<String> {
                let mut folder = Folder::new();
                let mut listing = Listing::new(&mut folder);
                let mut trace = Vec::new();
                for step in steps.iter().chain([&Step::Restart]) {
                    let result = match *step {
                        Step::List(most) => {
                            listing.list(most);
                            String::new()
                        }
                        Step::Restart => {
                            listing.list(usize::MAX);
                            let judged = folder.judge(&listing.listed);
                            listing = Listing::new(&mut folder);
                            judged
                        }
                        _ => call(&mut folder, step),
                    };
                    trace.push(format!("{step:?}: {result}"));
                }
                trace
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

#[test]
fn folders_that_change_while_they_are_listed_are_as_with_std() {
    compare("folders", step(), with_std::run, with_ours::run);
}
