//! Device memory kept between jobs: an LRU cache of bases, keyed by the object's owner, with tables
//! of multiples once they are used again; the workspaces of passes; and matrices.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tracing::{debug, error, info};

use super::{
    fingerprint::DeviceFingerprint,
    resident_bases::ResidentBases,
    resident_entries::{ResidentEntries, ResidentEntry},
    resident_matrices::{ResidentMatrices, ResidentMatrix},
    resident_upload::upload,
    workspace::{PassStreamId, Workspace},
};
use crate::{
    curve::points::Bases,
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, GpuUnavailable, Stream},
    engines::JobControl,
    error::{Error, Limit, Result},
    msm::{
        AlignedPoints, BaseMemory, BasesLocation, Recoding, ResidentPlan, tables,
        tables::TableBuilder,
    },
    sparse::SparseMatrix,
};

/// The resident bases and matrices and the workspaces of one device.
pub struct ResidentCache {
    gpu: Gpu,
    tables: TableBuilder,
    fingerprint: DeviceFingerprint,
    bases: ResidentEntries,
    /// Single flight: one object is loaded at a time, as two jobs may want the same one.
    load_lock: Mutex<()>,
    /// One per stream of passes.
    workspaces: [Workspace; PassStreamId::COUNT],
    matrices: ResidentMatrices,
    /// False during the self-test, whose loads are of no interest to operators.
    is_serving: AtomicBool,
}

impl ResidentCache {
    pub fn load(gpu: &Gpu) -> std::result::Result<Self, GpuUnavailable> {
        let (gpu, tables) = (gpu.clone(), TableBuilder::load(gpu.context())?);
        let fingerprint = DeviceFingerprint::load(&gpu)?;
        let matrices = ResidentMatrices::new(&gpu)?;
        let (bases, load_lock, workspaces, is_serving) = Default::default();
        Ok(Self { gpu, tables, fingerprint, bases, load_lock, workspaces, matrices, is_serving })
    }

    pub fn start_serving(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    /// The bases on the device.
    pub fn bases(&self) -> &ResidentEntries {
        &self.bases
    }

    /// The object that `bases` are part of. It is uploaded on its first use and gets tables from
    /// its second use on, if there is memory for them and it is not pinned.
    ///
    /// Errors: `Exhausted` if there is no memory; those of `control`; `DeviceLost`.
    pub fn get(
        &self,
        stream: &Stream,
        bases: &Bases,
        control: &JobControl,
    ) -> Result<Arc<ResidentBases>> {
        let whole = bases.all_of_owner();
        let found = self.bases.find(&whole, 1);
        if let Some(entry) = &found
            && self.better_windows(&whole, entry).is_none()
        {
            return Ok(entry.resident.clone());
        }
        let _alone = self.load_lock.lock();
        // Another job may have loaded it while this one waited for the lock.
        let found = self.bases.find(&whole, u64::from(found.is_none()));
        let resident = match found {
            Some(entry) => {
                let windows = self.better_windows(&whole, &entry);
                let Some(windows) = windows else { return Ok(entry.resident) };
                match self.make_resident(stream, &whole, Some(windows), control) {
                    // Other jobs use the memory; the next job tries again.
                    Err(Error::Exhausted { .. }) => return Ok(entry.resident),
                    with_tables => with_tables?,
                }
            }
            None => self.make_resident(stream, &whole, None, control)?,
        };
        let resident = Arc::new(resident);
        self.bases.set(&whole, resident.clone());
        Ok(resident)
    }

    /// Makes the object that `bases` are part of resident before its first use, with the best
    /// tables for bases that are used often. Bases and tables take at most `bytes_max` bytes.
    ///
    /// Errors: `Exhausted` if there is no memory for the bases alone, or they take more than
    /// `bytes_max`; those of `control`; `DeviceLost`.
    pub fn warm(
        &self,
        stream: &Stream,
        bases: &Bases,
        bytes_max: u64,
        control: &JobControl,
    ) -> Result<Arc<ResidentBases>> {
        let whole = bases.all_of_owner();
        let _alone = self.load_lock.lock();
        let found = self.bases.find(&whole, 0);
        let present = found.filter(|entry| entry.resident.lease().bytes() <= bytes_max);
        let best = self.plan_for(&whole, 0)?.best_within(self.memory_for(&whole), bytes_max);
        let rank = |windows: Option<&Recoding>| windows.map_or(0, |w| 1 + u8::from(w.is_sliding()));
        if let Some(entry) = &present
            && rank(entry.resident.windows()) >= rank(best.as_ref())
        {
            return Ok(entry.resident.clone());
        }
        let loaded = match (self.make_resident(stream, &whole, best, control), present) {
            // Running jobs use the memory that the tables need.
            (Err(Error::Exhausted { .. }), Some(entry)) => return Ok(entry.resident),
            (Err(Error::Exhausted { .. }), None) if best.is_some() => {
                self.make_resident(stream, &whole, None, control)?
            }
            (loaded, _) => loaded?,
        };
        if loaded.lease().bytes() > bytes_max {
            return Err(Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None });
        }
        let loaded = Arc::new(loaded);
        self.bases.set(&whole, loaded.clone());
        Ok(loaded)
    }

    /// The matrix, which is uploaded on its first use.
    ///
    /// Errors: `Exhausted` if there is no memory; those of `control`; `DeviceLost`.
    pub fn matrix(
        &self,
        matrix: &SparseMatrix,
        control: &JobControl,
    ) -> Result<Arc<ResidentMatrix>> {
        self.matrices.get(matrix, control, |stream, bytes| self.lease(stream, bytes))
    }

    pub fn matrices(&self) -> &ResidentMatrices {
        &self.matrices
    }

    /// Whether the device's copy of `bases`, a part of the object, equals the host's. Tables of
    /// multiples are not compared: with wrong multiples, sums are not linear in the scalars, so
    /// their check fails.
    ///
    /// Errors: `Exhausted`; `DeviceLost`.
    pub fn is_intact(
        &self,
        stream: &Stream,
        resident: &Arc<ResidentBases>,
        bases: &Bases,
    ) -> Result<bool> {
        let bytes = bases.as_bytes();
        let start = bases.offset_in_owner() * bases.group().affine_bytes();
        let AlignedPoints { span, .. } =
            AlignedPoints::of(resident.lease().all(), bases.group()).ok_or_else(too_many)?;
        let words = span.slice(start, bytes.len()).and_then(|span| span.cast());
        let sum = self.lease(stream, DeviceFingerprint::SUM_BYTES)?;
        let on_device = self.fingerprint.of(stream, words.ok_or_else(too_many)?, &sum)?;
        let is_intact = on_device == resident.host_fingerprint(start..start + bytes.len(), bytes);
        if !is_intact {
            error!(points = bases.len(), "bases on the device differ from the host's");
        }
        Ok(is_intact)
    }

    /// Evicts bases whose sums are wrong: the bases or their tables may be damaged. The next job
    /// uploads the object again.
    pub fn evict_damaged(&self, resident: &Arc<ResidentBases>) {
        let bytes = resident.lease().bytes();
        let tables = resident.tables();
        error!(bytes, tables, "sums are wrong: their bases are evicted from the device");
        self.bases.remove(resident);
    }

    /// Leases `bytes` of device memory, after evicting as needed.
    pub fn lease(&self, stream: &Stream, bytes: u64) -> Result<DeviceLease, DeviceFault> {
        let arena = self.gpu.arena();
        while arena.largest_free_bytes() < bytes && self.evict_idle_for(bytes) {}
        arena.lease(stream, bytes)
    }

    /// Evicts something that no job uses: the least recently used matrix, else bases, else the
    /// workspaces. Matrices first: to load bases again takes longer, as they have tables. False if
    /// there is nothing to evict.
    pub fn evict_idle(&self) -> bool {
        self.matrices.evict_idle() || self.bases.evict_idle() || self.free_workspaces()
    }

    /// Like [`Self::evict_idle`], but evicts only if eviction can free `bytes` in one piece.
    pub fn evict_idle_for(&self, bytes: u64) -> bool {
        bytes <= self.available_bytes() && self.evict_idle()
    }

    /// Bytes of the largest free piece if everything idle were evicted. One piece, because most of
    /// a job's memory is its workspace, a single lease.
    pub fn available_bytes(&self) -> u64 {
        // The lock of the bases is taken first: another call must not find the workspaces locked.
        self.bases.with_idle(|bases| {
            self.matrices.with_idle(|matrices| {
                let workspaces = self.workspaces.each_ref().map(Workspace::idle);
                let workspaces = workspaces.iter().filter_map(|idle| idle.as_ref()?.as_ref());
                let leases = bases.into_iter().chain(matrices).chain(workspaces);
                self.gpu.arena().largest_free_bytes_with(leases)
            })
        })
    }

    /// Calls `work`, which launches on `stream`, with at least `bytes` of workspace.
    pub fn with_workspace<T>(
        &self,
        id: PassStreamId,
        stream: &Stream,
        bytes: u64,
        work: impl FnOnce(DeviceSlice<'_, u8>) -> Result<T, DeviceFault>,
    ) -> Result<T, DeviceFault> {
        self.workspaces[id.index()].with(bytes, || self.lease(stream, bytes), work)
    }

    /// Frees the workspaces in which no pass is being launched. False if nothing is freed.
    fn free_workspaces(&self) -> bool {
        let freed = self.workspaces.iter().map(Workspace::free);
        freed.fold(false, |any, freed| any | freed)
    }

    /// The windows to make tables for. `None` if the resident tables are the best for the object's
    /// uses and the free memory.
    fn better_windows(&self, whole: &Bases, entry: &ResidentEntry) -> Option<Recoding> {
        if entry.is_pinned {
            return None;
        }
        let plan = self.plan_for(whole, entry.uses).ok()?;
        plan.better(entry.resident.windows(), self.memory_for(whole))
    }

    fn plan_for(&self, whole: &Bases, uses: u64) -> Result<ResidentPlan> {
        let n = u32::try_from(whole.len()).map_err(|_| too_many())?;
        let limits = self.gpu.identity().limits;
        Ok(ResidentPlan { group: whole.group(), n, uses, limits })
    }

    /// The memory of the device without what other pinned objects take.
    fn memory_for(&self, whole: &Bases) -> BaseMemory {
        let arena = self.gpu.arena();
        let points = whole.len() as u32;
        BaseMemory {
            total: arena.bytes() - self.bases.pinned_bytes_besides(whole),
            free: arena.largest_free_bytes(),
            table_scratch: self.tables.scratch_bytes(whole.group(), points),
        }
    }

    fn make_resident(
        &self,
        stream: &Stream,
        whole: &Bases,
        windows: Option<Recoding>,
        control: &JobControl,
    ) -> Result<ResidentBases> {
        let begun = Instant::now();
        let (group, bytes) = (whole.group(), whole.as_bytes());
        let points = u32::try_from(whole.len()).map_err(|_| too_many())?;
        let offsets: Vec<u32> = match &windows {
            Some(windows) => (0..windows.tables()).map(|t| windows.table_offset(t)).collect(),
            None => vec![0],
        };
        let stride = points as usize;
        let factor = windows.as_ref().map_or(1, Recoding::factor);
        let layout = tables::TableLayout { group, points, stride, offsets: &offsets, factor };
        // One point more, so that the first can be aligned as references require.
        let is_sliding = windows.is_some_and(|windows| windows.is_sliding());
        if windows.is_some() && !is_sliding {
            // Tables are never moved. If placed behind the current workspace, they would split the
            // free memory (`benches/experiments/msm.md`).
            self.free_workspaces();
        }
        let lease = |bytes| {
            let arena = self.gpu.arena();
            if is_sliding { arena.lease(stream, bytes) } else { self.lease(stream, bytes) }
        };
        let memory = lease((layout.bytes() + group.affine_bytes()) as u64)?;
        let AlignedPoints { span, first } =
            AlignedPoints::of(memory.all(), group).ok_or_else(too_many)?;
        upload(&self.gpu, stream, span, bytes, control)?;
        let uploaded = begun.elapsed();
        if offsets.len() > 1 {
            control.check()?;
            let scratch = lease(self.tables.scratch_bytes(group, points))?;
            self.tables.run(stream, &layout, span, scratch.all())?;
        }
        stream.synchronize()?;
        macro_rules! log_load {
            ($level:ident) => {
                $level!(
                    group = group.name(),
                    points,
                    tables = offsets.len(),
                    bytes = memory.bytes(),
                    upload_ms = uploaded.as_millis() as u64,
                    tables_ms = (begun.elapsed() - uploaded).as_millis() as u64,
                    "bases loaded on the device",
                )
            };
        }
        if self.is_serving.load(Ordering::Relaxed) {
            log_load!(info)
        } else {
            log_load!(debug)
        }
        let location = BasesLocation { first, stride: points };
        Ok(ResidentBases::new(memory, location, windows))
    }
}

fn too_many() -> Error {
    Error::Internal("the bases cannot be numbered on the device".to_owned())
}
