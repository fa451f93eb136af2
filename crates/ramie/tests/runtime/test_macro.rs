//! `#[ramie::test]`, and the answers of the attributes to mistakes.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
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

/// Compiles a source that uses the attributes of a crate `ramie`, or of one renamed to `renamed`;
/// returns the compiler's message, if it refuses.
fn compile(source: &str) -> Result<(), String> {
    let test = env::current_exe().expect("a test is a program");
    let deps = test.parent().expect("target/profile/deps");
    let is_macros = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libramie_macros") && name.ends_with(".so")
    };
    let files = fs::read_dir(deps).expect("a readable folder").map(|entry| entry.unwrap().path());
    let modified = |path: &PathBuf| fs::metadata(path).and_then(|of| of.modified()).unwrap();
    let macros = files.filter(is_macros).max_by_key(modified).expect("ramie depends on it");
    // A folder, not /dev/null: run by root, the compiler moves its output there, over the device.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let out = env::temp_dir().join(format!("ramie-test-macro-{}-{number}", std::process::id()));
    fs::create_dir(&out).expect("the folder for temporary files can be written to");
    let mut compiler = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .arg(&out)
        .arg("--extern")
        .arg(format!("ramie={}", macros.display()))
        .arg("--extern")
        .arg(format!("renamed={}", macros.display()))
        .arg("-")
        .current_dir(env::temp_dir())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rustc is where cargo is");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    fs::remove_dir_all(&out).expect("made above");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The crate behind the attributes has none of Ramie's items: only the path that is given leads to
/// such.
#[test]
fn a_renamed_crate_is_named() {
    let runtime = "
        pub fn run<T>(f: impl FnOnce() -> T) -> T { f() }
        pub enum Driver { Poll }
        pub mod time {
            pub struct ManualClock;
            impl ManualClock { pub fn jumping() -> Self { ManualClock } }
        }
        pub struct Runtime;
        impl Runtime {
            pub fn builder() -> Self { Runtime }
            pub fn driver(self, _: Driver) -> Self { self }
            pub fn clock(self, _: time::ManualClock) -> Self { self }
            pub fn build(self) -> Result<Self, String> { Ok(self) }
            pub fn run<T>(&self, f: impl FnOnce() -> T) -> T { f() }
        }";
    for (attribute, path) in [
        ("renamed::main(crate = \"crate\")", ""),
        ("renamed::main(crate = \"crate::inner\")", "inner"),
        ("renamed::main(driver = \"poll\", crate = \"crate::inner\")", "inner"),
        ("renamed::test(crate = \"crate\", driver = \"poll\", start_paused = true)", ""),
    ] {
        let items = match path {
            "" => runtime.to_owned(),
            path => format!("mod {path} {{ {runtime} }}"),
        };
        compile(&format!("{items} #[{attribute}] fn f() {{}}")).unwrap();
    }
    assert!(compile(&format!("{runtime} #[renamed::main] fn f() {{}}")).is_err());
}

#[test]
fn mistakes_get_a_sentence() {
    let mistakes = [
        (
            "#[ramie::main(colour = 2)] fn main() {}",
            "unknown option `colour`: #[ramie::main] takes",
        ),
        ("#[ramie::main(start_paused = true)] fn main() {}", "unknown option `start_paused`"),
        ("#[ramie::main(workers = 0)] fn main() {}", "a number from 1 to 1024"),
        (
            "#[ramie::main(stack_size = 1_000)] fn main() {}",
            "invalid value `1_000` for stack_size: expected a number of bytes",
        ),
        ("#[ramie::main(blocking_threads = 0)] fn main() {}", "a number from 1 to 16384"),
        (
            "#[ramie::main(thread_name = 5)] fn main() {}",
            "invalid value `5` for thread_name: expected a string",
        ),
        (
            "#[ramie::main(crate = ramie)] fn main() {}",
            "invalid value `ramie` for crate: expected the path",
        ),
        ("#[ramie::main(crate = \"a b\")] fn main() {}", "for crate: expected the path"),
        ("#[ramie::main(crate = \"\")] fn main() {}", "for crate: expected the path"),
        ("#[ramie::test(start_paused = 1)] fn t() {}", "for start_paused: expected true or false"),
        (
            "#[ramie::test(driver = \"fibers\")] fn t() {}",
            "for driver: expected \"uring\" or \"poll\"",
        ),
        ("#[ramie::main] async fn main() {}", "remove the `async`"),
        ("#[ramie::main] struct Main;", "applies to a function with a body"),
        ("#[ramie::main] fn main(count: u8) {}", "a function without parameters"),
        ("#[ramie::test] async fn t() {}", "remove the `async`"),
        ("#[ramie::test] fn t(count: u8) {}", "#[ramie::test] needs a function without parameters"),
        ("#[ramie::test] fn t<T>() {}", "a function without parameters"),
        ("#[ramie::test] const T: u8 = 1;", "applies to a function with a body"),
        ("#[ramie::test] #[test] fn t() {}", "remove the #[test]"),
        ("#[ramie::test(colour = 2)] fn t() {}", "unknown option `colour`: #[ramie::test] takes"),
        ("#[ramie::test(driver = \"iocp\")] fn t() {}", "invalid value `\"iocp\"` for driver"),
        (
            "#[ramie::test(strands = \"tasks\")] fn t() {}",
            "for strands: expected \"fibers\" or \"threads\"",
        ),
        ("#[ramie::test(workers = 0)] fn t() {}", "a number from 1 to 1024"),
        ("#[ramie::test(workers = \"two\")] fn t() {}", "a number from 1 to 1024"),
        ("#[ramie::test(workers = 1, workers = 2)] fn t() {}", "workers is given twice"),
        ("#[ramie::test(workers)] fn t() {}", "#[ramie::test] takes workers"),
        ("#[ramie::test(workers = two)] fn t() {}", "invalid value `two` for workers: expected"),
        ("#[ramie::test(workers = 1 driver = \"poll\")] fn t() {}", "#[ramie::test] takes workers"),
        ("#[ramie::test(\"poll\")] fn t() {}", "#[ramie::test] takes workers"),
    ];
    for (source, sentence) in mistakes {
        let said = compile(source).expect_err(source);
        // The compiler shows the sentence as it stands in the source of the `compile_error!`.
        let plain = said.replace('\\', "");
        assert!(plain.contains(sentence), "'{source}' does not get '{sentence}' but:\n{said}");
    }
}
