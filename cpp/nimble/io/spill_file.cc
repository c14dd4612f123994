#include "nimble/io/spill_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace nimble {
namespace {

// One call moves at most this much, whatever the platform's own limit.
constexpr uint64_t kMaxCall = uint64_t{1} << 30;

}  // namespace

Result<std::unique_ptr<SpillFile>> SpillFile::create(std::string directory) {
  if (directory.empty()) {
    const char* named = std::getenv("TMPDIR");
    directory = named != nullptr && *named != '\0' ? named : "/tmp";
  }
#ifdef O_TMPFILE
  int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#else
  int fd = -1;
#endif
  if (fd < 0) {  // not supported by the file system: create and unlink
    std::string path = directory + "/.nimble-spill-XXXXXX.nimble-tmp";
    fd = ::mkostemps(path.data(), sizeof(".nimble-tmp") - 1, O_CLOEXEC);
    if (fd < 0) return Status::io_error(directory, errno);
    ::unlink(path.c_str());
  }
  return std::unique_ptr<SpillFile>(new SpillFile(std::move(directory), fd));
}

SpillFile::~SpillFile() { ::close(fd_); }

Status SpillFile::append(ByteSpan bytes) {
  NIMBLE_RETURN_IF_ERROR(owner_.check());
  while (!bytes.empty()) {
    const ssize_t n =
        ::pwrite(fd_, bytes.data(), std::min<uint64_t>(bytes.size(), kMaxCall),
                 static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::io_error(directory_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += static_cast<uint64_t>(n);
  }
  return Status::ok();
}

Status SpillFile::read_at(uint64_t offset, uint8_t* out, uint64_t size) const {
  while (size > 0) {
    const ssize_t n =
        ::pread(fd_, out, std::min(size, kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::io_error(directory_, errno);
    if (n == 0) return Status::io_error(directory_, EIO);
    offset += static_cast<uint64_t>(n);
    out += n;
    size -= static_cast<uint64_t>(n);
  }
  return Status::ok();
}

}  // namespace nimble
