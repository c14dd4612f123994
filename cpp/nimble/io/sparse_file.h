// SparseFile: a file with only some byte ranges in memory, for example the
// ranges from a server. Readers use it like a mapped file. Bytes that are
// not filled in read as zeros, so the checksums of the file detect a read that
// needs them. Thread-safe: a filled byte does not change.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nimble/io/readable_file.h"

namespace nimble {

// A part of a file.
struct FilePart {
  uint64_t offset = 0;
  uint64_t size = 0;
};

class SparseFile final : public ReadableFile {
 public:
  // Reserves address space for the whole file; memory is used for filled pages.
  // Fails with kIoError if there is not enough address space.
  static Result<std::shared_ptr<SparseFile>> create(uint64_t size,
                                                    std::string name);
  ~SparseFile() override;
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  uint64_t size() const override { return size_; }
  Status read_at(const ReadRequest& r) const override;
  const uint8_t* mapped() const override { return bytes_; }
  const std::string& name() const override { return name_; }

  // Fills in parts, whose bytes follow each other in `bytes`. Bytes that are
  // filled already keep their values. Fails if a part is outside of the file or
  // `bytes` has another size.
  Status fill(std::span<const FilePart> parts, ByteSpan bytes);
  // Returns the parts that are not filled completely.
  std::vector<FilePart> missing(std::span<const FilePart> parts) const;
  uint64_t filled_bytes() const;

 private:
  SparseFile(uint64_t size, uint8_t* bytes, std::string name)
      : size_(size), bytes_(bytes), name_(std::move(name)) {}
  bool is_filled(const FilePart& part) const;  // REQUIRES: mutex_ is held
  void fill_one(const FilePart& part, const uint8_t* from);

  const uint64_t size_;
  uint8_t* const bytes_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> filled_;  // begin -> end; disjoint, not adjacent
  uint64_t filled_bytes_ = 0;
};

}  // namespace nimble
