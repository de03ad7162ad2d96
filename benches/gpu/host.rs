//! Transforms by the engine from payload memory to payload memory, as in a server; for comparison
//! the copies alone, in both directions at once. `host=22x8,20x64` selects sizes and batches. With
//! `pinned=no`, payloads go through the ring.

use std::{
    thread,
    time::{Duration, Instant},
};

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use capstan::{
    buffer::{PayloadPool, PayloadView, UploadBuffer},
    curve::{layout, scalars::ScalarEncoding},
    device::{DeviceFault, Stream},
    engine::{
        EncodedScalars, JobControl, MsmNttEngine, NttPlan, NttRows,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy},
    },
    verify,
};

use crate::{
    pool,
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

/// log2 of a row, and number of rows.
const BATCHES: [(u32, usize); 8] =
    [(10, 4), (12, 1), (10, 1024), (16, 1), (16, 256), (20, 8), (22, 8), (24, 4)];

/// Name, whether inverse, whether input and output are in bit-reversed order.
const MODES: [(&str, bool, bool, bool); 3] = [
    ("host_to_host", false, false, true),
    ("host_to_host_nn", false, false, false),
    ("host_to_host_inv", true, true, false),
];

/// Bytes of a group of rows, as in the engine.
const GROUP_BYTES: usize = 8 << 20;

/// Measures by the host's clock. The first result of each figure is checked at a random point.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let cpu = CpuEngine::new(0).unwrap_or_else(|error| panic!("{error}"));
    let engine = CudaEngine::new(cpu, rig.gpu.clone().into(), GpuPolicy::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let mut pinned_bytes = 0;
    if rig.argument("pinned").as_deref() != Some("no") {
        // Input and output of the largest batch, twice, and results that are being wiped.
        let largest = batches(rig).into_iter().map(|(lg_n, batch)| batch << (lg_n + 5)).max();
        pinned_bytes = 5 * largest.unwrap_or_default();
    }
    let pool = pool::payload_pool(&engine, pinned_bytes);
    for (lg_n, batch) in batches(rig) {
        let rows = rows(lg_n, batch);
        record.print_time(&copies(rig, lg_n, batch));
        for (mode, inverse, input_reversed, output_reversed) in MODES {
            let plan = NttPlan { lg_n, inverse, coset: None, input_reversed, output_reversed };
            record.record_time(&transforms(rig, &engine, &pool, mode, &plan, &rows));
        }
    }
}

fn batches(rig: &BenchRig) -> Vec<(u32, usize)> {
    let parse = |text: &str| text.split_once('x').map(|(a, b)| (a.parse(), b.parse()));
    let given = |text: String| {
        let pairs = text.split(',').map(|pair| match parse(pair) {
            Some((Ok(lg_n), Ok(batch))) => (lg_n, batch),
            _ => panic!("host=22x8,20x64, not {pair}"),
        });
        pairs.collect()
    };
    rig.argument("host").map_or_else(|| rig.size(BATCHES.to_vec(), vec![(12, 3), (10, 300)]), given)
}

fn rows(lg_n: u32, batch: usize) -> Vec<Vec<Fr>> {
    let mut random = Random(u64::from(lg_n));
    let mut row = || {
        let mut row = vec![Fr::ZERO; 1 << lg_n];
        // Clear the top bits, so that elements are below r.
        for bytes in layout::fr_as_bytes_mut(&mut row).chunks_exact_mut(8) {
            bytes.copy_from_slice(&(random.next() >> 2).to_le_bytes());
        }
        row
    };
    (0..batch).map(|_| row()).collect()
}

fn transforms<'m>(
    rig: &BenchRig,
    engine: &CudaEngine,
    pool: &PayloadPool,
    mode: &'m str,
    plan: &NttPlan,
    given: &[Vec<Fr>],
) -> TimeFigure<'m> {
    let (n, count) = (1 << plan.lg_n, given.len());
    let row_bytes = n * size_of::<Fr>();
    let payload = || UploadBuffer::new(pool, (count * row_bytes) as u64, Vec::new());
    let input = payload();
    for (number, row) in given.iter().enumerate() {
        let at = (number * row_bytes) as u64;
        input.write(at, layout::fr_as_bytes(row)).unwrap_or_else(|error| panic!("{error}"));
    }
    let encoding = ScalarEncoding::Montgomery;
    let source = PayloadView::starting_at(&input, 0);
    let run = || {
        let output = payload();
        let rows = NttRows {
            input: EncodedScalars::new(encoding, count * n, &source),
            count,
            row_length: n,
            encoding,
            output: &PayloadView::starting_at(&output, 0),
            check_on_device: false,
        };
        let begun = Instant::now();
        let executor = engine.ntt(plan, &rows, &JobControl::default());
        (begun.elapsed(), executor.unwrap_or_else(|error| panic!("{error}")), output)
    };
    let (_, executor, output) = run();
    for number in [0, count / 2, count - 1] {
        let mut found = vec![Fr::ZERO; n];
        output.read((number * row_bytes) as u64, layout::fr_as_bytes_mut(&mut found));
        let right = verify::verify_ntt(plan, &given[number], &found, &JobControl::default());
        assert_eq!(right, Ok(true), "row {number} of {plan:?}");
    }
    drop(output);
    let times = (0..rig.repeats).map(|_| run().0).collect();
    let how = format!("{}, {}", executor.engine, executor.device);
    TimeFigure { op: "ntt", mode, lg_n: plan.lg_n, batch: given.len(), times, how }
}

/// Copies the same bytes to the device and back through the ring, one group at a time, in both
/// directions at once. The host does not touch the bytes.
fn copies(rig: &BenchRig, lg_n: u32, batch: usize) -> TimeFigure<'static> {
    let bytes = (batch << lg_n) * size_of::<Fr>();
    let (to, from) = (rig.lease::<u8>(bytes), rig.lease::<u8>(bytes));
    let copies = rig.gpu.ring().session();
    let stream = || Stream::new(rig.gpu.context()).unwrap_or_else(|fault| panic!("{fault}"));
    let (there, back) = (stream(), stream());
    let group = GROUP_BYTES.max(size_of::<Fr>() << lg_n).min(bytes);
    let parts = || (0..bytes).step_by(group).map(|at| (at, group.min(bytes - at)));
    let upload = || {
        parts().try_for_each(|(at, count)| {
            let part = to.all::<u8>().slice(at, count).expect("inside");
            copies.upload(&there, part).fill_idle_chunks(count, |_| Ok::<_, DeviceFault>(()))
        })
    };
    let download = || {
        parts().try_for_each(|(at, count)| {
            let part = from.all::<u8>().slice(at, count).expect("inside");
            copies.download(&back, part, |_| Ok::<_, DeviceFault>(()))
        })
    };
    let run = || -> Duration {
        let begun = Instant::now();
        thread::scope(|scope| {
            let back = scope.spawn(download);
            upload().expect("an upload");
            back.join().expect("no panic").expect("a download");
        });
        begun.elapsed()
    };
    let times = (0..=rig.repeats).map(|_| run()).skip(1).collect();
    let how = "the copies alone, both ways".to_owned();
    TimeFigure { op: "ntt", mode: "copies", lg_n, batch, times, how }
}
