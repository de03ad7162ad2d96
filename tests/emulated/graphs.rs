//! Capture of work from streams into graphs.

use cudarc::driver::{result, sys};

use crate::{
    arguments,
    rig::{DeviceWords, EmulatedGpu, SEEDS, error_code},
};

const THREAD: sys::CUstreamCaptureMode =
    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const GLOBAL: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const FLAGS: sys::CUgraphInstantiate_flags = sys::CUgraphInstantiate_flags(0);

/// A graph of two streams that fork and join, launched three times.
#[test]
fn graphs_keep_forks_and_joins() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let (stream, side) = (gpu.stream(), gpu.stream());
        let [a, b, c] = [(); 3].map(|()| gpu.words(4));
        let scale = gpu.kernel("memory", "scale");
        let next = gpu.kernel("memory", "next");
        a.write(&stream, &[5; 4]).unwrap();
        stream.synchronize().unwrap();

        stream.begin_capture(THREAD).unwrap();
        scale.launch(&stream, (1, 4, 0), arguments![a.address, 4u32, 2u32]).unwrap();
        side.wait(&stream.record_event(None).unwrap()).unwrap();
        next.launch(&side, (1, 1, 0), arguments![b.address, a.address]).unwrap();
        c.zero(&stream).unwrap();
        stream.join(&side).unwrap();
        // SAFETY: both allocations outlive the graph.
        unsafe { result::memcpy_dtod_async(c.address + 4, b.address, 4, stream.cu_stream()) }
            .unwrap();
        let graph = stream.end_capture(FLAGS).unwrap().unwrap();

        // Captured work does not run before the graph is launched.
        assert_eq!(a.read(&stream).unwrap(), [5; 4]);
        graph.launch().unwrap();
        assert_eq!(c.read(&stream).unwrap(), [0, 11, 0, 0], "seed {seed}");
        graph.launch().unwrap();
        graph.launch().unwrap();
        assert_eq!(c.read(&stream).unwrap(), [0, 41, 0, 0], "seed {seed}");
    }
}

/// Without an event between them, the two kernels have no order.
#[test]
fn a_missing_edge_changes_results_under_some_seed() {
    let run = |seed| {
        let gpu = EmulatedGpu::new(seed);
        let (stream, side) = (gpu.stream(), gpu.stream());
        let cells: Vec<DeviceWords> = (0..3).map(|_| gpu.words(1)).collect();
        let next = gpu.kernel("memory", "next");
        cells[0].zero(&stream).unwrap();
        stream.synchronize().unwrap();
        stream.begin_capture(THREAD).unwrap();
        side.wait(&stream.record_event(None).unwrap()).unwrap();
        next.launch(&stream, (1, 1, 0), arguments![cells[1].address, cells[0].address]).unwrap();
        next.launch(&side, (1, 1, 0), arguments![cells[2].address, cells[1].address]).unwrap();
        stream.join(&side).unwrap();
        let graph = stream.end_capture(FLAGS).unwrap().unwrap();
        graph.launch().unwrap();
        cells[2].read(&stream).unwrap()[0]
    };
    assert!([1, 2, 3].into_iter().any(|seed| run(seed) != 2));
}

#[test]
fn calls_that_cannot_be_captured_invalidate_the_capture() {
    let gpu = EmulatedGpu::new(0);
    let (stream, side, words) = (gpu.stream(), gpu.stream(), gpu.words(1));

    stream.begin_capture(GLOBAL).unwrap();
    assert_eq!(error_code(&DeviceWords::new(1)), 900);
    assert_eq!(error_code(&words.zero(&stream)), 901);
    assert_eq!(error_code(&stream.end_capture(FLAGS).map(|_| ())), 901);

    stream.begin_capture(THREAD).unwrap();
    assert_eq!(error_code(&stream.synchronize()), 900);
    assert_eq!(error_code(&stream.end_capture(FLAGS).map(|_| ())), 901);

    // A stream that joined the capture and was not merged back.
    stream.begin_capture(THREAD).unwrap();
    side.wait(&stream.record_event(None).unwrap()).unwrap();
    words.zero(&side).unwrap();
    assert_eq!(error_code(&stream.end_capture(FLAGS).map(|_| ())), 904);

    // An event recorded outside of the capture.
    let outside = side.record_event(None).unwrap();
    stream.begin_capture(THREAD).unwrap();
    assert_eq!(error_code(&stream.wait(&outside)), 905);
    assert_eq!(error_code(&stream.end_capture(FLAGS).map(|_| ())), 901);

    words.zero(&stream).unwrap();
    assert_eq!(words.read(&stream).unwrap(), [0]);
}
