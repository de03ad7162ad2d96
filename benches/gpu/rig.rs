//! The device, its memory, its clock (events on a stream), and the command line.

use std::{
    env,
    path::PathBuf,
    process,
    sync::Arc,
    time::{Duration, Instant},
};

use bytemuck::Pod;
use capstan::device::{
    self, BlockShape, DeviceFault, DeviceLease, DevicePolicy, DeviceSelection, DeviceSlice, Gpu,
    Kernel, KernelModule, KernelParameters, OpenOptions, Stream,
};

/// A timeout longer than any wait in the bench.
const TIMEOUT: Duration = Duration::from_secs(60);
const WARM: Duration = Duration::from_millis(100);

/// An open device and the command line's arguments.
pub struct BenchRig {
    pub gpu: Gpu,
    /// The stream of all kernels.
    pub stream: Stream,
    /// Whether to try the bench at small sizes.
    pub quick: bool,
    /// Number of measurements of each figure.
    pub repeats: usize,
    arguments: Vec<String>,
}

impl BenchRig {
    /// Opens device 0, or prints why it cannot be opened and exits.
    pub fn open() -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let memory = value(&arguments, "memory").map(|text| text.parse().expect("a percentage"));
        let shared = value(&arguments, "shared_kib").map(|text| text.parse::<u32>().expect("KiB"));
        let options = OpenOptions {
            memory_percent: memory.unwrap_or(90),
            memory_wait: Duration::ZERO,
            arena_bytes_min: None,
            timeout: TIMEOUT,
            on_fault: Arc::new(|fault: &DeviceFault| eprintln!("device: {fault}")),
            policy: DevicePolicy {
                shared_bytes_max: shared.map(|kib| kib << 10),
                ..DevicePolicy::default()
            },
        };
        let path = env::var_os("CAPSTAN_CUDA_DRIVER").map(PathBuf::from);
        let selection = DeviceSelection { driver: path, devices: vec![0] };
        let opened = device::open(&selection, &options).unwrap_or_else(|reason| {
            eprintln!("{reason}");
            process::exit(1);
        });
        let gpu = opened.gpus.into_iter().next().expect("one device was requested");
        let stream = Stream::new(gpu.context()).expect("a stream");
        println!(
            "{}, {} multiprocessors",
            gpu.identity().name,
            gpu.identity().limits.multiprocessors
        );
        let mut rig = Self { gpu, stream, quick: false, repeats: 0, arguments };
        rig.quick = rig.flag("quick");
        let repeats = rig.argument("repeats").map(|text| text.parse().expect("a number"));
        rig.repeats = repeats.unwrap_or(if rig.quick { 2 } else { 9 });
        rig
    }

    /// Whether `name` is on the command line.
    pub fn flag(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    /// The value of `name=value` on the command line.
    pub fn argument(&self, name: &str) -> Option<String> {
        let value =
            |argument: &String| Some(argument.strip_prefix(name)?.strip_prefix('=')?.into());
        self.arguments.iter().find_map(value)
    }

    /// `full`, or `quick` in a quick run.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The sizes that `lg=10,20` selects as log2; by default `full`, or `quick` in a quick run.
    pub fn sizes(&self, full: &[u32], quick: &[u32]) -> Vec<u32> {
        match self.argument("lg") {
            Some(text) => text.split(',').map(|lg| lg.parse().expect("a number")).collect(),
            None => self.size(full, quick).to_vec(),
        }
    }

    /// Number of blocks: `times` for each multiprocessor.
    pub fn blocks(&self, times: u32) -> u32 {
        self.gpu.identity().limits.multiprocessors * times
    }

    /// Loads a kernel of a module of `kernels/`.
    pub fn kernel<P: KernelParameters>(
        &self,
        module: &str,
        name: &str,
        block: BlockShape,
    ) -> Kernel<P> {
        let module = KernelModule::load(self.gpu.context(), module)
            .unwrap_or_else(|reason| panic!("{module}: {reason}"));
        module.kernel(name, block).unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    /// Leases memory for `count` elements of `T`.
    pub fn lease<T>(&self, count: usize) -> DeviceLease {
        let bytes = (count * size_of::<T>()) as u64;
        self.gpu.arena().lease(&self.stream, bytes).expect("memory for the bench")
    }

    /// Copies `values` to a new lease.
    pub fn upload_new<T: Pod>(&self, values: &[T]) -> DeviceLease {
        let lease = self.lease::<T>(values.len());
        self.put(lease.all(), values);
        lease
    }

    /// Copies `values` to the device.
    pub fn put<T: Pod>(&self, to: DeviceSlice<'_, T>, values: &[T]) {
        let to = to.cast().expect("bytes");
        let mut upload = self.gpu.ring().upload(&self.stream, to);
        upload.write(bytemuck::cast_slice(values)).expect("an upload");
    }

    /// Copies elements from the device.
    pub fn get<T: Pod>(&self, from: DeviceSlice<'_, T>) -> Vec<T> {
        let mut values = vec![T::zeroed(); from.len()];
        self.read(from.cast().expect("bytes"), bytemuck::cast_slice_mut(&mut values));
        values
    }

    /// Copies bytes from the device; `from` and `bytes` have the same length.
    pub fn read(&self, from: DeviceSlice<'_, u8>, bytes: &mut [u8]) {
        let mut done = 0;
        let take = |piece: &[u8]| {
            bytes[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
            Ok::<_, DeviceFault>(())
        };
        self.gpu.ring().download(&self.stream, from, take).expect("a download");
    }

    /// Repeats `work` for a tenth of a second, since an idle device is slow at first.
    pub fn warm(&self, mut work: impl FnMut()) {
        let begun = Instant::now();
        work();
        while begun.elapsed() < WARM {
            work();
        }
    }

    /// Times on the device of one of `runs` runs of what `work` launches, replayed as a graph so
    /// that the host's part in a launch does not count.
    pub fn times_of_graph(
        &self,
        runs: u32,
        work: impl Fn() -> Result<(), DeviceFault>,
    ) -> Vec<Duration> {
        let graph = self.stream.capture(|| (0..runs).try_for_each(|_| work()));
        let graph = graph.expect("only launches");
        let mut times = self.times(|| self.stream.replay(&graph));
        times.iter_mut().for_each(|time| *time /= runs);
        times
    }

    /// Times on the device of what `work` launches, one for each repeat, after a warm-up.
    pub fn times(&self, mut work: impl FnMut() -> Result<(), DeviceFault>) -> Vec<Duration> {
        let mut once = || {
            let begun = self.stream.record_timed()?;
            work()?;
            let ended = self.stream.record_timed()?;
            ended.synchronize()?;
            ended.elapsed_since(&begun)
        };
        once().expect("the device works");
        (0..self.repeats).map(|_| once().expect("the device works")).collect()
    }
}

fn value(arguments: &[String], name: &str) -> Option<String> {
    let mut values = arguments.iter().filter_map(|text| text.strip_prefix(name)?.strip_prefix('='));
    values.next().map(str::to_owned)
}

/// A pseudorandom generator: SplitMix64 (Steele, Lea, Flood: OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}
