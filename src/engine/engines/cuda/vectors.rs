//! The work of a program's steps with vectors on one GPU.

use std::{sync::Arc, time::Duration};

use zeroize::Zeroizing;

use super::{
    CudaEngine,
    bases_fit::BasesFit,
    long_work::LongWait,
    payload_copy::CopyLane,
    resident_matrices::ResidentMatrix,
    scalar_codec::{DecodeRule, RefusedWord, first_refused},
    serving_gpu::ServingGpu,
    step_turn::StepTurn,
    vector::GpuVector,
    vector_msm::SummedParts,
};
use crate::{
    buffer::{ByteSink, ByteSource},
    curve::{
        Fr, NttPlan, layout,
        points::Bases,
        scalars::{ElementCodec, ScalarEncoding},
    },
    device::{CopySession, DeviceFault, DeviceLease, DeviceSlice, Event, JobStream},
    engines::{EncodedScalars, JobControl, MsmNttEngine, MsmRun},
    error::{Error, Limit, Result},
    field::{Field31, FieldId},
    ntt::{TransformEnd, VectorKernels},
    ntt31::WordDecodeRule,
    program::InputSpec,
    sparse::SparseMatrix,
};

/// The result of [`GpuVectors::transform`].
pub struct TransformedVector {
    /// The transformed elements.
    pub vector: GpuVector,
    /// The passes, in text.
    pub method: String,
}

/// An element that is not canonical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedElement {
    /// The number of the upload.
    pub upload: usize,
    /// The element's index in it.
    pub index: u64,
}

/// The work of one job with vectors on a GPU, in order on one stream.
pub struct GpuVectors {
    engine: Arc<CudaEngine>,
    /// The GPU's index among the engine's.
    gpu: usize,
    control: JobControl,
    /// For each upload, the word that reports refused elements.
    refused_words: Vec<DeviceLease>,
    /// The matrices in use, which stay on the device until the stream has read them.
    matrices: Vec<Arc<ResidentMatrix>>,
    /// Dropped after the vectors of the job, so that chunks are wiped after their copies.
    copies: CopySession,
    /// How long the job has waited for the GPU.
    wait: LongWait,
    /// Orders the job's kernels and copies.
    pub stream: JobStream,
}

impl GpuVectors {
    /// Work on the GPU that holds the first of `bases` that is resident, else on the next GPU.
    pub fn new(engine: Arc<CudaEngine>, bases: &[Bases], control: &JobControl) -> Result<Self> {
        let gpu = engine.gpu_for(bases);
        let control = control.behind(&engine.gpus[gpu].policy.cancellation_gate);
        Self::on(engine, gpu, control)
    }

    /// Work on the engine's GPU of this number.
    pub(super) fn on(engine: Arc<CudaEngine>, gpu: usize, control: JobControl) -> Result<Self> {
        let device = &engine.gpus[gpu].gpu;
        let stream = device.job_stream()?;
        let copies = device.ring().session();
        let (refused_words, matrices, wait) = Default::default();
        Ok(Self { engine, gpu, control, refused_words, matrices, copies, wait, stream })
    }

    pub(super) fn gpu(&self) -> &ServingGpu {
        &self.engine.gpus[self.gpu]
    }

    /// The kernels for vectors over Fr.
    pub fn kernels(&self) -> &VectorKernels {
        &self.gpu().vectors
    }

    /// The GPU's name, for reports.
    pub fn device_name(&self) -> String {
        self.gpu().gpu.identity().name.clone()
    }

    /// The right to launch the next step: see `StepTurn::begin`.
    pub fn begin_step(&mut self) -> Result<Option<StepTurn>> {
        let gpu = &self.engine.gpus[self.gpu];
        StepTurn::begin(gpu, &self.stream, &self.control, &mut self.wait)
    }

    /// Waits until the device has reached `end`, unless the job is cancelled meanwhile.
    ///
    /// Errors: those of the job's control; `DeviceLost` if the GPU hangs.
    pub fn wait_for(&mut self, end: &Event) -> Result<()> {
        let timeout = self.gpu().gpu.context().timeout();
        while !self.wait.wait(Some(end.clone()), timeout)? {
            self.control.check()?;
        }
        Ok(())
    }

    /// The engine of the GPU.
    pub fn engine(&self) -> &CudaEngine {
        &self.engine
    }

    /// What cancels the job.
    pub fn control(&self) -> &JobControl {
        &self.control
    }

    /// The point in the stream that is reached now, with a time.
    pub fn mark(&self) -> Result<Event> {
        self.control.check()?;
        Ok(self.stream.record_timed()?)
    }

    /// A vector of zeros. Evicts idle bases and matrices if there is too little memory.
    ///
    /// Errors: `Exhausted` if there is no memory.
    pub fn zeros(&self, field: FieldId, rows: usize, row_length: usize) -> Result<GpuVector> {
        let resident = self.gpu().msm.resident();
        GpuVector::lease(field, rows, row_length, |bytes| Ok(resident.lease(&self.stream, bytes)?))
    }

    /// A copy of `vector` whose rows have `row_length` elements: cut, or padded with zeros.
    pub fn with_row_length(&self, vector: &GpuVector, row_length: usize) -> Result<GpuVector> {
        let out = self.zeros(vector.field(), vector.rows, row_length)?;
        self.copy_rows(&out, 0, vector, 0, row_length.min(vector.row_length))?;
        Ok(out)
    }

    /// Copies elements `first..first + length` of each row of `from` to `to`, from element `at` of
    /// each row on. Both are over the same field.
    ///
    /// Errors: `Exhausted` for 2^32 words or more; those of launches.
    pub fn copy_rows(
        &self,
        to: &GpuVector,
        at: usize,
        from: &GpuVector,
        first: usize,
        length: usize,
    ) -> Result<()> {
        let rows = from.rows;
        let stream = &self.stream;
        if from.field() == FieldId::Bls12381Fr {
            let (to, from) = (to.fr_rows_from(at)?, from.fr_rows_from(first)?);
            return Ok(self.kernels().rows.copy_rows(stream, to, from, rows, length)?);
        }
        let words = length * from.words_per_element();
        u32::try_from(words.saturating_mul(rows)).map_err(|_| no_memory())?;
        let (to, from) = (to.word_rows_from(at)?, from.word_rows_from(first)?);
        Ok(self.kernels31().copy_rows(stream, to, from, rows, words)?)
    }

    /// Uploads and decodes an input, which becomes the next upload of
    /// [`GpuVectors::first_refused`].
    ///
    /// Errors: `Internal` for an encoding that does not hold every element; `Exhausted`; those of
    /// the job's control.
    pub fn upload(
        &mut self,
        input: &EncodedScalars<'_>,
        field: FieldId,
        rows: usize,
        row_length: usize,
    ) -> Result<GpuVector> {
        if !input.spec.encoding.holds(field) || input.count() != rows * row_length {
            return Err(Error::Internal("an input does not match its vector".into()));
        }
        let vector = self.zeros(field, rows, row_length)?;
        let word = self.gpu().msm.resident().lease(&self.stream, 8)?;
        self.copy_in(&vector, input.source)?;
        let InputSpec { encoding, reduce, .. } = input.spec;
        match field {
            FieldId::Bls12381Fr => {
                let rule = DecodeRule { encoding, reduce, into_montgomery: true };
                let refused = RefusedWord { word: word.all(), first: 0 };
                let bytes = vector.bytes();
                self.gpu().codec.decode(&self.stream, rule, bytes, bytes, refused)?;
            }
            FieldId::Prime31(prime) => {
                let is_montgomery = encoding == ScalarEncoding::Montgomery31;
                let rule = WordDecodeRule { is_montgomery, reduce };
                let words = vector.words()?;
                let field = Field31::new(prime);
                self.kernels31().decode(&self.stream, field, words, rule, word.all())?;
            }
            // All words are canonical.
            FieldId::Gf2 | FieldId::Integers => {}
        }
        self.refused_words.push(word);
        Ok(vector)
    }

    /// One row of elements from the host.
    pub fn constant<F: ElementCodec>(
        &mut self,
        field: F,
        elements: &[F::Element],
    ) -> Result<GpuVector> {
        let vector = self.zeros(field.id(), 1, elements.len())?;
        self.copy_in(&vector, &F::as_bytes(elements))?;
        Ok(vector)
    }

    fn copy_in(&self, to: &GpuVector, from: &dyn ByteSource) -> Result<()> {
        let lane = CopyLane { session: &self.copies, stream: &self.stream };
        self.gpu().copier.upload(lane, to.bytes(), from, 0, &self.control, || Ok(()))
    }

    /// The first refused element of all uploads. Waits for their decoding.
    pub fn first_refused(&self) -> Result<Option<RefusedElement>> {
        for (upload, word) in self.refused_words.iter().enumerate() {
            let word = self.read(word.all())?.as_slice().try_into().map(u64::from_le_bytes);
            if let Some(index) = first_refused(word.unwrap_or_default()) {
                return Ok(Some(RefusedElement { upload, index }));
            }
        }
        Ok(None)
    }

    /// Converts the elements of a vector to canonical integers, for [`GpuVectors::copy_out`] only.
    pub fn encode(&self, vector: &GpuVector) -> Result<()> {
        let stream = &self.stream;
        match vector.field() {
            FieldId::Bls12381Fr => self.gpu().codec.encode(stream, vector.fr_elements()?)?,
            FieldId::Prime31(prime) => {
                self.kernels31().encode(stream, Field31::new(prime), vector.words()?)?;
            }
            FieldId::Gf2 | FieldId::Integers => {}
        }
        Ok(())
    }

    /// Writes the bytes of a vector to `out`, after all earlier work.
    pub fn copy_out(&self, vector: &GpuVector, out: &dyn ByteSink) -> Result<()> {
        let lane = CopyLane { session: &self.copies, stream: &self.stream };
        self.gpu().copier.download(lane, vector.bytes(), out, 0, &self.control)
    }

    /// Transforms rows of 2^lg_n elements of Fr. With `is_checked`, compares evaluations of input
    /// and output at a secret point.
    ///
    /// Errors: `Corrupt` if the check fails; `Exhausted`.
    pub fn transform(
        &self,
        plan: &NttPlan,
        vector: GpuVector,
        is_checked: bool,
    ) -> Result<TransformedVector> {
        let ntt = &self.gpu().ntt;
        let stream = &self.stream;
        let transforms = ntt.transforms();
        let rows = vector.rows;
        let planned = ntt.plan(plan, rows)?.ok_or_else(no_memory)?;
        let evaluate = |end, vector: &GpuVector| -> Result<Option<DeviceLease>> {
            if !is_checked {
                return Ok(None);
            }
            let tables = transforms.evaluation_tables(plan, end)?;
            Ok(Some(transforms.evaluate(stream, &tables, vector.fr_elements()?)?))
        };
        let before = evaluate(TransformEnd::Input, &vector)?;
        let out = planned
            .needs_output_buffer()
            .then(|| self.zeros(vector.field(), rows, vector.row_length))
            .transpose()?;
        let to = out.as_ref().map(GpuVector::fr_elements).transpose()?;
        transforms.run(stream, &planned, vector.fr_elements()?, rows, to)?;
        let done = out.unwrap_or(vector);
        let after = evaluate(TransformEnd::Output, &done)?;
        if let (Some(before), Some(after)) = (before, after)
            && self.read(before.all())? != self.read(after.all())?
        {
            ntt.evict_tables();
            return Err(Error::Corrupt);
        }
        Ok(TransformedVector { vector: done, method: planned.to_string() })
    }

    /// Uploads a matrix unless it is on the device, where it stays until the job ends.
    ///
    /// Errors: `Exhausted`; those of the job's control.
    pub fn hold_matrix(&mut self, matrix: &SparseMatrix) -> Result<Arc<ResidentMatrix>> {
        let resident = self.gpu().msm.resident().matrix(matrix, &self.control)?;
        // Noted before anything else, so that later leases of the job do not evict it.
        if !self.matrices.iter().any(|held| Arc::ptr_eq(held, &resident)) {
            self.matrices.push(resident.clone());
        }
        Ok(resident)
    }

    /// The product of a matrix and each row of a vector. The matrix is uploaded on its first use.
    ///
    /// Errors: `Internal` if rows do not have an element per column; `Exhausted`; those of the
    /// job's control.
    pub fn multiply_sparse(
        &mut self,
        matrix: &SparseMatrix,
        input: &GpuVector,
    ) -> Result<GpuVector> {
        if input.row_length != matrix.shape().columns as usize {
            return Err(Error::Internal("a vector does not match its matrix".into()));
        }
        let resident = self.hold_matrix(matrix)?;
        let out = self.zeros(input.field(), input.rows, matrix.rows())?;
        let terms_max = self.engine.policy.sparse_terms_launched_max;
        let group = (terms_max / u64::from(matrix.shape().terms).max(1)).max(1) as usize;
        for first in (0..input.rows).step_by(group) {
            if first > 0 {
                let launched = self.mark()?;
                self.wait_for(&launched)?;
            }
            let rows = first..input.rows.min(first + group);
            let (from, to) = (input.fr_rows(rows.clone())?, out.fr_rows(rows.clone())?);
            let kernels = self.kernels();
            let matrix = resident.on_device();
            kernels.multiply_sparse(&self.stream, to, &matrix, from, rows.len())?;
        }
        Ok(out)
    }

    /// Launches one MSM per row over the same bases; [`MsmRun::finish`] waits for the sums.
    pub fn launch_msm(&self, bases: &Bases, vector: &GpuVector) -> Result<Box<dyn MsmRun>> {
        let bases = bases.clone();
        let rows = vector.rows;
        if bases.is_empty() {
            return self.engine.msm(bases, rows);
        }
        let gpu = self.gpu();
        let object_points = bases.all_of_owner().len();
        let fit = gpu.bases_room(&bases).fit(bases.group(), object_points, bases.len(), rows);
        let bases = match fit {
            BasesFit::Parts(points) => {
                let (stream, control) = (&self.stream, &self.control);
                let rows = (0..rows).map(|row| vector.fr_row(row)).collect::<Result<Vec<_>>>()?;
                let sums = SummedParts::new(&gpu.msm, &bases, &rows, points, stream, control)?;
                return Ok(Box::new(sums));
            }
            BasesFit::OwnRange => bases.as_own_object(),
            BasesFit::Whole | BasesFit::TooLarge => bases,
        };
        gpu.msm.launch_resident(bases, rows, vector.fr_elements()?, &self.stream, &self.control)
    }

    /// The value of each row, the coefficients of a polynomial over Fr, at `point`. Waits for the
    /// device.
    ///
    /// Errors: `Exhausted`; `DeviceLost`.
    pub fn values_at(&self, vector: &GpuVector, point: Fr) -> Result<Zeroizing<Vec<Fr>>> {
        let out = self.zeros(vector.field(), vector.rows, 1)?;
        let values = out.fr_elements()?;
        let elements = vector.fr_elements()?;
        self.kernels().evaluate(&self.stream, values, elements, point)?;
        let bytes = self.read(out.bytes())?;
        let mut values = Zeroizing::new(vec![Fr::default(); vector.rows]);
        layout::fr_as_bytes_mut(&mut values).copy_from_slice(&bytes);
        Ok(values)
    }

    /// Drops the twiddle tables, which may be damaged: a check has failed.
    pub fn evict_twiddle_tables(&self) {
        self.gpu().ntt.evict_tables();
    }

    pub(super) fn read(&self, from: DeviceSlice<'_, u8>) -> Result<Zeroizing<Vec<u8>>> {
        Ok(self.copies.read(&self.stream, from)?)
    }
}

impl Drop for GpuVectors {
    fn drop(&mut self) {
        // If the job has failed, copies may be under way; chunks are wiped after them.
        let _waited = self.stream.synchronize();
        self.gpu().copier.wipe(&self.copies);
    }
}

/// The device's time from one mark to the next.
pub fn elapsed(begun: &Event, done: &Event) -> Result<Duration, DeviceFault> {
    done.synchronize()?;
    done.elapsed_since(begun)
}

pub(super) fn no_memory() -> Error {
    Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None }
}
