#include "nimble/io/local_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nimble/io/local_path.h"
#include "nimble/threads/blocking.h"

namespace nimble {
namespace {

// One pread moves at most this much, whatever the platform's own limit.
constexpr uint64_t kMaxRead = uint64_t{1} << 30;

}  // namespace

Result<std::unique_ptr<LocalFile>> LocalFile::open(const std::string& path,
                                                   bool map) {
  NIMBLE_RETURN_IF_ERROR(check_path(path));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::io_error(path, errno);
  struct stat st{};
  if (::fstat(fd, &st) != 0) {
    const int error = errno;
    ::close(fd);
    return Status::io_error(path, error);
  }
  if (S_ISDIR(st.st_mode)) {
    ::close(fd);
    return Status::io_error(path, EISDIR);
  }
  std::unique_ptr<LocalFile> file(
      new LocalFile(path, fd, static_cast<uint64_t>(st.st_size)));
  if (map && file->size_ > 0) {
    void* p = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) {
      file->map_ = static_cast<const uint8_t*>(p);
      // The mapping outlives the descriptor. Close it: descriptors are scarce.
      ::close(std::exchange(file->fd_, -1));
    }
  }
  return file;
}

LocalFile::~LocalFile() {
  if (map_ != nullptr) ::munmap(const_cast<uint8_t*>(map_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void LocalFile::will_need(uint64_t offset, uint64_t size) const {
  if (map_ == nullptr || !in_bounds(offset, size, size_)) return;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t before = offset % page;
  // If this fails, the bytes are read when they are accessed.
  (void)::madvise(const_cast<uint8_t*>(map_) + offset - before, size + before,
                  MADV_WILLNEED);
}

Status LocalFile::read_at(const ReadRequest& r) const {
  if (map_ == nullptr) assert_may_wait();
  if (!in_bounds(r.offset, r.size, size_)) {
    return Status::corrupt(path_ + ": wanted " + std::to_string(r.size) +
                           " bytes at offset " + std::to_string(r.offset) +
                           " of a file of " + std::to_string(size_));
  }
  if (map_ != nullptr) {
    if (r.size > 0) std::memcpy(r.out, map_ + r.offset, r.size);
    return Status::ok();
  }
  for (uint64_t done = 0; done < r.size;) {
    const ssize_t n =
        ::pread(fd_, r.out + done, std::min(r.size - done, kMaxRead),
                static_cast<off_t>(r.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::io_error(path_, errno);
    if (n == 0) {
      return Status::corrupt(path_ + ": ended at byte " +
                             std::to_string(r.offset + done) +
                             " while being read; it had " +
                             std::to_string(size_) + " when opened");
    }
    done += static_cast<uint64_t>(n);
  }
  return Status::ok();
}

}  // namespace nimble
