//! The attribute macros of `ramie`. They rewrite tokens by hand: no parser crate is compiled for
//! them.

#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

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
    if let Some(token) = arguments.into_iter().next() {
        return error(
            token.span(),
            "#[ramie::main] takes no arguments; use ramie::Runtime::builder",
        );
    }
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let keywords = tokens.iter().filter_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    let words: Vec<String> = keywords.collect();
    if words.iter().any(|word| word == "async") {
        return error(Span::call_site(), "#[ramie::main] wants a plain fn: drop the `async`");
    }
    match tokens.pop() {
        Some(TokenTree::Group(body))
            if body.delimiter() == Delimiter::Brace && words.iter().any(|word| word == "fn") =>
        {
            tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, call_run(body))));
            tokens.into_iter().collect()
        }
        _ => error(Span::call_site(), "#[ramie::main] goes on a function with a body"),
    }
}

/// `::ramie::run(|| body)`
fn call_run(body: Group) -> TokenStream {
    let mut stream = TokenStream::new();
    for name in ["ramie", "run"] {
        stream.extend([
            TokenTree::Punct(Punct::new(':', Spacing::Joint)),
            TokenTree::Punct(Punct::new(':', Spacing::Alone)),
            TokenTree::Ident(Ident::new(name, Span::call_site())),
        ]);
    }
    let closure: TokenStream = [
        TokenTree::Punct(Punct::new('|', Spacing::Joint)),
        TokenTree::Punct(Punct::new('|', Spacing::Alone)),
        TokenTree::Group(body),
    ]
    .into_iter()
    .collect();
    stream.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, closure))]);
    stream
}

fn error(span: Span, message: &str) -> TokenStream {
    let text = format!("::core::compile_error!({message:?});");
    let stream: TokenStream = text.parse().unwrap_or_default();
    stream
        .into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}
