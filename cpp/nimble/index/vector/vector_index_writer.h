// VectorIndexWriter: builds a vector index. The bytes depend on the rows and
// the options only, not on the number of threads. Not thread-safe.
//
//   add* finish
//
// docs/format/vector_index.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/index/section_sink.h"
#include "nimble/index/vector/clusters.h"
#include "nimble/index/vector/rotation.h"
#include "nimble/index/vector/vector_store.h"

namespace nimble {

struct VectorIndexOptions {
  VectorMetric metric = VectorMetric::kL2;
  uint32_t lists = 0;  // 0: chosen from the number of rows
  // Queries to calibrate on, all in one vector. Empty: a sample of the rows.
  std::vector<float> queries;
  // Of indexes that have many of the rows. Training starts from them, so it
  // takes fewer rounds.
  KnownCentroids known;
  uint64_t memory_bytes = uint64_t{256} << 20;
  std::string spill_directory;
  uint32_t threads = 1;
  std::function<Status()> poll;
};

class VectorIndexWriter {
 public:
  // Fails if the options do not fit the type.
  static Result<std::unique_ptr<VectorIndexWriter>> create(
      const VectorType& type, VectorIndexOptions options);

  // Adds the file's next row. `row` is null for a row without a vector.
  Status add(const uint8_t* row) { return store_.add(row); }
  // Writes all parts except the root, which is returned.
  Result<std::vector<uint8_t>> finish(const SectionSink& sink);
  // Number of rows that are in lists. If the index does not have lists, the
  // number of rows that would be in them.
  uint64_t num_rows() const { return store_.size(); }
  // Number of pairs of vectors and centroids that training compared.
  uint64_t pairs_trained() const { return pairs_trained_; }

 private:
  class Truth;

  VectorIndexWriter(const VectorType& type, VectorIndexOptions options)
      : options_(std::move(options)),
        store_(options_.metric, type, options_.memory_bytes / 2,
               options_.spill_directory),
        rotation_(
            static_cast<uint32_t>(round_up(type.dimensions, kVectorPadding))) {}

  uint32_t padded() const { return rotation_.padded(); }
  // Sets the center, if it is far from the origin. Returns whether the rows
  // differ enough to be compared as floats.
  Result<bool> find_center();
  // Reads stored rows and rotates them. Before that, subtracts the center and,
  // under cosine, scales rows to length 1.
  Status read_rotated(uint64_t first, uint64_t count,
                      std::vector<float>* out) const;
  // Returns queries. If they are stored rows, stores their numbers, ascending.
  Result<std::vector<float>> calibration_queries(
      std::vector<uint64_t>* rows) const;
  // Trains centroids on a sample of the stored rows except `left_out`.
  Result<std::vector<float>> train(uint32_t num_lists,
                                   const std::vector<uint64_t>& left_out);
  // Returns at most `most` centroids that represent all known centroids.
  Result<std::vector<float>> known_centroids(uint32_t most);
  Result<std::vector<float>> cluster(const std::vector<float>& vectors,
                                     const ClusterOptions& options);
  // Finds each row's list, and the exact nearest rows of the queries.
  Status assign(const std::vector<float>& centroids, Truth* truth,
                std::vector<uint32_t>* list_of) const;
  // Returns the keys of a sample of rows for each query, ascending.
  Result<std::vector<std::vector<float>>> sample_keys(
      const Truth& truth, const std::vector<float>& centroids,
      const std::vector<uint32_t>& list_of) const;
  // Returns the part of the `k` nearest rows of the queries that a search finds
  // if it looks at their lists. It misses rows with bad estimates, and those
  // that have more candidates before them than are compared.
  Result<double> part_found(
      const Truth& truth, uint32_t k, const std::vector<float>& centroids,
      const std::vector<uint32_t>& list_of,
      const std::vector<std::vector<float>>& sampled) const;
  Status write_lists(const std::vector<float>& centroids,
                     const std::vector<uint32_t>& list_of,
                     const SectionSink& sink, VectorRoot* root) const;
  Status poll() const { return options_.poll ? options_.poll() : Status(); }

  const VectorIndexOptions options_;
  VectorStore store_;
  const Rotation rotation_;
  std::vector<float> center_;  // empty, or one number per dimension
  uint64_t pairs_trained_ = 0;
};

}  // namespace nimble
