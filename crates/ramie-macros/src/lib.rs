//! The attribute macros of `ramie`. They rewrite tokens by hand: no parser crate is compiled for
//! them.

#![forbid(unsafe_code)]

mod function;
mod options;

use proc_macro::{Span, TokenStream};

use self::{function::Function, options::Options};

/// A mistake in the use of an attribute: where it is, and what to do.
struct Mistake {
    span: Span,
    sentence: String,
}

impl Mistake {
    fn new(span: Span, sentence: impl Into<String>) -> Self {
        Mistake { span, sentence: sentence.into() }
    }

    /// `compile_error!` at the place of the mistake.
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
/// The function keeps its return type. It takes no arguments, and the attribute takes none: build a
/// `ramie::Runtime` by hand to choose options.
///
/// ```ignore
/// #[ramie::main]
/// fn main() -> std::io::Result<()> {
///     ramie::fiber::spawn(|| println!("on a fiber")).join().unwrap();
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let rewrite = || {
        if let Some(token) = arguments.into_iter().next() {
            let sentence = "#[ramie::main] takes no arguments; use ramie::Runtime::builder";
            return Err(Mistake::new(token.span(), sentence));
        }
        Ok(Function::parse("#[ramie::main]", function)?.run_by("::ramie::run"))
    };
    rewrite().unwrap_or_else(Mistake::into_tokens)
}

/// Makes a test whose body runs as a fiber of a runtime of its own.
///
/// | argument | values | if not given |
/// |---|---|---|
/// | `driver` | `"uring"`, `"poll"` | `RAMIE_DRIVER`, else what works here |
/// | `strands` | `"fibers"`, `"threads"` | `RAMIE_STRANDS`, else fibers |
/// | `workers` | a number from 1 to 1,024, or `"all"` CPUs | all |
///
/// The function takes no arguments and keeps its return type. `#[should_panic]` and `#[ignore]` go
/// below as ever. A runtime that cannot be had here (io_uring may be forbidden) fails the test, and
/// says why.
///
/// ```ignore
/// #[ramie::test(driver = "poll", workers = 1)]
/// fn an_answer_comes() -> std::io::Result<()> {
///     let answer = ramie::fiber::spawn(|| 42);
///     assert_eq!(answer.join().unwrap(), 42);
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let rewrite = || {
        let options = Options::parse(arguments)?;
        let function = Function::parse("#[ramie::test]", function)?;
        function.refuse_attribute("test", "drop the #[test]: #[ramie::test] makes it one")?;
        let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
        test.extend(function.run_by(&options.runner()));
        Ok(test)
    };
    rewrite().unwrap_or_else(Mistake::into_tokens)
}
