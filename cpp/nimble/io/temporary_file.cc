#include "nimble/io/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace nimble {
namespace {

// Maximum number of temporary files per path: of concurrent writers, and of
// dead writers whose files cannot be removed.
constexpr int kMostNames = 1000;

std::string name_of(const std::string& target, int n) {
  const size_t slash = target.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return target.substr(0, name) + "." + target.substr(name) + "." +
         std::to_string(n) + ".nimble-tmp";
}

// The new file, or minus the error.
int create(const std::string& path, unsigned mode) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  return fd < 0 ? -errno : fd;
}

// Whether `path` still names the file that `fd` is open on.
bool is_named(int fd, const std::string& path) {
  struct stat held{};
  struct stat named{};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// Removes the temporary file of a dead writer. Holds the lock of the file, so
// that the file of a running writer is never removed.
bool remove_remains(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT;
  bool removed = false;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, path)) {
    removed = ::unlink(path.c_str()) == 0;
  }
  ::close(fd);
  return removed;
}

}  // namespace

Result<TemporaryFile> create_temporary(const std::string& target,
                                       unsigned mode) {
  for (int n = 0; n < kMostNames; ++n) {
    const std::string path = name_of(target, n);
    int fd = create(path, mode);
    if (fd == -EEXIST && remove_remains(path)) fd = create(path, mode);
    if (fd == -EEXIST) continue;
    if (fd < 0) return Status::io_error(target, -fd);
    // If the file system does not support locks, files of dead writers are not
    // removed either.
    int locked = 0;
    do {
      locked = ::flock(fd, LOCK_EX);
    } while (locked != 0 && errno == EINTR);
    if (locked == 0 && !is_named(fd, path)) {
      ::close(fd);  // another writer removed it before the lock
      continue;
    }
    const std::string next = name_of(target, n + 1);
    if (::access(next.c_str(), F_OK) == 0) (void)remove_remains(next);
    return TemporaryFile{path, fd};
  }
  return Status::io_error(target, EEXIST);
}

}  // namespace nimble
