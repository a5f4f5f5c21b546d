// Preloaded into the processes of a test: holds one of them at a call on a path, and shifts their clocks.
//
// All of them map the file $FAULTS/control, whose format is also defined in fault_job.py. A process that makes the given
// call on a path with the given ending writes its ID there and waits until the test releases it or a signal arrives,
// which then interrupts that call. The shift is added to the time of day of all clocks, as if the clock had been set;
// monotonic clocks are not changed.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

struct Control {
  int64_t shift;     // seconds
  uint32_t armed;    // whether to hold the next such call, only one
  uint32_t held;     // ID of the held process
  uint32_t released; // counts
  char call[12];     // read, write, rename or unlink
  char ending[224];  // of the path
};

Control* control = nullptr;

__attribute__((constructor)) void Map() {
  const char* folder = getenv("FAULTS");
  if (folder == nullptr) return;
  char path[4096];
  snprintf(path, sizeof(path), "%s/control", folder);
  int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  syscall(SYS_close, file);
  if (memory != MAP_FAILED) control = static_cast<Control*>(memory);
}

bool EndsWith(const char* path, const char* ending) {
  size_t length = strlen(path), wanted = strlen(ending);
  return length >= wanted && strcmp(path + length - wanted, ending) == 0;
}

void Pass(const char* call, const char* path) {
  if (control == nullptr || path == nullptr || !__atomic_load_n(&control->armed, __ATOMIC_ACQUIRE)) return;
  if (strcmp(call, control->call) != 0 || !EndsWith(path, control->ending)) return;
  if (!__atomic_exchange_n(&control->armed, 0, __ATOMIC_ACQ_REL)) return;
  int before_errno = errno;
  uint32_t before = __atomic_load_n(&control->released, __ATOMIC_ACQUIRE);
  __atomic_store_n(&control->held, getpid(), __ATOMIC_RELEASE);
  timespec moment = {0, 10'000'000};
  while (__atomic_load_n(&control->released, __ATOMIC_ACQUIRE) == before) {
    if (syscall(SYS_nanosleep, &moment, nullptr) == -1 && errno == EINTR) break;
  }
  errno = before_errno;
}

void PassOpen(const char* path, int flags) { Pass((flags & O_ACCMODE) == O_RDONLY ? "read" : "write", path); }

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int64_t Shift() { return control == nullptr ? 0 : __atomic_load_n(&control->shift, __ATOMIC_ACQUIRE); }

mode_t Mode(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

}  // namespace

#define OPEN(NAME)                                            \
  extern "C" int NAME(const char* path, int flags, ...) {     \
    va_list rest;                                             \
    va_start(rest, flags);                                    \
    mode_t mode = Mode(flags, rest);                          \
    va_end(rest);                                             \
    PassOpen(path, flags);                                    \
    static auto* real = Real<int(const char*, int, ...)>(#NAME); \
    return real(path, flags, mode);                           \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(NAME)                                               \
  extern "C" int NAME(int folder, const char* path, int flags, ...) { \
    va_list rest;                                                  \
    va_start(rest, flags);                                         \
    mode_t mode = Mode(flags, rest);                               \
    va_end(rest);                                                  \
    PassOpen(path, flags);                                         \
    static auto* real = Real<int(int, const char*, int, ...)>(#NAME); \
    return real(folder, path, flags, mode);                        \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(NAME)                                                    \
  extern "C" FILE* NAME(const char* path, const char* mode) {          \
    Pass(mode[0] == 'r' && !strchr(mode, '+') ? "read" : "write", path); \
    static auto* real = Real<FILE*(const char*, const char*)>(#NAME);  \
    return real(path, mode);                                           \
  }
FOPEN(fopen)
FOPEN(fopen64)

extern "C" int rename(const char* from, const char* to) noexcept {
  Pass("rename", to);
  static auto* real = Real<int(const char*, const char*)>("rename");
  return real(from, to);
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  Pass("rename", to);
  static auto* real = Real<int(int, const char*, int, const char*)>("renameat");
  return real(from_folder, from, to_folder, to);
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  Pass("rename", to);
  static auto* real = Real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return real(from_folder, from, to_folder, to, flags);
}

extern "C" int unlink(const char* path) noexcept {
  Pass("unlink", path);
  static auto* real = Real<int(const char*)>("unlink");
  return real(path);
}

extern "C" int clock_gettime(clockid_t clock, timespec* moment) noexcept {
  int result = syscall(SYS_clock_gettime, clock, moment);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) moment->tv_sec += Shift();
  return result;
}

extern "C" int gettimeofday(timeval* moment, void* zone) noexcept {
  int result = syscall(SYS_gettimeofday, moment, zone);
  if (result == 0) moment->tv_sec += Shift();
  return result;
}

extern "C" time_t time(time_t* moment) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (moment != nullptr) *moment = now.tv_sec;
  return now.tv_sec;
}

// Deadlines come from the shifted clock, and must be converted to the kernel's clock.
extern "C" int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  static auto* real = Real<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  timespec now, moved = *until;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  int64_t ahead = until->tv_sec - now.tv_sec, shift = Shift();
  bool is_time_of_day = until->tv_sec > 1'000'000'000;
  if (is_time_of_day && shift != 0 && (shift > 0 ? ahead > shift / 2 : ahead < shift / 2)) moved.tv_sec -= shift;
  return real(condition, mutex, &moved);
}
