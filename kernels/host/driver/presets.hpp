// Classes of devices, and what the driver says of each.
#pragma once

#include <cstdint>
#include <string>

namespace emulated {

struct Device;
struct State;

/// The facts of one class of devices.
struct Preset {
    const char* name; // in EMU_DEVICE
    const char* title;
    int major, minor; // compute capability
    int multiprocessors;
    int threads, blocks;            // of a multiprocessor
    int shared_bytes, shared_block; // of a multiprocessor; of a block that opts in
    int l2_bytes;
    int clock_khz, memory_clock_khz, bus_bits;
    uint64_t memory_mib;
};

/// What every device of the emulation has.
constexpr int shared_default = 48 << 10; // bytes of a block that does not opt in
constexpr int shared_reserved = 1 << 10; // bytes of each block that the system takes
constexpr int registers_multiprocessor = 65536;
constexpr int threads_block = 1024;
constexpr int warp_threads = 32;

/// The device that no setting names.
extern const Preset preset_default;

/// Gives the devices the presets that `names` lists, separated by commas; the last name repeats, and
/// without names every device is the default. Returns why that is not possible; empty if it is.
std::string set_presets(State& state, const std::string& names);

/// Devices that a list of presets asks for; 0 for an empty list.
size_t count_presets(const std::string& names);

/// The value of a CUdevice_attribute; 0 for those that the emulation does not have.
int attribute_of(const Device& device, int number);

} // namespace emulated
