//! The file of tenants: a TOML table `tenants`, with one table for each tenant. `callers` lists the
//! callers whose credential names no tenant, as logs name them: `uid:1000`, `cert:prover.example`.

use std::{collections::BTreeMap, mem, path::Path};

use serde::Deserialize;

use super::{
    limits::{ListedTenant, TenantEntry, TenantName},
    table::TENANTS_MAX,
    toml::from_toml,
};

/// Why a file of tenants cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TenantFileError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantFile {
    #[serde(default)]
    tenants: BTreeMap<String, TenantEntry>,
}

/// Reads the tenants of a file.
///
/// Errors: what is wrong with the file, or the first problem of each tenant with its place.
pub fn read_tenants(path: &Path) -> Result<Vec<ListedTenant>, TenantFileError> {
    let text = std::fs::read_to_string(path).map_err(|error| TenantFileError(error.to_string()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<ListedTenant>, TenantFileError> {
    let TenantFile { tenants } = from_toml(text).map_err(TenantFileError)?;
    if tenants.len() >= TENANTS_MAX {
        return Err(TenantFileError(format!("{TENANTS_MAX} tenants or more")));
    }
    let mut known = BTreeMap::new();
    let mut check = |name: String, mut entry: TenantEntry| {
        let callers = mem::take(&mut entry.callers);
        let refused = |what: &str| format!("tenants.{name}{what}");
        let limits = entry.limits().map_err(|problem| refused(&format!(".{problem}")))?;
        let shape = ": a name has 1 to 64 of the characters a-z, 0-9, '-', '_' and '.', and begins \
                     with a letter or a digit";
        let name = TenantName::new(&name).ok_or_else(|| refused(shape))?;
        for caller in &callers {
            if let Some(other) = known.insert(caller.clone(), name.clone()) {
                let problem = format!(".callers: {caller:?} belongs to {other} already");
                return Err(refused(&problem));
            }
        }
        Ok(ListedTenant { name, callers, limits })
    };
    let (mut listed, mut problems) = (Vec::new(), Vec::new());
    for (name, entry) in tenants {
        match check(name, entry) {
            Ok(tenant) => listed.push(tenant),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(listed) } else { Err(TenantFileError(problems.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::TenantLimits;

    #[test]
    fn reads_limits_and_leaves_the_others_open() {
        let text = "[tenants.default]\n[tenants.a-1]\nweight = 4\nbytes_in_flight_max = \"2 GiB\"\n\
                    callers = [\"uid:7\"]\nstore_bytes_max = 4096\njobs_max = 7\n\
                    device_seconds_per_minute = 30\n";
        let tenants = parse(text).unwrap();
        let names: Vec<_> = tenants.iter().map(|tenant| tenant.name.to_string()).collect();
        assert_eq!(names, ["a-1", "default"]);
        assert_eq!(tenants[0].callers, ["uid:7"]);
        let expected = TenantLimits {
            weight: 4,
            bytes_in_flight_max: 2 << 30,
            store_bytes_max: 4096,
            jobs_max: 7,
            device_seconds_per_minute: Some(30.0),
            ..TenantLimits::default()
        };
        assert_eq!(tenants[0].limits, expected);
        assert_eq!(tenants[1].limits, TenantLimits::default());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn a_problem_is_named_with_its_place() {
        for (text, problem) in [
            ("[tenants.A]", "tenants.A: a name has"),
            ("[tenants.a]\nweight = 0", "tenants.a.weight: must be 1 to 1000"),
            ("[tenants.a]\nbytes_in_flight_max = \"2 GB\"", "tenants.a.bytes_in_flight_max: must"),
            ("[tenants.a]\ndevice_seconds_per_minute = 0.0", "tenants.a.device_seconds"),
            ("[tenants.a]\ndevice_seconds_per_minute = inf", "must be 0.001 to 1000000000"),
            ("[tenants.a]\njob_max = 1", "job_max"),
            ("[tenants.a]\njobs_max = -1", "jobs_max"),
            (
                "[tenants.a]\ncallers = [\"uid:1\"]\n\
                 [tenants.b]\ncallers = [\"uid:1\"]",
                "belongs to a",
            ),
            ("[tenant.a]", "tenant"),
            ("tenants", ""),
            ("[tenants.A]\n[tenants.b]\nweight = 0", "letter or a digit; tenants.b.weight: must"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
