// VectorIndex: an open vector index of a file. Lists are read on demand,
// several in one round, and verified when they are read. Lists of a mapped file
// are verified once. Thread-safe. docs/format/vector_index.md.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/index/vector/rotation.h"
#include "nimble/index/vector/vector_layout.h"
#include "nimble/open/open_file.h"

namespace nimble {

class VectorIndex {
 public:
  // Reads the root and the directory of vector index i of the footer. Borrows
  // `file`. May block on reads.
  static Result<std::unique_ptr<const VectorIndex>> open(const OpenFile& file,
                                                         size_t i);
  // Reads the metric of vector index i only. May block on a read.
  static Result<VectorMetric> read_metric(const OpenFile& file, size_t i);

  const OpenFile& file() const { return file_; }
  const VectorRoot& root() const { return root_; }
  const ListDirectory& directory() const { return directory_; }
  const Rotation& rotation() const { return rotation_; }
  // One number per dimension, or empty.
  const std::vector<float>& center() const { return center_; }
  // The centroids of lists with rows, from their codes.
  KnownCentroids known_centroids() const;
  // The top-level column.
  int column() const { return column_; }

  uint64_t bytes_of(uint32_t list) const { return layout(list).size; }
  // The bytes of a list, and their owner if the file is not mapped.
  struct List {
    const uint8_t* data = nullptr;
    RangeCache::Bytes owner;
  };
  // Reads lists in one round. May block.
  Status read(std::span<const uint32_t> lists, std::vector<List>* out) const;
  // A place in a mapped file is a few vectors that are stored together. Returns
  // whether use_place() was not called for the place of this row.
  bool is_new_place(uint64_t row) const {
    const uint64_t place = row / rows_of_place_;
    return place / 64 < used_places_.size() &&
           (used_places_[place / 64].load(std::memory_order_relaxed) >>
                (place % 64) &
            1) == 0;
  }
  // REQUIRES: is_new_place(row) was true.
  void use_place(uint64_t row) const {
    const uint64_t place = row / rows_of_place_;
    used_places_[place / 64].fetch_or(uint64_t{1} << place % 64,
                                      std::memory_order_relaxed);
  }
  // Returns the fraction of the rows that a search must look at to find the
  // share `recall` of the `k` nearest rows. `part` is the fraction of all
  // searched rows that are in this index. Empty if the lists cannot promise
  // this recall.
  std::optional<double> rows_needed(double recall, uint64_t k,
                                    double part = 1) const;
  // Checks every list, and that each row of the file is in at most one list.
  Status verify() const;

 private:
  VectorIndex(const OpenFile& file, VectorRoot root, int column)
      : file_(file),
        root_(std::move(root)),
        rotation_(root_.padded),
        column_(column) {}

  Status check(uint32_t list, ByteSpan bytes) const;
  // Starts reading lists of a mapped file that are not verified.
  void will_need(std::span<const uint32_t> lists) const;
  ListLayout layout(uint32_t list) const {
    return {directory_.rows_of(list), root_.padded, root_.row_width};
  }

  const OpenFile& file_;
  const VectorRoot root_;
  const Rotation rotation_;
  const int column_;
  std::vector<uint8_t> directory_bytes_;
  ListDirectory directory_;
  std::vector<float> center_;
  std::vector<uint64_t> offsets_;  // of lists, in the file
  // For each list of a mapped file: whether it is verified.
  mutable std::vector<std::atomic<uint8_t>> verified_;
  uint64_t rows_of_place_ = 1;
  mutable std::vector<std::atomic<uint64_t>> used_places_;  // a bit each
};

}  // namespace nimble
