// What the file targets share: the input as a file, and its rows.
#pragma once

#include <optional>

#include "fuzz/target.h"
#include "nimble/io/memory_file.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"

namespace nimble::fuzz {

using Reader = std::shared_ptr<const FileReader>;

// Rows of a file that may claim any number of them.
inline constexpr uint64_t kMostFileRows = 300;

// The input as a file that is read in pieces.
class UnmappedFile final : public ReadableFile {
 public:
  explicit UnmappedFile(ByteSpan bytes) : file_(bytes, nullptr) {}
  uint64_t size() const override { return file_.size(); }
  Status read_at(const ReadRequest& r) const override {
    return file_.read_at(r);
  }
  const std::string& name() const override { return file_.name(); }
  uint64_t coalesce_gap() const override { return 64; }

 private:
  MemoryFile file_;
};

// Null where the file is refused.
inline Reader open_input(ByteSpan input, bool mapped) {
  std::shared_ptr<const ReadableFile> source;
  if (mapped) {
    source = std::make_shared<MemoryFile>(input, nullptr);
  } else {
    source = std::make_shared<UnmappedFile>(input);
  }
  auto opened = FileReader::open(std::move(source), {});
  return opened ? *opened : nullptr;
}

// Rows that were read, handed to Arrow and walked there; nothing if refused.
class ArrowRows {
 public:
  static std::optional<ArrowRows> make(const RowReader& rows, Column&& column);
  ArrowRows(ArrowRows&& o) noexcept
      : array_(o.array_), view_(std::move(o.view_)) {
    o.array_.release = nullptr;
  }
  ArrowRows& operator=(ArrowRows&&) = delete;
  ~ArrowRows() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  const ArrayView& view() const { return view_; }
  // XXH3 of every value of every row, in order.
  uint64_t digest() const;

 private:
  ArrowRows() = default;
  ArrowArray array_{};
  ArrayView view_;
};

}  // namespace nimble::fuzz
