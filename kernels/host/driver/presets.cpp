#include "presets.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "state.hpp"

namespace emulated {

namespace {

constexpr int ki = 1 << 10, mi = 1 << 20;

/// From NVIDIA's tables of compute capabilities and data sheets; the H200's from its driver.
/// `small` is not a product: its limits are at most those of any of these devices.
constexpr DevicePreset presets[] = {
    {"a100", "NVIDIA A100 80GB PCIe", 8, 0, 108, 2048, 32, 164 * ki, 163 * ki, 40 * mi, 1410000,
     1512000, 5120, 80 * ki},
    {"h100-pcie", "NVIDIA H100 PCIe", 9, 0, 114, 2048, 32, 228 * ki, 227 * ki, 50 * mi, 1755000,
     1593000, 5120, 80 * ki},
    {"h200", "NVIDIA H200", 9, 0, 132, 2048, 32, 228 * ki, 227 * ki, 60 * mi, 1980000, 3201000,
     6016, 143155},
    {"b200", "NVIDIA B200", 10, 0, 148, 2048, 32, 228 * ki, 227 * ki, 126 * mi, 1965000, 3996000,
     8192, 180 * ki},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 1536, 24, 100 * ki, 99 * ki, 72 * mi, 2520000,
     10501000, 384, 24 * ki},
    {"l4", "NVIDIA L4", 8, 9, 58, 1536, 24, 100 * ki, 99 * ki, 48 * mi, 2040000, 6251000, 192,
     24 * ki},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, 1536, 24, 100 * ki, 99 * ki, 96 * mi,
     2407000, 14001000, 512, 32 * ki},
    {"small", "small", 8, 6, 4, 1536, 16, 64 * ki, 48 * ki, 2 * mi, 1500000, 6000000, 128, 4 * ki},
};

std::vector<std::string> split(const std::string& names) {
    std::vector<std::string> found;
    std::istringstream fields(names);
    for (std::string name; std::getline(fields, name, ',');) found.push_back(name);
    return found;
}

const DevicePreset* find_preset(const std::string& name) {
    const auto is_named = [&](const DevicePreset& preset) { return name == preset.name; };
    const auto* found = std::find_if(std::begin(presets), std::end(presets), is_named);
    return found == std::end(presets) ? nullptr : found;
}

void apply_preset(Device& device, const DevicePreset& preset) {
    device.preset = &preset;
    device.bytes_total = std::min(setting("EMU_MEMORY_MIB", 1024), preset.memory_mib) << 20;
    device.multiprocessors = int(setting("EMU_MULTIPROCESSORS", uint64_t(preset.multiprocessors)));
}

struct DeviceAttribute {
    int number, value;
};

/// CUdevice_attribute values common to all presets.
constexpr DeviceAttribute attributes[] = {
    {1, threads_block}, {2, 1024}, {3, 1024}, {4, 64}, // block
    {5, 2147483647}, {6, 65535}, {7, 65535},           // grid
    {8, shared_default}, {111, shared_reserved},       // shared memory
    {9, 64 << 10}, {10, warp_threads},                 // constants, warp
    {12, 65536}, {82, registers_multiprocessor},       // registers of a block, of all
    {14, 512}, {15, 1}, {17, 0}, {18, 0}, {19, 1}, {20, 0},
    {31, 1}, {32, 1}, {35, 0}, {40, 2}, {41, 1},                    // concurrency, ECC
    {78, 1}, {79, 1}, {80, 1},                                      // priorities, caches
    {83, 0}, {88, 0}, {89, 0}, {90, 1}, {91, 0}, {95, 0}, {115, 1}, // managed: no; pools: yes
    {33, 0}, {50, 0},                                               // PCI bus, domain
};

} // namespace

// An H100 with few multiprocessors, whose memory is EMU_MEMORY_MIB.
const DevicePreset preset_default = {"", "device", 9, 0, 4, 2048, 32, 228 * ki, 227 * ki, 1 * mi,
                                     1000000, 1000000, 512, UINT64_MAX >> 20};

uint64_t setting(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 0) : otherwise;
}

size_t count_presets(const std::string& names) { return split(names).size(); }

std::string set_presets(DriverState& state, const std::string& names) {
    if (setting("EMU_MULTIPROCESSORS", 1) < 1 || setting("EMU_MULTIPROCESSORS", 1) > 65535) {
        return "EMU_MULTIPROCESSORS is not a number from 1 to 65535";
    }
    std::vector<const DevicePreset*> wanted;
    for (const auto& name : split(names)) {
        wanted.push_back(find_preset(name));
        if (wanted.back()) continue;
        std::string known;
        for (const DevicePreset& preset : presets) known += std::string(" ") + preset.name;
        return "unknown device \"" + name + "\" in EMU_DEVICE; known devices:" + known;
    }
    if (wanted.empty()) wanted.push_back(&preset_default);
    for (size_t i = 0; i < state.devices.size(); i++) {
        apply_preset(state.devices[i], *wanted[std::min(i, wanted.size() - 1)]);
    }
    return {};
}

bool pins_read_only() { return setting("EMU_READ_ONLY_PINS", 1) != 0; }

int attribute_of(const Device& device, int number) {
    const DevicePreset& preset = *device.preset;
    switch (number) {
    case 13: return preset.clock_khz;
    case 16: return device.multiprocessors;
    case 34: return device.index; // PCI device
    case 36: return preset.memory_clock_khz;
    case 37: return preset.bus_bits;
    case 38: return preset.l2_bytes;
    case 39: return preset.threads;
    case 75: return preset.major;
    case 76: return preset.minor;
    case 81: return preset.shared_bytes;
    case 97: return preset.shared_block;
    case 106: return preset.blocks;
    case 113: return pins_read_only();
    default: break;
    }
    for (const DeviceAttribute& known : attributes) {
        if (known.number == number) return known.value;
    }
    return 0;
}

} // namespace emulated
