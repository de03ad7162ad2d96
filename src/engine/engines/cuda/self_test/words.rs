//! NTTs over a 31-bit prime there and back, and squares. The polynomial has the coefficients 1, a,
//! a^2, ..., so that the host knows its values and its square.

use super::{sizes::WordTransform, verdict::SelfTestVerdict};
use crate::{
    curve::{NttPlan, reverse_bits},
    device::{DeviceFault, DeviceSlice, Gpu, Stream},
    engines::cuda::serving_gpu::WordArithmetic,
    error::{Error, Result},
    field::{Arithmetic, Element31, Field31, Prime31},
    ntt31::{Product31Rows, ShortRows},
};

/// log2 of the shortest product that a device computes.
const LG_PRODUCT_MIN: u32 = 8;

/// A row of the test in device memory.
struct WordRow<'t> {
    gpu: &'t Gpu,
    words: &'t WordArithmetic,
    stream: &'t Stream,
    field: Field31,
    /// a
    base: Element31,
    transform: WordTransform,
    given: Vec<Element31>,
}

pub fn test(
    verdict: &SelfTestVerdict<'_>,
    gpu: &Gpu,
    words: &WordArithmetic,
    transform: WordTransform,
) -> Result<(), DeviceFault> {
    let field = Field31::new(Prime31::BabyBear);
    let stream = gpu.job_stream()?;
    let base = field.element(0x00ca_95a1);
    let powers = std::iter::successors(Some(field.one()), |last| Some(field.multiply(*last, base)));
    let given = powers.take(1 << transform.lg_n).collect();
    let row = WordRow { gpu, words, stream: &stream, field, base, transform, given };
    let WordTransform { lg_n, planned_full } = transform;
    let full = if planned_full { ", planned as a large batch" } else { "" };
    let job = || format!("an NTT of 2^{lg_n} elements over {}{full}", Prime31::BabyBear);
    verdict.add(job, row.transforms_there_and_back())?;
    if lg_n >= LG_PRODUCT_MIN && !planned_full {
        let job = || format!("a product of 2^{lg_n} coefficients over {}", Prime31::BabyBear);
        verdict.add(job, row.is_squared())?;
    }
    Ok(())
}

impl WordRow<'_> {
    fn transforms_there_and_back(&self) -> Result<bool> {
        let WordTransform { lg_n, planned_full } = self.transform;
        let rows = if planned_full { u32::MAX } else { 1 };
        let generator = self.field.generator();
        let coset = Some(generator);
        let there =
            NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: true };
        let back = NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..there };
        let lease = self.gpu.arena().lease(self.stream, self.bytes())?;
        self.upload(lease.all())?;
        let run = |transform: &NttPlan<Element31>| -> Result<Vec<Element31>> {
            let plan = self.words.transforms.plan(self.field, transform, rows)?;
            self.words.transforms.run(self.stream, &plan, lease.all(), 1, None)?;
            self.download(lease.all())
        };
        let values = run(&there)?;
        Ok(values == self.values(generator)? && run(&back)? == self.given)
    }

    /// The values at `x = generator root^j`, in bit-reversed order of j:
    /// `(1 - (a x)^n) / (1 - a x)`, where the nth power is the same for all.
    fn values(&self, generator: Element31) -> Result<Vec<Element31>> {
        let &Self { field, base, transform: WordTransform { lg_n, .. }, .. } = self;
        let no_root = || Error::Internal("no root of unity of that order".into());
        let root = field.root_of_unity(lg_n).ok_or_else(no_root)?;
        let first = field.multiply(base, generator);
        let numerator = field.subtract(field.one(), field.power(first, 1 << lg_n));
        let mut values = vec![Element31::default(); 1 << lg_n];
        let mut ax = first;
        for j in 0..values.len() {
            let inverse = field.inverse(field.subtract(field.one(), ax)).ok_or_else(no_root)?;
            values[reverse_bits(j, lg_n)] = field.multiply(numerator, inverse);
            ax = field.multiply(ax, root);
        }
        Ok(values)
    }

    /// The square modulo `X^n - 1`, whose coefficient i is `a^i (i + 1 + a^n (n - 1 - i))`.
    fn square(&self) -> Vec<Element31> {
        let &Self { field, base, ref given, .. } = self;
        let n = given.len() as u32;
        let wrapped = field.power(base, n.into());
        let coefficient = |(power, i): (&Element31, u32)| {
            let above = field.multiply(wrapped, field.element(n - 1 - i));
            field.multiply(*power, field.add(field.element(i + 1), above))
        };
        given.iter().zip(0..).map(coefficient).collect()
    }

    fn is_squared(&self) -> Result<bool> {
        let lg_n = self.transform.lg_n;
        let plan = self.words.transforms.plan_product(self.field, lg_n, None, 1)?;
        let [needs_transform, _] = plan.needs(true);
        let lease = || self.gpu.arena().lease(self.stream, self.bytes());
        let (factor, out) = (lease()?, lease()?);
        let transform = needs_transform.then(lease).transpose()?;
        self.upload(factor.all())?;
        let rows = |words| ShortRows { words, length: 1 << lg_n };
        let data = Product31Rows {
            a: rows(factor.all()),
            b: None,
            transforms: [transform.as_ref().map(|lease| lease.all()), None],
            out: rows(out.all()),
            rows: 1,
        };
        self.words.transforms.multiply(self.stream, &plan, data)?;
        Ok(self.download(out.all())? == self.square())
    }

    fn bytes(&self) -> u64 {
        4 << self.transform.lg_n
    }

    fn upload(&self, to: DeviceSlice<'_, u8>) -> Result<()> {
        Ok(self.gpu.ring().upload(self.stream, to).write(bytemuck::cast_slice(&self.given))?)
    }

    fn download(&self, from: DeviceSlice<'_, u8>) -> Result<Vec<Element31>> {
        let mut all = Vec::with_capacity(from.len());
        self.gpu.ring().session().download(self.stream, from, |pieces| {
            pieces.iter().for_each(|bytes| all.extend_from_slice(bytes));
            Ok::<_, Error>(())
        })?;
        let words = all.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        // A word that is not canonical is no element, so that the result is wrong.
        let elements = words.map(|word| self.field.montgomery_element(word));
        Ok(elements.collect::<Option<_>>().unwrap_or_default())
    }
}
