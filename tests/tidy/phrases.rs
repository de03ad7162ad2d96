//! Phrases that readers stumble over, and what to write instead.

use regex::{Regex, RegexBuilder};

use crate::{
    report,
    source::{File, prose_files},
};

/// Phrases as regexes, and advice. Case is ignored. A space matches any gap between two words, also
/// a line break between two comment lines, and `\b` also matches next to an underscore.
const BANNED: &[(&str, &str)] = &[
    (
        r"\b(that|which|who|it) (is|are|was|were) none\b",
        "say what is wrong: `is not a valid certificate`",
    ),
    (r"\b(that|which|it) (is|are) no (scalars?|points?|elements?|certificate)\b", "is not a ..."),
    (r"\b(that|which|it) (is|are) no (number|power of two)\b", "is not a ..."),
    (r"\b(is|are) no whole number\b", "is not a multiple of ..., is not a whole number"),
    (r"\bmust be said\b", "must be specified, is required"),
    (r"\bas (many|much) as there (are|is)\b", "name the quantity: all points"),
    (r"\bso many\b", "name the quantity: with at least `WATCHED_MIN` scalars"),
    (r"//[/!] how many( there are)?\.", "the number of ..."),
    (r"\bthe (former|latter)\b", "repeat the noun"),
    (r"\b(is|are|was|were) let be\b", "is ignored"),
    (r"\bmend(s|ed|ing)?\b", "fix"),
    (r"\bheed(s|ed|ing)?\b", "handle, check, obey"),
    (r"\bbur(y|ies|ied|ying)\b", "wipe later"),
    (r"\bcorpses?\b", "dropped buffer"),
    (r"\bdiggers?\b", "wiper"),
    (r"\balarms?\b", "timeout"),
    (r"\bwhose turn it is\b", "the next GPU"),
    (r"\bfor who\b", "lets benchmarks compare ..."),
    (r"(?-i:\bWho) (asks|comes|gives|looks|stops|wants)\b", "name the subject: the caller"),
    (r"\bwhat does not fit\b", "name the subject: payloads that do not fit"),
    (r"(?-i:\bOf which)\b", "write a sentence or a noun phrase: the curve group"),
    (r"//[/!] (the same|as above|likewise)[.,:;]", "state it, or link: like [`Self::msm`], for G2"),
    (r"\bby then\b", "name the event: before the deadline"),
    (r"\b(an? (\w+ )?\w+|\w+s) of (its|their|our|your) own\b", "its own thread"),
    (r"\bon its own way\b", "separately"),
    (r"\bwhere there (is|are) (one|none|no|an?)\b", "if there is"),
    (r"\bwhere (it|they) (lies?|landed)\b", "in place"),
    (
        r"\b(has|have|had) (it|them|GPUs|a GPU|the \w+) (do|be)\b",
        "uses a GPU for ..., makes it ...",
    ),
    (r"\bkept multiples\b", "precomputed multiples"),
];

/// Blanks or an underscore, or a line break with the marker of the next comment line.
const GAP: &str = r"(?:[ \t_]+|[ \t]*\\?\r?\n[ \t]*(?://[/!]?|#|\*)?[ \t]*)";

/// Contains the phrases that it bans.
const EXEMPT: &str = "tests/tidy/phrases.rs";

fn banned() -> Vec<(Regex, &'static str)> {
    let compile = |phrase: &str| {
        let pattern = phrase.replace(r"\b", r"(?:\b|_)").replace(' ', GAP);
        let regex = RegexBuilder::new(&pattern).case_insensitive(true).unicode(false).build();
        regex.unwrap_or_else(|error| panic!("{phrase}: {error}"))
    };
    BANNED.iter().map(|(phrase, advice)| (compile(phrase), *advice)).collect()
}

fn complaints(File { path, text }: &File, banned: &[(Regex, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (regex, advice) in banned {
        for hit in regex.find_iter(text) {
            let line = text[..hit.start()].matches('\n').count() + 1;
            let words: Vec<_> = hit.as_str().split_whitespace().collect();
            found.push((line, format!("{path}:{line}: \"{}\": {advice}", words.join(" "))));
        }
    }
    found.sort();
    found.into_iter().map(|(_, complaint)| complaint).collect()
}

#[test]
fn no_banned_phrase_is_used() {
    let banned = banned();
    let files = prose_files().into_iter().filter(|file| file.path != EXEMPT);
    report(files.flat_map(|file| complaints(&file, &banned)).collect());
}

#[test]
fn phrases_are_found_across_lines_and_in_names() {
    let count = |text: &str| {
        let file = File { path: "x".into(), text: text.into() };
        complaints(&file, &banned()).len()
    };
    for text in [
        "a key that is none",
        "/// the\n    /// latter",
        "# whose\n# turn it is",
        "fn who_mends_it()",
        "/// Of which the points are.",
        "/// The same, without a label.",
        "on a thread of its own",
        "without deadlines\n// of its own",
        "/// How many.",
        "a pass of so many scalars",
        "the alarm",
    ] {
        assert_eq!(count(text), 1, "{text}");
    }
    for text in [
        "recommended",
        "let be = value.to_be_bytes();",
        "of which the first",
        "/// The same number of rows.",
        "because of its own limits",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}
