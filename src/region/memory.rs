//! A sealed file in memory, mapped by both processes.
#![allow(unsafe_code)]

use std::{
    hint::black_box,
    io,
    marker::PhantomData,
    ops::Range,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    slice,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence},
    },
};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{self, MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};

use super::file_faults::{MappingAccess, WatchedMapping};

/// Memory that another process also maps and can change at any time. Check a copy, never the memory
/// itself.
pub struct SharedMemory {
    file: OwnedFd,
    /// Declared before the mapping, so that it is dropped first.
    watch: Option<WatchedMapping>,
    map: MmapRaw,
    access: DeviceAccess,
    /// The file, once it is opened for reading.
    reader: OnceLock<OwnedFd>,
    id: u64,
    /// The number of leading bytes that devices access directly.
    pinned: AtomicUsize,
    /// Whether to wipe the memory when it is dropped.
    is_released: AtomicBool,
}

/// What devices do with memory, and with them the processes that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceAccess {
    /// They read it.
    Read,
    /// They read and write it.
    ReadWrite,
}

/// Bytes that a device copies from or to. They are not behind a reference, because other processes
/// may write them at any time. Mapped as long as they are borrowed.
#[derive(Clone)]
pub struct DeviceBytes<'a> {
    addresses: Range<usize>,
    memory: PhantomData<&'a SharedMemory>,
}

impl DeviceBytes<'_> {
    /// Their number.
    pub fn size(&self) -> usize {
        self.addresses.len()
    }

    /// Their addresses in this process.
    pub fn addresses(&self) -> Range<usize> {
        self.addresses.clone()
    }
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl SharedMemory {
    /// Zeroed memory, whose pages exist. No process can change its size.
    ///
    /// Shape: `bytes` is a positive multiple of the page size.
    pub fn create(bytes: usize) -> io::Result<Self> {
        let file = create_file("capstan-region", bytes)?;
        // Fails if the system has too little memory; a page that is missing later would be fatal.
        fs::fallocate(&file, fs::FallocateFlags::empty(), 0, bytes as u64)?;
        let map = MmapOptions::new().len(bytes).populate().map_raw(&file)?;
        Ok(Self::new(file, map))
    }

    /// Zeroed memory, of which the first `touched` bytes have pages. The other pages exist once
    /// they are written. No process can change its size.
    ///
    /// Shape: `bytes` is a positive multiple of the page size, and `touched` at most `bytes`.
    pub fn create_sparse(bytes: usize, touched: usize, access: DeviceAccess) -> io::Result<Self> {
        let file = create_file("capstan-payloads", bytes)?;
        if access == DeviceAccess::Read {
            // Who gets a descriptor for reading cannot open the file again for writing, unless it
            // is root or may change modes.
            fs::fchmod(&file, fs::Mode::RUSR)?;
        }
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        // Without huge pages, small pages work too.
        let _small = map.advise(Advice::HugePage);
        // Linux before 5.14 does not know the advice, and maps the pages when they are used.
        if touched > 0 && !populate(&map, touched) {
            fs::fallocate(&file, fs::FallocateFlags::empty(), 0, touched as u64)?;
        }
        let mut memory = Self::new(file, map);
        memory.access = access;
        Ok(memory)
    }

    /// Maps the memory that a server has created.
    ///
    /// Fails if it has another size, or if another process could change its size.
    pub fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let is_sealed = fs::fcntl_get_seals(&file)?.contains(SIZE_SEALS);
        if !is_sealed || fs::fstat(&file)?.st_size != bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let map = MmapOptions::new().len(bytes).populate().map_raw(&file)?;
        Ok(Self::new(file, map))
    }

    /// Maps memory whose pages may not exist yet, for another process of the server. They exist
    /// once they are read or written. With [`DeviceAccess::Read`], a write ends the process.
    ///
    /// Fails if the memory is shorter, or cannot be accessed like this.
    pub fn map_sparse(file: OwnedFd, bytes: usize, access: DeviceAccess) -> io::Result<Self> {
        if fs::fstat(&file)?.st_size < bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut options = MmapOptions::new();
        let map = match access {
            DeviceAccess::Read => options.len(bytes).map_raw_read_only(&file)?,
            DeviceAccess::ReadWrite => options.len(bytes).map_raw(&file)?,
        };
        let mut memory = Self::new(file, map);
        memory.access = access;
        Ok(memory)
    }

    /// What devices do with the memory.
    pub fn access(&self) -> DeviceAccess {
        self.access
    }

    /// A descriptor with which another process can map the memory.
    ///
    /// Fails if the file cannot be opened again.
    pub fn descriptor(&self, access: DeviceAccess) -> io::Result<BorrowedFd<'_>> {
        if access == DeviceAccess::ReadWrite {
            return Ok(self.file.as_fd());
        }
        if let Some(reader) = self.reader.get() {
            return Ok(reader.as_fd());
        }
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = fs::OFlags::RDONLY | fs::OFlags::CLOEXEC;
        let reader = fs::open(path, flags, fs::Mode::empty())?;
        Ok(self.reader.get_or_init(|| reader).as_fd())
    }

    fn new(file: OwnedFd, map: MmapRaw) -> Self {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        Self {
            file,
            watch: None,
            map,
            access: DeviceAccess::ReadWrite,
            reader: OnceLock::new(),
            id,
            pinned: 0.into(),
            is_released: false.into(),
        }
    }

    /// Survives pages that another process gives back: see [`Self::is_intact`].
    ///
    /// Fails if the system refuses a handler of SIGBUS.
    pub fn watched(mut self) -> io::Result<Self> {
        let start = self.map.as_ptr();
        let len = self.map.len();
        self.watch = Some(WatchedMapping::new(start, len, MappingAccess::ReadWrite)?);
        Ok(self)
    }

    /// Whether the memory is [watched](Self::watched).
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// False if another process has given back pages of watched memory, and there were no others.
    /// They were read as zeros, and what is written there reaches no other process.
    pub fn is_intact(&self) -> bool {
        !self.watch.as_ref().is_some_and(WatchedMapping::is_damaged)
    }

    /// Identifies the mapping in this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.map.len()
    }

    /// The file that is mapped.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Wipes the memory when it is dropped: the other process has released it. Otherwise that
    /// process keeps the pages, and the kernel clears them after it.
    pub fn release(&self) {
        self.is_released.store(true, Ordering::Release);
    }

    /// The number of leading bytes that devices access directly.
    pub fn pinned_bytes(&self) -> usize {
        self.pinned.load(Ordering::Acquire)
    }

    /// For the code that pins and unpins the memory.
    pub fn set_pinned_bytes(&self, bytes: usize) {
        assert!(bytes <= self.size(), "{bytes} bytes pinned of {}", self.size());
        self.pinned.store(bytes, Ordering::Release);
    }

    /// Copies `out.len()` bytes from `start` on. If the other process writes meanwhile, the copy
    /// may mix old and new bytes.
    ///
    /// Shape: the range lies in the memory.
    pub fn read(&self, start: usize, out: &mut [u8]) {
        let from = self.address(start, out.len());
        // SAFETY: the range is mapped and holds bytes, which have no invalid values.
        unsafe { copy_once(from, out.as_mut_ptr(), out.len()) }
    }

    /// Appends a copy of `len` bytes from `start` on to `out`, like [`Self::read`].
    ///
    /// Shape: the range lies in the memory.
    pub fn append_to(&self, out: &mut Vec<u8>, start: usize, len: usize) {
        let from = self.address(start, len);
        let end = out.len();
        out.reserve(len);
        // SAFETY: as in `read`; `out` has room for `len` more bytes, which the copy initialises.
        unsafe {
            copy_once(from, out.as_mut_ptr().add(end), len);
            out.set_len(end + len);
        }
    }

    /// Writes `bytes`, starting at byte number `start`.
    ///
    /// Shape: the range lies in the memory.
    pub fn write(&self, start: usize, bytes: &[u8]) {
        let to = self.address(start, bytes.len());
        // SAFETY: as in `read`.
        unsafe { copy_once(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Zeroes a range.
    ///
    /// Shape: the range lies in the memory.
    pub fn wipe(&self, start: usize, len: usize) {
        let to = self.address(start, len);
        // SAFETY: as in `read`.
        unsafe { std::ptr::write_bytes(to, 0, len) }
    }

    /// Returns the pages of a range to the system; its bytes are 0 from now on. Not for pinned
    /// pages, which devices would still access.
    ///
    /// Fails if the system cannot do that; nothing has changed then.
    ///
    /// Shape: the range lies in the memory, and consists of whole pages.
    pub fn discard(&self, start: usize, len: usize) -> io::Result<()> {
        self.address(start, len);
        debug_assert!(start >= self.pinned_bytes(), "discards pinned pages");
        Ok(fs::fallocate(&self.file, PUNCH_HOLE, start as u64, len as u64)?)
    }

    /// The bytes of a range that nobody writes as long as the slice exists.
    ///
    /// Shape: the range lies in the memory.
    pub fn stable_bytes(&self, start: usize, len: usize) -> &[u8] {
        // SAFETY: mapped while `self` is borrowed. The only caller is a payload that shares itself
        // with the reader of the slice: each of its bytes is written once, before it counts as
        // received, and is wiped when the last share is dropped. Workers of the server map the
        // memory, too: this relies on them to write only to the places that they are given, unless
        // they map it only for reading.
        unsafe { slice::from_raw_parts(self.address(start, len), len) }
    }

    /// The range as a source or a destination of copies by a device.
    ///
    /// Shape: the range lies in the memory.
    pub fn for_device(&self, start: usize, len: usize) -> DeviceBytes<'_> {
        let start = self.address(start, len) as usize;
        DeviceBytes { addresses: start..start + len, memory: PhantomData }
    }

    /// The first byte, which is aligned to a page. Mapped as long as `self` exists.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn address(&self, start: usize, len: usize) -> *mut u8 {
        let is_inside = start.checked_add(len).is_some_and(|end| end <= self.size());
        assert!(is_inside, "bytes {start} to {start} + {len} of {}", self.size());
        // SAFETY: inside the mapping.
        unsafe { self.map.as_mut_ptr().add(start) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if !*self.is_released.get_mut() {
            return;
        }
        // SAFETY: mapped, and no reference points into it.
        unsafe { std::ptr::write_bytes(self.map.as_mut_ptr(), 0, self.size()) };
        // A client that still maps the pages must not keep them.
        let _kept_on_error = fs::fallocate(&self.file, PUNCH_HOLE, 0, self.size() as u64);
    }
}

/// Copies bytes from or to memory that another process may change. The compiler can neither read
/// the memory again in place of the copy nor delay the copy beyond what follows.
///
/// # Safety
///
/// Both ranges are mapped and do not overlap.
unsafe fn copy_once(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(black_box(from), black_box(to), bytes) }
    compiler_fence(Ordering::SeqCst);
}

const PUNCH_HOLE: fs::FallocateFlags =
    fs::FallocateFlags::PUNCH_HOLE.union(fs::FallocateFlags::KEEP_SIZE);

/// A sparse file in memory whose size is sealed.
fn create_file(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let create = |flags| fs::memfd_create(name, flags);
    // Linux before 6.3 does not know the flag.
    let file = create(flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| create(flags))?;
    fs::ftruncate(&file, bytes as u64)?;
    fs::fcntl_add_seals(&file, SIZE_SEALS)?;
    Ok(file)
}

/// Makes pages for the first `bytes` bytes, on several threads, since zeroing them takes longest.
fn populate(map: &MmapRaw, bytes: usize) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let step = bytes.div_ceil(threads).next_multiple_of(POPULATED_BYTES_MIN);
    std::thread::scope(|scope| {
        let parts = (0..bytes).step_by(step).map(|start| {
            let len = step.min(bytes - start);
            scope.spawn(move || map.advise_range(Advice::PopulateWrite, start, len))
        });
        // All threads run before the first is waited for.
        let parts: Vec<_> = parts.collect();
        parts.into_iter().all(|part| part.join().is_ok_and(|populated| populated.is_ok()))
    })
}

/// Less is not worth a thread.
const POPULATED_BYTES_MIN: usize = 64 << 20;

/// Without them, another process could shrink the file, and access to the rest would be fatal.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const BYTES: usize = 2 << 20;

    fn copy_of(memory: &SharedMemory) -> Vec<u8> {
        let mut bytes = vec![0; memory.size()];
        memory.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn both_sides_see_the_same_bytes() {
        let server = SharedMemory::create(BYTES).unwrap();
        let client = SharedMemory::map(server.file().try_clone().unwrap(), BYTES).unwrap();
        assert!(copy_of(&client).iter().all(|byte| *byte == 0));
        client.write(BYTES - 3, &[1, 2, 3]);
        let mut out = [0; 3];
        server.read(BYTES - 3, &mut out);
        assert_eq!(out, [1, 2, 3]);
        server.write(5, &[7, 8]);
        assert_eq!(copy_of(&client)[4..8], [0, 7, 8, 0]);
        server.release();
        drop(server);
        assert!(copy_of(&client).iter().all(|byte| *byte == 0), "not wiped");
    }

    /// The blocks that the system holds for the file, in bytes.
    fn resident(memory: &SharedMemory) -> usize {
        fs::fstat(memory.file()).expect("an open file").st_blocks as usize * 512
    }

    #[test]
    fn sparse_memory_takes_pages_when_it_is_written_and_gives_them_back() {
        const SPARSE: usize = 64 << 20;
        let memory = SharedMemory::create_sparse(SPARSE, BYTES, DeviceAccess::ReadWrite).unwrap();
        assert!((BYTES..SPARSE).contains(&resident(&memory)));
        let before = resident(&memory);
        memory.write(SPARSE - BYTES, &vec![5; BYTES]);
        assert_eq!(resident(&memory), before + BYTES);
        memory.wipe(SPARSE - BYTES, 3);
        let mut out = vec![1];
        memory.append_to(&mut out, SPARSE - BYTES, 4);
        assert_eq!(out, [1, 0, 0, 0, 5]);
        memory.discard(SPARSE - BYTES, BYTES).unwrap();
        assert_eq!(resident(&memory), before);
        memory.read(SPARSE - BYTES, &mut out);
        assert!(out.iter().all(|byte| *byte == 0), "not zeroed");
    }

    #[test]
    fn a_descriptor_for_reading_allows_no_writes() {
        let server = SharedMemory::create_sparse(BYTES, 0, DeviceAccess::Read).unwrap();
        server.write(3, &[7]);
        let descriptor = |access| server.descriptor(access).unwrap().try_clone_to_owned().unwrap();
        let file = || descriptor(DeviceAccess::Read);
        assert_eq!(rustix::io::write(file(), &[1]), Err(Errno::BADF));
        assert!(SharedMemory::map_sparse(file(), BYTES, DeviceAccess::ReadWrite).is_err());
        let reader = SharedMemory::map_sparse(file(), BYTES, DeviceAccess::Read).unwrap();
        assert_eq!(copy_of(&reader)[3], 7);
        let mode = fs::fstat(server.file()).unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o400, "its owner could open it again for writing");
        if !rustix::process::geteuid().is_root() {
            let again = format!("/proc/self/fd/{}", file().as_raw_fd());
            let again = fs::open(again, fs::OFlags::RDWR, fs::Mode::empty());
            assert_eq!(again.err(), Some(Errno::ACCESS));
        }
        let shared = descriptor(DeviceAccess::ReadWrite);
        SharedMemory::map_sparse(shared, BYTES, DeviceAccess::ReadWrite).unwrap().write(4, &[8]);
        assert_eq!(copy_of(&reader)[3..5], [7, 8]);
    }

    /// A shorter file stands for pages that a client has given back while the system has no others.
    #[test]
    fn pages_that_are_lost_end_no_process_and_are_reported() {
        let file = fs::memfd_create("unsealed", fs::MemfdFlags::CLOEXEC).unwrap();
        fs::ftruncate(&file, BYTES as u64).unwrap();
        let map = MmapOptions::new().len(BYTES).map_raw(&file).unwrap();
        let memory = SharedMemory::new(file, map).watched().unwrap();
        let other = SharedMemory::create(BYTES).unwrap().watched().unwrap();
        memory.write(BYTES - 1, &[7]);
        assert!(memory.is_intact());
        fs::ftruncate(memory.file(), 0).unwrap();
        let mut out = [1; 2];
        memory.read(BYTES - 2, &mut out);
        assert_eq!((out, memory.is_intact(), other.is_intact()), ([0; 2], false, true));
        // Before the page that was read.
        memory.write(0, &[5; 2]);
        memory.read(0, &mut out);
        assert_eq!(out, [5; 2]);
        // Wipes all of it.
        memory.release();
    }

    #[test]
    fn each_mapping_has_its_id() {
        let server = SharedMemory::create(BYTES).unwrap();
        let client = SharedMemory::map(server.file().try_clone().unwrap(), BYTES).unwrap();
        assert_ne!(server.id(), client.id());
    }

    /// A server may end while the client uses the memory.
    #[test]
    fn the_other_side_keeps_memory_that_it_has_not_released() {
        let server = SharedMemory::create(BYTES).unwrap();
        let client = SharedMemory::map(server.file().try_clone().unwrap(), BYTES).unwrap();
        server.write(BYTES - 1, &[9]);
        drop(server);
        assert_eq!(copy_of(&client)[BYTES - 1], 9);
    }

    #[test]
    fn the_size_is_sealed() {
        let server = SharedMemory::create(BYTES).unwrap();
        let file = server.file();
        for bytes in [0, BYTES / 2, 2 * BYTES] {
            assert_eq!(fs::ftruncate(file, bytes as u64), Err(Errno::PERM));
        }
        assert_eq!(fs::fcntl_add_seals(file, SealFlags::WRITE), Err(Errno::PERM));
        let refused = SharedMemory::map(file.try_clone().unwrap(), BYTES / 2);
        assert_eq!(refused.err().unwrap().kind(), io::ErrorKind::InvalidData);
        let unsealed = fs::memfd_create("unsealed", fs::MemfdFlags::ALLOW_SEALING).unwrap();
        fs::ftruncate(&unsealed, BYTES as u64).unwrap();
        assert!(SharedMemory::map(unsealed, BYTES).is_err());
    }

    #[test]
    #[should_panic(expected = "bytes 2097151")]
    fn ranges_outside_panic() {
        SharedMemory::create(BYTES).unwrap().write(BYTES - 1, &[0, 0]);
    }
}
