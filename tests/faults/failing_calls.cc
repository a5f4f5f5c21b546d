// Makes selected file system calls fail or slow; loaded into processes by LD_PRELOAD. See storage_faults.py.
//
// FAILING_CALLS is the path of a file of Rules, which all processes map: a test writes it, enables and disables rules at
// run time, and reads their numbers of hits. A call whose path (for a rename, either path) matches a rule's glob pattern
// succeeds `skip` times, then sleeps and fails with `error` `count` times (-1: always; error 0: it only sleeps). With
// `after` it takes effect before it reports the failure.
//
// With RECORDED_CALLS, the path of a file, every call that changes or syncs a path adds a line to it: the call's number,
// and its paths. See disk_model.py.
//
// g++ -shared -fPIC -O1 -o failing_calls.so failing_calls.cc -ldl

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum Call : int32_t { kCreate = 1, kOpen = 2, kWrite = 4, kSync = 8, kRename = 16, kMkdir = 32, kRemove = 64, kStat = 128, kList = 256, kRead = 512, kExchange = 1024 };

struct Rule {
  int32_t calls, error, skip, count, sleep_ms, after, hits, unused;
  char pattern[480];
};
constexpr int kRules = 8;
Rule* rules = nullptr;
int record = -1;
constexpr int kRecorded = kCreate | kWrite | kSync | kRename | kMkdir | kRemove | kExchange;

__attribute__((constructor)) void Map() {
  const char* calls = getenv("RECORDED_CALLS");
  if (calls != nullptr) record = syscall(SYS_openat, AT_FDCWD, calls, O_WRONLY | O_APPEND | O_CLOEXEC);
  const char* name = getenv("FAILING_CALLS");
  if (name == nullptr) return;
  int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* memory = mmap(nullptr, sizeof(Rule) * kRules, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (memory != MAP_FAILED) rules = static_cast<Rule*>(memory);
}

bool Takes(int32_t* number) {  // takes one if any are left
  int32_t left = __atomic_load_n(number, __ATOMIC_SEQ_CST);
  while (left > 0)
    if (__atomic_compare_exchange_n(number, &left, left - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return true;
  return left < 0;
}

struct Verdict {
  int error = 0;
  bool after = false;
};

void Record(Call call, const char* path, const char* other) {
  int saved = errno;
  if (call == kMkdir && syscall(SYS_access, path, F_OK) == 0) return;  // os.makedirs also calls it for existing ones
  char line[9000];
  int size = snprintf(line, sizeof line, "%d\t%s\t%s\n", call, path, other == nullptr ? "" : other);
  syscall(SYS_write, record, line, size);  // one call, so that the lines of processes do not mix
  errno = saved;
}

Verdict Judge(Call call, const char* path, const char* other = nullptr) {
  if (rules == nullptr || path == nullptr) return {};
  if (record >= 0 && (call & kRecorded)) Record(call, path, other);
  for (int i = 0; i < kRules; i++) {
    Rule& rule = rules[i];
    if (!(__atomic_load_n(&rule.calls, __ATOMIC_SEQ_CST) & call)) continue;
    if (fnmatch(rule.pattern, path, 0) != 0 && (other == nullptr || fnmatch(rule.pattern, other, 0) != 0)) continue;
    if (Takes(&rule.skip) || !Takes(&rule.count)) continue;
    __atomic_fetch_add(&rule.hits, 1, __ATOMIC_SEQ_CST);
    if (rule.sleep_ms > 0) usleep(rule.sleep_ms * 1000);
    return {rule.error, rule.after != 0};
  }
  return {};
}

// Returns the path of an open file, or of a name in an open folder.
struct Path {
  char text[4096];
  const char* of(int fd, const char* name = nullptr) {
    if (rules == nullptr) return nullptr;
    if (name != nullptr && (name[0] == '/' || fd == AT_FDCWD)) return name;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int saved = errno;
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof(text) - 1);
    errno = saved;
    if (size <= 0) return nullptr;
    text[size] = 0;
    if (name != nullptr) snprintf(text + size, sizeof(text) - size, "/%s", name);
    return text;
  }
};

template <typename F>
F Real(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Calls `name` with `arguments`, unless a rule makes it fail; then the result is `failure`.
#define CALL(name, call, failure, path, other, arguments)         \
  static auto real = Real(&name, #name);                          \
  Verdict verdict = Judge(call, path, other);                     \
  if (verdict.error != 0) {                                       \
    if (verdict.after) real arguments;                            \
    errno = verdict.error;                                        \
    return failure;                                               \
  }                                                               \
  return real arguments

#define MODE() \
  va_list list; va_start(list, flags); mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; va_end(list)
#define KIND(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT) ? kCreate : kOpen)

extern "C" {

int open(const char* path, int flags, ...) { MODE(); CALL(open, KIND(flags), -1, path, nullptr, (path, flags, mode)); }
int open64(const char* path, int flags, ...) { MODE(); CALL(open64, KIND(flags), -1, path, nullptr, (path, flags, mode)); }
int openat(int fd, const char* path, int flags, ...) { MODE(); Path p; CALL(openat, KIND(flags), -1, p.of(fd, path), nullptr, (fd, path, flags, mode)); }
int openat64(int fd, const char* path, int flags, ...) { MODE(); Path p; CALL(openat64, KIND(flags), -1, p.of(fd, path), nullptr, (fd, path, flags, mode)); }
FILE* fopen(const char* path, const char* mode) { CALL(fopen, mode[0] == 'r' ? kOpen : kCreate, nullptr, path, nullptr, (path, mode)); }
FILE* fopen64(const char* path, const char* mode) { CALL(fopen64, mode[0] == 'r' ? kOpen : kCreate, nullptr, path, nullptr, (path, mode)); }

ssize_t write(int fd, const void* data, size_t size) { Path p; CALL(write, kWrite, -1, p.of(fd), nullptr, (fd, data, size)); }
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) { Path p; CALL(pwrite, kWrite, -1, p.of(fd), nullptr, (fd, data, size, at)); }
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) { Path p; CALL(pwrite64, kWrite, -1, p.of(fd), nullptr, (fd, data, size, at)); }
ssize_t writev(int fd, const struct iovec* parts, int count) { Path p; CALL(writev, kWrite, -1, p.of(fd), nullptr, (fd, parts, count)); }
size_t fwrite(const void* data, size_t size, size_t count, FILE* file) { Path p; CALL(fwrite, kWrite, 0, p.of(fileno(file)), nullptr, (data, size, count, file)); }
ssize_t sendfile(int to, int from, off_t* at, size_t size);
ssize_t sendfile(int to, int from, off_t* at, size_t size) { Path p; CALL(sendfile, kWrite, -1, p.of(to), nullptr, (to, from, at, size)); }
ssize_t sendfile64(int to, int from, off64_t* at, size_t size);
ssize_t sendfile64(int to, int from, off64_t* at, size_t size) { Path p; CALL(sendfile64, kWrite, -1, p.of(to), nullptr, (to, from, at, size)); }
ssize_t copy_file_range(int from, off64_t* a, int to, off64_t* b, size_t size, unsigned flags) { Path p; CALL(copy_file_range, kWrite, -1, p.of(to), nullptr, (from, a, to, b, size, flags)); }
ssize_t read(int fd, void* data, size_t size) { Path p; CALL(read, kRead, -1, p.of(fd), nullptr, (fd, data, size)); }
ssize_t pread(int fd, void* data, size_t size, off_t at) { Path p; CALL(pread, kRead, -1, p.of(fd), nullptr, (fd, data, size, at)); }
ssize_t pread64(int fd, void* data, size_t size, off64_t at) { Path p; CALL(pread64, kRead, -1, p.of(fd), nullptr, (fd, data, size, at)); }

int fsync(int fd) { Path p; CALL(fsync, kSync, -1, p.of(fd), nullptr, (fd)); }
int fdatasync(int fd) { Path p; CALL(fdatasync, kSync, -1, p.of(fd), nullptr, (fd)); }

int rename(const char* from, const char* to) noexcept { CALL(rename, kRename, -1, from, to, (from, to)); }
int renameat(int a, const char* from, int b, const char* to) noexcept { Path p, q; CALL(renameat, kRename, -1, p.of(a, from), q.of(b, to), (a, from, b, to)); }
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept { Path p, q; CALL(renameat2, flags & RENAME_EXCHANGE ? kExchange : kRename, -1, p.of(a, from), q.of(b, to), (a, from, b, to, flags)); }
int mkdir(const char* path, mode_t mode) noexcept { CALL(mkdir, kMkdir, -1, path, nullptr, (path, mode)); }
int mkdirat(int fd, const char* path, mode_t mode) noexcept { Path p; CALL(mkdirat, kMkdir, -1, p.of(fd, path), nullptr, (fd, path, mode)); }
int unlink(const char* path) noexcept { CALL(unlink, kRemove, -1, path, nullptr, (path)); }
int unlinkat(int fd, const char* path, int flags) noexcept { Path p; CALL(unlinkat, kRemove, -1, p.of(fd, path), nullptr, (fd, path, flags)); }
int rmdir(const char* path) noexcept { CALL(rmdir, kRemove, -1, path, nullptr, (path)); }

DIR* opendir(const char* path) { CALL(opendir, kList, nullptr, path, nullptr, (path)); }
DIR* fdopendir(int fd) { Path p; CALL(fdopendir, kList, nullptr, p.of(fd), nullptr, (fd)); }

int stat(const char* path, struct stat* out) noexcept { CALL(stat, kStat, -1, path, nullptr, (path, out)); }
int stat64(const char* path, struct stat64* out) noexcept { CALL(stat64, kStat, -1, path, nullptr, (path, out)); }
int fstatat(int fd, const char* path, struct stat* out, int flags) noexcept { Path p; CALL(fstatat, kStat, -1, p.of(fd, path), nullptr, (fd, path, out, flags)); }
int fstatat64(int fd, const char* path, struct stat64* out, int flags) noexcept { Path p; CALL(fstatat64, kStat, -1, p.of(fd, path), nullptr, (fd, path, out, flags)); }
int __xstat(int version, const char* path, struct stat* out) noexcept;
int __xstat(int version, const char* path, struct stat* out) noexcept { CALL(__xstat, kStat, -1, path, nullptr, (version, path, out)); }
int __xstat64(int version, const char* path, struct stat64* out) noexcept;
int __xstat64(int version, const char* path, struct stat64* out) noexcept { CALL(__xstat64, kStat, -1, path, nullptr, (version, path, out)); }
int access(const char* path, int how) noexcept { CALL(access, kStat, -1, path, nullptr, (path, how)); }

}  // extern "C"
