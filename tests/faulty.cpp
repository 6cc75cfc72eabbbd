// Preloaded into a process whose system calls and allocations shall fail: the N-th open, write, fsync or rename within a
// folder, or the N-th allocation of C++ code. tests/faulty.py says when.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

struct Countdown {
  std::atomic<long> left{0}, seen{0};
  std::atomic<bool> armed{false}, lasting{false};

  // Whether this one fails.
  bool strikes(bool may_last = true) {
    if (!armed) return false;
    ++seen;
    const long now = --left;
    return now == 0 || (now < 0 && lasting && may_last);
  }
};

Countdown calls, allocations;
char folder[PATH_MAX];
int error_number = EIO;

template <typename F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool is_inside(const char* path) { return path && folder[0] && std::strncmp(path, folder, std::strlen(folder)) == 0; }

bool is_inside(int handle) {
  if (!calls.armed) return false;
  char path[PATH_MAX] = "";
  const std::string name = "/proc/self/fd/" + std::to_string(handle);
  return readlink(name.c_str(), path, sizeof path - 1) > 0 && is_inside(path);
}

int failed() {
  errno = error_number;
  return -1;
}

}  // namespace

extern "C" {

void fault_calls(const char* where, long at, int lasting, int number) {
  std::strncpy(folder, where, sizeof folder - 1);
  error_number = number;
  calls.left = at, calls.seen = 0, calls.lasting = lasting, calls.armed = true;
}
long fault_calls_end() {
  calls.armed = false;
  return calls.seen;
}
void fault_allocations(long at) { allocations.left = at, allocations.seen = 0, allocations.armed = true; }
long fault_allocations_end() {
  allocations.armed = false;
  return allocations.seen;
}

#define OPEN(NAME, ...)                                                             \
  if (is_inside(path) && calls.strikes()) return failed();                          \
  va_list rest;                                                                     \
  va_start(rest, flags);                                                            \
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;     \
  va_end(rest);                                                                     \
  return next<int (*)(__VA_ARGS__, int, ...)>(#NAME)

int open(const char* path, int flags, ...) { OPEN(open, const char*)(path, flags, mode); }
int open64(const char* path, int flags, ...) { OPEN(open64, const char*)(path, flags, mode); }
int openat(int at, const char* path, int flags, ...) { OPEN(openat, int, const char*)(at, path, flags, mode); }
int openat64(int at, const char* path, int flags, ...) { OPEN(openat64, int, const char*)(at, path, flags, mode); }

// On a disk that fills up, half of what is written still fits.
ssize_t write(int handle, const void* data, size_t size) {
  const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (!is_inside(handle) || !calls.strikes()) return real(handle, data, size);
  if (calls.lasting && calls.left == 0 && size > 1) return real(handle, data, size / 2);
  return failed();
}
ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  if (is_inside(to) && calls.strikes()) return failed();
  return next<ssize_t (*)(int, int, off_t*, size_t)>("sendfile")(to, from, offset, size);
}
ssize_t sendfile64(int to, int from, off_t* offset, size_t size) { return sendfile(to, from, offset, size); }
int fsync(int handle) {
  return is_inside(handle) && calls.strikes() ? failed() : next<int (*)(int)>("fsync")(handle);
}
// A full disk still has room for another name.
int rename(const char* from, const char* to) {
  if (is_inside(to) && calls.strikes(false)) return failed();
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

void* aligned_alloc(size_t alignment, size_t size) {
  void* data = nullptr;
  if (allocations.strikes()) return nullptr;
  return posix_memalign(&data, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) ? nullptr : data;
}

}  // extern "C"

namespace {

void* allocated(size_t size) { return allocations.strikes() ? nullptr : std::malloc(size ? size : 1); }

void* found(void* data) {
  if (!data) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(size_t size) { return found(allocated(size)); }
void* operator new[](size_t size) { return found(allocated(size)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocated(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocated(size); }
void* operator new(size_t size, std::align_val_t by) { return found(aligned_alloc(size_t(by), size)); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
