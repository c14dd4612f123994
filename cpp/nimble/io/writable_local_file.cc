#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "nimble/base/byte_buffer.h"
#include "nimble/io/writable_file.h"

namespace nimble {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
// The system is asked to begin writing after so many bytes, so that the disk
// works while rows are being encoded and fsync at the end finds little left.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;

class WritableLocalFile final : public WritableFile {
 public:
  WritableLocalFile(std::string path, std::string temp, int fd)
      : path_(std::move(path)), temp_(std::move(temp)), fd_(fd) {
    buffer_.reserve(kBufferBytes);
  }
  ~WritableLocalFile() override {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temp_.c_str());
  }

  Status append(ByteSpan bytes) override {
    if (buffer_.size() + bytes.size() <= kBufferBytes) {
      buffer_.put_bytes(bytes);
      return Status::ok();
    }
    NIMBLE_RETURN_IF_ERROR(flush());
    return bytes.size() >= kBufferBytes ? write(bytes)
                                        : (buffer_.put_bytes(bytes), Status());
  }

  Status commit() override {
    NIMBLE_RETURN_IF_ERROR(flush());
    if (::fsync(fd_) != 0) return error();
    if (::close(fd_) != 0) {
      fd_ = -1;
      const Status status = error();
      ::unlink(temp_.c_str());
      return Status::io_error(path_, status.os_error());
    }
    fd_ = -1;
    if (::rename(temp_.c_str(), path_.c_str()) != 0) {
      Status status = error();
      ::unlink(temp_.c_str());
      return status;
    }
    return sync_directory();
  }

 private:
  Status error() const { return Status::io_error(path_, errno); }

  Status write(ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error();
      bytes = bytes.subspan(static_cast<size_t>(n));
      written_ += static_cast<uint64_t>(n);
    }
    start_writeback();
    return Status::ok();
  }
  // A hint: where it is refused, fsync does all of it.
  void start_writeback() {
#ifdef SYNC_FILE_RANGE_WRITE
    if (written_ - started_ < kWritebackBytes) return;
    (void)::sync_file_range(fd_, static_cast<off_t>(started_),
                            static_cast<off_t>(written_ - started_),
                            SYNC_FILE_RANGE_WRITE);
    started_ = written_;
#endif
  }
  Status flush() {
    Status status = write(buffer_.span());
    buffer_.clear();
    return status;
  }
  // The rename itself must survive a crash. File systems that cannot sync a
  // directory have nothing better to offer, so their refusal is no failure.
  Status sync_directory() const {
    const size_t slash = path_.rfind('/');
    const std::string dir = slash == std::string::npos ? "."
                            : slash == 0               ? "/"
                                                       : path_.substr(0, slash);
    const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return Status::ok();
    const int failed = ::fsync(fd);
    const int why = errno;
    ::close(fd);
    if (failed != 0 && why == EIO) return Status::io_error(path_, why);
    return Status::ok();
  }

  std::string path_;
  std::string temp_;
  int fd_;
  uint64_t written_ = 0;
  uint64_t started_ = 0;  // bytes whose writing the system was asked to begin
  ByteBuffer buffer_;
};

}  // namespace

Result<std::unique_ptr<WritableFile>> create_local_file(
    const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
    return Status::io_error(path, EISDIR);
  }
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::string temp = path.substr(0, name) + "." + path.substr(name) + "." +
                           std::to_string(::getpid()) + "-" +
                           std::to_string(counter.fetch_add(1)) + ".nimble-tmp";
  const int fd = ::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                        0666);
  if (fd < 0) return Status::io_error(path, errno);
  return std::unique_ptr<WritableFile>(new WritableLocalFile(path, temp, fd));
}

}  // namespace nimble
