#include "nimble/locate/files_by_key.h"

#include <algorithm>
#include <utility>

#include "nimble/key/same_keys.h"

namespace nimble {

Result<FilesByKey> FilesByKey::create(
    const KeyEncoder* encoder, std::shared_ptr<const FileKeyBounds> bounds,
    std::vector<ColumnBounds> column_bounds, OpenFiles open_files) {
  const size_t count = bounds->size();
  for (const ColumnBounds& c : column_bounds) {
    if (c.column < encoder->columns().size() && c.minimum.size() == count &&
        c.maximum.size() == count) {
      continue;
    }
    return Status::invalid_argument(
        "column bounds: expected a column of the key, and two values for each "
        "file");
  }
  FilesByKey out;
  out.encoder_ = encoder;
  out.bounds_ = std::move(bounds);
  out.column_bounds_ = std::move(column_bounds);
  out.open_files_ = std::move(open_files);
  out.files_.resize(count);
  out.is_other_.resize(count);
  out.reach_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (i % kBlock == 0) out.block_reach_.push_back(i);
    out.keep_last(i, &out.block_reach_.back());
    out.reach_.push_back(i);
    if (i > 0) out.keep_last(out.reach_[i - 1], &out.reach_[i]);
  }
  return out;
}

void FilesByKey::keep_last(size_t file, size_t* last) const {
  if (compare_bytes(bounds_->upper(*last), bounds_->upper(file)) < 0) {
    *last = file;
  }
}

size_t FilesByKey::first_reaching(const Key& key) const {
  const auto it =
      std::partition_point(reach_.begin(), reach_.end(),
                           [&](size_t file) { return !reaches(file, key); });
  return static_cast<size_t>(it - reach_.begin());
}

std::optional<size_t> FilesByKey::next(size_t file, const Key& key) const {
  while (file < files_.size() &&
         compare_bytes(bounds_->lower(file), key.encoded) <= 0) {
    if (file % kBlock == 0 && !reaches(block_reach_[file / kBlock], key)) {
      file += kBlock;
      continue;
    }
    if (reaches(file, key) && can_have(file, key)) return file;
    ++file;
  }
  return std::nullopt;
}

std::optional<std::vector<size_t>> FilesByKey::between(ByteSpan first,
                                                       ByteSpan last,
                                                       size_t most) const {
  std::vector<size_t> out;
  for (size_t i = first_reaching({first, {}}); i < files_.size(); ++i) {
    const ByteSpan lower = bounds_->lower(i);
    const bool begins_with_last =
        last.size() <= lower.size() &&
        compare_bytes(lower.first(last.size()), last) == 0;
    if (compare_bytes(lower, last) > 0 && !begins_with_last) break;
    if (!reaches(i, {first, {}})) continue;
    if (out.size() == most) return std::nullopt;
    out.push_back(i);
  }
  return out;
}

bool FilesByKey::can_have(size_t file, const Key& key) const {
  for (size_t i = 0; i < column_bounds_.size(); ++i) {
    const ColumnBounds& c = column_bounds_[i];
    const std::optional<int64_t>& value = key.values[i];
    if (value && (*value < c.minimum[file] || c.maximum[file] < *value)) {
      return false;
    }
  }
  return true;
}

Result<FilesByKey::FilePtr> FilesByKey::open(size_t file, const Key& key) {
  std::vector<size_t> wanted = {file};
  for (std::optional<size_t> more = next(file + 1, key);
       more && wanted.size() < kOpenedTogether; more = next(*more + 1, key)) {
    if (files_[*more] == nullptr && !is_other_[*more]) wanted.push_back(*more);
  }
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<FilePtr> opened,
                          open_files_(wanted));
  if (opened.size() != wanted.size()) {
    return Status::invalid_argument(
        "open_files: expected " + std::to_string(wanted.size()) +
        " results, got " + std::to_string(opened.size()));
  }
  // Closing a file may run code of the caller, and that code may call this
  // object again. So the files are closed at the end.
  std::vector<FilePtr> closed;
  if (num_open_ + wanted.size() > kMostKept) {
    closed = std::exchange(files_, std::vector<FilePtr>(files_.size()));
    num_open_ = 0;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    FilePtr& kept = files_[wanted[i]];
    if (kept != nullptr) continue;  // another thread opened the file first
    if (has_same_keys(opened[i].get())) {
      kept = opened[i];
      ++num_open_;
    } else {
      is_other_[wanted[i]] = true;
    }
  }
  return files_[file];
}

bool FilesByKey::has_same_keys(const KeyedFile* file) const {
  if (file == nullptr) return false;
  const auto& a = encoder_->columns();
  const auto& b = file->encoder().columns();
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), have_same_keys);
}

}  // namespace nimble
