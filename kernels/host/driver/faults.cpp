// Faults on demand, and the control functions for tests in the same process.
#include "api.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

namespace emulated {

namespace {

/// The `nth` call of `target` fails with `code`, hangs, or has a bit flipped that it wrote.
struct Planned {
    std::string target;
    long nth;
    int code;
    bool hangs;
    int flips; // the argument that says where; negative: none
    long seen = 0;
};

std::vector<Planned>& planned() {
    static auto* faults = new std::vector<Planned>;
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
    const Planned fault{target, std::strtol(nth.c_str(), &nth_end, 10),
                        flips ? 0 : int(std::strtol(code.c_str(), &code_end, 10)), code == "hang",
                        flips ? int(std::strtol(code.c_str(), &code_end, 10)) : -1};
    const bool ends = fault.hangs || ((flips || fault.code > 0) && *code_end == 0);
    if (target.empty() || fault.nth < 1 || *nth_end || !ends) {
        say("fault \"" + entry + "\" is not <call>:<nth>:<code, hang or flip>");
        std::abort(); // a test that injects nothing would pass for the wrong reason
    }
    planned().push_back(fault);
}

} // namespace

void say(const std::string& text) { std::fprintf(stderr, "emulated driver: %s\n", text.c_str()); }

uint64_t this_thread() { return std::hash<std::thread::id>{}(std::this_thread::get_id()); }

bool is_sticky(int code) {
    // ECC, NVLink and contained hardware errors, then those that a kernel causes.
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
    Injection due;
    for (Planned& fault : planned()) {
        const bool meant = fault.target == name || (group && fault.target == group) ||
                           (kernel && fault.target == kernel);
        if (meant && ++fault.seen == fault.nth) due = {fault.code, fault.hangs, fault.flips};
    }
    return due;
}

void refuse_flip() {
    say("a bit is to be flipped of what a call wrote that writes nothing");
    std::abort(); // as for one that cannot be read
}

void apply(const Injection& injected, Op& op, const std::function<uint8_t*(int)>& written) {
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

int hang(Api& api) {
    return drive(api.lock, *api.device, [] { return false; });
}

} // namespace emulated

using namespace emulated;

extern "C" {

/// Tells an emulated driver from a real one.
__attribute__((visibility("default"))) int capstan_emulated_driver(void) { return 1; }

/// Drops all contexts, memory, queued work and planned faults; whoever waits gets an error.
__attribute__((visibility("default"))) void capstan_emulated_reset(void) {
    Lock lock(state().lock);
    for (auto& device : state().devices) reset(lock, device);
    set_faults(nullptr);
}

/// Makes the devices those that `names` lists, as EMU_DEVICE does, after all that
/// `capstan_emulated_reset` does. Their number stays. 0 if a name is unknown: nothing changes.
__attribute__((visibility("default"))) int capstan_emulated_device(const char* names) {
    Lock lock(state().lock);
    for (auto& device : state().devices) reset(lock, device);
    set_faults(nullptr);
    const std::string why = set_presets(state(), names);
    if (!why.empty()) say(why);
    return why.empty();
}

/// Begins a new schedule.
__attribute__((visibility("default"))) void capstan_emulated_seed(uint64_t seed) {
    Lock lock(state().lock);
    state().seed = seed, state().random = {seed}, state().launches = 0;
}

/// Replaces the planned faults; counting begins now. Same words as EMU_FAULT.
__attribute__((visibility("default"))) void capstan_emulated_fault(const char* specification) {
    Lock lock(state().lock);
    set_faults(specification);
}
}
