//! The phases of the computation, and the calls to the server.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use capstan::client::{
    Client, Execution, InputElements, ProgramRun, RunResult, ScalarEncoding, ScalarInput, UploadKey,
};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task;

use super::{
    Outcome, admission, chunks,
    conversion::ConversionProgram,
    leaves,
    quotient::{self, Divisor, QuotientProgram},
    report::{Phase, ServerWork},
    series::SeriesProgram,
    sizes::Sizes,
};

/// Computes pi on a server.
pub struct Computation {
    client: Client,
    sizes: Arc<Sizes>,
    progress: ProgressBar,
    began: Instant,
    /// What the last call took on the server.
    on_server: Option<ServerWork>,
    pub phases: Vec<Phase>,
}

impl Computation {
    pub fn new(client: Client, digits: u64) -> Outcome<Self> {
        let sizes = Arc::new(Sizes::new(digits));
        // A line on standard error, if that is a terminal.
        let progress = ProgressBar::new(3 * sizes.terms / sizes.leaf_terms);
        let style = ProgressStyle::with_template("{msg:<10} {bar:30} {elapsed}")?;
        progress.set_style(style.progress_chars("=> "));
        progress.enable_steady_tick(Duration::from_millis(120));
        let (began, on_server, phases) = (Instant::now(), None, Vec::new());
        Ok(Self { client, sizes, progress, began, on_server, phases })
    }

    /// The digits after the point, at least as many as are wanted.
    pub async fn run(&mut self) -> Outcome<String> {
        let series = SeriesProgram::new(&self.sizes)?;
        admission::check(&self.client, &series.run()).await?;
        self.begin("leaves");
        let leaves = leaves::put_leaves(&self.client, &self.sizes, &self.progress).await?;
        self.end("leaves", 2);
        self.begin("series");
        let sums = self.sum(&series, leaves).await?;
        self.end("series", 4);
        self.begin("division");
        let fraction = self.divide(&series, sums).await?;
        self.end("division", 4);
        self.begin("conversion");
        let chunks = self.convert(fraction).await?;
        self.end("conversion", 5);
        self.begin("text");
        let sizes = self.sizes.clone();
        let text = task::spawn_blocking(move || {
            chunks::digits(&chunks, sizes.chunks() as usize, sizes.chunk_digits as usize)
        });
        let text = String::from_utf8(text.await??)?;
        self.end("text", 6);
        self.progress.finish_and_clear();
        Ok(text)
    }

    fn begin(&mut self, name: &'static str) {
        self.progress.set_message(name);
        self.began = Instant::now();
    }

    /// `sixths`: the part of the whole time on a GPU that is over then.
    fn end(&mut self, name: &'static str, sixths: u64) {
        let length = self.progress.length().unwrap_or(0);
        self.progress.set_position(length * sixths / 6);
        let (time, on_server) = (self.began.elapsed(), self.on_server.take());
        self.phases.push(Phase { name, time, on_server });
    }

    async fn call(&mut self, run: ProgramRun<'_>) -> Outcome<RunResult> {
        let result = self.client.run(run).await?;
        let Execution { engine, device, .. } = result.execution.clone();
        self.on_server = Some(ServerWork { engine, device, compute: result.timing.compute });
        Ok(result)
    }

    async fn sum(&mut self, series: &SeriesProgram, leaves: Vec<UploadKey>) -> Outcome<SeriesSums> {
        let mut run = series.run();
        for (input, vector) in series.groups.iter().zip(&leaves) {
            run = run.input(*input, InputElements::stored(*vector, 0));
        }
        let result = self.call(run).await;
        self.release(leaves).await?;
        let result = result?;
        let top = result.integers(series.top)?.swap_remove(0);
        Ok(SeriesSums {
            q: result.kept(series.q.value)?.id,
            t: result.kept(series.t.value)?.id,
            divisor: Divisor::new(top.try_into()?)?,
        })
    }

    /// The fraction of pi.
    async fn divide(&mut self, series: &SeriesProgram, sums: SeriesSums) -> Outcome<UploadKey> {
        let SeriesSums { q, t, divisor } = sums;
        let quotient = QuotientProgram::new(&self.sizes, series, &divisor)?;
        let (reciprocal, root) = (divisor.reciprocal_start(), quotient::root_start());
        let run = ProgramRun::new(&quotient.program)
            .input(quotient.q, InputElements::stored(q, 0))
            .input(quotient.t, InputElements::stored(t, 0))
            .input(quotient.reciprocal_start, limbs(&reciprocal))
            .input(quotient.root_start, limbs(&root))
            .send(quotient.integer)
            .keep(quotient.fraction);
        let result = self.call(run).await;
        self.release([q, t]).await?;
        let result = result?;
        if result.integers(quotient.integer)? != [3_u32.into()] {
            return Err("the quotient is not between 3 and 4".into());
        }
        Ok(result.kept(quotient.fraction)?.id)
    }

    /// The limbs of the fractions of all chunks.
    async fn convert(&mut self, fraction: UploadKey) -> Outcome<Vec<u8>> {
        let conversion = ConversionProgram::new(&self.sizes)?;
        let power = chunks::power_of_five(self.sizes.chunk_digits);
        let mut run = ProgramRun::new(&conversion.program)
            .input(conversion.fraction, InputElements::stored(fraction, 0))
            .keep(conversion.chunks);
        if let Some(input) = conversion.power {
            run = run.input(input, limbs(&power));
        }
        let result = self.call(run).await;
        self.release([fraction]).await?;
        let kept = result?.kept(conversion.chunks)?;
        let chunks = self.client.get_vector(&kept).await;
        self.release([kept.id]).await?;
        Ok(mem::take(&mut *chunks?))
    }

    async fn release(&self, vectors: impl IntoIterator<Item = UploadKey>) -> Outcome<()> {
        for vector in vectors {
            self.client.release_vector(vector).await?;
        }
        Ok(())
    }
}

/// Q and T of the whole series, on the server.
struct SeriesSums {
    q: UploadKey,
    t: UploadKey,
    divisor: Divisor,
}

fn limbs(bytes: &[u8]) -> ScalarInput<'_> {
    ScalarInput::Bytes { encoding: ScalarEncoding::Limbs32, bytes }
}
