/* For tests, by LD_PRELOAD: what disks and the power do to the changes of files below a directory.
 *
 * FAULTS_BELOW: the directory. FAULTS_SHARED: a file of four numbers that all processes share: how many changes there
 * were; at which one the fault comes (0: never); its error, or a negative signal for the whole process group; whether
 * all later changes that need space fail, too. A kill tears a write: half of it reaches the file.
 * FAULTS_LOG: a file for what would undo each change, written before it, and for each flush, written behind it
 * (`faults.py` reads it); a file that is removed or replaced keeps a name in the directory FAULTS_LOG.kept.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { CHANGES, AT, ERROR, LASTING };
enum kind { DATA, NAME, FLUSHED };
/* DATA: bytes of a file from `at` on, of which `old` follow; it was `size` long. NAME: what was done with which paths
 * follows; at, size: directories; inode: of the file that has a kept name. FLUSHED: a file or directory. */
struct record {
  uint64_t kind, inode, at, size, old;
};

static uint64_t* shared;
static char below[PATH_MAX], kept[PATH_MAX];
static size_t below_size;
static int log_file = -1;

__attribute__((constructor)) static void start(void) {
  const char* directory = getenv("FAULTS_BELOW");
  const char* numbers = getenv("FAULTS_SHARED");
  const char* log = getenv("FAULTS_LOG");
  if (!directory || !numbers || strlen(directory) >= sizeof below) return;
  const int file = NEXT(open)(numbers, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, 32, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return;
  if (log) {
    const int opened = NEXT(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    log_file = fcntl(opened, F_DUPFD_CLOEXEC, 700);
    close(opened);
    snprintf(kept, sizeof kept, "%s.kept", log);
    NEXT(mkdir)(kept, 0777);
  }
  strcpy(below, directory);
  below_size = strlen(below);
  shared = mapped;
}

static int is_below(const char* path) {
  return shared && strncmp(path, below, below_size) == 0 && (path[below_size] == '/' || path[below_size] == 0);
}

/* The path of an open file, or of a name in an open directory; empty if it is not below ours. */
static void path_of(int file, const char* name, char* path) {
  char link[64];
  ssize_t size = 0;
  path[0] = 0;
  if (!shared) return;
  if (!name || name[0] != '/') {
    if (file == AT_FDCWD)
      size = getcwd(path, PATH_MAX) ? (ssize_t)strlen(path) : -1;
    else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", file);
      size = readlink(link, path, PATH_MAX - 1);
    }
    if (size < 0) size = 0;
    path[size] = 0;
  }
  if (name) snprintf(path + size, (size_t)(PATH_MAX - size), "%s%s", size ? "/" : "", name);
  if (!is_below(path)) path[0] = 0;
}

static int is_file_below(int file) {
  char path[PATH_MAX];
  path_of(file, NULL, path);
  return path[0] != 0;
}

/* What happens to a change. TORN: a full disk has room for half of it. */
enum fault { FINE, TORN, FAILS, DIES };

static enum fault next_change(int needs_space) {
  const uint64_t number = __atomic_add_fetch(&shared[CHANGES], 1, __ATOMIC_SEQ_CST);
  const uint64_t at = __atomic_load_n(&shared[AT], __ATOMIC_SEQ_CST);
  if (!at || number < at || (number > at && !shared[LASTING])) return FINE;
  const int error = (int)shared[ERROR];
  if (error == -SIGKILL) return DIES;
  if (error < 0) kill(0, -error);
  if (error < 0 || (shared[LASTING] && !needs_space)) return FINE;
  errno = error;
  return shared[LASTING] && number == at ? TORN : FAILS;
}

static void die(void) {
  kill(0, SIGKILL);
  for (;;) pause();
}

/* Whether a change that is whole or not at all fails; the process may die instead. */
static int refused(int needs_space) {
  const enum fault fault = next_change(needs_space);
  if (fault == DIES) die();
  return fault != FINE;
}

static void put(enum kind kind, uint64_t inode, uint64_t at, uint64_t size, const void* old, size_t bytes) {
  const struct record record = {kind, inode, at, size, bytes};
  struct iovec parts[2] = {{(void*)&record, sizeof record}, {(void*)old, bytes}};
  if (NEXT(writev)(log_file, parts, 2) != (ssize_t)(sizeof record + bytes)) abort();
}

/* Log a write of bytes at a position (-1: where the file is), or that a file is cut to a size. */
static void log_data(int file, off_t at, size_t bytes, int cuts) {
  struct stat status;
  char path[64];
  if (log_file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode)) return;
  if (at < 0) at = fcntl(file, F_GETFL) & O_APPEND ? status.st_size : lseek(file, 0, SEEK_CUR);
  const off_t stop = cuts || at + (off_t)bytes > status.st_size ? status.st_size : at + (off_t)bytes;
  const size_t count = stop > at ? (size_t)(stop - at) : 0;
  char* old = malloc(count + 1);
  if (count) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const int again = NEXT(open)(path, O_RDONLY | O_CLOEXEC);
    if (pread(again, old, count, at) != (ssize_t)count) abort();
    close(again);
  }
  put(DATA, status.st_ino, (uint64_t)at, (uint64_t)status.st_size, old, count);
  free(old);
}

static void log_flushed(int file) {
  struct stat status;
  if (log_file >= 0 && !fstat(file, &status)) put(FLUSHED, status.st_ino, 0, 0, NULL, 0);
}

static uint64_t directory_of(const char* path) {
  char parent[PATH_MAX];
  struct stat status;
  strcpy(parent, path);
  *strrchr(parent, '/') = 0;
  return stat(parent, &status) ? 0 : status.st_ino;
}

/* Log what is done with a name; `lost` has a file that loses it, and so gets another one. */
static void log_name(const char* what, const char* path, const char* other, const char* lost) {
  struct stat status;
  char text[2 * PATH_MAX + 16], name[PATH_MAX + 32];
  uint64_t inode = 0;
  if (log_file < 0) return;
  if (lost && !lstat(lost, &status)) {
    inode = status.st_ino;
    snprintf(name, sizeof name, "%s/%llu", kept, (unsigned long long)inode);
    NEXT(link)(lost, name);
  }
  const int size = snprintf(text, sizeof text, "%s%c%s%c%s", what, 0, path, 0, other);
  put(NAME, inode, directory_of(path), directory_of(other), text, (size_t)size);
}

/* Write at a position, or at -1 where the file is. */
static ssize_t written(int file, const char* data, size_t size, off_t at) {
  enum fault fault = FINE;
  if (is_file_below(file)) {
    log_data(file, at, size, 0);
    fault = next_change(1);
  }
  if (fault == TORN && size < 2) fault = FAILS;
  if (fault == FAILS) return -1;
  if (fault != FINE) size /= 2;
  const ssize_t count = at < 0 ? NEXT(write)(file, data, size) : NEXT(pwrite)(file, data, size, at);
  if (fault == DIES) die();
  return count;
}

ssize_t write(int file, const void* data, size_t size) { return written(file, data, size, -1); }
ssize_t pwrite(int file, const void* data, size_t size, off_t at) { return written(file, data, size, at); }
ssize_t pwrite64(int file, const void* data, size_t size, off_t at) { return written(file, data, size, at); }

ssize_t writev(int file, const struct iovec* parts, int count) {
  if (!is_file_below(file)) return NEXT(writev)(file, parts, count);
  ssize_t all = 0;
  for (int part = 0; part < count; all += (ssize_t)parts[part].iov_len, ++part) {
    const ssize_t count = written(file, parts[part].iov_base, parts[part].iov_len, -1);
    if (count < (ssize_t)parts[part].iov_len) return count < 0 && !all ? -1 : all + (count < 0 ? 0 : count);
  }
  return all;
}

static int synced(int file, int (*flush)(int)) {
  if (!is_file_below(file)) return flush(file);
  if (refused(1)) return -1;
  const int result = flush(file);
  if (!result) log_flushed(file);
  return result;
}

int fsync(int file) { return synced(file, NEXT(fsync)); }
int fdatasync(int file) { return synced(file, NEXT(fdatasync)); }

int ftruncate(int file, off_t size) {
  if (is_file_below(file)) {
    log_data(file, size, 0, 1);
    if (refused(0)) return -1;
  }
  return NEXT(ftruncate)(file, size);
}

int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

static int opened(int directory, const char* name, int flags, mode_t mode) {
  char path[PATH_MAX];
  path_of(directory, name, path);
  if (path[0] && flags & O_CREAT && access(path, F_OK)) {
    log_name("create", path, path, NULL);
    if (refused(1)) return -1;
  } else if (path[0] && flags & O_TRUNC) {
    const int file = NEXT(openat)(directory, name, (flags & ~(O_TRUNC | O_ACCMODE)) | O_WRONLY | O_CLOEXEC, mode);
    if (file >= 0) log_data(file, 0, 0, 1);
    if (file >= 0) close(file);
  }
  return NEXT(openat)(directory, name, flags, mode);
}

static mode_t mode_of(int flags, va_list more) {
  return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPEN(name, DIRECTORY, ...)                                         \
  int name(__VA_ARGS__, int flags, ...) {                                  \
    va_list more;                                                          \
    va_start(more, flags);                                                 \
    const int file = opened(DIRECTORY, path, flags, mode_of(flags, more)); \
    va_end(more);                                                          \
    return file;                                                           \
  }

OPEN(open, AT_FDCWD, const char* path)
OPEN(open64, AT_FDCWD, const char* path)
OPEN(openat, directory, int directory, const char* path)
OPEN(openat64, directory, int directory, const char* path)

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  char old[PATH_MAX], new[PATH_MAX];
  path_of(from_directory, from, old);
  path_of(to_directory, to, new);
  if (!new[0] || !old[0]) return NEXT(renameat)(from_directory, from, to_directory, to);
  log_name("rename", old, new, new);
  const enum fault fault = next_change(1);
  if (fault == TORN || fault == FAILS) return -1;
  if (fault == DIES && shared[AT] & 1) NEXT(rename)(old, new); /* half of them die behind it */
  if (fault == DIES) die();
  return NEXT(rename)(old, new);
}

int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  char path[PATH_MAX];
  path_of(to_directory, to, path);
  if (path[0]) {
    log_name("create", path, path, NULL);
    if (refused(1)) return -1;
  }
  return NEXT(linkat)(from_directory, from, to_directory, to, flags);
}

int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int directory, const char* name, int flags) {
  char path[PATH_MAX];
  path_of(directory, name, path);
  if (path[0] && !access(path, F_OK)) {
    log_name(flags & AT_REMOVEDIR ? "rmdir" : "remove", path, path, flags & AT_REMOVEDIR ? NULL : path);
    if (refused(0)) return -1;
  }
  return NEXT(unlinkat)(directory, name, flags);
}

int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int directory, const char* name, mode_t mode) {
  char path[PATH_MAX];
  path_of(directory, name, path);
  if (path[0] && access(path, F_OK)) {
    log_name("mkdir", path, path, NULL);
    if (refused(1)) return -1;
  }
  return NEXT(mkdirat)(directory, name, mode);
}

int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
