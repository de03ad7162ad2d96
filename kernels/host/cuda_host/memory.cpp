// Shared memory of a block, and delayed asynchronous copies into it.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "async_copy.hpp"
#include "block.hpp"
#include "shared.hpp"

namespace cuda_host {

namespace {

constexpr int poison = 0xa5;
/// The limit of ptxas on static shared memory.
constexpr uint32_t static_bytes_max = 48 << 10;

std::unique_ptr<char, void (*)(void*)> allocate(size_t bytes, size_t align) {
    // A separate allocation for each array, so that the sanitizer detects accesses past its end.
    void* memory = nullptr;
    if (posix_memalign(&memory, align < 16 ? 16 : align, bytes ? bytes : 1) != 0) std::abort();
    return {static_cast<char*>(memory), std::free};
}

} // namespace

void* static_shared(uint32_t site, size_t bytes, size_t align) {
    return Block::here()->static_shared(site, bytes, align);
}
void* dynamic_shared() { return Block::here()->dynamic_shared(); }

void* Block::static_shared(uint32_t number, size_t bytes, size_t align) {
    if (number >= sites_.size()) sites_.resize(number + 1);
    SharedSiteMemory& site = sites_[number];
    if (site.used_in == epoch_) return site.memory.get();
    if (!site.memory) site.memory = allocate(bytes, align), site.bytes = bytes;
    site.used_in = epoch_;
    std::memset(site.memory.get(), poison, bytes);
    static_bytes_ = uint32_t((static_bytes_ + align - 1) / align * align + bytes);
    const uint32_t dynamic = grid_->dynamic_shared_bytes;
    if (static_bytes_ > static_bytes_max || static_bytes_ + dynamic > grid_->shared_bytes_max) {
        fail(719, format("%u static and %u dynamic bytes of shared memory, %u allowed",
                         static_bytes_, dynamic, grid_->shared_bytes_max));
    }
    auto* most = const_cast<uint64_t*>(&grid_->kernel->shared_bytes_max);
    uint64_t before = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (before < static_bytes_ &&
           !__atomic_compare_exchange_n(most, &before, static_bytes_, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return site.memory.get();
}

void Block::poison_dynamic() {
    const size_t bytes = grid_->dynamic_shared_bytes;
    if (bytes != dynamic_bytes_ || !dynamic_) {
        dynamic_ = allocate(bytes, 16);
        dynamic_bytes_ = bytes;
    }
    std::memset(dynamic_.get(), poison, bytes);
}

void copy_async(void* to, const void* from, uint32_t bytes) {
    Block::here()->copy_async(to, from, bytes);
}
void commit_copies() { Block::here()->commit_copies(); }
void wait_copies(uint32_t groups) { Block::here()->wait_copies(groups); }

void Block::copy_async(void* to, const void* from, uint32_t bytes) {
    const uintptr_t both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if ((bytes != 4 && bytes != 8 && bytes != 16) || both % bytes != 0) {
        fail(716, format("asynchronous copy of %u bytes from %p to %p is not aligned", bytes, from,
                         to));
    }
    EmulatedThread& thread = threads_[current_];
    // An early copy exposes a buffer still in use, a late copy a missing wait.
    if (grid_->seed != 0 && random_.below(2) == 0) std::memcpy(to, from, bytes);
    else thread.copies.push_back({to, from, bytes, thread.groups});
}

void Block::commit_copies() { threads_[current_].groups++; }

void Block::wait_copies(uint32_t groups) { complete_copies(threads_[current_], groups); }

/// Completes the copies of all closed groups except the newest `groups_left`.
void Block::complete_copies(EmulatedThread& thread, uint32_t groups_left) {
    auto& copies = thread.copies;
    size_t done = 0;
    while (done < copies.size() && copies[done].group + groups_left < thread.groups) {
        std::memcpy(copies[done].to, copies[done].from, copies[done].bytes);
        done++;
    }
    copies.erase(copies.begin(), copies.begin() + ptrdiff_t(done));
}

} // namespace cuda_host
