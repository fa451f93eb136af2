//! A program that uses files and processes, compiled with std and with `use ramie as std`: it has
//! the same result with std, on a fiber, and on a plain thread.

/// The program, with the library that is named `std` at the place of the call.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::{self, DirBuilder, File, FileTimes, OpenOptions, TryLockError},
                io::{self, Read, Seek, Write},
                os::unix::{
                    fs::{
                        DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt,
                        OpenOptionsExt, PermissionsExt, symlink,
                    },
                    process::{CommandExt, ExitStatusExt, parent_id},
                },
                process::{self, Command, ExitStatus, Stdio},
            };
            use $library as std;

            fn status(script: &str) -> io::Result<ExitStatus> {
                Command::new("sh").arg0("shell").args(["-c", script]).status()
            }

            pub(super) fn run(dir: &::std::path::Path) -> io::Result<String> {
                DirBuilder::new().mode(0o755).create(dir)?;
                let path = dir.join("file");
                let mut file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)?;
                file.write_all(b"some text")?;
                file.write_all_at(b"more", 0)?;
                file.rewind()?;
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                file.set_times(FileTimes::new())?;
                file.lock()?;
                let is_locked =
                    matches!(File::open(&path)?.try_lock(), Err(TryLockError::WouldBlock));
                symlink(&path, dir.join("link"))?;
                let mut names = Vec::new();
                for entry in fs::read_dir(dir)? {
                    let entry = entry?;
                    names.push((entry.file_name(), entry.ino() != 0, entry.file_type()?.is_fifo()));
                }
                names.sort();
                let mode = fs::metadata(&path)?.permissions().mode();
                let size = fs::symlink_metadata(&path)?.size();
                let mut cat = Command::new("cat")
                    .stdin(Stdio::from(File::open(&path)?))
                    .stdout(Stdio::piped())
                    .spawn()?;
                let mut said = Vec::new();
                cat.stdout.take().expect("it is piped").read_to_end(&mut said)?;
                let ends = [cat.wait()?.code(), status("exit 4")?.code()];
                let signal = status("kill -9 $$")?.signal();
                assert!(process::id() != parent_id());
                fs::remove_dir_all(dir)?;
                Ok(format!(
                    "{text} {is_locked} {names:?} {mode:o} {size} {said:?} {ends:?} {signal:?}"
                ))
            }
        }
    };
}

program!(ramie as with_ours);
program!(std as with_std);

#[test]
fn the_program_has_the_same_result_as_with_std() {
    let dir = std::env::temp_dir().join(format!("ramie-as-std-{}", std::process::id()));
    let theirs = with_std::run(&dir).unwrap();
    assert_eq!(with_ours::run(&dir).unwrap(), theirs);
    assert_eq!(ramie::run(|| with_ours::run(&dir)).unwrap(), theirs);
}
