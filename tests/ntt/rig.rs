//! A device with the transforms' kernels, and arkworks' results to compare with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    curve::{NttPlan, layout},
    device::{self, DeviceLease, Gpu, Stream},
    ntt::{DeviceFr, NttDevice, NttPassPlan, table_bytes_max},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    emulated,
    gpu::{open, open_with},
    repeat::seeded_part,
};

/// A device and its transforms, for one test at a time.
pub struct NttRig {
    pub gpu: Gpu,
    pub transforms: NttDevice,
    _exclusive: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` under the seed of this process, with the number of the part of slow cases to run;
/// sweeps start a process for each seed. Twiddle tables may take `table_bytes_max` bytes.
pub fn each_seed(table_bytes_max: u64, test: impl Fn(&NttRig, usize)) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = open().clone();
    let transforms = NttDevice::load(&gpu, table_bytes_max).unwrap();
    let rig = NttRig { gpu, transforms, _exclusive: turn };
    if emulated::driver().is_none() {
        return test(&rig, 0);
    }
    let chosen = seeded_part();
    println!("{chosen:?}");
    emulated::seed(chosen.seed);
    test(&rig, chosen.part);
}

/// Runs `test` once, with most of a GPU's memory and the engine's limit on tables. Skipped on the
/// emulated driver, which would take hours.
pub fn with_most_gpu_memory(test: impl Fn(&NttRig)) {
    if emulated::driver().is_some() {
        return println!("skipped: too slow on the emulated driver");
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Open the other tests' device first, while its memory is free.
    open();
    let gpu = open_with(90);
    let transforms = NttDevice::load(&gpu, table_bytes_max(gpu.arena().bytes())).unwrap();
    test(&NttRig { gpu, transforms, _exclusive: turn });
}

impl NttRig {
    pub fn stream(&self) -> Stream {
        Stream::new(self.gpu.context()).unwrap()
    }

    pub fn upload(&self, stream: &Stream, values: &[Fr]) -> DeviceLease {
        let bytes = layout::fr_as_bytes(values);
        let lease = self.gpu.arena().lease(stream, bytes.len() as u64).unwrap();
        self.gpu.ring().upload(stream, lease.all()).write(bytes).unwrap();
        lease
    }

    pub fn download(&self, stream: &Stream, lease: &DeviceLease) -> Vec<Fr> {
        let mut bytes = Vec::new();
        let take = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<_, device::DeviceFault>(())
        };
        self.gpu.ring().download(stream, lease.all(), take).unwrap();
        let mut values = vec![Fr::ZERO; bytes.len() / size_of::<Fr>()];
        layout::fr_as_bytes_mut(&mut values).copy_from_slice(&bytes);
        values
    }

    /// Transforms rows on the device and compares with arkworks. Runs out of place if `apart` is
    /// set or the plan needs it.
    pub fn check(&self, plan: &NttPassPlan, rows: usize, apart: bool) {
        let transform = plan.transform();
        let values = edge_elements(rows << transform.lg_n, u64::from(transform.lg_n) + rows as u64);
        let stream = self.stream();
        let data = self.upload(&stream, &values);
        let apart = apart || plan.needs_output_buffer();
        let out = apart.then(|| self.gpu.arena().lease(&stream, data.bytes()).unwrap());
        let to = out.as_ref().map(DeviceLease::all::<DeviceFr>);
        self.transforms.run(&stream, plan, data.all(), rows, to).unwrap();
        let found = self.download(&stream, out.as_ref().unwrap_or(&data));
        let expected = expected(transform, values);
        let passes: Vec<_> = plan.passes().collect();
        let wrong = (0..found.len()).find(|i| found[*i] != expected[*i]);
        let count = (0..found.len()).filter(|i| found[*i] != expected[*i]).count();
        assert_eq!(wrong, None, "{count} wrong, {rows} rows, {apart}, {transform:?} as {passes:?}");
    }
}

/// Every combination of orders and direction, with and without a coset.
pub fn every_transform(lg_n: u32) -> impl Iterator<Item = NttPlan> {
    (0..16_u32).map(move |bits| {
        let bit = |i: u32| bits >> i & 1 == 1;
        let generator = Fr::from(7_u64).pow([11 + u64::from(bits + lg_n)]);
        let coset = bit(3).then_some(if lg_n % 5 == 4 { -Fr::ONE } else { generator });
        let (input_reversed, output_reversed) = (bit(0), bit(1));
        NttPlan { lg_n, inverse: bit(2), coset, input_reversed, output_reversed }
    })
}

/// Elements that are equal, zero but for one, or random with some next to 0 and to the modulus.
pub fn edge_elements(count: usize, seed: u64) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(seed);
    let edges = [Fr::ZERO, Fr::ONE, -Fr::ONE, -Fr::ONE.double()];
    let kind = rng.random_range(0..6);
    let number = |i: usize| match kind {
        0 => -Fr::ONE,
        1 => {
            if i == count / 3 {
                Fr::ONE
            } else {
                Fr::ZERO
            }
        }
        // The largest canonical Montgomery form.
        2 => Fr::new_unchecked((-Fr::ONE).into_bigint()),
        _ if rng.random_range(0..4) == 0 => edges[rng.random_range(0..4)],
        _ => Fr::from_le_bytes_mod_order(&rng.random::<[u8; 32]>()),
    };
    (0..count).map(number).collect()
}

/// arkworks' transform of every row.
pub fn expected(transform: &NttPlan, mut values: Vec<Fr>) -> Vec<Fr> {
    let domain = Radix2EvaluationDomain::<Fr>::new(1 << transform.lg_n).unwrap();
    let domain = match transform.coset {
        Some(generator) => domain.get_coset(generator).unwrap(),
        None => domain,
    };
    for row in values.chunks_mut(1 << transform.lg_n) {
        let mut work = row.to_vec();
        if transform.input_reversed {
            reverse(&mut work);
        }
        if transform.inverse {
            domain.ifft_in_place(&mut work);
        } else {
            domain.fft_in_place(&mut work);
        }
        if transform.output_reversed {
            reverse(&mut work);
        }
        row.copy_from_slice(&work);
    }
    values
}

fn reverse(row: &mut [Fr]) {
    let lg_n = row.len().ilog2();
    for i in 0..row.len() {
        let j = if lg_n == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - lg_n) };
        if i < j {
            row.swap(i, j);
        }
    }
}
