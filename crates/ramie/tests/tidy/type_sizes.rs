//! The sizes of types: a type with many fields and methods is several types in one, and a signature
//! that takes it does not show which of them the function may change.
//!
//! Items of nested modules, such as unit tests, are not counted, nor are the methods of traits.

use std::collections::BTreeMap;

use super::{fail_if_any, imports::tokens, sources};

const MAX_FIELDS: usize = 15;
const MAX_METHODS: usize = 40;

/// Types with more methods, with the reason.
const FACADES: &[(&str, &str)] = &[
    (
        "crates/ramie-driver/src/driver/mod.rs: Driver",
        "the façade of its crate: a method for each call of a worker, which one backend serves",
    ),
    (
        "crates/ramie/src/net/socket.rs: Socket",
        "the methods that the twins of std's sockets have in common",
    ),
];

/// A type that a source defines, or to which it adds methods.
#[derive(Debug, PartialEq)]
enum Item {
    Type { name: String, fields: usize },
    Impl { name: String, methods: usize },
}

/// The number of tokens of the group in brackets with which `tokens` begins.
fn group_len(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The number of tokens of the generic parameters with which `tokens` begins; 0 if there are none.
fn generics_len(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "<" => depth += 1,
            ">" if at > 0 && tokens[at - 1] != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
    }
    tokens.len()
}

/// The number of fields in the body of a struct, which begins behind its brace: of colons that
/// stand in no group and in no generic parameters.
fn count_fields(body: &[&str]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < body.len() && body[at] != "}" {
        count += usize::from(body[at] == ":");
        at += match body[at] {
            "{" | "(" | "[" => group_len(&body[at..]),
            "<" => generics_len(&body[at..]),
            _ => 1,
        };
    }
    count
}

/// The number of functions in the body of an `impl`, which begins behind its brace.
fn count_methods(body: &[&str]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < body.len() && body[at] != "}" {
        // Without a name it is a type.
        count += usize::from(body[at] == "fn" && body[at + 1].starts_with(char::is_alphabetic));
        at += if body[at] == "{" { group_len(&body[at..]) } else { 1 };
    }
    count
}

/// The type to which an `impl` with this header adds methods; `None` for the `impl` of a trait.
fn type_of(header: &[&str]) -> Option<String> {
    let header = &header[generics_len(header)..];
    let is_of_trait = header.windows(2).any(|pair| pair[0] == "for" && pair[1] != "<");
    let is_of_path = |token: &&&str| **token == "::" || token.starts_with(char::is_alphabetic);
    let name = header.iter().take_while(is_of_path).last()?;
    (!is_of_trait).then(|| (*name).to_owned())
}

fn items(text: &str) -> Vec<Item> {
    let tokens = tokens(text);
    let tokens: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let (mut at, mut items) = (0, Vec::new());
    while at < tokens.len() {
        let rest = &tokens[at..];
        match rest[0] {
            "struct" | "union" => {
                at += 2 + generics_len(&rest[2..]);
                let is_tuple = tokens[at] == "(";
                at += tokens[at..].iter().take_while(|token| !["{", ";"].contains(*token)).count();
                let has_fields = !is_tuple && tokens[at] == "{";
                let fields = if has_fields { count_fields(&tokens[at + 1..]) } else { 0 };
                items.push(Item::Type { name: rest[1].to_owned(), fields });
            }
            "enum" => {
                items.push(Item::Type { name: rest[1].to_owned(), fields: 0 });
                at += rest.iter().take_while(|token| **token != "{").count();
            }
            "impl" => {
                let open = rest.iter().position(|token| *token == "{").unwrap_or(rest.len() - 1);
                let methods = count_methods(&rest[open + 1..]);
                items.extend(type_of(&rest[1..open]).map(|name| Item::Impl { name, methods }));
                at += open;
            }
            "{" | "(" | "[" => at += group_len(rest),
            _ => at += 1,
        }
    }
    items
}

/// The number of folders that two paths share from their beginning.
fn shared_folders(one: &str, other: &str) -> usize {
    one.split('/').zip(other.split('/')).take_while(|(one, other)| one == other).count()
}

/// Fields and methods of each type, which is named by its file and its name. An `impl` belongs to
/// the type of that name whose file is nearest.
fn sizes_of(sources: &[(String, String)]) -> BTreeMap<(String, String), (usize, usize)> {
    let mut sizes = BTreeMap::new();
    let mut impls = Vec::new();
    for (file, text) in sources {
        for item in items(text) {
            match item {
                Item::Type { name, fields } => {
                    sizes.insert((file.clone(), name), (fields, 0));
                }
                Item::Impl { name, methods } => impls.push((file, name, methods)),
            }
        }
    }
    for (file, name, methods) in impls {
        let of_name = sizes.iter_mut().filter(|((_, other), _)| *other == name);
        let nearest = of_name.max_by_key(|((other, _), _)| shared_folders(other, file));
        if let Some((_, size)) = nearest {
            size.1 += methods;
        }
    }
    sizes
}

fn complaints_of(sources: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((file, name), (fields, methods)) in sizes_of(sources) {
        let place = format!("{file}: {name}");
        let is_facade = FACADES.iter().any(|(facade, _)| *facade == place);
        if fields > MAX_FIELDS {
            complaints.push(format!("{place} has {fields} fields; make some of them a type"));
        }
        if methods > MAX_METHODS && !is_facade {
            complaints.push(format!("{place} has {methods} methods; move some to its fields"));
        }
        if methods <= MAX_METHODS && is_facade {
            complaints.push(format!("{place} has {methods} methods; take it out of FACADES"));
        }
    }
    complaints
}

#[test]
fn types_have_few_fields_and_methods() {
    let is_library = |(file, _): &(String, String)| {
        ["crates/ramie/src/", "crates/ramie-driver/src/"].iter().any(|root| file.starts_with(root))
    };
    let sources: Vec<_> = sources().into_iter().filter(is_library).collect();
    assert!(sizes_of(&sources).len() > 300, "the parser overlooks types");
    fail_if_any(complaints_of(&sources));
}

#[test]
fn fields_and_methods_are_counted() {
    let text = "pub struct Pair<T: Copy>(T, T);
        #[repr(C)]
        struct Large<'a, F: Fn(u8) -> u8> where F: 'a {
            // one: u8,
            #[doc(hidden)] pub(crate) first: HashMap<u8, Vec<(u8, u8)>>,
            second: fn(u8) -> Option<u8>,
            third: &'a [u8; { 1 + 2 }],
        }
        impl<'a, F: Fn(u8) -> u8> Large<'a, F> {
            const fn one(&self) -> fn(u8) { |_| { fn inner() {} } }
            pub(crate) unsafe extern \"C\" fn two() {}
        }
        impl<F> Drop for Large<'_, F> { fn drop(&mut self) {} }
        impl super::Large<'_, X> where for<'b> X: Y<'b> { fn three(&self) {} }
        mod tests { struct Hidden { a: u8 } impl Large { fn four() {} } }";
    let item = |name: &str, methods| Item::Impl { name: name.to_owned(), methods };
    let expected = [
        Item::Type { name: "Pair".to_owned(), fields: 0 },
        Item::Type { name: "Large".to_owned(), fields: 3 },
        item("Large", 2),
        item("Large", 1),
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn a_type_that_grew_is_found() {
    let file = |name: &str, text: String| (format!("crates/ramie/src/{name}"), text);
    let methods =
        |count: usize| (0..count).map(|n| format!("fn f{n}() {{}}\n")).collect::<String>();
    let fields = (0..16).map(|n| format!("f{n}: u8,\n")).collect::<String>();
    let sources = |count| {
        [
            file("core/one.rs", format!("struct One {{ {fields} }}")),
            file("core/two.rs", format!("struct Two; impl Two {{ {} }}", methods(20))),
            file("core/more.rs", format!("impl Two {{ {} }}", methods(count))),
            // Another type of the name.
            file("net/two.rs", format!("struct Two; impl Two {{ {} }}", methods(40))),
        ]
    };
    assert_eq!(complaints_of(&sources(20)).len(), 1);
    let found = complaints_of(&sources(21));
    assert!(found[0].contains("core/one.rs: One has 16 fields"), "{found:?}");
    assert!(found[1].contains("core/two.rs: Two has 41 methods"), "{found:?}");
}
