//! `capstan demo`: commits to blobs on a server in this process, and checks every result.

mod check;
mod report;

use ark_ec::CurveGroup;
use clap::Args;

use self::{
    check::DemoResults,
    report::{DemoReport, PhaseTimer},
};
use super::{
    args::GlobalArgs,
    exit::{CliFailure, Exit, Result, print_problem},
    output::Ui,
    random::{blocking, random},
};
use crate::{
    client::{
        BasesHandle, Client, CurvePoint, Direction, Fr, G1Affine, G2Affine, MsmOptions, NttOptions,
        Order, PutOptions,
    },
    embedded::{EmbeddedServer, ServeError},
    formats::{
        PointSet,
        kzg::{self, SetupList},
    },
};

/// Ethereum's file: 4096 points of G1 in two bases, 65 of G2.
const SETUP: &[u8] = include_bytes!("trusted_setup_4096.json");

/// Field elements of a blob.
const BLOB_LENGTH: usize = 4096;

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct DemoArgs {
    /// Number of blobs, each of 4096 random field elements
    #[arg(long, default_value_t = 8, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    blobs: u16,
}

const ABOUT: &str = "\
The demo starts a server in its own process, on a free port of the loopback: --server and
--ca-certificate are ignored. GPUs compute if they pass their self-test, otherwise the CPU.
The demo imports the points of the Ethereum KZG ceremony, commits to blobs by MSMs, converts them
from evaluations to coefficients and back by NTTs, and compares every result with arkworks. A
difference ends it with code 1.";

pub async fn run(ui: Ui, global: &GlobalArgs, args: &DemoArgs) -> Result<()> {
    let mut phases = PhaseTimer::new(ui);
    phases.begin("start the server", String::new());
    let server = EmbeddedServer::start(print_problem).await?;
    let options =
        GlobalArgs { server: server.target.clone(), ca_certificate: None, ..global.clone() };
    // No retries: a failure shows a problem of this host and is reported at once.
    let client = options.client_builder()?.retries(0).connect().await?;
    let info = client.info().await?;
    phases.end(None);

    let blobs = random("demo blobs", usize::from(args.blobs) * BLOB_LENGTH);
    let mut demo = Demo { client, phases };
    let results = demo.compute(blobs).await?;
    let mut phases = demo.phases;
    phases.begin("check all results", "by arkworks".to_owned());
    let commitments: Vec<_> = results.by_evaluations.iter().map(|sum| sum.into_affine()).collect();
    let checks = blocking(move || check::all(&results)).await?;
    phases.end(None);

    phases.begin("stop the server", String::new());
    server.stop().await?;
    phases.end(None);
    DemoReport::new(info, phases, checks, &commitments).print(ui)
}

struct Demo {
    client: Client,
    phases: PhaseTimer,
}

impl Demo {
    /// Sends the setup and the blobs, and collects what the server computes.
    async fn compute(&mut self, blobs: Vec<Fr>) -> Result<DemoResults> {
        let [mut lagrange, monomial, g2] = setup()?;
        // EIP-4844 stores a blob's evaluations in bit-reversed order; the file is in natural order.
        lagrange.bit_reverse()?;
        let lagrange_bases = self.import::<G1Affine>(&lagrange).await?;
        let monomial_bases = self.import::<G1Affine>(&monomial).await?;
        let g2_bases = self.import::<G2Affine>(&g2).await?;

        let by_evaluations = self.commit("commit to evaluations", &lagrange_bases, &blobs).await?;
        let inverse = NttOptions { input_order: Order::BitReversed, ..NttOptions::inverse() };
        let coefficients = self.transform(&blobs, inverse).await?;
        let by_coefficients =
            self.commit("commit to coefficients", &monomial_bases, &coefficients).await?;
        let forward = NttOptions { output_order: Order::BitReversed, ..NttOptions::forward() };
        let evaluations = self.transform(&coefficients, forward).await?;
        // G2 has fewer points, so only polynomials of low degree have commitments in both groups.
        let low = &coefficients[..g2.count()];
        let low_bases =
            monomial_bases.slice(0, low.len() as u64).expect("G1 has more points than G2");
        let name = "commit to first coefficients";
        let low_degree_in_g1 = self.commit(name, &low_bases, low).await?;
        let low_degree_in_g2 = self.commit(name, &g2_bases, low).await?;
        Ok(DemoResults {
            lagrange,
            monomial,
            g2,
            blobs,
            coefficients,
            evaluations,
            by_evaluations,
            by_coefficients,
            low_degree_in_g1,
            low_degree_in_g2,
        })
    }

    /// Puts points on the server, which checks each of them.
    async fn import<A: CurvePoint>(&mut self, points: &PointSet) -> Result<BasesHandle<A>> {
        let list = points.list.map_or(points.group.name(), SetupList::name);
        self.phases.begin("import bases", format!("{list}, {} points", points.count()));
        let options = PutOptions { label: list.to_owned(), ..PutOptions::default() };
        let PointSet { group, encoding, data, .. } = points;
        let info = self.client.put_encoded(*group, *encoding, data, options).await?;
        self.phases.end(None);
        Ok(self.client.bases(info.id).await?)
    }

    /// One MSM for each row of scalars, in one call.
    async fn commit<A: CurvePoint>(
        &mut self,
        name: &'static str,
        bases: &BasesHandle<A>,
        rows: &[Fr],
    ) -> Result<Vec<A::Group>> {
        let n = bases.len() as usize;
        let batch = (rows.len() / n) as u32;
        let group = bases.info().group.name();
        self.phases.begin(name, format!("{batch} x {n} MSM in {group}"));
        let options = MsmOptions { batch, ..MsmOptions::default() };
        let sums = self.client.msm_with(bases, rows, options).await?;
        self.phases.end(Some(sums.timing.compute));
        Ok(sums.points)
    }

    /// One NTT for each row, in one call.
    async fn transform(&mut self, rows: &[Fr], options: NttOptions) -> Result<Vec<Fr>> {
        let batch = (rows.len() / BLOB_LENGTH) as u32;
        let (name, kind) = match options.direction {
            Direction::Forward => ("coefficients to evaluations", "NTT"),
            Direction::Inverse => ("evaluations to coefficients", "inverse NTT"),
        };
        self.phases.begin(name, format!("{batch} x {BLOB_LENGTH} {kind}"));
        let mut rows = rows.to_vec();
        let report = self.client.ntt(&mut rows, NttOptions { batch, ..options }).await?;
        self.phases.end(Some(report.timing.compute));
        Ok(rows)
    }
}

/// The ceremony's lists: G1 Lagrange, G1 monomial, G2 monomial.
fn setup() -> Result<[PointSet; 3]> {
    let sets = kzg::parse_json(SETUP)?;
    let find = |list| sets.iter().find(|points| points.list == Some(list)).cloned();
    let lists = [SetupList::G1Lagrange, SetupList::G1Monomial, SetupList::G2Monomial].map(find);
    Ok(lists.map(|points| points.expect("the file has all lists")))
}

impl From<ServeError> for CliFailure {
    fn from(error: ServeError) -> Self {
        Self::new(Exit::Failed, format!("the server in this process: {error}"))
    }
}
