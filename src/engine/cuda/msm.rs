//! MSMs on one GPU. Scalars go there piece by piece, and every pass is launched as soon as its
//! scalars are on their way: the device works while the rest is still coming.

use std::sync::{Arc, Mutex, PoisonError};

use ark_ff::{BigInteger, PrimeField};
use tracing::debug;
use zeroize::Zeroize;

use super::resident::{Resident, Shelf};
use crate::{
    buffer::Ranges,
    curve::{
        Fr,
        points::{Bases, Sums},
        scalars::Scalars,
    },
    device::{Event, Fault, Gpu, Lease, Stream, Unusable},
    engine::{Control, Executor, MsmRun},
    error::{Error, Result},
    msm::{Job, Msm, Pass, Placed, Plan, Room},
};

/// From so many scalars on, one vector is worked on in quarters, while the rest is on its way. Each
/// costs an addition a bucket.
const PIECES_MIN: usize = 1 << 21;
const PIECES: u32 = 4;

/// MSMs on one GPU. Clones share it.
#[derive(Clone)]
pub struct Computer(Arc<Inner>);

struct Inner {
    gpu: Gpu,
    msm: Msm,
    shelf: Shelf,
    /// All passes of all jobs, one after the other: each fills the device.
    compute: Stream,
    /// Streams for copies that no job uses now.
    copies: Mutex<Vec<Stream>>,
}

impl Computer {
    /// Loads the kernels.
    pub fn load(gpu: &Gpu) -> std::result::Result<Self, Unusable> {
        let context = gpu.context();
        let failed = |fault| Unusable::Device { index: gpu.identity().index, fault };
        Ok(Self(Arc::new(Inner {
            gpu: gpu.clone(),
            msm: Msm::load(context)?,
            shelf: Shelf::load(gpu)?,
            compute: Stream::new(context).map_err(failed)?,
            copies: Mutex::default(),
        })))
    }

    /// Whether the object of `bases` is here.
    pub fn has(&self, bases: &Bases) -> bool {
        self.0.shelf.has(bases)
    }

    /// Has something leave the device that no job uses now: bases, or the workspace. False where
    /// there is no such thing.
    pub fn make_room(&self) -> bool {
        self.0.shelf.make_room()
    }

    /// Begins an MSM. Nothing is done before scalars come.
    pub fn run(&self, bases: Bases, batch: usize) -> Box<dyn MsmRun> {
        let there = Ranges::default();
        Box::new(Run { computer: self.0.clone(), bases, batch, ready: None, there })
    }
}

impl Inner {
    fn stream(&self) -> Result<Stream, Fault> {
        let idle = self.copies.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Stream::new(self.gpu.context()), Ok)
    }

    /// Launches a pass; gives the point after it.
    fn launch(&self, ready: &Ready, pass: &Pass, n: u32) -> Result<Event> {
        let begin = (pass.vectors.0 * n + pass.points.0) as usize;
        let count = pass.vectors.1 as usize * pass.points.1 as usize;
        let scalars = ready.scalars.all().part(begin, count);
        let scalars = scalars.ok_or_else(|| Error::Internal("scalars of a pass".to_owned()))?;
        let (buckets, out) = (ready.buckets.all(), ready.out.all());
        let (plan, placed, stream) = (&ready.plan, ready.placed, &self.compute);
        let done = self.shelf.in_workspace(stream, plan.workspace_bytes(), |workspace| {
            self.msm.pass(stream, plan, pass, scalars, placed, buckets, workspace, out)?;
            stream.record()
        });
        Ok(done?)
    }
}

/// An MSM that is under way.
struct Run {
    computer: Arc<Inner>,
    bases: Bases,
    batch: usize,
    ready: Option<Ready>,
    /// Scalars that were sent to the device, counted through all vectors.
    there: Ranges,
}

/// What a run has on the device.
struct Ready {
    plan: Plan,
    placed: Placed,
    /// The passes that are not launched yet, the last one first.
    passes: Vec<Pass>,
    done: Option<Event>,
    // In the order in which they may go: the stream's zeroing comes after its work.
    scalars: Lease,
    buckets: Lease,
    out: Lease,
    stream: Stream,
    _resident: Arc<Resident>,
}

impl Run {
    /// Brings the bases and makes a plan, once.
    fn prepare(&mut self, control: &Control) -> Result<&mut Ready> {
        if self.ready.is_none() {
            self.ready = Some(self.start(control)?);
        }
        self.ready.as_mut().ok_or_else(|| Error::Internal("not prepared".to_owned()))
    }

    fn start(&self, control: &Control) -> Result<Ready> {
        let computer = &self.computer;
        let stream = computer.stream()?;
        let resident = computer.shelf.get(&stream, &self.bases, control)?;
        let too_large = |_| Error::Internal("more scalars than a device numbers".to_owned());
        let n = u32::try_from(self.bases.len()).map_err(too_large)?;
        let vectors = u32::try_from(self.batch).map_err(too_large)?;
        let job = Job { group: self.bases.group(), n, vectors };
        let alone = job.windows(1);
        // Tables are for the whole object: a small part of it may want other windows.
        let with_tables = resident.windows().copied();
        let better = |windows: &_| job.model_ns(windows) <= job.model_ns(&alone);
        let windows = with_tables.filter(better).unwrap_or(alone);
        let scalars_bytes = u64::from(n) * u64::from(vectors) * 32;
        let scalars = computer.shelf.room(&stream, scalars_bytes)?;
        let units = computer.gpu.identity().units;
        let room = Room { bytes: computer.shelf.room_bytes(), units };
        let plan = Plan::new(job, windows, room).ok_or_else(|| computer.full(room.bytes))?;
        let long = vectors == 1 && n as usize >= PIECES_MIN;
        let plan = if long { plan.in_pieces(n.div_ceil(PIECES)) } else { plan };
        let mut passes: Vec<_> = plan.passes().collect();
        passes.reverse();
        let buckets = computer.shelf.room(&computer.compute, plan.bucket_bytes())?;
        let out = computer.shelf.room(&computer.compute, plan.bytes_out())?;
        let placed = resident.placed(self.bases.start());
        let done = None;
        debug!(n, vectors, plan = %plan, "MSM on the device");
        Ok(Ready { plan, placed, passes, done, scalars, buckets, out, stream, _resident: resident })
    }

    /// Launches the passes whose scalars are all on their way.
    fn advance(&mut self) -> Result<()> {
        let n = self.bases.len();
        let (there, computer) = (&self.there, &self.computer);
        let Some(ready) = &mut self.ready else { return Ok(()) };
        // A pass of several vectors takes all of their points.
        let complete = |pass: &Pass| {
            let first = pass.vectors.0 as usize * n + pass.points.0 as usize;
            let count = pass.vectors.1 as usize * pass.points.1 as usize;
            there.contains(&(first as u64..(first + count) as u64))
        };
        while let Some(pass) = ready.passes.last().copied().filter(complete) {
            computer.compute.wait(&ready.stream.record()?)?;
            ready.done = Some(computer.launch(ready, &pass, n as u32)?);
            ready.passes.pop();
        }
        Ok(())
    }
}

impl Inner {
    fn full(&self, free: u64) -> Error {
        let wanted = self.gpu.arena().bytes();
        Fault::Full { wanted, free }.into()
    }
}

impl MsmRun for Run {
    fn executor(&self) -> Executor {
        let name = &self.computer.gpu.identity().name;
        let device = match &self.ready {
            Some(ready) => format!("{name}, {}", ready.plan),
            None => name.clone(),
        };
        Executor { engine: super::ENGINE, device }
    }

    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &Scalars,
        control: &Control,
    ) -> Result<()> {
        let at = vector * self.bases.len() + first;
        let computer = self.computer.clone();
        let ready = self.prepare(control)?;
        let to = ready.scalars.all::<[u8; 32]>().part(at, scalars.len());
        let to = to
            .and_then(|to| to.cast())
            .ok_or_else(|| Error::Internal("more scalars than the MSM has".to_owned()))?;
        let mut next = 0;
        let mut upload = computer.gpu.ring().upload(&ready.stream, to);
        upload.fill(to.len(), |bytes| {
            control.check()?;
            write(scalars, next, bytes);
            next += bytes.len() / 32;
            Ok::<_, Error>(())
        })?;
        drop(upload);
        self.there.insert(at as u64..(at + scalars.len()) as u64);
        self.advance()
    }

    fn finish(mut self: Box<Self>) -> Result<Sums> {
        let bases = self.bases.clone();
        let ready = self.prepare(&Control::default())?;
        let computer_stream = ready.stream.clone();
        self.advance()?;
        let Some(ready) = &self.ready else {
            return Err(Error::Internal("not prepared".to_owned()));
        };
        if !ready.passes.is_empty() {
            return Err(Error::Internal("scalars are missing".to_owned()));
        }
        if let Some(done) = &ready.done {
            computer_stream.wait(done)?;
        }
        let mut bytes = Vec::with_capacity(ready.plan.bytes_out() as usize);
        self.computer.gpu.ring().download(&computer_stream, ready.out.all(), |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, Fault>(())
        })?;
        let sums = match bases {
            Bases::G1(_) => Sums::G1(Msm::finish(&ready.plan, &bytes)),
            Bases::G2(_) => Sums::G2(Msm::finish(&ready.plan, &bytes)),
        };
        bytes.zeroize();
        let mut copies = self.computer.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.push(computer_stream);
        Ok(sums)
    }
}

/// Scalars `first..` as canonical elements of Fr, as many as `out` has room for.
fn write(scalars: &Scalars, first: usize, out: &mut [u8]) {
    let (magnitudes, width) = (scalars.magnitudes(), scalars.width());
    let from = &magnitudes[first * width..][..out.len() / 32 * width];
    if width == 32 {
        return out.copy_from_slice(from);
    }
    for (out, magnitude) in out.chunks_exact_mut(32).zip(from.chunks_exact(width)) {
        out[..width].copy_from_slice(magnitude);
        out[width..].fill(0);
    }
    let Some(negative) = scalars.negative() else { return };
    for (out, _) in out.chunks_exact_mut(32).zip(&negative[first..]).filter(|(_, sign)| **sign) {
        let opposite = -Fr::from_le_bytes_mod_order(out);
        out.copy_from_slice(&opposite.into_bigint().to_bytes_le());
    }
}
