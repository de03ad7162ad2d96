//! Finds the bases that the user names.

use crate::{
    cli::exit::{CliFailure, Exit, Result, fail},
    client::{BasesId, BasesInfo, Client},
};

/// The bases with an id, an id prefix or a label of `name`, which must be unique.
pub async fn find(client: &Client, name: &str) -> Result<BasesInfo> {
    if let Ok(id) = name.parse::<BasesId>() {
        let found = client.stat(id).await;
        return found.map_err(|e| if e.is_not_found() { unknown(name) } else { e.into() });
    }
    let all = client.list(None).await?;
    let mut matches: Vec<_> = all.iter().filter(|info| info.label == name).collect();
    if matches.is_empty() && is_id_prefix(name) {
        matches = all.iter().filter(|info| info.id.to_string().starts_with(name)).collect();
    }
    match matches.as_slice() {
        [] => Err(unknown(name)),
        [info] => Ok((*info).clone()),
        several => {
            let ids: Vec<_> = several.iter().map(|info| info.id.to_string()).collect();
            fail(Exit::Usage, format!("'{name}' is ambiguous: use an id, {}", ids.join(" or ")))
        }
    }
}

/// Whether `name` can be a prefix of an id. Fewer digits would match by chance.
fn is_id_prefix(name: &str) -> bool {
    name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub fn unknown(name: &str) -> CliFailure {
    let message = format!(
        "the server has no bases '{name}': list them with `capstan bases list`, or import some \
         with `capstan bases import`"
    );
    CliFailure::new(Exit::Failed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treats_short_or_non_hex_names_as_labels_only() {
        assert!(is_id_prefix("0af3"));
        assert!(!is_id_prefix("0af"));
        assert!(!is_id_prefix("lagrange"));
    }
}
