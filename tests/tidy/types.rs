//! Which types a file declares.

use std::{collections::BTreeMap, mem, sync::LazyLock};

use regex::{Captures, Regex};

use crate::{
    report,
    source::{File, code_files},
};

/// Comments, strings and characters.
static LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?sx)
        //[^\n]* | /\*.*?\*/
        | \bb?r\#\#".*?"\#\# | \bb?r\#".*?"\# | \bb?r"[^"]*" | "(?:\\.|[^"\\])*"
        | '(?:\\.[^']*|[^\\'])'"#;
    Regex::new(pattern).expect("a valid regex")
});

static TOKEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"r#\w+|\w+|[^\s\w]").expect("a valid regex"));

const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// What comes before an `impl` that is an item and not a type.
const ITEM_STARTS: [&str; 5] = [";", "{", "}", "]", "unsafe"];

/// Every module of errors has its own `Result`.
const MAY_REPEAT: [&str; 1] = ["Result"];

/// What is between braces.
#[derive(PartialEq)]
enum Block {
    /// A `#[cfg(test)]` module.
    Test,
    /// A trait or an `impl`, whose `type` items are associated types.
    Associated,
    Other,
}

/// Name and line (from 1) of each type that the text declares outside test modules.
fn declared(text: &str) -> Vec<(String, usize)> {
    let code = LITERAL.replace_all(text, |literal: &Captures<'_>| {
        format!(" {}", "\n".repeat(literal[0].matches('\n').count()))
    });
    let tokens: Vec<_> = TOKEN.find_iter(&code).collect();
    let words: Vec<_> = tokens.iter().map(|token| token.as_str()).collect();
    let (mut found, mut blocks) = (Vec::new(), Vec::new());
    let (mut next_block, mut test) = (Block::Other, false);
    for (i, word) in words.iter().enumerate() {
        let before = if i == 0 { ";" } else { words[i - 1] };
        match *word {
            "#" if words[i..].starts_with(&CFG_TEST) => test = true,
            "mod" if test => next_block = Block::Test,
            "impl" if ITEM_STARTS.contains(&before) => next_block = Block::Associated,
            "trait" => next_block = Block::Associated,
            "{" => {
                blocks.push(mem::replace(&mut next_block, Block::Other));
                test = false;
            }
            "}" => {
                blocks.pop();
            }
            ";" => {
                test = false;
                if next_block == Block::Test {
                    next_block = Block::Other;
                }
            }
            _ => {}
        }
        if declares(&words[i..], blocks.last()) && !blocks.contains(&Block::Test) {
            let line = code[..tokens[i].start()].matches('\n').count() + 1;
            found.push((words[i + 1].to_owned(), line));
        }
    }
    found
}

/// Whether the declaration of a type begins here.
fn declares(words: &[&str], block: Option<&Block>) -> bool {
    let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    match words {
        ["struct" | "enum" | "trait", name, ..] => is_name(name),
        ["type", name, ..] => is_name(name) && block != Some(&Block::Associated),
        ["union", name, "{" | "<" | "where", ..] => is_name(name),
        _ => false,
    }
}

#[test]

fn a_type_name_is_declared_once() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    // Test modules that are files are called `tests`.
    let tested = |file: &File| file.path.starts_with("src/") && !file.path.ends_with("/tests.rs");
    for File { path, text } in code_files().into_iter().filter(tested) {
        for (name, line) in declared(&text) {
            places.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    places.retain(|name, places| places.len() > 1 && !MAY_REPEAT.contains(&name.as_str()));
    let complaint = |(name, places): (String, Vec<String>)| {
        format!("{name} is declared in {}: give each type its own name", places.join(", "))
    };
    report(places.into_iter().map(complaint).collect());
}

#[test]
fn declarations_are_found() {
    let text = "pub(crate) struct A<'a>(&'a str);\n/* enum No {} */\nenum B { X }\n\
                impl X for [A<'_>; 2] {\n    type No = u8;\n    fn x() { type C = u8; }\n}\n\
                pub trait D {\n    type No;\n}\n\
                fn x(y: impl Fn(char)) { y('{'); type E = (); }\n\
                union F { x: u8 }\nconst X: &str = r#\"struct No\"#;\n\
                #[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { struct No; }\ntype G = u8;\n";
    let found = declared(text);
    assert_eq!(found[1], ("B".to_owned(), 3));
    let names: Vec<_> = found.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.concat(), "ABCDEFG");
}
