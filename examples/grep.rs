//! Finds a text in the files below a folder: `grep needle folder`. One fiber walks the tree,
//! sixteen read and search, and the first one prints. If standard output is closed, all stop.

use std::{env, path::PathBuf, process::ExitCode};

use ramie::channel::{self, Receiver, Sender};
use ramie::io::{self, Write};
use ramie::{fs, thread};

const SEARCHERS: usize = 16;

fn walk(folder: PathBuf, files: &Sender<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // Skips a folder that may not be read, but not its neighbours.
            let _ = walk(entry.path(), files).map_err(|error| eprintln!("{error}"));
        } else if kind.is_file() && files.send(entry.path()).is_err() {
            break;
        }
    }
    Ok(())
}

fn search(needle: &str, files: &Receiver<PathBuf>, found: &Sender<String>) {
    for path in files {
        let name = path.display();
        let bytes = fs::read(&path).inspect_err(|error| eprintln!("{name}: {error}"));
        let text = String::from_utf8_lossy(bytes.as_deref().unwrap_or_default());
        for (line, n) in text.lines().zip(1..).filter(|(line, _)| line.contains(needle)) {
            if found.send(format!("{name}:{n}:{line}")).is_err() {
                return;
            }
        }
    }
}

#[ramie::main]
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [needle, folder] = &arguments[..] else {
        eprintln!("usage: grep <text> <folder>");
        return ExitCode::from(2);
    };
    let (file_sender, files) = channel::bounded(64);
    let (found, lines) = channel::bounded(64);
    thread::scope(|scope| {
        let walker = scope.spawn(move || walk(folder.into(), &file_sender));
        for _ in 0..SEARCHERS {
            let (files, found) = (files.clone(), found.clone());
            scope.spawn(move || search(needle, &files, &found));
        }
        drop((files, found));
        let mut out = io::stdout();
        let count = lines.into_iter().take_while(|line| writeln!(out, "{line}").is_ok()).count();
        let walked = walker.join().unwrap().map_err(|error| eprintln!("{folder}: {error}"));
        ExitCode::from(if walked.is_err() { 2 } else { u8::from(count == 0) })
    })
}
