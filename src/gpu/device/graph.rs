//! Launches that are captured once and replayed as a whole, so that the host's part in each launch
//! does not count: only benchmarks measure so.

use std::marker::PhantomData;

use cudarc::driver::{result, sys};
use sys::{CUgraphInstantiate_flags, CUstreamCaptureMode as Mode};

use super::{DeviceContext, DeviceFault, Stream, driver::DriverHandle};

/// Captured work. It uses memory that was borrowed for `'a`.
pub struct LaunchGraph<'a> {
    context: DeviceContext,
    graph: DriverHandle<sys::CUgraphExec>,
    memory: PhantomData<&'a ()>,
}

impl Stream {
    /// Captures what `work` submits to this stream, which must be kernels only, without running it.
    pub fn capture<'a>(
        &self,
        work: impl FnOnce() -> Result<(), DeviceFault> + 'a,
    ) -> Result<LaunchGraph<'a>, DeviceFault> {
        let mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        let begin = |stream| unsafe { result::stream::begin_capture(stream, mode) };
        self.call("cuStreamBeginCapture", begin)?;
        let worked = work();
        // SAFETY: the stream is alive and captures.
        let end = |stream| unsafe { result::stream::end_capture(stream) };
        // A failed launch makes the capture's end fail, too: report the launch.
        let ended = self.call("cuStreamEndCapture", end);
        worked?;
        let captured = ended?;
        let context = self.context();
        let flags = CUgraphInstantiate_flags(0);
        // SAFETY: the captured graph is alive.
        let instantiate = || unsafe { result::graph::instantiate(captured, flags) };
        let graph = context.call("cuGraphInstantiateWithFlags", instantiate);
        // SAFETY: captured above, destroyed once; the instance does not need it.
        let destroy = || unsafe { result::graph::destroy(captured) };
        context.call("cuGraphDestroy", destroy)?;
        let graph = DriverHandle(graph?);
        Ok(LaunchGraph { context: context.clone(), graph, memory: PhantomData })
    }

    /// Submits the captured work to this stream.
    pub fn replay(&self, graph: &LaunchGraph<'_>) -> Result<(), DeviceFault> {
        // SAFETY: both are alive.
        let launch = |stream| unsafe { result::graph::launch(graph.graph.0, stream) };
        self.call("cuGraphLaunch", launch)
    }
}

impl Drop for LaunchGraph<'_> {
    fn drop(&mut self) {
        // SAFETY: instantiated in `capture`, destroyed once; the driver finishes its work first.
        let destroy = || unsafe { result::graph::exec_destroy(self.graph.0) };
        let _destroyed = self.context.call("cuGraphExecDestroy", destroy);
    }
}
