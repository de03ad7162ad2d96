//! The file of tokens: TOML with the name, tenant, hash and expiry of each. It holds no secrets.
//!
//! Tokens of the file are hashed once: they are random, so a slow password hash would only cost
//! time on each call. Verified JSON Web Tokens are remembered by their hash, because a signature
//! takes longer to verify than a small NTT to compute.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    time::SystemTime,
};

use serde::Deserialize;
use toml_edit::Datetime;

use super::{
    name::{NAME_BYTES_MAX, is_valid_name, is_valid_tenant_name},
    token::TokenHash,
};
use crate::credential_problem::CredentialProblem;

/// Why a token file cannot be used. Never quotes a value: it may be a token in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileProblem {
    /// The text is not TOML, or an entry lacks something or has something unknown.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// An entry is wrong.
    #[error("entry {number}: {problem}")]
    Entry {
        /// The entry, from 1.
        number: usize,
        /// What is wrong with it.
        problem: EntryProblem,
    },
    /// An edit needs another entry.
    #[error("no token has this name")]
    NoSuchName,
    /// An edit cannot keep the file's form.
    #[error("the list of tokens must be written as [[tokens]] tables")]
    NotTables,
}

/// What is wrong with an entry of a token file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryProblem {
    /// The name is empty, too long, or has characters that are not visible.
    #[error("name must be 1 to {NAME_BYTES_MAX} bytes of visible characters")]
    Name,
    /// No tenant can have this name.
    #[error(
        "tenant must be 1 to 64 of a-z, 0-9, '-', '_' and '.', and begin with a letter or digit"
    )]
    Tenant,
    /// The hash is malformed.
    #[error("sha256 must be 64 hexadecimal digits")]
    Hash,
    /// The expiry is malformed.
    #[error("expires must be a time in UTC such as 2027-01-31T12:00:00Z")]
    Expiry,
    /// An earlier entry has the same name.
    #[error("an earlier entry has the same name")]
    SameName,
    /// An earlier entry has the same hash.
    #[error("an earlier entry has the same sha256")]
    SameHash,
}

/// One token of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenEntry {
    /// Name of the caller; no other entry has it.
    pub name: String,
    /// The tenant that its calls count for; `None` for the default.
    pub tenant: Option<String>,
    /// Hash of the token.
    pub hash: TokenHash,
    /// When the token stops working; `None` for never.
    pub expires: Option<SystemTime>,
}

/// The tokens that a server accepts.
#[derive(Debug, Default)]
pub struct TokenFile {
    entries: Vec<TokenEntry>,
    /// Index of the entry with a hash.
    by_hash: HashMap<TokenHash, usize>,
    left_out: Vec<TokenFileProblem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    tokens: Vec<RawEntry>,
}

// An unknown field is an error: a misspelt `expires` would make a token that never expires.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: String,
    tenant: Option<String>,
    sha256: String,
    expires: Option<RawExpiry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawExpiry {
    Time(Datetime),
    Text(String),
}

impl TokenFile {
    /// Parses the file.
    ///
    /// Errors: `Syntax` and `Entry`, for the first problem.
    pub fn parse(text: &str) -> Result<Self, TokenFileProblem> {
        let mut file = Self::parse_usable(text)?;
        if file.left_out.is_empty() { Ok(file) } else { Err(file.left_out.swap_remove(0)) }
    }

    /// Parses the file without the entries that are wrong, so that a token that was removed does
    /// not stay in use because of another one.
    ///
    /// Errors: `Syntax`.
    pub fn parse_usable(text: &str) -> Result<Self, TokenFileProblem> {
        let raw: RawFile = toml_edit::de::from_str(text)
            .map_err(|error| syntax(text, error.span(), error.message()))?;
        let mut file = Self::default();
        let mut names = HashSet::new();
        for (index, raw) in raw.tokens.into_iter().enumerate() {
            if let Err(problem) = raw.check().and_then(|entry| file.add(entry, &mut names)) {
                file.left_out.push(TokenFileProblem::Entry { number: index + 1, problem });
            }
        }
        Ok(file)
    }

    fn add(&mut self, entry: TokenEntry, names: &mut HashSet<String>) -> Result<(), EntryProblem> {
        if names.contains(&entry.name) {
            return Err(EntryProblem::SameName);
        }
        if self.by_hash.contains_key(&entry.hash) {
            return Err(EntryProblem::SameHash);
        }
        names.insert(entry.name.clone());
        self.by_hash.insert(entry.hash, self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    /// The entries that are wrong.
    pub fn left_out(&self) -> &[TokenFileProblem] {
        &self.left_out
    }

    /// The entries, in the file's order.
    pub fn entries(&self) -> &[TokenEntry] {
        &self.entries
    }

    /// The entry of a token. Its hash is looked up, so the time that takes says nothing about the
    /// tokens of other callers.
    ///
    /// Errors: `UnknownToken`, `Expired`.
    pub fn find(&self, token: &[u8], now: SystemTime) -> Result<&TokenEntry, CredentialProblem> {
        let index = self.by_hash.get(&TokenHash::of(token));
        let entry = &self.entries[*index.ok_or(CredentialProblem::UnknownToken)?];
        match entry.expires {
            Some(expires) if expires <= now => Err(CredentialProblem::Expired),
            _ => Ok(entry),
        }
    }
}

impl RawEntry {
    fn check(self) -> Result<TokenEntry, EntryProblem> {
        if !is_valid_name(&self.name) {
            return Err(EntryProblem::Name);
        }
        if !self.tenant.as_deref().is_none_or(is_valid_tenant_name) {
            return Err(EntryProblem::Tenant);
        }
        let expires = self.expires.map(|expires| {
            let text = match expires {
                RawExpiry::Time(time) => time.to_string(),
                RawExpiry::Text(text) => text,
            };
            humantime::parse_rfc3339(&text).map_err(|_| EntryProblem::Expiry)
        });
        Ok(TokenEntry {
            name: self.name,
            tenant: self.tenant,
            hash: TokenHash::parse(&self.sha256).ok_or(EntryProblem::Hash)?,
            expires: expires.transpose()?,
        })
    }
}

/// The problem of a text that the parser refuses at `span`.
pub fn syntax(text: &str, span: Option<Range<usize>>, message: &str) -> TokenFileProblem {
    let before = &text.as_bytes()[..span.map_or(0, |span| span.start).min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    // Messages quote values between these signs.
    let problem = match message.contains('"') {
        true => "a value has the wrong type",
        false => message,
    };
    TokenFileProblem::Syntax { line, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: &str = "# Ours.\n[[tokens]]\nname = \"ci\"\ntenant = \"provers\"\n\
        sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n\
        expires = 2027-01-31T12:00:00Z # Ask Ada.\n";

    fn problem(text: &str) -> String {
        TokenFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn finds_tokens_by_hash_until_they_expire() {
        let file = TokenFile::parse(FILE).unwrap();
        let expires = humantime::parse_rfc3339("2027-01-31T12:00:00Z").unwrap();
        let before = expires - Duration::from_secs(1);
        let entry = file.find(b"abc", before).unwrap();
        assert_eq!((entry.name.as_str(), entry.tenant.as_deref()), ("ci", Some("provers")));
        assert_eq!(file.find(b"abc", expires), Err(CredentialProblem::Expired));
        assert_eq!(file.find(b"abd", before), Err(CredentialProblem::UnknownToken));
        assert_eq!(file.find(b"", before), Err(CredentialProblem::UnknownToken));
        let quoted = FILE.replace("2027-01-31T12:00:00Z", "\"2027-01-31T12:00:00Z\"");
        assert_eq!(TokenFile::parse(&quoted).unwrap().entries(), file.entries());
        assert!(TokenFile::parse("").unwrap().entries().is_empty());
    }

    #[test]
    fn refuses_files_with_anything_wrong() {
        let refused = |from: &str, to: &str| problem(&FILE.replace(from, to));
        assert!(refused("expires", "expire").starts_with("line 6: unknown field `expire`"));
        assert!(refused("[[tokens]]", "[[token]]").starts_with("line 2: unknown field `token`"));
        assert!(refused("name = \"ci\"\n", "").contains("missing field `name`"));
        assert_eq!(refused("ba78", "a78"), "entry 1: sha256 must be 64 hexadecimal digits");
        assert!(refused("\"ci\"", "\"c\\u202Ei\"").starts_with("entry 1: name must be"));
        for name in ["", "Provers", "a/b", "-a"] {
            let problem = refused("\"provers\"", &format!("\"{name}\""));
            assert!(problem.starts_with("entry 1: tenant must be"), "{problem}");
        }
        assert!(refused("2027-01-31T12:00:00Z", "2027-01-31").starts_with("entry 1: expires must"));
        assert!(refused("12:00:00Z", "12:00:00+01:00").starts_with("entry 1: expires must"));
        let twice = format!("{FILE}{FILE}");
        assert_eq!(problem(&twice), "entry 2: an earlier entry has the same name");
        let renamed = format!("{FILE}{}", FILE.replace("\"ci\"", "\"cd\""));
        assert_eq!(problem(&renamed), "entry 2: an earlier entry has the same sha256");
    }

    #[test]
    fn an_entry_that_is_wrong_is_left_out_and_the_others_are_used() {
        let other = FILE.replace("\"ci\"", "\"cd\"").replace("ba78", "ca78");
        let twice = FILE.replace("\"ci\"", "\"again\"");
        let wrong = FILE.replace("ba78", "").replace("\"ci\"", "\"wrong\"");
        let file = TokenFile::parse_usable(&[FILE, &wrong, &twice, &other].concat()).unwrap();
        let names: Vec<_> = file.entries().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["ci", "cd"]);
        let entry = |number, problem| TokenFileProblem::Entry { number, problem };
        let left_out = [entry(2, EntryProblem::Hash), entry(3, EntryProblem::SameHash)];
        assert_eq!(file.left_out(), left_out);
        let before = humantime::parse_rfc3339("2026-01-31T12:00:00Z").unwrap();
        assert_eq!(file.find(b"abc", before).unwrap().name, "ci");
    }

    #[test]
    fn problems_never_quote_a_token_in_the_wrong_place() {
        for text in [
            "tokens = [\"capstan_secret\"]",
            "[[tokens]]\ncapstan_secret",
            "tokens = \"capstan_secret\"",
            "[[tokens]]\nname = \"a\"\nsha256 = \"capstan_secret\"\n",
            "[[tokens]]\nname = \"a\"\nsha256 = [\"capstan_secret\"]\n",
        ] {
            assert!(!problem(text).contains("secret"), "{}", problem(text));
        }
    }
}
