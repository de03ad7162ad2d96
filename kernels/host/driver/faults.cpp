// Injected faults, and control functions for tests in the same process.
#include "api.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <thread>

namespace emulated {

namespace {

/// What happens at the `nth` call of `target`.
struct PlannedFault {
    std::string text;
    std::string target;
    long device; // negative: each
    long nth;
    Injection injected;
    long calls = 0;
};

std::vector<PlannedFault>& planned() {
    static auto* faults = new std::vector<PlannedFault>;
    return *faults;
}

void plan(const std::string& entry) {
    static const std::regex form(R"(([^:@]+)(?:@(\d+))?:([1-9]\d*):)"
                                 R"((?:([1-9]\d*)|(hang)|flip(\d*)(?:\+(\d+))?|)"
                                 R"(clear(\d*)\+(\d+)x([1-9]\d*)))");
    std::smatch found;
    if (!std::regex_match(entry, found, form)) {
        print_line("fault \"" + entry + "\" is not of the form <call>[@<device>]:<nth>:<fault>");
        std::abort(); // otherwise a test that injects nothing would pass
    }
    const auto number = [&](size_t group) { return std::atol(found[group].str().c_str()); };
    Injection injected;
    injected.code = int(number(4));
    injected.hangs = found[5].matched;
    if (found[6].matched) injected.damages = int(number(6)), injected.offset = number(7);
    if (found[10].matched) {
        injected.damages = int(number(8));
        injected.offset = number(9), injected.cleared = size_t(number(10));
    }
    planned().push_back({entry, found[1], found[2].matched ? number(2) : -1, number(3), injected});
}

/// Distinguishes the files that EMU_FAULT_FILE has named.
struct FileVersion {
    ino_t inode = 0;
    timespec changed{};

    bool operator==(const FileVersion& other) const {
        return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
               changed.tv_nsec == other.changed.tv_nsec;
    }
};

FileVersion version_of(const char* path) {
    struct stat about{};
    if (stat(path, &about) != 0) return {};
    return {about.st_ino, about.st_ctim};
}

/// Plans the faults of the file that EMU_FAULT_FILE names, if it has changed: those of its second
/// line when the process makes its first call, and those of its first line later.
void read_fault_file() {
    static const char* path = std::getenv("EMU_FAULT_FILE");
    static std::optional<FileVersion> seen;
    if (!path) return;
    FileVersion now = version_of(path), read;
    if (now == seen) return;
    std::string of_running, of_starting;
    // Again if the file was replaced meanwhile.
    do {
        read = now, of_running.clear(), of_starting.clear();
        std::ifstream text(path);
        std::getline(text, of_running) && std::getline(text, of_starting);
        now = version_of(path);
    } while (!(now == read));
    if (seen) set_faults(of_running.c_str());
    else if (!of_starting.empty()) set_faults(of_starting.c_str());
    seen = now;
}

/// Whether the number of such calls depends on timing, since programs make them in loops.
bool polls(const char* name) {
    return !std::strcmp(name, "cuEventQuery") || !std::strcmp(name, "cuStreamQuery");
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
    for (const PlannedFault& fault : planned()) {
        if (fault.calls == 0 || fault.calls >= fault.nth) continue;
        const char* text = fault.text.c_str();
        print_line(format("fault \"%s\" was dropped after %ld calls", text, fault.calls));
    }
    planned().clear();
    std::istringstream entries(specification ? specification : "");
    for (std::string entry; std::getline(entries, entry, ',');) {
        if (!entry.empty()) plan(entry);
    }
}

Injection inject(const char* name, int device, const char* group, const char* kernel) {
    read_fault_file();
    Injection injected;
    for (PlannedFault& fault : planned()) {
        const bool matches = fault.target == name || (group && fault.target == group) ||
                             (kernel && fault.target == kernel) ||
                             (fault.target == "any" && !polls(name));
        const bool is_there = fault.device < 0 || fault.device == device;
        if (!matches || !is_there || ++fault.calls != fault.nth) continue;
        print_line(format("fault injected into %s of device %d", name, device));
        injected = fault.injected;
    }
    return injected;
}

void refuse_damage() {
    print_line("cannot damage the output of a call that writes nothing");
    std::abort(); // as for a fault that cannot be parsed
}

void apply(const Injection& injected, StreamOp& op, const std::function<uint8_t*(int)>& written) {
    op.hangs |= injected.hangs;
    if (injected.damages >= 0) {
        uint8_t* output = written ? written(injected.damages) : nullptr;
        if (!output) refuse_damage();
        op.run = [run = std::move(op.run), injected, at = output + injected.offset]() -> Failure {
            const Failure failure = run();
            if (failure.code) return failure;
            if (injected.cleared) std::memset(at, 0, injected.cleared);
            else *at ^= 1;
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

/// How many calls of the first planned fault there were.
__attribute__((visibility("default"))) long capstan_emulated_calls(void) {
    Lock lock(state().lock);
    return planned().empty() ? 0 : planned().front().calls;
}

/// Replaces the planned faults, in the format of EMU_FAULT. Calls are counted from now on.
__attribute__((visibility("default"))) void capstan_emulated_fault(const char* specification) {
    Lock lock(state().lock);
    set_faults(specification);
}
}
