// Preloaded: counts the calls that change a disk, and dies, fails or falls short at one of them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OFF, DIE_BEFORE, DIE_AFTER, FAIL, SHORT };

static int mode = OFF;
static long at = 0, seen = 0;
static int error_number = 0;
static char wanted[16] = "";  // only calls of this name; empty: all

// Called by the driver: what happens at the n-th call from now on (from 1).
void faults_arm(int new_mode, long n, int number, const char* name) {
  mode = new_mode;
  at = n;
  seen = 0;
  error_number = number;
  strncpy(wanted, name, sizeof wanted - 1);
}
long faults_seen(void) { return seen; }

// 1: the call is to fail. 2: it is to write less.
static int arrive(const char* name) {
  if (mode == OFF || (*wanted != '\0' && strcmp(wanted, name) != 0)) return 0;
  if (++seen != at) return 0;
  if (mode == DIE_BEFORE) kill(getpid(), SIGKILL);
  return mode == FAIL ? 1 : mode == SHORT ? 2 : 0;
}
static void leave(const char* name) {
  if (mode != DIE_AFTER || (*wanted != '\0' && strcmp(wanted, name) != 0)) return;
  if (seen == at) kill(getpid(), SIGKILL);
}

#define REAL(type, name, ...)                                       \
  static type (*real)(__VA_ARGS__) = NULL;                          \
  if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
#define GUARDED(name, call)                                         \
  if (arrive(#name) == 1) {                                         \
    errno = error_number;                                           \
    return -1;                                                      \
  }                                                                 \
  const int result = (call);                                        \
  leave(#name);                                                     \
  return result

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, write, int, const void*, size_t);
  if (fd <= 2) return real(fd, data, size);
  const int fault = arrive("write");
  if (fault == 1) {
    errno = error_number;
    return -1;
  }
  const ssize_t n = real(fd, data, fault == 2 && size > 1 ? size / 2 : size);
  leave("write");
  return n;
}
int fsync(int fd) {
  REAL(int, fsync, int);
  GUARDED(fsync, real(fd));
}
int rename(const char* from, const char* to) {
  REAL(int, rename, const char*, const char*);
  GUARDED(rename, real(from, to));
}
int unlink(const char* path) {
  REAL(int, unlink, const char*);
  GUARDED(unlink, real(path));
}
int close(int fd) {
  REAL(int, close, int);
  GUARDED(close, real(fd));
}
int open(const char* path, int flags, ...) {
  REAL(int, open, const char*, int, ...);
  va_list more;
  va_start(more, flags);
  const mode_t permission = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) == 0) return real(path, flags);
  GUARDED(open, real(path, flags, permission));
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
