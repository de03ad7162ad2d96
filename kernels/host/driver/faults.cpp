// Injected faults, and control functions for tests in the same process.
#include "api.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

namespace emulated {

namespace {

/// The `nth` call of `target` fails with `code`, hangs, or has a bit of its output flipped.
struct PlannedFault {
    std::string target;
    long nth;
    int code;
    bool hangs;
    int flips; // index of the argument that points to the output; negative: none
    long calls = 0;
};

std::vector<PlannedFault>& planned() {
    static auto* faults = new std::vector<PlannedFault>;
    return *faults;
}

void plan(const std::string& entry) {
    std::istringstream fields(entry);
    std::string target, nth, code;
    std::getline(fields, target, ':');
    std::getline(fields, nth, ':');
    std::getline(fields, code);
    char* nth_end = nullptr;
    char* code_end = nullptr;
    const bool flips = code.rfind("flip", 0) == 0;
    if (flips) code.erase(0, 4);
    const PlannedFault fault{target, std::strtol(nth.c_str(), &nth_end, 10),
                        flips ? 0 : int(std::strtol(code.c_str(), &code_end, 10)), code == "hang",
                        flips ? int(std::strtol(code.c_str(), &code_end, 10)) : -1};
    const bool ends = fault.hangs || ((flips || fault.code > 0) && *code_end == 0);
    if (target.empty() || fault.nth < 1 || *nth_end || !ends) {
        print_line("fault \"" + entry + "\" is not of the form <call>:<nth>:<code, hang or flip>");
        std::abort(); // otherwise a test that injects nothing would pass
    }
    planned().push_back(fault);
}

} // namespace

void print_line(const std::string& text) {
    std::fprintf(stderr, "emulated driver: %s\n", text.c_str());
}

uint64_t this_thread() { return std::hash<std::thread::id>{}(std::this_thread::get_id()); }

bool is_sticky(int code) {
    // ECC, NVLink and contained hardware errors, then errors caused by kernels.
    return code == 214 || code == 220 || code == 226 || code == 700 || code == 702 || code == 710 ||
           (code >= 714 && code <= 721);
}

void set_faults(const char* specification) {
    planned().clear();
    std::istringstream entries(specification ? specification : "");
    for (std::string entry; std::getline(entries, entry, ',');) {
        if (!entry.empty()) plan(entry);
    }
}

Injection inject(const char* name, const char* group, const char* kernel) {
    Injection injected;
    for (PlannedFault& fault : planned()) {
        const bool matches = fault.target == name || (group && fault.target == group) ||
                             (kernel && fault.target == kernel);
        if (!matches || ++fault.calls != fault.nth) continue;
        injected = {fault.code, fault.hangs, fault.flips};
    }
    return injected;
}

void refuse_flip() {
    print_line("cannot inject \"flip\" into a call that writes nothing");
    std::abort(); // as for a fault that cannot be parsed
}

void apply(const Injection& injected, StreamOp& op, const std::function<uint8_t*(int)>& written) {
    op.hangs |= injected.hangs;
    if (injected.flips >= 0) {
        uint8_t* at = written ? written(injected.flips) : nullptr;
        if (!at) refuse_flip();
        op.run = [run = std::move(op.run), at]() -> Failure {
            const Failure failure = run();
            if (!failure.code) *at ^= 1;
            return failure;
        };
    }
    if (const int code = injected.code) op.run = [code] { return Failure{code, "injected fault"}; };
}

int hang(ApiCall& api) {
    return drive(api.lock, *api.device, [] { return false; });
}

} // namespace emulated

using namespace emulated;

extern "C" {

/// Distinguishes the emulated driver from a real one.
__attribute__((visibility("default"))) int capstan_emulated_driver(void) { return 1; }

/// Drops all contexts, memory, queued work and planned faults. Waiting calls return an error.
__attribute__((visibility("default"))) void capstan_emulated_reset(void) {
    Lock lock(state().lock);
    for (auto& device : state().devices) reset(lock, device);
    set_faults(nullptr);
}

/// Like `capstan_emulated_reset`, then applies presets as EMU_DEVICE does. The number of devices
/// does not change. Returns 0 and changes no preset if a name is unknown.
__attribute__((visibility("default"))) int capstan_emulated_device(const char* names) {
    Lock lock(state().lock);
    for (auto& device : state().devices) reset(lock, device);
    set_faults(nullptr);
    const std::string why = set_presets(state(), names);
    if (!why.empty()) print_line(why);
    return why.empty();
}

/// Starts a new schedule with the given seed.
__attribute__((visibility("default"))) void capstan_emulated_seed(uint64_t seed) {
    Lock lock(state().lock);
    state().seed = seed, state().random = {seed}, state().launches = 0;
}

/// Replaces the planned faults, in the format of EMU_FAULT. Calls are counted from now on.
__attribute__((visibility("default"))) void capstan_emulated_fault(const char* specification) {
    Lock lock(state().lock);
    set_faults(specification);
}
}
