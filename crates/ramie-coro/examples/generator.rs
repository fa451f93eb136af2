//! Walks the directory tree below a path, depth first, as an iterator: the recursion stays a
//! recursion, and stops where the caller stops.
//!
//! ```text
//! cargo run -p ramie-coro --example generator -- src
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ramie_coro::{Generator, GeneratorYielder};

fn walk(path: &Path, yielder: &GeneratorYielder<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), yielder)?;
        } else {
            yielder.suspend(entry.path());
        }
    }
    Ok(())
}

fn main() {
    let root = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let files = Generator::new(move |yielder| {
        if let Err(error) = walk(Path::new(&root), yielder) {
            eprintln!("{root}: {error}");
        }
    });
    for file in files.take(10) {
        println!("{}", file.display());
    }
}
