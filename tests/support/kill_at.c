/* For tests, by LD_PRELOAD: kills the whole process group at the n-th change of a file below a directory.
 *
 * KILL_BELOW: the directory. KILL_COUNTER: a file of 16 bytes that all processes share: how many changes there were,
 * and at which one to kill (0: never). A write is torn: half of it reaches the file, then the processes die.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t* shared;
static char below[PATH_MAX];
static size_t below_size;

__attribute__((constructor)) static void start(void) {
  const char* directory = getenv("KILL_BELOW");
  const char* counter = getenv("KILL_COUNTER");
  if (!directory || !counter || strlen(directory) >= sizeof below) return;
  const int file = open(counter, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return;
  strcpy(below, directory);
  below_size = strlen(below);
  shared = mapped;
}

static int is_below(const char* path) {
  return shared && strncmp(path, below, below_size) == 0 && (path[below_size] == '/' || path[below_size] == 0);
}

static int is_file_below(int file) {
  char name[64], path[PATH_MAX];
  if (!shared) return 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(name, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return is_below(path);
}

static int is_the_one(void) {
  return __atomic_add_fetch(&shared[0], 1, __ATOMIC_SEQ_CST) == __atomic_load_n(&shared[1], __ATOMIC_SEQ_CST);
}

static void die(void) {
  kill(0, SIGKILL);
  for (;;) pause();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* data, size_t size) {
  if (is_file_below(file) && is_the_one()) {
    NEXT(write)(file, data, size / 2);
    die();
  }
  return NEXT(write)(file, data, size);
}

int fsync(int file) {
  if (is_file_below(file) && is_the_one()) die();
  return NEXT(fsync)(file);
}

int rename(const char* from, const char* to) {
  if (is_below(to)) {
    const int one = is_the_one();
    if (one && (shared[1] & 1)) NEXT(rename)(from, to); /* half of them die behind the rename */
    if (one) die();
  }
  return NEXT(rename)(from, to);
}

int unlink(const char* path) {
  if (is_below(path) && is_the_one()) die();
  return NEXT(unlink)(path);
}

/* As whole directories are removed: by names within an open one. */
int unlinkat(int directory, const char* path, int flags) {
  if ((path[0] == '/' ? is_below(path) : is_file_below(directory)) && is_the_one()) die();
  return NEXT(unlinkat)(directory, path, flags);
}

int mkdir(const char* path, mode_t mode) {
  if (is_below(path) && is_the_one()) die();
  return NEXT(mkdir)(path, mode);
}
