//! `kernels/test/block.cu`: sums and prefix sums of blocks, broadcasts in warps
//! (`kernels/warp.cuh`).

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use capstan::device::DevicePtr;
use rand::Rng;

use crate::{
    elements::{KernelElement, rng, shuffled},
    gpu::each_seed,
};

const BLOCKS: usize = 3;

#[test]
fn word_sums_and_prefix_sums_of_blocks_are_right() {
    each_seed(|rig| {
        for threads in [32_usize, 96, 256] {
            type Arguments = (DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>);
            let kernel = rig.kernel::<Arguments>("test/block", "test_block_words", threads as u32);
            let mut rng = rng();
            let values: Vec<u32> = (0..BLOCKS * threads).map(|_| rng.random()).collect();
            let (given, sums) = (rig.upload(&values), rig.lease::<u32>(BLOCKS));
            let (scans, totals) = (rig.lease::<u32>(values.len()), rig.lease::<u32>(values.len()));
            let arguments = (given.all(), sums.all(), scans.all(), totals.all());
            rig.launch(&kernel, BLOCKS as u32, arguments);
            let (sums, scans) = (rig.download::<u32>(&sums), rig.download::<u32>(&scans));
            let totals = rig.download::<u32>(&totals);
            for (block, values) in values.chunks(threads).enumerate() {
                let mut sum = 0_u32;
                for (i, value) in values.iter().enumerate() {
                    assert_eq!(scans[block * threads + i], sum, "thread {i} of {threads}");
                    sum = sum.wrapping_add(*value);
                }
                assert_eq!(sums[block], sum);
                assert!(totals[block * threads..][..threads].iter().all(|total| *total == sum));
            }
        }
    });
}

#[test]
fn element_sums_and_prefix_sums_of_blocks_are_right() {
    each_seed(|rig| {
        for threads in [32_usize, 256] {
            type Arguments = (DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>);
            let kernel = rig.kernel::<Arguments>("test/block", "test_block_fr", threads as u32);
            let values = shuffled::<Fr>(&mut rng(), BLOCKS * threads);
            let limbs: Vec<_> = values.iter().flat_map(|value| value.limbs(0)).collect();
            let (given, sums) = (rig.upload(&limbs), rig.lease::<u64>(4 * BLOCKS));
            let (scans, totals) = (rig.lease::<u64>(limbs.len()), rig.lease::<u64>(limbs.len()));
            let arguments = (given.all(), sums.all(), scans.all(), totals.all());
            rig.launch(&kernel, BLOCKS as u32, arguments);
            let [sums, scans, totals] = [sums, scans, totals].map(|lease| {
                let limbs = rig.download::<u64>(&lease);
                limbs.chunks(4).map(|limbs| Fr::from_limbs(limbs).unwrap()).collect::<Vec<_>>()
            });
            for (block, values) in values.chunks(threads).enumerate() {
                let mut sum = Fr::ZERO;
                for (i, value) in values.iter().enumerate() {
                    assert_eq!(scans[block * threads + i], sum, "thread {i} of {threads}");
                    sum += value;
                }
                assert_eq!(sums[block], sum);
                assert!(totals[block * threads..][..threads].iter().all(|total| *total == sum));
            }
        }
    });
}

#[test]
fn broadcasts_are_right() {
    each_seed(|rig| {
        type Arguments = (u32, DevicePtr<u64>, DevicePtr<u64>);
        let kernel = rig.kernel::<Arguments>("test/block", "test_broadcast", 64);
        let limbs: Vec<_> =
            shuffled::<Fr>(&mut rng(), 64).iter().flat_map(|value| value.limbs(0)).collect();
        let (given, out) = (rig.upload(&limbs), rig.lease::<u64>(limbs.len()));
        for from in [0, 5, 31] {
            rig.launch(&kernel, 1, (from as u32, given.all(), out.all()));
            let warps = limbs.chunks(128).flat_map(|warp| warp[4 * from..][..4].repeat(32));
            assert_eq!(rig.download::<u64>(&out), warps.collect::<Vec<_>>());
        }
    });
}
