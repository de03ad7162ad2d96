//! Finds the objects that the user names.

use crate::{
    client::{BasesId, BasesInfo, Client, ClientError, MatrixId, MatrixInfo},
    exit::{CliFailure, Exit, Result, fail},
};

/// The bases with an id, an id prefix or a label of `name`, which must be unique.
pub async fn find(client: &Client, name: &str) -> Result<BasesInfo> {
    if let Ok(id) = name.parse::<BasesId>() {
        let found = client.stat(id).await;
        return found.map_err(|e| if e.is_not_found() { unknown(name) } else { e.into() });
    }
    let all = client.list(None).await?.into_iter().map(FoundObject::Bases);
    match select(all.collect(), name)? {
        Some(FoundObject::Bases(info)) => Ok(info),
        _ => Err(unknown(name)),
    }
}

/// The bases or the matrix with an id, an id prefix or a label of `name`, which must be unique.
pub async fn find_object(client: &Client, name: &str) -> Result<FoundObject> {
    if let Ok(id) = name.parse::<BasesId>() {
        let found = match client.stat(id).await {
            Ok(info) => return Ok(FoundObject::Bases(info)),
            Err(error @ ClientError::Refused(_)) => Err(error),
            // The object is a matrix.
            Err(_) => client.stat_matrix(MatrixId(id.0)).await.map(FoundObject::Matrix),
        };
        return found.map_err(|e| if e.is_not_found() { unknown(name) } else { e.into() });
    }
    let bases = client.list(None).await?.into_iter().map(FoundObject::Bases);
    let matrices = client.list_matrices().await?.into_iter().map(FoundObject::Matrix);
    select(bases.chain(matrices).collect(), name)?.ok_or_else(|| unknown(name))
}

/// The matrix with an id, an id prefix or a label of `name`, which must be unique.
pub async fn find_matrix(client: &Client, name: &str) -> Result<MatrixInfo> {
    let all = client.list_matrices().await?.into_iter().map(FoundObject::Matrix);
    match select(all.collect(), name)? {
        Some(FoundObject::Matrix(info)) => Ok(info),
        _ => {
            let list = "list them with `capstan bases list`";
            fail(Exit::Failed, format!("the server has no matrix '{name}': {list}"))
        }
    }
}

/// An object on the server.
pub enum FoundObject {
    Bases(BasesInfo),
    Matrix(MatrixInfo),
}

impl FoundObject {
    /// The id, by which objects of both kinds are released.
    pub fn id(&self) -> BasesId {
        match self {
            Self::Bases(info) => info.id,
            Self::Matrix(info) => BasesId(info.id.0),
        }
    }

    fn label(&self) -> &str {
        match self {
            Self::Bases(info) => &info.label,
            Self::Matrix(info) => &info.label,
        }
    }
}

/// The only object that `name` names; `None` if there is none.
fn select(mut all: Vec<FoundObject>, name: &str) -> Result<Option<FoundObject>> {
    if all.iter().any(|object| object.label() == name) {
        all.retain(|object| object.label() == name);
    } else {
        all.retain(|object| is_id_prefix(name) && object.id().to_string().starts_with(name));
    }
    if all.len() > 1 {
        let ids: Vec<_> = all.iter().map(|object| object.id().to_string()).collect();
        return fail(
            Exit::Usage,
            format!("'{name}' is ambiguous: use an id, {}", ids.join(" or ")),
        );
    }
    Ok(all.pop())
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
