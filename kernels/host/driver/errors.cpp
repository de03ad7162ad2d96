// Names and descriptions of error codes.
#include "api.hpp"

namespace {

struct ErrorName {
    int code;
    const char* name;
    const char* text;
};

constexpr ErrorName names[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "driver not initialised"},
    {100, "CUDA_ERROR_NO_DEVICE", "no device"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "no or invalid context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image has no code for this device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable memory error"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "no peer access between these devices"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "not possible in this state"},
    {500, "CUDA_ERROR_NOT_FOUND", "no such symbol"},
    {600, "CUDA_ERROR_NOT_READY", "not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources for a launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch took too long"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled already"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is gone"},
    {710, "CUDA_ERROR_ASSERT", "assertion in a kernel"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "invalid address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not possible while capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture failed earlier"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began in another stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a captured stream was not joined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "the capture depends on work outside"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the default stream is used while capturing"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture began in another thread"},
};

const ErrorName* find(int code) {
    for (const ErrorName& name : names) {
        if (name.code == code) return &name;
    }
    return nullptr;
}

} // namespace

using namespace emulated;

EMULATED_API cuGetErrorName(int code, const char** out) {
    const ErrorName* found = find(code);
    *out = found ? found->name : "CUDA_ERROR_UNKNOWN";
    return success;
}

EMULATED_API cuGetErrorString(int code, const char** out) {
    const ErrorName* found = find(code);
    *out = found ? found->text : "error without a description in the emulated driver";
    return success;
}
