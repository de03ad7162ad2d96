// A driver for a real GPU whose kernels fail on demand: it passes all calls on to libcuda.so.1, but
// the next launch after SIGUSR1 follows a kernel that traps, and after SIGUSR2 one that never ends.
//
//   printf '' | cc -shared -x c - -o stub.so -Wl,-soname,libcuda.so.1
//   cc -shared -fPIC -Wl,-soname,libcuda.so,--no-as-needed -o faulty.so faulty_driver.c ./stub.so
//
// The first command makes a library to link with; the second one's result finds the driver at run
// time. cudarc looks for libcuda.so first, and finds this library by that name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

typedef int (*launch_ex_t)(const void *config, void *function, void **parameters, void **extra);
typedef int (*launch_t)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_bytes, void *stream, void **parameters, void **extra);
typedef int (*load_t)(void **module, const void *image);
typedef int (*get_t)(void **function, void *module, const char *name);

// The beginning of CUlaunchConfig.
struct launch_config {
    unsigned dimensions[6];
    unsigned shared_bytes;
    void *stream;
};

#define PTX(body)                                                                     \
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry fault() {\n" body \
    "\n}\n"

static const char traps[] = PTX("trap;\nret;");
static const char never_ends[] = PTX("again:\nnanosleep.u32 1000;\nbra again;");

static atomic_int wanted;

static void on_signal(int number) { atomic_store(&wanted, number); }

__attribute__((constructor)) static void listen_to_signals(void) {
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
}

static void *of_driver(const char *name) { return dlsym(RTLD_NEXT, name); }

// Launches the wanted kernel, if any, on the stream.
static void fail_if_wanted(void *stream) {
    if (atomic_load_explicit(&wanted, memory_order_relaxed) == 0) return;
    int number = atomic_exchange(&wanted, 0);
    if (number == 0) return;
    load_t load = (load_t)of_driver("cuModuleLoadData");
    get_t get = (get_t)of_driver("cuModuleGetFunction");
    launch_t launch = (launch_t)of_driver("cuLaunchKernel");
    void *module = NULL, *function = NULL;
    int code = load(&module, number == SIGUSR1 ? traps : never_ends);
    if (code == 0) code = get(&function, module, "fault");
    if (code == 0) code = launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    if (code != 0) fprintf(stderr, "no kernel that fails was launched: error %d\n", code);
}

int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
    fail_if_wanted(((const struct launch_config *)config)->stream);
    return ((launch_ex_t)of_driver(__func__))(config, function, parameters, extra);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **parameters, void **extra) {
    fail_if_wanted(stream);
    return ((launch_t)of_driver(__func__))(function, grid_x, grid_y, grid_z, block_x, block_y,
                                           block_z, shared_bytes, stream, parameters, extra);
}
