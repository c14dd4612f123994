#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "nimble/base/byte_buffer.h"
#include "nimble/io/temporary_file.h"
#include "nimble/io/writable_file.h"

namespace nimble {
namespace {

// Written in pieces of a huge page that begin at one: file systems with large
// folios then keep the file in such pages, a reader's map of it is made of
// them, and a row at random costs no walk through the page table.
constexpr size_t kPiece = size_t{2} << 20;
// The system is asked to begin writing after so many bytes, so that the disk
// works while rows are being encoded and fsync at the end finds little left.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;

class WritableLocalFile final : public WritableFile {
 public:
  WritableLocalFile(std::string path, std::string temp, int fd)
      : path_(std::move(path)), temp_(std::move(temp)), fd_(fd) {
    buffer_.reserve(kPiece);
  }
  ~WritableLocalFile() override {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temp_.c_str());
  }

  Status append(ByteSpan bytes) override {
    while (!bytes.empty()) {
      if (buffer_.size() == 0 && bytes.size() >= kPiece) {
        const size_t whole = bytes.size() / kPiece * kPiece;
        NIMBLE_RETURN_IF_ERROR(write(bytes.first(whole)));
        bytes = bytes.subspan(whole);
        continue;
      }
      const size_t n = std::min(bytes.size(), kPiece - buffer_.size());
      buffer_.put_bytes(bytes.first(n));
      bytes = bytes.subspan(n);
      if (buffer_.size() == kPiece) NIMBLE_RETURN_IF_ERROR(flush());
    }
    return Status::ok();
  }

  Status commit() override {
    NIMBLE_RETURN_IF_ERROR(flush());
    if (::fsync(fd_) != 0) return error();
    // Renamed before it is closed: an unlocked temporary file is fair game.
    if (::rename(temp_.c_str(), path_.c_str()) != 0) return error();
    ::close(fd_);  // synced: nothing is left that could fail
    fd_ = -1;
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
  struct stat st{};
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
    return Status::io_error(path, EISDIR);
  }
  NIMBLE_ASSIGN_OR_RETURN(TemporaryFile temp, create_temporary(path));
  return std::unique_ptr<WritableFile>(
      new WritableLocalFile(path, std::move(temp.path), temp.fd));
}

}  // namespace nimble
