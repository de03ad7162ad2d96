// The driver's state: devices, streams, events, queued work. One lock guards all of it; work itself
// runs without the lock, one op at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../cuda_host/block.hpp"
#include "../cuda_host/random.hpp"
#include "presets.hpp"

namespace emulated {

using cuda_host::Failure;
using cuda_host::format;
using Address = unsigned long long; // CUdeviceptr
using Handle = uintptr_t;           // of streams, events, modules, functions, graphs

/// A point in a stream that other streams and calls wait for.
struct StreamMarker {
    bool done = false;
    std::chrono::steady_clock::time_point at;
};

/// Device work; runs without the lock.
using DeviceWork = std::function<Failure()>;

struct GraphNode {
    DeviceWork run; // empty: only a dependency
    std::vector<size_t> after;
    bool hangs = false;
};

struct Graph {
    int device;
    std::vector<GraphNode> nodes;
};

/// An instantiated graph. Its launches run one after the other.
struct GraphExec {
    std::shared_ptr<const Graph> graph;
    std::deque<uint64_t> launches;
};

/// One launch of a graph.
struct GraphLaunch {
    std::shared_ptr<GraphExec> exec;
    std::vector<bool> done;
    size_t left;
};

/// One entry of a stream's queue.
struct StreamOp {
    enum class Kind : uint8_t { work, record, wait, graph } kind = Kind::work;
    uint64_t sequence = 0;
    DeviceWork run;
    std::shared_ptr<StreamMarker> marker;
    std::shared_ptr<GraphLaunch> graph;
    bool hangs = false; // never completes
    bool calls_host = false;
};

struct StreamCapture;

struct Stream {
    Handle handle;
    int device;
    bool blocking; // synchronises with the legacy stream
    std::deque<StreamOp> queue;
    uint64_t submitted = 0, finished = 0;
    uint64_t urgency = 0; // under a seed, the most urgent ready stream runs first
    std::shared_ptr<StreamCapture> capture;
    std::vector<size_t> tails; // predecessors of the stream's next node
};

/// A graph during capture.
struct StreamCapture {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    Stream* origin;
    std::set<std::shared_ptr<Stream>> streams;
    int mode;
    uint64_t thread;
    bool broken = false;
};

struct Event {
    int device;
    unsigned flags;
    std::shared_ptr<StreamMarker> latest;
    std::shared_ptr<StreamCapture> capture; // recorded in a capture: waits become edges
    std::vector<size_t> tails;
};

struct Device {
    int index = 0;
    const DevicePreset* preset = &preset_default;
    int multiprocessors = 0;
    size_t bytes_total = 0, bytes_used = 0;
    int retained = 0;
    unsigned context_flags = 0;
    int sticky = 0;          // the error that ended the context, or 0
    uint64_t generation = 0; // counts resets
    uint32_t peers = 0;      // bit i: this device may access memory of device i
    std::shared_ptr<Stream> legacy;
    std::vector<std::shared_ptr<Stream>> streams; // destroyed ones until they are drained
    std::map<uint64_t, std::shared_ptr<Stream>> per_thread;
};

struct DriverState {
    std::mutex lock;
    std::condition_variable changed;
    std::vector<Device> devices;
    std::map<Handle, std::shared_ptr<Stream>> streams;
    std::map<Handle, std::shared_ptr<Event>> events;
    std::map<Handle, std::shared_ptr<Graph>> graphs;
    std::map<Handle, std::shared_ptr<GraphExec>> execs;
    std::set<std::shared_ptr<StreamCapture>> captures;
    Handle next_handle = 0x1000;
    uint64_t next_sequence = 1, launches = 0;
    uint64_t seed = 0;
    cuda_host::SplitMix64 random{0};
    std::FILE* early_trace = nullptr; // the file that EMU_TRACE_EARLY names
    std::string unusable; // why the settings are invalid; empty if they are valid
    bool initialised = false;
    bool running = false; // an op is running on some thread
};

/// The global state, created from the environment on first use and never destroyed.
DriverState& state();

/// A number from the environment, or `otherwise`.
uint64_t setting(const char* name, uint64_t otherwise);

using Lock = std::unique_lock<std::mutex>;

/// Prints one line to stderr.
void print_line(const std::string& text);

uint64_t this_thread();

// scheduler.cpp; all require the lock.

/// Queues an op, or adds it to the graph that the stream captures. Returns 0 or a CUDA error.
int submit(Stream& stream, StreamOp op);
/// Runs queued work until `done`, or until the device is lost; returns its sticky error or 0.
int drive(Lock& lock, Device& device, const std::function<bool()>& done);
/// Runs one ready op; returns false if there is none.
bool step(Lock& lock);
/// Under a seed, runs a few ready ops at random, as a device makes progress without being asked.
void run_some_work(Lock& lock);
/// Ends the device's context: every later call on it returns `code`.
void lose(Device& device, int code, const std::string& why);
/// Drops queued work; waiting calls continue.
void drop_work(Device& device);
/// Frees everything that belongs to the device.
void reset(Lock& lock, Device& device);

// graphs.cpp

/// Adds a node to the graph that `stream` captures. Returns 0 or a CUDA error.
int capture_node(Stream& stream, GraphNode node);
/// Returns the error for a call that is forbidden during a capture, or 0.
int refuse_while_capturing();
/// Removes the stream from its capture.
void leave_capture(Stream& stream);

} // namespace emulated
