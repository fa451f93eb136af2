//! Reads from a source which modules of its own crate it names: by `use`, and by paths in the code.
//!
//! Comments, strings and code under `#[cfg(test)]` are left out.

/// One name of the own crate in a source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// The path after `crate`, with `self` and `super` resolved.
    pub(crate) path: Vec<String>,
    /// The name by which the source knows it; for re-exports.
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    line: usize,
    pub(crate) text: String,
}

/// Names, numbers and signs, with `::` as one sign.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    while at < chars.len() {
        let start = at;
        let next = chars.get(at + 1).copied().unwrap_or('\0');
        match chars[at] {
            '/' if next == '/' => at += count(&chars[at..], |c| c != '\n'),
            '/' if next == '*' => at += length_of_comment(&chars[at..]),
            '"' => at += length_of_string(&chars[at..]),
            'r' if is_raw_string(&chars[at..]) => at += length_of_raw_string(&chars[at..]),
            '\'' if next == '\\' => at += 3 + count(&chars[at + 3..], |c| c != '\'') + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            c if is_of_name(c) => {
                at += count(&chars[at..], is_of_name);
                found.push(Token { line, text: chars[start..at].iter().collect() });
            }
            ':' if next == ':' => {
                at += 2;
                found.push(Token { line, text: "::".to_owned() });
            }
            c => {
                at += 1;
                if !c.is_whitespace() {
                    found.push(Token { line, text: c.to_string() });
                }
            }
        }
        line += chars[start..at.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn count(chars: &[char], belongs: impl Fn(char) -> bool) -> usize {
    chars.iter().take_while(|&&c| belongs(c)).count()
}

fn length_of_comment(chars: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn length_of_string(chars: &[char]) -> usize {
    let mut at = 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn is_raw_string(chars: &[char]) -> bool {
    let hashes = count(&chars[1..], |c| c == '#');
    chars.get(1 + hashes) == Some(&'"')
}

fn length_of_raw_string(chars: &[char]) -> usize {
    let hashes = count(&chars[1..], |c| c == '#');
    let end: Vec<char> = format!("\"{}", "#".repeat(hashes)).chars().collect();
    let begin = hashes + 2;
    let body = chars[begin..].windows(end.len()).position(|window| window == end);
    body.map_or(chars.len(), |body| begin + body + end.len())
}

/// The names of the own crate in the source of the module `module`.
pub(crate) fn read(module: &[String], text: &str) -> Vec<Import> {
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
        module: module.to_vec(),
        braces: Vec::new(),
        found: Vec::new(),
    };
    while reader.at < reader.tokens.len() {
        reader.step();
    }
    reader.found
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    module: Vec<String>,
    /// For each brace that is open, whether it is that of a module.
    braces: Vec<bool>,
    found: Vec<Import>,
}

impl Reader {
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn step(&mut self) {
        let test = ["#", "[", "cfg", "(", "test", ")", "]"];
        match self.text(0) {
            "#" if (0..test.len()).all(|ahead| self.text(ahead) == test[ahead]) => {
                self.at += test.len();
                self.skip_item();
            }
            "mod" if self.text(2) == "{" => {
                self.module.push(self.text(1).to_owned());
                self.braces.push(true);
                self.at += 3;
            }
            "{" => {
                self.braces.push(false);
                self.at += 1;
            }
            "}" => {
                if self.braces.pop() == Some(true) {
                    self.module.pop();
                }
                self.at += 1;
            }
            "use" => {
                self.at += 1;
                self.tree(&[]);
            }
            "crate" | "super" if self.text(1) == "::" => {
                let path = self.plain_path();
                self.add(&path, None);
            }
            _ => self.at += 1,
        }
    }

    /// Skips an item: to its end, by a semicolon or the brace that closes it.
    fn skip_item(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            let text = self.text(0).to_owned();
            self.at += 1;
            match &*text {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && text == "}" {
                        return;
                    }
                }
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Reads a path in the code.
    fn plain_path(&mut self) -> Vec<String> {
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && self.text(1).starts_with(is_of_name) {
            path.push(self.text(1).to_owned());
            self.at += 2;
        }
        path
    }

    /// Reads one tree of a `use`, with the path before it.
    fn tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        loop {
            match self.text(0).to_owned().as_str() {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.tree(&path);
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = self.text(1).to_owned();
                    self.at += 2;
                    return self.add(&path, Some(name));
                }
                name if name.starts_with(is_of_name) || name == "*" => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
                // The end of the tree: a comma, a brace or the semicolon.
                _ => return self.add(&path, None),
            }
        }
    }

    fn add(&mut self, path: &[String], name: Option<String>) {
        let line = self.tokens[(self.at - 1).min(self.tokens.len() - 1)].line;
        let mut rest: Vec<String> = path.to_vec();
        if rest.len() > 1 && rest.last().is_some_and(|last| last == "self") {
            rest.pop();
        }
        let name = name.or_else(|| rest.last().cloned()).unwrap_or_default();
        let path = match rest.first().map(String::as_str) {
            Some("crate") => rest[1..].to_vec(),
            Some("self" | "super") => {
                let ups = rest.iter().take_while(|part| *part == "super").count();
                let begin = if rest[0] == "self" { 1 } else { ups };
                let kept = self.module.len().saturating_sub(ups);
                [&self.module[..kept], &rest[begin..]].concat()
            }
            // In the root a module can be named as it is.
            Some(_) if self.module.is_empty() => rest,
            _ => return,
        };
        self.found.push(Import { line, path, name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let module = ["core".to_owned(), "worker".to_owned()];
        read(&module, text).into_iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn trees_paths_and_relative_names_are_read() {
        let text = "use crate::{a::{self, b}, c as d};\nuse super::super::e::F;\nuse std::io;\n\
                    fn f() { crate::g::h(); super::time::now(); $crate::i!(); }";
        let expected = ["a", "a::b", "c", "e::F", "g::h", "core::time::now", "i"];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn comments_strings_and_tests_are_left_out() {
        let text = "// crate::a::b\n/* use crate::c; */ const S: &str = \"crate::d::e\";\n\
                    const R: &str = r#\"crate::f::\"g\"#; const C: char = '\"';\n\
                    #[cfg(test)]\nmod tests { use crate::h; fn f() { crate::i::j(); } }\n\
                    fn last<'a>() { crate::k::l() }";
        assert_eq!(paths(text), ["k::l"]);
    }

    #[test]
    fn a_name_in_a_module_within_the_file_is_resolved_from_there() {
        assert_eq!(
            paths("mod inner { use super::x; } use super::y;"),
            ["core::worker::x", "core::y"]
        );
    }
}
