//! Programs of the client: what the builder refuses, and runs that agree with arkworks.

mod builder;
mod early_points;
mod gf2;
mod integers;
mod large;
mod poly_mul;
mod prime31;
mod runs;
mod shared_vectors;
mod staged_payloads;

use crate::{example_support as common, idle, proxy, sparse_inputs};

use ark_ec::VariableBaseMSM;
use capstan::client::{BasesHandle, Client, ClientError, Fr, G1Affine, G1Projective};
use common::{TestServer, points, server};

/// A client of a server, and bases there.
struct ProgramFixture {
    _server: TestServer,
    client: Client,
    points: Vec<G1Affine>,
    bases: BasesHandle<G1Affine>,
}

impl ProgramFixture {
    async fn new() -> Self {
        let server = server();
        let client = Client::connect(&server.target).await.unwrap();
        let points = points(64);
        let bases = client.put_bases(&points).await.unwrap();
        Self { _server: server, client, points, bases }
    }

    fn msm(&self, scalars: &[Fr]) -> G1Projective {
        G1Projective::msm_unchecked(&self.points[..scalars.len()], scalars)
    }
}

fn message<T>(refused: Result<T, ClientError>) -> String {
    match refused {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}
