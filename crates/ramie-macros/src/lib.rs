//! The attribute macros of `ramie`. They rewrite tokens by hand, so that no parser crate has to be
//! compiled.

#![forbid(unsafe_code)]

mod function;
mod options;

use proc_macro::{Span, TokenStream};

use self::{function::Function, options::Options};

/// An error in the use of an attribute: its location, and the remedy.
struct Mistake {
    span: Span,
    sentence: String,
}

impl Mistake {
    fn new(span: Span, sentence: impl Into<String>) -> Self {
        Mistake { span, sentence: sentence.into() }
    }

    /// `compile_error!` at the location of the error.
    fn into_tokens(self) -> TokenStream {
        let text = format!("::core::compile_error!({:?});", self.sentence);
        let stream: TokenStream = text.parse().unwrap_or_default();
        let at_the_place = stream.into_iter().map(|mut token| {
            token.set_span(self.span);
            token
        });
        at_the_place.collect()
    }
}

/// Runs the body of `main` as a fiber: `ramie::run(|| { … })`.
///
/// | argument | values | default |
/// |---|---|---|
/// | `workers` | a number from 1 to 1,024, or `"all"` CPUs | all |
/// | `strands` | `"fibers"`, `"threads"` | `RAMIE_STRANDS`, else fibers |
/// | `driver` | `"uring"`, `"poll"` | `RAMIE_DRIVER`, else `"uring"` if it works here |
/// | `stack_size` | bytes, from 32 KiB to 1 GiB | `RAMIE_STACK`, else 256 KiB |
/// | `blocking_threads` | a number from 1 to 16,384 | 512 |
/// | `thread_name` | prefix of the worker threads' names, before a number | `"ramie-worker"` |
/// | `crate` | path of this crate, if it is renamed in `Cargo.toml` or re-exported by another crate | `"::ramie"` |
///
/// For the other options build a `ramie::Runtime` by hand. The function takes no arguments and
/// keeps its return type.
///
/// ```
/// #[ramie::main(workers = 2, stack_size = 65_536)]
/// fn main() -> std::io::Result<()> {
///     ramie::fiber::spawn(|| println!("on a fiber")).join().unwrap();
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let rewrite = || {
        let options = Options::parse("#[ramie::main]", false, arguments)?;
        Ok(Function::parse("#[ramie::main]", function)?.run_by(&options.runner(None)))
    };
    rewrite().unwrap_or_else(Mistake::into_tokens)
}

/// Turns a function into a test whose body runs as a fiber of its own runtime.
///
/// It takes the arguments of [`main`](macro@main), and one more:
///
/// | argument | values | default |
/// |---|---|---|
/// | `start_paused` | `true`: time stands still, and jumps to the next timer when every strand waits (`ramie::time::ManualClock::jumping`) | `false` |
///
/// The function takes no arguments and keeps its return type. `#[should_panic]` and `#[ignore]` go
/// below this attribute as usual. If the runtime cannot start here (io_uring may be forbidden), the
/// test fails with the reason.
///
/// If strands of the test can never go on (`ramie::Builder::on_deadlock`), the process ends with
/// the report and the name of the test, because the test would never end. The thread of the test
/// harness does not count as one that may wake a strand; other threads do, also those of other
/// tests.
///
/// ```
/// #[ramie::test(driver = "poll", workers = 1)]
/// fn an_answer_comes() -> std::io::Result<()> {
///     let answer = ramie::fiber::spawn(|| 42);
///     assert_eq!(answer.join().unwrap(), 42);
///     Ok(())
/// }
///
/// #[ramie::test(start_paused = true)]
/// fn an_hour_takes_no_time() {
///     ramie::fiber::sleep(std::time::Duration::from_secs(3600));
/// }
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let rewrite = || {
        let options = Options::parse("#[ramie::test]", true, arguments)?;
        let function = Function::parse("#[ramie::test]", function)?;
        function.refuse_attribute("test", "remove the #[test]: #[ramie::test] makes it a test")?;
        let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
        let runner = options.runner(Some(&function.name()));
        test.extend(function.run_by(&runner));
        Ok(test)
    };
    rewrite().unwrap_or_else(Mistake::into_tokens)
}
