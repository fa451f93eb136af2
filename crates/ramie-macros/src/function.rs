//! Parses the function below an attribute, as far as needed to move its body into a closure.

use proc_macro::{Delimiter, Group, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::Mistake;

/// A function without parameters.
pub(crate) struct Function {
    /// The tokens before the body.
    head: Vec<TokenTree>,
    body: Group,
}

impl Function {
    /// Parses a function; errors are reported for `attribute`.
    pub(crate) fn parse(attribute: &str, function: TokenStream) -> Result<Self, Mistake> {
        let mut head: Vec<TokenTree> = function.into_iter().collect();
        let last = head.pop();
        let keyword = head.iter().position(|token| is_word(token, "fn"));
        let (Some(TokenTree::Group(body)), Some(keyword)) = (last, keyword) else {
            return Err(not_a_function(attribute));
        };
        if body.delimiter() != Delimiter::Brace {
            return Err(not_a_function(attribute));
        }
        if let Some(word) = head[..keyword].iter().find(|token| is_word(token, "async")) {
            let sentence =
                format!("{attribute} needs a function that is not async: remove the `async`");
            return Err(Mistake::new(word.span(), sentence));
        }
        check_parameters(attribute, &head[keyword..])?;
        Ok(Function { head, body })
    }

    /// The function with its body as a closure that is passed to `runner`, an expression.
    pub(crate) fn run_by(self, runner: &str) -> TokenStream {
        let closure = [
            TokenTree::Punct(Punct::new('|', Spacing::Joint)),
            TokenTree::Punct(Punct::new('|', Spacing::Alone)),
            TokenTree::Group(self.body),
        ];
        let argument = Group::new(Delimiter::Parenthesis, closure.into_iter().collect());
        let mut call: TokenStream = runner.parse().unwrap_or_default();
        call.extend([TokenTree::Group(argument)]);
        let body = TokenTree::Group(Group::new(Delimiter::Brace, call));
        self.head.into_iter().chain([body]).collect()
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> String {
        let keyword = self.head.iter().position(|token| is_word(token, "fn"));
        let name = keyword.and_then(|keyword| self.head.get(keyword + 1));
        name.map_or_else(String::new, |name| name.to_string().replace("r#", ""))
    }

    /// Returns an error if this function has the attribute `#[name]`.
    pub(crate) fn refuse_attribute(&self, name: &str, sentence: &str) -> Result<(), Mistake> {
        for token in &self.head {
            if let TokenTree::Group(group) = token
                && group.delimiter() == Delimiter::Bracket
                && group.to_string().trim_matches(['[', ']', ' ']) == name
            {
                return Err(Mistake::new(group.span(), sentence));
            }
        }
        Ok(())
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn not_a_function(attribute: &str) -> Mistake {
    Mistake::new(Span::call_site(), format!("{attribute} applies to a function with a body"))
}

/// `signature` begins with `fn`.
fn check_parameters(attribute: &str, signature: &[TokenTree]) -> Result<(), Mistake> {
    let sentence = format!("{attribute} needs a function without parameters");
    match signature.get(2) {
        Some(TokenTree::Group(list))
            if list.delimiter() == Delimiter::Parenthesis && list.stream().is_empty() =>
        {
            Ok(())
        }
        Some(token) => Err(Mistake::new(token.span(), sentence)),
        None => Err(not_a_function(attribute)),
    }
}
