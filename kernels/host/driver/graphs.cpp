// Graphs: captured from streams, launched as one queued op whose nodes run in any order that
// respects their edges.
#include "api.hpp"

#include <algorithm>

namespace emulated {

namespace {

/// Marks `node` and all its predecessors.
void mark_before(const Graph& graph, size_t node, std::vector<bool>& marked) {
    std::vector<size_t> open{node};
    while (!open.empty()) {
        const size_t at = open.back();
        open.pop_back();
        if (marked[at]) continue;
        marked[at] = true;
        for (size_t before : graph.nodes[at].after) open.push_back(before);
    }
}

/// Whether the capture's origin depends on every node.
bool is_joined(const StreamCapture& capture) {
    std::vector<bool> joined(capture.graph->nodes.size());
    for (size_t node : capture.origin->tails) mark_before(*capture.graph, node, joined);
    return std::all_of(joined.begin(), joined.end(), [](bool j) { return j; });
}

void end(const std::shared_ptr<StreamCapture>& capture) {
    for (const auto& stream : capture->streams) stream->capture = nullptr, stream->tails.clear();
    capture->streams.clear();
    state().captures.erase(capture);
}

} // namespace

int capture_node(Stream& stream, GraphNode node) {
    StreamCapture& capture = *stream.capture;
    if (capture.broken) return capture_invalidated;
    node.after = stream.tails;
    capture.graph->nodes.push_back(std::move(node));
    stream.tails = {capture.graph->nodes.size() - 1};
    return success;
}

int refuse_while_capturing() {
    for (const auto& capture : state().captures) {
        const bool own = capture->thread == this_thread();
        // 0 (global): forbidden to all threads; 1: to this thread; 2 (relaxed): allowed.
        if (capture->mode == 0 || (capture->mode == 1 && own)) {
            return capture->broken = true, capture_unsupported;
        }
    }
    return success;
}

void leave_capture(Stream& stream) {
    const auto capture = stream.capture;
    if (!capture) return;
    if (capture->origin == &stream) return end(capture);
    capture->broken = true;
    stream.capture = nullptr, stream.tails.clear();
    std::erase_if(capture->streams, [&](const auto& s) { return s.get() == &stream; });
}

} // namespace emulated

using namespace emulated;

EMULATED_API cuStreamBeginCapture_v2(void* handle, int mode) {
    return call("cuStreamBeginCapture", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (stream == api.device->legacy) return capture_unsupported;
        if (stream->capture) return illegal_state;
        auto capture = std::make_shared<StreamCapture>();
        capture->origin = stream.get(), capture->mode = mode, capture->thread = this_thread();
        capture->graph->device = stream->device;
        capture->streams.insert(stream);
        state().captures.insert(capture);
        stream->capture = capture, stream->tails.clear();
        return success;
    });
}

EMULATED_API cuStreamEndCapture(void* handle, void** out) {
    return call("cuStreamEndCapture", [&](ApiCall& api) -> int {
        *out = nullptr;
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        const auto capture = stream->capture;
        if (!capture) return illegal_state;
        if (capture->origin != stream.get()) return capture->broken = true, capture_unmatched;
        if (capture->mode != 2 && capture->thread != this_thread()) return capture_wrong_thread;
        const bool broken = capture->broken, joined = is_joined(*capture);
        end(capture);
        if (broken) return capture_invalidated;
        if (!joined) return capture_unjoined;
        const Handle graph = state().next_handle++;
        state().graphs[graph] = capture->graph;
        *out = reinterpret_cast<void*>(graph);
        return success;
    });
}

EMULATED_API cuStreamIsCapturing(void* handle, int* status) {
    return call("cuStreamIsCapturing", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
        return success;
    });
}

EMULATED_API cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
    return call("cuGraphInstantiate", "graph", false, nullptr, [&](ApiCall&) -> int {
        const auto graph = state().graphs.find(reinterpret_cast<Handle>(handle));
        // 1: free on launch, 8: node priorities. Launches from the device are not emulated.
        if (graph == state().graphs.end() || (flags & ~9ull)) return invalid_value;
        const Handle exec = state().next_handle++;
        state().execs[exec] = std::make_shared<GraphExec>();
        state().execs[exec]->graph = graph->second;
        *out = reinterpret_cast<void*>(exec);
        return success;
    });
}

EMULATED_API cuGraphUpload(void* exec, void*) {
    return call("cuGraphUpload", [&](ApiCall&) -> int {
        return state().execs.contains(reinterpret_cast<Handle>(exec)) ? success : invalid_value;
    });
}

EMULATED_API cuGraphLaunch(void* handle, void* stream_handle) {
    return queue_call("cuGraphLaunch", "launch", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, stream_handle);
        const auto exec = state().execs.find(reinterpret_cast<Handle>(handle));
        if (!stream) return invalid_handle;
        if (exec == state().execs.end()) return invalid_value;
        StreamOp op;
        if (api.injected.code || api.injected.hangs) {
            apply(api.injected, op);
        } else {
            const size_t nodes = exec->second->graph->nodes.size();
            op.kind = StreamOp::Kind::graph;
            op.graph = std::make_shared<GraphLaunch>(
                GraphLaunch{exec->second, std::vector<bool>(nodes), nodes});
        }
        return submit(*stream, std::move(op));
    });
}

EMULATED_API cuGraphExecDestroy(void* exec) {
    return call("cuGraphExecDestroy", [&](ApiCall&) -> int {
        return state().execs.erase(reinterpret_cast<Handle>(exec)) ? success : invalid_value;
    });
}

EMULATED_API cuGraphDestroy(void* graph) {
    return call("cuGraphDestroy", [&](ApiCall&) -> int {
        return state().graphs.erase(reinterpret_cast<Handle>(graph)) ? success : invalid_value;
    });
}

EMULATED_API cuGraphGetNodes(void* handle, void** nodes, size_t* count) {
    return call("cuGraphGetNodes", [&](ApiCall&) -> int {
        const auto graph = state().graphs.find(reinterpret_cast<Handle>(handle));
        if (graph == state().graphs.end() || nodes) return invalid_value; // only counts
        *count = graph->second->nodes.size();
        return success;
    });
}
