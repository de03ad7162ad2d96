//! Edits of the token file, which keep its comments and order.

use std::time::SystemTime;

use toml_edit::{ArrayOfTables, Decor, DocumentMut, Item, RawString, Table, TomlError, value};

use super::token_file::{EntryProblem, TokenEntry, TokenFile, TokenFileProblem, syntax};

/// The key of the list of entries.
const ENTRIES: &str = "tokens";
/// The last second of the year 9999.
const UNIX_S_MAX: u64 = 253_402_300_799;

/// The file's text with one more entry, at its end.
///
/// Errors: see [`TokenFileProblem`]; `Entry` if the new entry is wrong.
pub fn add_token(text: &str, entry: &TokenEntry) -> Result<String, TokenFileProblem> {
    let file = TokenFile::parse(text)?;
    if !entry.expires.is_none_or(can_be_written) {
        let number = file.entries().len() + 1;
        return Err(TokenFileProblem::Entry { number, problem: EntryProblem::Expiry });
    }
    if editable(text)?.get(ENTRIES).is_some_and(|item| !item.is_array_of_tables()) {
        return Err(TokenFileProblem::NotTables);
    }
    let mut table = Table::new();
    table["name"] = value(&entry.name);
    if let Some(tenant) = &entry.tenant {
        table["tenant"] = value(tenant);
    }
    table["sha256"] = value(entry.hash.to_string());
    if let Some(expires) = entry.expires {
        table["expires"] = value(time_text(expires));
    }
    let mut added = DocumentMut::new();
    added[ENTRIES] = Item::ArrayOfTables(ArrayOfTables::from_iter([table]));
    let before = text.trim_end();
    let gap = if before.is_empty() { "" } else { "\n\n" };
    let text = format!("{before}{gap}{added}");
    TokenFile::parse(&text)?;
    Ok(text)
}

/// The file's text without the entry of this name, and without the comment right above it.
///
/// Errors: see [`TokenFileProblem`].
pub fn remove_token(text: &str, name: &str) -> Result<String, TokenFileProblem> {
    let file = TokenFile::parse(text)?;
    let index = file.entries().iter().position(|entry| entry.name == name);
    let index = index.ok_or(TokenFileProblem::NoSuchName)?;
    let mut document = editable(text)?;
    let tables = document[ENTRIES].as_array_of_tables_mut();
    let tables = tables.ok_or(TokenFileProblem::NotTables)?;
    let above = tables.get(index).map_or("", |table| prefix(table.decor()));
    // Comments that a blank line separates from the entry, such as those at the file's beginning.
    let kept = above.rfind("\n\n").map_or("", |end| &above[..end + 1]).to_owned();
    tables.remove(index);
    if let Some(next) = tables.get_mut(index) {
        let joined = kept + prefix(next.decor());
        next.decor_mut().set_prefix(joined);
    } else {
        let joined = kept + document.trailing().as_str().unwrap_or_default();
        document.set_trailing(joined);
    }
    Ok(document.to_string())
}

fn prefix(decor: &Decor) -> &str {
    decor.prefix().and_then(RawString::as_str).unwrap_or_default()
}

/// Whether a file can name the time: RFC 3339 has the years up to 9999.
pub fn can_be_written(time: SystemTime) -> bool {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.is_ok_and(|since| since.as_secs() <= UNIX_S_MAX)
}

/// A time as the file writes it. It must be one that [can be written](can_be_written), as the times
/// of every parsed entry are.
pub fn time_text(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn editable(text: &str) -> Result<DocumentMut, TokenFileProblem> {
    text.parse().map_err(|error: TomlError| syntax(text, error.span(), error.message()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::BearerToken;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn edits_keep_the_rest_of_the_file() {
        let token = BearerToken::generate().unwrap();
        let expires = humantime::parse_rfc3339("2030-01-01T00:00:00Z").unwrap();
        let hash = token.hash();
        let tenant = Some("a.b".to_owned());
        let entry = TokenEntry { name: "new".into(), tenant, hash, expires: Some(expires) };
        let one =
            format!("# Ours.\n\n# Ada.\n[[tokens]]\nname = \"ci\" # x\nsha256 = \"{HASH}\"\n");
        for start in ["", "# Ours.\n", &one, &format!("{one}# The end.\n")] {
            let text = add_token(start, &entry).unwrap();
            assert!(text.starts_with(start.trim_end()), "{text}");
            let file = TokenFile::parse(&text).unwrap();
            assert_eq!(file.entries().last(), Some(&entry));
            assert_eq!(file.find(token.text().as_bytes(), SystemTime::UNIX_EPOCH), Ok(&entry));
            let again = add_token(&text, &entry);
            assert!(matches!(again, Err(TokenFileProblem::Entry { .. })), "{again:?}");
            assert_eq!(remove_token(&text, "new").unwrap().trim_end(), start.trim_end());
        }
        let two = add_token(&one, &entry).unwrap();
        let rest = remove_token(&two, "ci").unwrap();
        assert!(rest.starts_with("# Ours.\n\n[[tokens]]\nname = \"new\""), "{rest}");
        assert_eq!(remove_token(&one, "ci").unwrap(), "# Ours.\n");
        assert_eq!(remove_token(&one, "new"), Err(TokenFileProblem::NoSuchName));
        let inline = format!("tokens = [{{ name = \"a\", sha256 = \"{hash}\" }}]");
        assert_eq!(remove_token(&inline, "a"), Err(TokenFileProblem::NotTables));
        assert_eq!(add_token(&inline, &entry), Err(TokenFileProblem::NotTables));
    }

    #[test]
    fn wrong_entries_are_not_added() {
        let hash = BearerToken::generate().unwrap().hash();
        let entry = TokenEntry { name: "a\u{202e}".into(), tenant: None, hash, expires: None };
        assert!(matches!(add_token("", &entry), Err(TokenFileProblem::Entry { .. })));
    }

    #[test]
    fn an_entry_expires_before_the_year_10000_or_never() {
        let hash = BearerToken::generate().unwrap().hash();
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(UNIX_S_MAX);
        let with = |expires| {
            let entry = TokenEntry { name: "a".into(), tenant: None, hash, expires: Some(expires) };
            add_token("", &entry)
        };
        assert!(with(last).unwrap().contains("9999-12-31T23:59:59Z"));
        let wrong = TokenFileProblem::Entry { number: 1, problem: EntryProblem::Expiry };
        for expires in [last + Duration::from_secs(1), SystemTime::UNIX_EPOCH - Duration::new(0, 1)]
        {
            assert_eq!(with(expires), Err(wrong.clone()));
        }
    }
}
