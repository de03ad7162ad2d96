//! The server that computes proofs: one that runs, or one in this process.

use crate::{args::GlobalArgs, client::Client, exit::Result};
#[cfg(feature = "server")]
use crate::{embedded::EmbeddedServer, exit::print_problem};

pub struct ProofServer {
    pub client: Client,
    #[cfg(feature = "server")]
    embedded: Option<EmbeddedServer>,
}

impl ProofServer {
    pub async fn connect(global: &GlobalArgs) -> Result<Self> {
        let client = global.client_builder()?.connect().await?;
        Ok(Self {
            client,
            #[cfg(feature = "server")]
            embedded: None,
        })
    }

    /// Starts a server on a free port of the loopback.
    #[cfg(feature = "server")]
    pub async fn start(global: &GlobalArgs) -> Result<Self> {
        let server = EmbeddedServer::start(print_problem).await?;
        // It needs no credentials: those of the command line are for another server.
        let options = GlobalArgs {
            server: server.target.clone(),
            ca_certificate: None,
            token_file: None,
            tls_cert: None,
            tls_key: None,
            ..global.clone()
        };
        let client = options.client_builder()?.retries(0).connect().await?;
        Ok(Self { client, embedded: Some(server) })
    }

    /// Describes where the server runs.
    pub fn place(&self) -> &'static str {
        #[cfg(feature = "server")]
        if self.embedded.is_some() {
            return "a server in this process";
        }
        ""
    }

    /// Waits until a server in this process has stopped.
    pub async fn stop(self) -> Result<()> {
        #[cfg(feature = "server")]
        if let Some(server) = self.embedded {
            server.stop().await?;
        }
        Ok(())
    }
}
