//! `#[ramie::test]`, and what the attributes say to mistakes.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use ramie::fiber;

#[ramie::test]
fn without_arguments() {
    assert_eq!(fiber::current().name(), Some("main"));
}

#[ramie::test(driver = "poll", workers = 1)]
fn one_worker_polls() {
    let order = std::cell::RefCell::new(Vec::new());
    fiber::scope(|scope| {
        for n in 0..3 {
            let order = &order;
            scope.spawn_local(move || order.borrow_mut().push(n));
        }
    });
    assert_eq!(order.into_inner(), [0, 1, 2]);
}

#[ramie::test(strands = "fibers", driver = "poll")]
fn on_fibers() {
    assert!(!fiber::current().id().is_thread());
    assert!(!fiber::spawn(|| fiber::current().id().is_thread()).join().unwrap());
}

#[ramie::test(strands = "threads", workers = 2)]
fn on_threads() {
    assert!(fiber::current().id().is_thread());
    assert!(fiber::spawn(|| fiber::current().id().is_thread()).join().unwrap());
}

/// Attributes, a visibility and a return type are kept.
#[ramie::test(workers = "all")]
pub(crate) fn with_a_result() -> Result<(), std::num::ParseIntError> {
    let number: u8 = fiber::spawn(|| "7".parse()).join().unwrap()?;
    assert_eq!(number, 7);
    Ok(())
}

#[ramie::test(workers = 1_0)]
#[should_panic(expected = "as planned")]
fn that_panics() {
    fiber::spawn(|| ()).join().unwrap();
    panic!("as planned");
}

/// What the compiler says to a source that uses the attributes.
fn compile(source: &str) -> String {
    let test = env::current_exe().expect("a test is a program");
    let deps = test.parent().expect("target/profile/deps");
    let is_macros = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libramie_macros") && name.ends_with(".so")
    };
    let files = fs::read_dir(deps).expect("a readable folder").map(|entry| entry.unwrap().path());
    let modified = |path: &PathBuf| fs::metadata(path).and_then(|of| of.modified()).unwrap();
    let macros = files.filter(is_macros).max_by_key(modified).expect("ramie depends on it");
    let mut compiler = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-o", "/dev/null"])
        .arg("--extern")
        .arg(format!("ramie={}", macros.display()))
        .arg("-")
        .current_dir(env::temp_dir())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rustc is where cargo is");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    assert!(!output.status.success(), "this compiles: {source}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn mistakes_get_a_sentence() {
    let mistakes = [
        ("#[ramie::main(workers = 2)] fn main() {}", "takes no arguments; use ramie::Runtime"),
        ("#[ramie::main] async fn main() {}", "drop the `async`"),
        ("#[ramie::main] struct Main;", "goes on a function with a body"),
        ("#[ramie::main] fn main(count: u8) {}", "a function without parameters"),
        ("#[ramie::test] async fn t() {}", "drop the `async`"),
        ("#[ramie::test] fn t(count: u8) {}", "#[ramie::test] wants a function without parameters"),
        ("#[ramie::test] fn t<T>() {}", "a function without parameters"),
        ("#[ramie::test] const T: u8 = 1;", "goes on a function with a body"),
        ("#[ramie::test] #[test] fn t() {}", "drop the #[test]"),
        ("#[ramie::test(colour = 2)] fn t() {}", "not colour = 2: #[ramie::test] takes driver"),
        ("#[ramie::test(driver = \"iocp\")] fn t() {}", "not driver = \"iocp\""),
        ("#[ramie::test(strands = \"tasks\")] fn t() {}", "strands = \"fibers\" or \"threads\""),
        ("#[ramie::test(workers = 0)] fn t() {}", "a number from 1 to 1024"),
        ("#[ramie::test(workers = \"two\")] fn t() {}", "a number from 1 to 1024"),
        ("#[ramie::test(workers = 1, workers = 2)] fn t() {}", "workers is given twice"),
        ("#[ramie::test(workers)] fn t() {}", "#[ramie::test] takes driver"),
        ("#[ramie::test(workers = two)] fn t() {}", "#[ramie::test] takes driver"),
        ("#[ramie::test(workers = 1 driver = \"poll\")] fn t() {}", "#[ramie::test] takes driver"),
        ("#[ramie::test(\"poll\")] fn t() {}", "#[ramie::test] takes driver"),
    ];
    for (source, sentence) in mistakes {
        let said = compile(source);
        // The compiler shows the sentence as it stands in the source of the `compile_error!`.
        let plain = said.replace('\\', "");
        assert!(plain.contains(sentence), "'{source}' does not get '{sentence}' but:\n{said}");
    }
}
