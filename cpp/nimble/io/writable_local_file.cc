#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "nimble/io/local_path.h"
#include "nimble/io/owner_process.h"
#include "nimble/io/temporary_file.h"
#include "nimble/io/writable_file.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {
namespace {

// Writes are aligned pieces of the size of a huge page. File systems with large
// folios then cache the file in huge pages, and random reads of a mapped file
// need fewer page table lookups.
constexpr size_t kPiece = size_t{2} << 20;
// Writeback starts after this many new bytes, so that the disk works while rows
// are encoded, and the final fsync has little to write.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;
// One write moves at most this much: macOS refuses more than 2 GiB.
constexpr size_t kMaxWrite = size_t{1} << 30;

// The status of the file to replace, if it exists.
Result<std::optional<struct stat>> replaced_file(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) {
    if (errno != ENOENT) return Status::io_error(path, errno);
    return std::optional<struct stat>();
  }
  if (S_ISDIR(st.st_mode)) return Status::io_error(path, EISDIR);
  if (!S_ISREG(st.st_mode)) {
    return Status::invalid_argument(
        path +
        " is a device, a pipe or a socket: only a regular file can be "
        "replaced");
  }
  return std::optional(st);
}

// Gives the file `fd` the mode of `old`, and its owner and group if the system
// permits.
bool take_attributes(const struct stat& old, int fd) {
  struct stat own{};
  if (::fstat(fd, &own) != 0) return false;
  mode_t mode = old.st_mode & 07777;
  if ((own.st_uid != old.st_uid || own.st_gid != old.st_gid) &&
      ::fchown(fd, old.st_uid, old.st_gid) != 0) {
    mode &= 01777;  // no setuid or setgid for another owner
    // If the group cannot be kept, the new group gets the rights of others.
    if (::fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0) {
      mode = (mode & ~mode_t{070}) | (mode & 07) << 3;
    }
  }
  return (own.st_mode & 07777) == mode || ::fchmod(fd, mode) == 0;
}

class WritableLocalFile final : public WritableFile {
 public:
  // `path` has no symbolic links.
  WritableLocalFile(std::string path, TemporaryFile temp)
      : path_(std::move(path)), temp_(std::move(temp.path)), fd_(temp.fd) {
    buffer_.reserve(kPiece);
  }
  ~WritableLocalFile() override {
    if (fd_ < 0) return;
    // Remove the file while it is locked. After the lock is released, another
    // writer may already use the name.
    if (owner_.is_this()) ::unlink(temp_.c_str());
    ::close(fd_);
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

  Status sync() override {
    NIMBLE_RETURN_IF_ERROR(flush());
    // Check again, because the old file may have been replaced since this file
    // was begun.
    NIMBLE_ASSIGN_OR_RETURN(const auto old, replaced_file(path_));
    if (old && !take_attributes(*old, fd_)) return error();
    if (::fsync(fd_) != 0) return error();
    synced_ = true;
    return Status::ok();
  }

  Status commit() override {
    if (!synced_) NIMBLE_RETURN_IF_ERROR(sync());
    NIMBLE_RETURN_IF_ERROR(owner_.check());
    // Opened before the rename, so that only the sync can fail after it.
    const int folder =
        ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A folder that may be written but not read cannot be synced.
    if (folder < 0 && errno != EACCES) return error();
    // Rename before closing: closing unlocks the file, and another writer could
    // remove it.
    Status status = ::rename(temp_.c_str(), path_.c_str()) == 0
                        ? sync_and_close(folder)
                        : error();
    if (folder >= 0) ::close(folder);
    return status;
  }

 private:
  Status error() const { return Status::io_error(path_, errno); }

  Status write(ByteSpan bytes) {
    NIMBLE_RETURN_IF_ERROR(owner_.check());
    while (!bytes.empty()) {
      const ssize_t n =
          ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error();
      bytes = bytes.subspan(static_cast<size_t>(n));
      written_ += static_cast<uint64_t>(n);
    }
    start_writeback();
    return Status::ok();
  }
  // Only a hint: if the system refuses it, fsync writes everything.
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
  // The rename itself must survive a crash. If the file system cannot sync
  // directories, that is not an error: there is no other way to do it.
  Status sync_and_close(int folder) {
    ::close(fd_);  // synced: nothing is left that could fail
    fd_ = -1;
    if (folder < 0 || ::fsync(folder) == 0) return Status::ok();
    if (errno == EINVAL || errno == ENOTSUP) return Status::ok();
    const int why = errno;
    return Status::io_error(
        path_ +
            " (the new file is in place, but its directory could not be "
            "synced: after a power loss the old one may be back)",
        why);
  }

  const OwnerProcess owner_;
  std::string path_;
  std::string temp_;
  int fd_;
  bool synced_ = false;
  uint64_t written_ = 0;
  uint64_t started_ = 0;  // number of bytes for which writeback was requested
  ByteBuffer buffer_;
};

}  // namespace

Result<std::unique_ptr<WritableFile>> create_local_file(
    const std::string& path) {
  NIMBLE_RETURN_IF_ERROR(check_path(path));
  NIMBLE_ASSIGN_OR_RETURN(std::string target, follow_links(path));
  NIMBLE_ASSIGN_OR_RETURN(const auto old, replaced_file(target));
  // If the replaced file is private, the new file is private from the first
  // byte on.
  NIMBLE_ASSIGN_OR_RETURN(TemporaryFile temp,
                          create_temporary(target, old ? 0600 : 0666));
  const int fd = temp.fd;
  auto file = std::make_unique<WritableLocalFile>(target, std::move(temp));
  if (old && !take_attributes(*old, fd)) return Status::io_error(target, errno);
  return std::unique_ptr<WritableFile>(std::move(file));
}

}  // namespace nimble
