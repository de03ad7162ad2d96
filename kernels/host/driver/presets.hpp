// Device presets and their attributes.
#pragma once

#include <cstdint>
#include <string>

namespace emulated {

struct Device;
struct DriverState;

/// The properties of one kind of device.
struct DevicePreset {
    const char* name; // in EMU_DEVICE
    const char* title;
    int major, minor; // compute capability
    int multiprocessors;
    int threads, blocks;            // per multiprocessor
    int shared_bytes, shared_block; // per multiprocessor; per block that opts in
    int l2_bytes;
    int clock_khz, memory_clock_khz, bus_bits;
    uint64_t memory_mib;
};

/// Common to all emulated devices.
constexpr int shared_default = 48 << 10; // bytes per block without opt-in
constexpr int shared_reserved = 1 << 10; // bytes per block that the system reserves
constexpr int registers_multiprocessor = 65536;
constexpr int threads_block = 1024;
constexpr int warp_threads = 32;

/// The preset of devices without a setting.
extern const DevicePreset preset_default;

/// Applies the presets in `names`, separated by commas, to the devices; the last name repeats, and
/// without names all devices are default. Returns an error message, or an empty string on success.
std::string set_presets(DriverState& state, const std::string& names);

/// The number of presets in a list; 0 for an empty list.
size_t count_presets(const std::string& names);

/// The value of a CUdevice_attribute; 0 if it is not emulated.
int attribute_of(const Device& device, int number);

/// Whether devices can access memory that is mapped only for reading.
bool pins_read_only();

} // namespace emulated
