// Queued work runs when a call waits: one op at a time, from a stream whose head is ready, chosen
// by the seed. Streams therefore overtake each other as far as events allow.
#include "api.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace emulated {

namespace {

bool legacy_order_holds(const Device& device, const Stream& stream, uint64_t sequence) {
    auto older = [&](const Stream& other) {
        return !other.queue.empty() && other.queue.front().sequence < sequence;
    };
    if (&stream == device.legacy.get()) {
        for (const auto& other : device.streams) {
            if (other->blocking && older(*other)) return false;
        }
        return true;
    }
    return !stream.blocking || !older(*device.legacy);
}

bool node_is_ready(const GraphLaunch& run, size_t index) {
    const GraphNode& node = run.exec->graph->nodes[index];
    if (run.done[index] || node.hangs) return false;
    return std::all_of(node.after.begin(), node.after.end(), [&](size_t n) { return run.done[n]; });
}

bool is_ready(const Device& device, const Stream& stream) {
    if (stream.queue.empty()) return false;
    const StreamOp& op = stream.queue.front();
    if (op.hangs || !legacy_order_holds(device, stream, op.sequence)) return false;
    if (op.kind == StreamOp::Kind::wait) return op.marker->done;
    if (op.kind != StreamOp::Kind::graph) return true;
    if (op.graph->exec->launches.front() != op.sequence) return false;
    if (op.graph->left == 0) return true;
    for (size_t i = 0; i < op.graph->done.size(); i++) {
        if (node_is_ready(*op.graph, i)) return true;
    }
    return false;
}

/// The stream whose head runs next: the one with the oldest head, or under a seed the most urgent.
/// Urgency changes only occasionally, so a stream may starve for long, as on a device.
std::shared_ptr<Stream> pick() {
    DriverState& s = state();
    std::vector<std::shared_ptr<Stream>> ready;
    for (auto& device : s.devices) {
        for (auto& stream : device.streams) {
            if (is_ready(device, *stream)) ready.push_back(stream);
        }
    }
    if (ready.empty()) return nullptr;
    auto rank = [&](const std::shared_ptr<Stream>& stream) {
        return s.seed ? stream->urgency : ~stream->queue.front().sequence;
    };
    if (s.seed && s.random.below(8) == 0) {
        ready[s.random.below(uint32_t(ready.size()))]->urgency = s.random.next();
    }
    return *std::max_element(ready.begin(), ready.end(),
                             [&](auto& a, auto& b) { return rank(a) < rank(b); });
}

size_t pick_node(const GraphLaunch& run) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < run.done.size(); i++) {
        if (node_is_ready(run, i)) ready.push_back(i);
    }
    return ready[state().seed ? state().random.below(uint32_t(ready.size())) : 0];
}

void finish_head(Stream& stream) {
    StreamOp& op = stream.queue.front();
    if (op.kind == StreamOp::Kind::record) {
        op.marker->done = true, op.marker->at = std::chrono::steady_clock::now();
    }
    if (op.kind == StreamOp::Kind::graph) op.graph->exec->launches.pop_front();
    stream.queue.pop_front();
    stream.finished++;
}

/// Runs host functions even if no call waits: programs wait for their effects by other means.
void watch_host_functions() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        Lock lock(state().lock);
        bool wanted = false;
        for (auto& device : state().devices) {
            for (auto& stream : device.streams) {
                for (auto& op : stream->queue) wanted |= op.calls_host;
            }
        }
        if (wanted && !state().running) step(lock);
    }
}

} // namespace

bool step(Lock& lock) {
    const auto stream = pick();
    if (!stream) return false;
    StreamOp& op = stream->queue.front();
    const uint64_t sequence = op.sequence;
    DeviceWork run;
    size_t node = 0;
    const auto graph = op.graph;
    if (op.kind == StreamOp::Kind::work) run = std::move(op.run);
    if (op.kind == StreamOp::Kind::graph && graph->left > 0) {
        node = pick_node(*graph);
        run = graph->exec->graph->nodes[node].run;
    }
    Failure failure;
    if (run) {
        state().running = true;
        lock.unlock();
        failure = run();
        run = nullptr; // releases what it holds
        lock.lock();
        state().running = false;
    }
    // The device may have been reset in the meantime.
    if (!stream->queue.empty() && stream->queue.front().sequence == sequence) {
        if (graph && graph->left > 0) graph->done[node] = true, graph->left--;
        if (!graph || graph->left == 0) finish_head(*stream);
        Device& device = state().devices[size_t(stream->device)];
        if (failure.code) lose(device, failure.code, failure.text);
        std::erase_if(device.streams, [&](const auto& s) {
            return s->queue.empty() && s->handle != 0 && !state().streams.contains(s->handle);
        });
    }
    state().changed.notify_all();
    return true;
}

void run_some_work(Lock& lock) {
    DriverState& s = state();
    if (s.seed == 0 || s.running || s.random.below(4) != 0) return;
    for (uint32_t pieces = s.random.below(4); pieces > 0 && !s.running; pieces--) step(lock);
}

int submit(Stream& stream, StreamOp op) {
    DriverState& s = state();
    Device& device = s.devices[size_t(stream.device)];
    if (stream.capture) {
        if (op.kind == StreamOp::Kind::graph) return capture_unsupported;
        return capture_node(stream, {std::move(op.run), {}, op.hangs});
    }
    if (&stream == device.legacy.get()) {
        for (const auto& capture : s.captures) {
            if (capture->origin->blocking && capture->origin->device == device.index) {
                capture->broken = true;
                return capture_implicit;
            }
        }
    }
    if (op.calls_host) {
        static const bool watched = (std::thread(watch_host_functions).detach(), true);
        (void)watched;
    }
    op.sequence = s.next_sequence++;
    if (op.graph) op.graph->exec->launches.push_back(op.sequence);
    stream.queue.push_back(std::move(op));
    stream.submitted++;
    return success;
}

int drive(Lock& lock, Device& device, const std::function<bool()>& done) {
    const uint64_t generation = device.generation;
    for (;;) {
        // Checked first: losing or resetting a device also drops the awaited work.
        if (device.generation != generation) return context_destroyed;
        if (device.sticky) return device.sticky;
        if (done()) return success;
        if (state().running || !step(lock)) state().changed.wait(lock);
    }
}

void drop_work(Device& device) {
    for (auto& stream : device.streams) {
        while (!stream->queue.empty()) {
            if (stream->queue.front().marker) stream->queue.front().marker->done = true;
            finish_head(*stream);
        }
    }
    state().changed.notify_all();
}

void lose(Device& device, int code, const std::string& why) {
    print_line(format("device %d is lost with error %d: ", device.index, code) + why);
    if (device.sticky == 0) device.sticky = code;
    drop_work(device);
}

} // namespace emulated
