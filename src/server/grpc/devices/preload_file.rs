//! The file of bases that devices load before the server is ready: a TOML list `bases`, whose
//! entries name stored bases by `id`, with `pin = true`, `tenant` and `devices` as needed.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

use crate::{
    tenant::{TenantName, from_toml},
    wire::decode::{ObjectId, ResidencyAction},
};

/// More entries are a mistake: devices hold far fewer bases.
const ENTRIES_MAX: usize = 10_000;

/// Why a file of bases to preload cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PreloadFileError(String);

/// Bases to load on devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreloadEntry {
    pub id: ObjectId,
    pub tenant: TenantName,
    pub action: ResidencyAction,
    /// Empty means all.
    pub devices: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreloadFile {
    #[serde(default)]
    bases: Vec<FileEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    id: String,
    tenant: Option<String>,
    #[serde(default)]
    pin: bool,
    #[serde(default)]
    devices: Vec<u32>,
}

/// Checks that a file of bases to preload can be read.
///
/// Errors: the first problem, with its place.
pub fn check_preload_file(path: &Path) -> Result<(), PreloadFileError> {
    read_preload_file(path).map(drop)
}

/// Reads a file of bases to preload.
///
/// Errors: the first problem, with its place.
pub fn read_preload_file(path: &Path) -> Result<Vec<PreloadEntry>, PreloadFileError> {
    let text = fs::read_to_string(path).map_err(|error| PreloadFileError(error.to_string()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<PreloadEntry>, PreloadFileError> {
    let PreloadFile { bases } = from_toml(text).map_err(PreloadFileError)?;
    if bases.len() > ENTRIES_MAX {
        return Err(PreloadFileError(format!("bases: at most {ENTRIES_MAX} entries are allowed")));
    }
    let mut known = BTreeSet::new();
    let entries = bases.into_iter().enumerate().map(|(at, entry)| {
        let refused = |what: &str| PreloadFileError(format!("bases[{at}].{what}"));
        let entry = entry.check().map_err(|problem| refused(&problem))?;
        match known.insert((entry.tenant.clone(), entry.id)) {
            true => Ok(entry),
            false => Err(refused("id: an earlier entry has this id")),
        }
    });
    entries.collect()
}

impl FileEntry {
    fn check(self) -> Result<PreloadEntry, String> {
        let mut id = [0; 32];
        hex::decode_to_slice(&self.id, &mut id).map_err(|_| "id: must be 64 hex digits")?;
        let tenant = match self.tenant {
            Some(name) => TenantName::new(&name).ok_or("tenant: must be the name of a tenant")?,
            None => TenantName::default(),
        };
        let action = if self.pin { ResidencyAction::Pin } else { ResidencyAction::Warm };
        Ok(PreloadEntry { id: ObjectId(id), tenant, action, devices: self.devices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_entries_with_and_without_options() {
        let one = "01".repeat(32);
        let two = "02".repeat(32);
        let text = format!(
            "# the ceremony\n[[bases]]\nid = \"{one}\"\n[[bases]]\nid = \"{two}\"\npin = true\n\
             tenant = \"team-1\"\ndevices = [0, 2]\n"
        );
        let entry = |id, tenant, action, devices: &[u32]| PreloadEntry {
            id: ObjectId([id; 32]),
            tenant,
            action,
            devices: devices.to_vec(),
        };
        let team = TenantName::new("team-1").unwrap();
        let expected = [
            entry(1, TenantName::default(), ResidencyAction::Warm, &[]),
            entry(2, team, ResidencyAction::Pin, &[0, 2]),
        ];
        assert_eq!(parse(&text), Ok(expected.to_vec()));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn a_problem_is_named_with_its_place() {
        let id = "ab".repeat(32);
        for (text, problem) in [
            ("[[bases]]\n".into(), "missing field `id`"),
            ("[[bases]]\nid = \"ab\"".into(), "bases[0].id: must be 64 hex digits"),
            (format!("[[bases]]\nid = \"{id}\"\ntenant = \"A\""), "bases[0].tenant: must be the"),
            (format!("[[bases]]\nid = \"{id}\"\npinned = true"), "pinned"),
            (format!("[[bases]]\nid = \"{id}\"\n").repeat(2), "bases[1].id: an earlier entry"),
            ("[[base]]".into(), "base"),
            (id.clone(), ""),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
