//! Transforms by the engine, of rows that lie in the host's memory and go back there; beside them
//! what the copies alone take, both ways at a time. `host=22x8,20x64` picks sizes and batches.

use std::{
    thread,
    time::{Duration, Instant},
};

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use capstan::{
    curve::layout,
    device::{Fault, Stream},
    engine::{
        Control, Engine, NttPlan,
        cpu::CpuEngine,
        cuda::{CudaEngine, Least},
    },
    verify,
};

use crate::{
    record::{Record, Time},
    rig::{Random, Rig},
};

/// log2 of a row, and how many.
const BATCHES: [(u32, usize); 8] =
    [(10, 4), (12, 1), (10, 1024), (16, 1), (16, 256), (20, 8), (22, 8), (24, 4)];

/// Name, inverse, input and output in bit-reversed order.
const MODES: [(&str, bool, bool, bool); 3] = [
    ("host_to_host", false, false, true),
    ("host_to_host_nn", false, false, false),
    ("host_to_host_inv", true, true, false),
];

/// Bytes of a group, as the engine has it.
const GROUP_BYTES: usize = 8 << 20;

/// By the host's clock. The first result of every figure is checked at a random point.
pub fn measure(rig: &Rig, record: &mut Record) {
    let cpu = CpuEngine::new(0).unwrap_or_else(|error| panic!("{error}"));
    let engine = CudaEngine::new(cpu, vec![rig.gpu.clone()], Least::default())
        .unwrap_or_else(|e| panic!("{e}"));
    for (lg_n, batch) in batches(rig) {
        let rows = rows(lg_n, batch);
        record.show_time(&copies(rig, lg_n, batch));
        for (mode, inverse, input_reversed, output_reversed) in MODES {
            let plan = NttPlan { lg_n, inverse, coset: None, input_reversed, output_reversed };
            record.keep_time(&transforms(rig, &engine, mode, &plan, &rows));
        }
    }
}

fn batches(rig: &Rig) -> Vec<(u32, usize)> {
    let parse = |text: &str| text.split_once('x').map(|(a, b)| (a.parse(), b.parse()));
    let given = |text: String| {
        let pairs = text.split(',').map(|pair| match parse(pair) {
            Some((Ok(lg_n), Ok(batch))) => (lg_n, batch),
            _ => panic!("host=22x8,20x64, not {pair}"),
        });
        pairs.collect()
    };
    rig.text("host").map_or_else(|| rig.size(BATCHES.to_vec(), vec![(12, 3), (10, 300)]), given)
}

fn rows(lg_n: u32, batch: usize) -> Vec<Vec<Fr>> {
    let mut random = Random(u64::from(lg_n));
    let mut row = || {
        let mut row = vec![Fr::ZERO; 1 << lg_n];
        // The top bits clear: below r.
        for bytes in layout::fr_as_bytes_mut(&mut row).chunks_exact_mut(8) {
            bytes.copy_from_slice(&(random.next() >> 2).to_le_bytes());
        }
        row
    };
    (0..batch).map(|_| row()).collect()
}

fn transforms<'m>(
    rig: &Rig,
    engine: &CudaEngine,
    mode: &'m str,
    plan: &NttPlan,
    given: &[Vec<Fr>],
) -> Time<'m> {
    let mut rows = given.to_vec();
    let run = |rows: &mut Vec<Vec<Fr>>| {
        let begun = Instant::now();
        let executor = engine.ntt_in_place(plan, rows, &Control::default());
        (begun.elapsed(), executor.unwrap_or_else(|error| panic!("{error}")))
    };
    let (_, executor) = run(&mut rows);
    for number in [0, given.len() / 2, given.len() - 1] {
        let (input, output) = (&given[number], &rows[number]);
        assert!(verify::ntt_at_random_point(plan, input, output), "row {number} of {plan:?}");
    }
    let times = (0..rig.repeats).map(|_| run(&mut rows).0).collect();
    let how = format!("{}, {}", executor.engine, executor.device);
    Time { op: "ntt", mode, lg_n: plan.lg_n, batch: given.len(), times, how }
}

/// As many bytes there and back through the ring, a group at a time, both ways at once; nobody
/// reads or writes them on the host.
fn copies(rig: &Rig, lg_n: u32, batch: usize) -> Time<'static> {
    let bytes = (batch << lg_n) * size_of::<Fr>();
    let (to, from) = (rig.memory::<u8>(bytes), rig.memory::<u8>(bytes));
    let copies = rig.gpu.ring().copies();
    let stream = || Stream::new(rig.gpu.context()).unwrap_or_else(|fault| panic!("{fault}"));
    let (there, back) = (stream(), stream());
    let group = GROUP_BYTES.max(size_of::<Fr>() << lg_n).min(bytes);
    let parts = || (0..bytes).step_by(group).map(|at| (at, group.min(bytes - at)));
    let upload = || {
        parts().try_for_each(|(at, count)| {
            let part = to.all::<u8>().part(at, count).expect("inside");
            copies.upload(&there, part).fill(count, |_| Ok::<_, Fault>(()))
        })
    };
    let download = || {
        parts().try_for_each(|(at, count)| {
            let part = from.all::<u8>().part(at, count).expect("inside");
            copies.download(&back, part, |_| Ok::<_, Fault>(()))
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
    Time { op: "ntt", mode: "copies", lg_n, batch, times, how }
}
