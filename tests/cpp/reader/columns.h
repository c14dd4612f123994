// Columns and whole files of random rows, and their rows as text.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "nimble/io/memory_file.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/write/file_writer.h"
#include "testing/check.h"
#include "types/random_array.h"

namespace nimble::testing {

using Texts = std::vector<std::string>;

// A column exported to Arrow.
class Exported {
 public:
  explicit Exported(Column&& column);
  ~Exported() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  const ArrayView& view() const { return view_; }

 private:
  ArrowArray array_{};
  Field field_;
  ArrayView view_;
};

// The rows of a column, which is moved out.
Texts texts_of(Column&& column);

// What a writer commits, in memory.
using Bytes = std::shared_ptr<std::vector<uint8_t>>;
class MemoryTarget final : public WritableFile {
 public:
  explicit MemoryTarget(Bytes out) : out_(std::move(out)) {}
  Status append(ByteSpan bytes) override {
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    return Status::ok();
  }
  Status commit() override {
    *out_ = std::move(pending_);
    return Status::ok();
  }

 private:
  Bytes out_;
  std::vector<uint8_t> pending_;
};

// A file that is not mapped, and counts its reads.
class CountingFile final : public ReadableFile {
 public:
  explicit CountingFile(Bytes bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  Status read_at(const ReadRequest& r) const override {
    ++reads;
    read_bytes += r.size;
    return MemoryFile(*bytes_, bytes_).read_at(r);
  }
  Status read_many(std::span<const ReadRequest> requests) const override {
    ++rounds;
    return ReadableFile::read_many(requests);
  }
  const std::string& name() const override { return name_; }
  uint64_t coalesce_gap() const override { return gap; }

  mutable std::atomic<uint64_t> reads{0}, read_bytes{0}, rounds{0};
  uint64_t gap = 64;

 private:
  Bytes bytes_;
  std::string name_ = "<counting>";
};

using Reader = std::shared_ptr<const FileReader>;

inline Reader open_file(std::shared_ptr<const ReadableFile> file,
                        ReaderOptions options = {}) {
  auto reader = FileReader::open(std::move(file), options);
  if (!reader) fail(__FILE__, __LINE__, std::string(reader.error().message()));
  REQUIRE(reader.has_value());
  return *reader;
}
inline Reader open_mapped(const Bytes& bytes, ReaderOptions options = {}) {
  return open_file(std::make_shared<MemoryFile>(*bytes, bytes), options);
}

// Writes the rows of `root` in pieces, with keys if options.cluster_by is set.
Bytes write_file(const ArrayView& root, const WriterOptions& options);
// Reads rows of ranges, or in any order, with all columns.
Texts read_texts(const Reader& file, std::vector<RowRange> ranges,
                 uint32_t threads = 1);
Texts take_texts(const Reader& file, const std::vector<uint64_t>& rows);

}  // namespace nimble::testing
