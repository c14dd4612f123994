// FilesByKey: finds the files that may contain a key, among many files with the
// same cluster key. Opens files when they are first needed, and keeps some of
// them open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/key/key_encoder.h"

namespace nimble {

// Lower and upper bounds for the encoded keys of each file.
class FileKeyBounds {
 public:
  virtual ~FileKeyBounds() = default;
  virtual size_t size() const = 0;  // number of files
  virtual ByteSpan lower(size_t file) const = 0;
  virtual ByteSpan upper(size_t file) const = 0;
};

// The minimum and maximum of one key column in each file, as stored integers.
// Borrows the values.
struct ColumnBounds {
  size_t column = 0;  // of the key
  std::span<const int64_t> minimum, maximum;
};

// An open file that can be searched.
class KeyedFile {
 public:
  virtual ~KeyedFile() = default;
  virtual const KeyEncoder& encoder() const = 0;
};

// Not thread-safe: the caller serializes all calls. While `open_files` runs, it
// may let other threads call this object, and may call it itself.
class FilesByKey {
 public:
  using FilePtr = std::shared_ptr<const KeyedFile>;
  // Opens files, which are given by number. Returns null for a file that this
  // object cannot search. May block.
  using OpenFiles = std::function<Result<std::vector<FilePtr>>(
      std::span<const size_t> files)>;

  struct Key {
    ByteSpan encoded;
    // For each of the column bounds: the key's value, if it is an integer.
    std::vector<std::optional<int64_t>> values;
  };

  // Fails if column bounds do not have one pair of values for each file.
  // REQUIRES: files are sorted by their lower bounds. Borrows `encoder`.
  static Result<FilesByKey> create(const KeyEncoder* encoder,
                                   std::shared_ptr<const FileKeyBounds> bounds,
                                   std::vector<ColumnBounds> column_bounds,
                                   OpenFiles open_files);

  const std::vector<ColumnBounds>& column_bounds() const {
    return column_bounds_;
  }
  // Calls search(file) for each file that may contain the key, in order, until
  // search() returns true. Returns false if a file cannot be searched, else
  // true.
  template <class Search>
  Result<bool> search(const Key& key, Search&& search) {
    for (std::optional<size_t> at = next(first_reaching(key), key); at;
         at = next(*at + 1, key)) {
      NIMBLE_ASSIGN_OR_RETURN(const FilePtr file, get(*at, key));
      if (file == nullptr) return false;
      if (search(*file)) break;
    }
    return true;
  }
  // Returns the files that may contain keys from `first` to `last`, or keys
  // that begin with `last`, in ascending order. Returns nullopt if there are
  // more than `most` files.
  std::optional<std::vector<size_t>> between(ByteSpan first, ByteSpan last,
                                             size_t most) const;
  // Returns a file, or null if it cannot be searched.
  Result<FilePtr> file(size_t number) { return get(number, Key{}); }
  const FileKeyBounds& bounds() const { return *bounds_; }

 private:
  // Maximum number of files that are kept open.
  static constexpr size_t kMostKept = 256;
  // Number of files that are opened together, before the first is searched.
  static constexpr size_t kOpenedTogether = 16;
  // Number of files that are skipped together if their upper bounds are all
  // below the key.
  static constexpr size_t kBlock = 64;

  FilesByKey() = default;
  // Sets *last to `file` if `file` has the larger upper bound.
  void keep_last(size_t file, size_t* last) const;
  bool reaches(size_t file, const Key& key) const {
    return compare_bytes(bounds_->upper(file), key.encoded) >= 0;
  }
  // Returns the first file such that the upper bound of the file, or of a file
  // before it, is not below this key.
  size_t first_reaching(const Key& key) const;
  // Returns the first file, from `file` on, that may contain the key.
  std::optional<size_t> next(size_t file, const Key& key) const;
  bool can_have(size_t file, const Key& key) const;
  // Returns the file, or null if it cannot be searched.
  Result<FilePtr> get(size_t file, const Key& key) {
    if (files_[file] != nullptr || is_other_[file]) return files_[file];
    return open(file, key);
  }
  // Opens the file, and a few files that would be searched next.
  Result<FilePtr> open(size_t file, const Key& key);
  // Whether `file` is not null and encodes keys like this object.
  bool has_same_keys(const KeyedFile* file) const;

  const KeyEncoder* encoder_ = nullptr;
  std::shared_ptr<const FileKeyBounds> bounds_;
  std::vector<ColumnBounds> column_bounds_;
  OpenFiles open_files_;
  // For each file: the file with the largest upper bound among all files up to
  // and including it. For each block: the file with the largest upper bound in
  // the block.
  std::vector<size_t> reach_, block_reach_;
  std::vector<FilePtr> files_;  // null: not open
  size_t num_open_ = 0;
  std::vector<bool> is_other_;  // files that cannot be searched
};

}  // namespace nimble
