//! The messages between the server and its worker processes. Payload bytes never travel in them:
//! they say where bytes lie in memory that both processes map.

use std::{ops::Range, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::failure::WorkerFailure;
use crate::{
    buffer::SharedPiece,
    curve::{
        Group,
        points::{BadElement, MsmSums, PointEncoding},
        scalars::ScalarEncoding,
    },
    engine::{
        DeviceResidency, GpuInfo, ResidencyChange,
        cuda::{FaultClass, GpuFacts},
    },
    exec::RunReport,
    ops::OperationProgram,
    program::{InputSpec, OutputSpec},
    region::DeviceAccess,
    sparse::SparseShape,
};

/// The exit code of a worker after a fatal fault of its GPU.
pub const LOST_GPU: i32 = 70;
/// The exit code of a worker whose GPU did not finish its work in time.
pub const HUNG_GPU: i32 = 71;

/// How a worker opens its GPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// Whether the worker gives up all files and system calls that it does not need.
    pub is_restricted: bool,
    /// Path of the driver library; `None` means the system's.
    pub driver: Option<PathBuf>,
    /// Percentage of the free device memory that jobs may lease.
    pub memory_percent: u64,
    /// Time limit for one piece of work on the GPU, which counts as lost if it is exceeded.
    pub timeout: Duration,
    /// MSMs with fewer scalars run on the CPU.
    pub msm_scalars_min: u64,
    /// NTTs with fewer elements run on the CPU.
    pub ntt_elements_min: u64,
    /// Threads of the CPU engine; 0 means one per core.
    pub threads: usize,
    /// Time for which threads poll their sockets before they sleep, on both sides.
    pub busy_poll: Duration,
}

/// A request on the control socket. Each is answered by a [`ControlReply`].
#[derive(Debug, Serialize, Deserialize)]
pub enum ControlRequest {
    /// The descriptor is a new lane.
    OpenLane,
    /// Maps the memory in the descriptor, and pins its first bytes.
    Map(MapRequest),
    Unmap(u64),
    /// Maps the object in the descriptor under a number.
    MapObject(MapObjectRequest),
    DropObject(u64),
    /// Cancels a run at its next check.
    Cancel(u64),
    /// Drops a run that the server has given up.
    DropRun(u64),
    /// Reads the device's sensors.
    Describe,
    /// Says which of the mapped bases the device holds.
    ListBases,
    /// Makes the device forget these objects and all tables, since a result was wrong.
    EvictSuspects(Vec<u64>),
    /// Answers at once.
    Ping,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MapRequest {
    pub memory: u64,
    pub bytes: u64,
    pub pinned_bytes: u64,
    /// How the worker maps it.
    pub access: DeviceAccess,
    /// Whether a client may give back pages.
    pub is_watched: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MapObjectRequest {
    pub object: u64,
    pub shape: ObjectShape,
    /// The first byte of the object in the file.
    pub offset: u64,
}

/// What the bytes of a stored object are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum ObjectShape {
    Points { group: Group, count: u64 },
    Matrix(SparseShape),
}

impl ObjectShape {
    pub fn bytes(self) -> u64 {
        match self {
            Self::Points { group, count } => count.saturating_mul(group.affine_bytes() as u64),
            Self::Matrix(shape) => shape.bytes(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ControlReply {
    Done,
    Described(Box<DeviceReading>),
    Bases(Vec<ResidentNumber>),
    Failed(String),
}

/// What the server starts a worker process for: the first message to it. Its descriptor is the
/// writing end of a pipe, which tells the server when the worker begins to end.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerTask {
    /// Counts the devices of the driver at this path, `None` means the system's, and ends.
    CountDevices(Option<PathBuf>),
    Serve(Box<ServeTask>),
}

/// The task of a worker that opens a GPU and serves.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServeTask {
    /// The device's number in the driver's order.
    pub device: u32,
    /// The least size of the arena, for which the worker waits a while; `None` if it has no
    /// predecessor.
    pub arena_bytes_min: Option<u64>,
    pub settings: WorkerSettings,
}

/// The worker's first message.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerHello {
    Counted(u32),
    /// The GPU is open and has passed its test.
    Ready(Box<GpuFacts>),
    /// Why there is no device, or why it cannot be used.
    Unusable {
        reason: String,
        /// Whether the host has GPUs.
        is_on_a_gpu_host: bool,
    },
}

/// What a worker reports of its device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceReading {
    pub name: String,
    pub units: u32,
    pub memory_bytes: u64,
    pub gpu: GpuInfo,
}

/// A request on a lane, answered by a [`LaneReply`]. A lane has one request at a time.
#[derive(Debug, Serialize, Deserialize)]
pub enum LaneRequest {
    Advance(Box<AdvanceRequest>),
    CheckPoints(PointsRequest),
    SetResidency(ResidencyRequest),
}

/// Begins a run, or goes on with it.
#[derive(Debug, Serialize, Deserialize)]
pub struct AdvanceRequest {
    /// The run's number, unique in the server.
    pub run: u64,
    /// The call, with the first request of a run.
    pub begin: Option<CallToRun>,
    /// Bytes of inputs that have arrived since the last request.
    pub arrived: Vec<ArrivedBytes>,
    /// Whether the run yields to others: `JobControl::yields` on the server.
    pub yields: bool,
}

/// Bytes of an input that have arrived.
#[derive(Debug, Serialize, Deserialize)]
pub struct ArrivedBytes {
    /// The number of the input.
    pub input: u32,
    /// The first byte, numbered within the input.
    pub start: u64,
    pub pieces: Vec<SharedPiece>,
}

/// A checked call, and where its data lie.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallToRun {
    #[serde(with = "serialized_program")]
    pub program: Arc<OperationProgram>,
    pub inputs: Vec<InputSpec>,
    pub outputs: Vec<PlacedOutput>,
    pub objects: NamedObjects,
    /// Whether to check the values of all steps that have a probabilistic check.
    pub is_checked: bool,
    /// Time until the call's deadline.
    pub time_left: Option<Duration>,
    /// The most time that the run may take if it moves to the host.
    pub time_on_host_max: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PlacedOutput {
    pub spec: OutputSpec,
    /// The destination of a vector.
    pub vector: Option<PlacedVector>,
    /// Whether sums are wanted as soon as they are known.
    pub is_early: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PlacedVector {
    pub encoding: ScalarEncoding,
    pub pieces: Vec<SharedPiece>,
}

/// The stored objects that the steps use, which the worker has mapped.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NamedObjects {
    /// One per MSM step.
    pub bases: Vec<NamedBases>,
    /// The number of the matrix of each step that uses one.
    pub matrices: Vec<u64>,
}

/// A range of bases that the worker has mapped.
#[derive(Debug, Serialize, Deserialize)]
pub struct NamedBases {
    pub object: u64,
    pub start: u64,
    pub len: u64,
}

/// Points to decode and check.
#[derive(Debug, Serialize, Deserialize)]
pub struct PointsRequest {
    pub group: Group,
    pub encoding: PointEncoding,
    /// Where the encoded points are.
    pub from: SharedPiece,
    /// Where to write the decoded points.
    pub to: SharedPiece,
}

/// Changes what the device holds of mapped bases.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResidencyRequest {
    /// The numbers of bases that belong to one object.
    pub objects: Vec<u64>,
    pub change: ResidencyChange,
}

/// What the device holds of the bases of a number.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResidentNumber {
    pub object: u64,
    pub residency: DeviceResidency,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct LaneReply {
    pub outcome: LaneOutcome,
    /// The classes of faults that the device has reported since the last reply.
    pub faults: Vec<FaultClass>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum LaneOutcome {
    Advanced(Advanced),
    /// The number of bytes that were written, or `Err` for the first point that is wrong.
    Checked(Result<u64, BadElement>),
    /// What the device holds of the object after a change.
    Residency(DeviceResidency),
    Failed(WorkerFailure),
}

/// How far a run has come.
#[derive(Debug, Serialize, Deserialize)]
pub struct Advanced {
    /// The modelled time of the run, on what runs it now.
    pub modelled_total: Duration,
    pub longest_step: u32,
    /// The rows that were written to outputs.
    pub written: Vec<WrittenBytes>,
    /// Sums that are known before the run ends.
    pub early_sums: Vec<SumsOfOutput>,
    pub state: RunState,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SumsOfOutput {
    /// The number of the output.
    pub output: u32,
    pub sums: MsmSums,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct WrittenBytes {
    /// The number of the output.
    pub output: u32,
    pub bytes: Range<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum RunState {
    /// The run goes on when these elements of an input have arrived, or at once if there are none.
    Awaits(Option<AwaitedInput>),
    Done(Box<RunReport>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AwaitedInput {
    pub input: u32,
    pub elements: Range<u64>,
}

/// A program as its steps, which are checked again when they arrive.
mod serialized_program {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::ops::{Operation, OperationProgram};

    pub fn serialize<S: Serializer>(
        program: &Arc<OperationProgram>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        program.steps().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<OperationProgram>, D::Error> {
        let steps = Vec::<Operation>::deserialize(deserializer)?;
        OperationProgram::new(steps).map(Arc::new).map_err(D::Error::custom)
    }
}
