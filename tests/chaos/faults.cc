// Faults of the system for one process, which preloads this library: errors of the disk and jumps of
// the clock. A text file (CHAOS_CONTROL), which the test writes at any time, says which ones:
//
//   clock SECONDS        add this to CLOCK_REALTIME
//   open ERRNO           files cannot be created below CHAOS_FOLDER
//   write ERRNO BYTES    files below CHAOS_FOLDER cannot grow beyond this size
//   fsync ERRNO
//   rename ERRNO
//   unlink ERRNO
//   fsync_folder ERRNO   folders cannot be synced
//   pause MILLISECONDS   the time that a sync of a file takes
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

template <typename F>
F *next(const char *name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

struct Fault {
    long value = 0;
    long bytes = 0;
};

// Uses system calls only, so that it does not call itself.
bool find(const char *name, Fault &fault) {
    static const char *control = getenv("CHAOS_CONTROL");
    if (!control)
        return false;
    char text[512];
    long file = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[std::max(length, 0L)] = 0;
    for (char *line = text; line && *line;) {
        char word[32];
        long value = 0, bytes = 0;
        int found = sscanf(line, "%31s %ld %ld", word, &value, &bytes);
        if (found >= 2 && !strcmp(word, name)) {
            fault = {value, bytes};
            return true;
        }
        char *end = strchr(line, '\n');
        line = end ? end + 1 : nullptr;
    }
    return false;
}

bool is_below_folder(const char *path) {
    static const char *folder = getenv("CHAOS_FOLDER");
    return folder && !strncmp(path, folder, strlen(folder));
}

bool is_below_folder(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[std::max<ssize_t>(length, 0)] = 0;
    return length > 0 && is_below_folder(path);
}

// Whether the call must fail; sets errno.
bool fails(const char *name) {
    Fault fault;
    if (!find(name, fault))
        return false;
    errno = int(fault.value);
    return true;
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec *time) {
    static auto *real = next<int(clockid_t, timespec *)>("clock_gettime");
    int result = real(clock, time);
    Fault jump;
    if (clock == CLOCK_REALTIME && result == 0 && find("clock", jump))
        time->tv_sec += jump.value;
    return result;
}

int open64(const char *path, int flags, ...) {
    static auto *real = next<int(const char *, int, ...)>("open64");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & O_CREAT && is_below_folder(path) && fails("open"))
        return -1;
    return real(path, flags, mode);
}

// Like a disk with little space: writes what fits, and fails if nothing does.
ssize_t write(int file, const void *bytes, size_t length) {
    static auto *real = next<ssize_t(int, const void *, size_t)>("write");
    Fault full;
    if (is_below_folder(file) && find("write", full)) {
        long room = full.bytes - lseek(file, 0, SEEK_CUR);
        if (room <= 0 && length > 0) {
            errno = int(full.value);
            return -1;
        }
        length = std::min(length, size_t(room));
    }
    return real(file, bytes, length);
}

int fsync(int file) {
    static auto *real = next<int(int)>("fsync");
    if (is_below_folder(file)) {
        struct stat about;
        bool is_folder = fstat(file, &about) == 0 && S_ISDIR(about.st_mode);
        if (fails(is_folder ? "fsync_folder" : "fsync"))
            return -1;
        Fault pause;
        if (!is_folder && find("pause", pause))
            usleep(useconds_t(pause.value * 1000));
    }
    return real(file);
}

int rename(const char *from, const char *to) {
    static auto *real = next<int(const char *, const char *)>("rename");
    return is_below_folder(to) && fails("rename") ? -1 : real(from, to);
}

int unlink(const char *path) {
    static auto *real = next<int(const char *)>("unlink");
    return is_below_folder(path) && fails("unlink") ? -1 : real(path);
}
}
