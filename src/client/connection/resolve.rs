//! DNS names with several addresses: one server each.

use std::collections::BTreeSet;

use tokio::{net::lookup_host, time::timeout};
use tonic::codegen::http::Uri;

use super::tcp::host_and_port;
use crate::{
    ClientBuilder,
    error::{ClientError, Result},
};

impl ClientBuilder {
    /// Asks the system for the addresses of the target's host. Returns one builder for each, in the
    /// order of the addresses, for a [`Fleet`](crate::Fleet). With TLS, each server must have a
    /// certificate for the host's name. A target on a Unix socket stays as it is.
    ///
    /// Errors: `InvalidSetting` if the target has no host; `CannotConnect` if it has no address.
    pub async fn resolve(self) -> Result<Vec<Self>> {
        let target = self.target().to_owned();
        if target.starts_with("unix:") {
            return Ok(vec![self]);
        }
        let problem = |problem: String| ClientError::setting(format!("target {target:?}"), problem);
        let uri: Uri = target.parse().map_err(|_| problem("is not a URL".into()))?;
        let (Some(scheme), Some((host, port))) = (uri.scheme_str(), host_and_port(&uri)) else {
            return Err(problem("has no host".into()));
        };
        let cannot = |problem: String| ClientError::cannot_connect(target.as_str(), problem);
        let lookup = timeout(self.timeout_of_connecting(), lookup_host((host, port))).await;
        let addresses = lookup.map_err(|_| cannot("the name server does not answer".into()))?;
        let addresses: BTreeSet<_> =
            addresses.map_err(|error| cannot(error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(cannot("the name has no address".into()));
        }
        let builder = |address| self.clone().at(format!("{scheme}://{address}"), host);
        Ok(addresses.into_iter().map(builder).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, ClientError};

    #[tokio::test]
    async fn each_address_is_a_server() {
        let targets = async |target: &str| {
            let resolved = Client::builder(target).resolve().await?;
            Ok::<_, ClientError>(resolved.iter().map(|one| one.target().to_owned()).collect())
        };
        let expect = |found: Result<Vec<String>, ClientError>, expected: &[&str]| {
            assert_eq!(found.unwrap(), expected);
        };
        expect(targets("http://127.0.0.1:9").await, &["http://127.0.0.1:9"]);
        expect(targets("https://[::1]").await, &["https://[::1]:443"]);
        expect(targets("unix:/run/x.sock").await, &["unix:/run/x.sock"]);
        assert!(matches!(targets("nothing").await, Err(ClientError::InvalidSetting { .. })));
        let unknown = targets("http://no-such-host.invalid:9").await;
        assert!(matches!(unknown, Err(ClientError::CannotConnect { .. })), "{unknown:?}");
        // The system decides which addresses this name has.
        let local = targets("http://localhost:9").await.unwrap();
        let all = ["http://127.0.0.1:9", "http://[::1]:9"];
        assert!(!local.is_empty() && local.iter().all(|one: &String| all.contains(&one.as_str())));
    }
}
