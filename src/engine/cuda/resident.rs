//! What stays on a device between jobs: bases, whole objects that are recognised by who owns them,
//! with tables of their multiples once they are used again; and a workspace.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tracing::{debug, info};

use crate::{
    curve::points::{Bases, Owner},
    device::{Fault, Gpu, Lease, Span, Stream, Unusable},
    engine::Control,
    error::{Error, Result},
    msm::{Kept, Memory, Placed, Windows, tables, tables::Tables, whole_points},
};

/// Bytes between two looks at whether the job is still wanted: a few milliseconds of copying.
const CHECK_BYTES: usize = 64 << 20;

/// Bases on a device.
pub struct Resident {
    lease: Lease,
    placed: Placed,
    /// The windows that there are tables for; `None` where there are the bases alone.
    windows: Option<Windows>,
}

impl Resident {
    /// Where the bases from number `start` of the object on lie.
    pub fn placed(&self, start: usize) -> Placed {
        Placed { first: self.placed.first + start as u32, ..self.placed }
    }

    /// The windows that there are tables for.
    pub fn windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }
}

/// The resident bases of one device.
pub struct Shelf {
    gpu: Gpu,
    tables: Tables,
    /// The longest unused first.
    entries: Mutex<Vec<Entry>>,
    /// One object is brought at a time: the link is one, and two jobs may want the same.
    bringing: Mutex<()>,
    /// What passes work in. It keeps what the last pass left: no job reads what it did not write.
    workspace: Mutex<Option<Lease>>,
}

struct Entry {
    owner: Owner,
    resident: Arc<Resident>,
    /// Jobs that asked for it.
    uses: u64,
}

impl Shelf {
    /// Loads the kernels that make tables.
    pub fn load(gpu: &Gpu) -> std::result::Result<Self, Unusable> {
        let tables = Tables::load(gpu.context())?;
        let (entries, bringing, workspace) = Default::default();
        Ok(Self { gpu: gpu.clone(), tables, entries, bringing, workspace })
    }

    /// Whether the object of `bases` is here.
    pub fn has(&self, bases: &Bases) -> bool {
        self.entries().iter().any(|entry| entry.owner.owns(bases))
    }

    /// The object that `bases` are a range of, brought here at its first use, and with tables from
    /// its second use on, if there is room for them.
    ///
    /// Errors: `Exhausted` where there is no room; what `control` says; `DeviceLost`.
    pub fn get(&self, stream: &Stream, bases: &Bases, control: &Control) -> Result<Arc<Resident>> {
        let whole = bases.whole();
        let complete = |(found, uses): &(Arc<Resident>, u64)| {
            self.better(&whole, found, *uses).is_none().then(|| found.clone())
        };
        let found = self.find(&whole, 1);
        if let Some(found) = found.as_ref().and_then(complete) {
            return Ok(found);
        }
        let _alone = self.bringing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another job may have brought it meanwhile.
        let found = if found.is_some() { self.find(&whole, 0) } else { self.find(&whole, 1) };
        let uses = found.as_ref().map_or(1, |(_, uses)| *uses);
        let resident = match &found {
            Some((found, uses)) => match self.better(&whole, found, *uses) {
                None => return Ok(found.clone()),
                Some(windows) => match self.with_tables(stream, &whole, windows, control)? {
                    Some(with_tables) => with_tables,
                    None => return Ok(found.clone()),
                },
            },
            None => self.bring(stream, &whole, None, control)?,
        };
        let resident = Arc::new(resident);
        let mut entries = self.entries();
        entries.retain(|entry| !entry.owner.owns(&whole));
        entries.push(Entry { owner: Owner::of(&whole), resident: resident.clone(), uses });
        Ok(resident)
    }

    /// `bytes` of device memory, for which others may have to go.
    ///
    /// Errors: `Exhausted` where what is in use leaves no room; `DeviceLost`.
    pub fn room(&self, stream: &Stream, bytes: u64) -> Result<Lease, Fault> {
        let arena = self.gpu.arena();
        while arena.largest_free_bytes() < bytes && self.make_room_for(bytes) {}
        arena.lease(stream, bytes)
    }

    /// Gives up what no job uses now: the longest unused bases, else the workspace. False where
    /// there is neither.
    pub fn make_room(&self) -> bool {
        self.evict() || self.drop_workspace()
    }

    /// The same, where all that may go would leave room for `bytes`; else nothing goes.
    pub fn make_room_for(&self, bytes: u64) -> bool {
        bytes <= self.room_bytes() && self.make_room()
    }

    /// Bytes that a job may count on, in one piece: what would be free if all that is idle went.
    /// Most of what a job takes is its workspace, which is one lease.
    pub fn room_bytes(&self) -> u64 {
        let entries = self.entries();
        let idle = |entry: &&Entry| Arc::strong_count(&entry.resident) == 1;
        let bases = entries.iter().filter(idle).map(|entry| &entry.resident.lease);
        let workspace = self.workspace.try_lock().ok();
        let workspace = workspace.as_ref().and_then(|lease| lease.as_ref());
        self.gpu.arena().largest_free_bytes_with(bases.chain(workspace))
    }

    /// Has `work` launch something on `stream` in `bytes` of workspace.
    ///
    /// Errors: what `room` and `work` say.
    pub fn in_workspace<T>(
        &self,
        stream: &Stream,
        bytes: u64,
        work: impl FnOnce(Span<'_, u8>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut held = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = match held.take().filter(|lease| lease.bytes() >= bytes) {
            Some(lease) => lease,
            None => self.room(stream, bytes)?,
        };
        let done = work(lease.all());
        *held = Some(lease);
        done
    }

    /// Gives up the workspace, if no pass is being launched. False where there is none.
    fn drop_workspace(&self) -> bool {
        self.workspace.try_lock().is_ok_and(|mut held| held.take().is_some())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is here of an object, which is then the one last used, and how often, with `more` uses.
    fn find(&self, whole: &Bases, more: u64) -> Option<(Arc<Resident>, u64)> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.owner.is_alive());
        let at = entries.iter().position(|entry| entry.owner.owns(whole))?;
        let mut entry = entries.remove(at);
        entry.uses += more;
        let found = (entry.resident.clone(), entry.uses);
        entries.push(entry);
        Some(found)
    }

    /// Gives up the longest unused bases that no job uses. False where there are none.
    fn evict(&self) -> bool {
        let mut entries = self.entries();
        let idle = |entry: &Entry| Arc::strong_count(&entry.resident) == 1;
        let Some(at) = entries.iter().position(idle) else { return false };
        let gone = entries.remove(at);
        debug!(bytes = gone.resident.lease.bytes(), "bases leave the device");
        true
    }

    /// The windows that tables are to be made for, of an object that is here and was used so often:
    /// `None` where what is here is the best that there is use and room for.
    fn better(&self, whole: &Bases, here: &Resident, uses: u64) -> Option<Windows> {
        let (group, n) = (whole.group(), u32::try_from(whole.len()).ok()?);
        let (arena, scratch) = (self.gpu.arena(), self.tables.scratch_bytes(group, n));
        let memory = Memory { all: arena.bytes(), free: arena.largest_free_bytes(), scratch };
        let limits = self.gpu.identity().limits;
        Kept { group, n, uses, limits }.better(here.windows.as_ref(), memory)
    }

    /// An object with tables; `None` where there is no room for them now.
    fn with_tables(
        &self,
        stream: &Stream,
        whole: &Bases,
        windows: Windows,
        control: &Control,
    ) -> Result<Option<Resident>> {
        match self.bring(stream, whole, Some(windows), control) {
            Ok(resident) => Ok(Some(resident)),
            // Others are at work: the next job tries again.
            Err(Error::Exhausted { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn bring(
        &self,
        stream: &Stream,
        whole: &Bases,
        windows: Option<Windows>,
        control: &Control,
    ) -> Result<Resident> {
        let begun = Instant::now();
        let (group, bytes) = (whole.group(), whole.as_bytes());
        let points = u32::try_from(whole.len()).map_err(|_| too_many())?;
        let offsets: Vec<u32> = match &windows {
            Some(windows) => (0..windows.tables()).map(|t| windows.table_offset(t)).collect(),
            None => vec![0],
        };
        let stride = points as usize;
        let factor = windows.as_ref().map_or(1, Windows::factor);
        let layout = tables::Layout { group, points, stride, offsets: &offsets, factor };
        // One point more, so that the first can lie where a reference can name it.
        let slides = windows.is_some_and(|windows| windows.slide());
        if windows.is_some() && !slides {
            // Tables stay where they are. Behind a workspace of now, as large as themselves, they
            // would leave none in one piece to a larger one: 2^26 on an H200 had 36 of 50 GB.
            self.drop_workspace();
        }
        let room = |bytes| {
            if slides { self.gpu.arena().lease(stream, bytes) } else { self.room(stream, bytes) }
        };
        let lease = room((layout.bytes() + group.affine_bytes()) as u64)?;
        let (span, first) = whole_points(lease.all(), group).ok_or_else(too_many)?;
        let mut upload = self.gpu.ring().upload(stream, span);
        for bytes in bytes.chunks(CHECK_BYTES) {
            control.check()?;
            upload.write(bytes)?;
        }
        drop(upload);
        let brought = begun.elapsed();
        if offsets.len() > 1 {
            control.check()?;
            let scratch = room(self.tables.scratch_bytes(group, points))?;
            self.tables.run(stream, &layout, span, scratch.all())?;
        }
        stream.synchronize()?;
        info!(
            group = group.name(),
            points,
            tables = offsets.len(),
            bytes = lease.bytes(),
            upload_ms = brought.as_millis() as u64,
            tables_ms = (begun.elapsed() - brought).as_millis() as u64,
            "bases are on the device",
        );
        Ok(Resident { lease, placed: Placed { first, stride: points }, windows })
    }
}

fn too_many() -> Error {
    Error::Internal("bases have no numbers on the device".to_owned())
}
