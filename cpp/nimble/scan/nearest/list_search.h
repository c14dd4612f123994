// ListSearch: searches the lists of vector indexes for the nearest rows of
// queries, one query after the other. Reuses its memory for the next query. Not
// thread-safe.
//
// Lists of all files are searched together, in the order of their centroids'
// distances. The distances of rows are estimated from codes. The rows that may
// be nearest are compared with the vectors of the column.
// docs/format/vector_index.md.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/index/vector/vector_codes.h"
#include "nimble/scan/nearest/exact_distance.h"
#include "nimble/scan/nearest/nearest_rows.h"
#include "nimble/scan/nearest/vector_rows.h"

namespace nimble {

class ListSearch {
 public:
  // Searches the parts for which `by_lists` is set. Borrows its arguments.
  ListSearch(std::span<const SearchPart> parts,
             std::span<const uint8_t> by_lists, const NearestOptions& options);

  // Whether floats can hold the distances of a query.
  static bool can_answer(VectorMetric metric, std::span<const double> query);
  // Adds the rows that are nearest to the query, of all parts that have lists.
  // May block on reads.
  // REQUIRES: can_answer(query).
  Status run(const double* query, NearestRows* out, NearestStats* stats);

 private:
  // A query, prepared for the parts whose indexes have the same center.
  struct Prepared {
    const VectorIndex* index = nullptr;  // the first one with this center
    std::vector<float> rotated;
    QueryCode code;
    float half_sum = 0;
    float base = 0;     // added to all distances
    float nearest = 0;  // distance of the nearest centroid
  };
  struct Candidate {
    float key;
    uint32_t part;
    uint64_t row;
    bool operator<(const Candidate& o) const { return key < o.key; }
  };
  struct Probe {
    uint32_t part;
    uint32_t list;
  };
  using Candidates = std::span<const Candidate>;

  bool is_dot() const { return options_.metric == VectorMetric::kDot; }
  Prepared& prepared(uint32_t part) { return prepared_[prepared_of_[part]]; }
  void prepare(const double* query, Prepared* out) const;
  void choose_lists();
  void sort_probes(size_t begin, size_t end);
  Status probe_lists();
  double rows_wanted(uint64_t k) const;
  uint64_t nearer_rejected();
  bool has_found_many() const;
  bool may_be_nearer(size_t at);
  float centroid_error(const Probe& probe, float distance);
  void score(const Probe& probe, float centroid_distance, const uint8_t* list);
  static uint32_t allowed_in(const SearchPart& part, const uint8_t* rows,
                             uint64_t slot, uint64_t count,
                             const VectorRoot& root);
  void add_scales(const uint8_t* scales, uint32_t rows);
  void keep_nearest();
  // Lowers limit_ with the greatest distance that a row is assumed to have.
  void add_upper_bound(float bound);
  Status refine(const double* query, NearestRows* out);
  Status prepare_vectors(Candidates candidates, const double* query);
  // Compares candidates that may be among the nearest with their vectors.
  Status compare(Candidates candidates, NearestRows* out);
  void compare(const Candidate& candidate, const uint8_t* values,
               NearestRows* out);
  void open_vectors(uint32_t p, const double* query);
  // Converts keys to distances. For cosine, keys are squared distances of
  // vectors of length 1. Such a distance is 2 * (1 - cosine).
  double key_scale() const {
    return options_.metric == VectorMetric::kCosine ? 0.5 : 1;
  }

  std::span<const SearchPart> parts_;
  const std::span<const uint8_t> by_lists_;
  const NearestOptions& options_;
  // Number of candidates that are read in the first round, and in all rounds.
  const size_t first_candidates_;
  const size_t limit_candidates_;
  std::vector<Prepared> prepared_;
  std::vector<uint32_t> prepared_of_;  // by part

  NearestStats* stats_ = nullptr;
  // All lists of the parts that are searched by lists.
  std::vector<Probe> all_lists_;
  // Lists by the approximate distance of their centroids. Each number is the
  // distance, in a form that orders as an integer, and an index of all_lists_.
  std::vector<uint64_t> probes_;
  size_t sorted_ = 0;   // probes in order
  double wanted_ = 0;   // allowed rows to look at
  double rows_ = 0;     // in lists
  double allowed_ = 0;  // of these, about
  double selectivity_ = 1;
  bool is_filtered_ = false;
  bool grows_ = false;        // while the last rows had some of the nearest
  double seen_ = 0;           // allowed rows
  double scale_squares_ = 0;  // of the seen rows, if there is a filter
  std::vector<std::vector<uint32_t>> lists_;           // by part
  std::vector<std::vector<VectorIndex::List>> bytes_;  // by part
  std::vector<size_t> next_;                           // by part
  std::vector<uint32_t> sums_, more_sums_;
  std::vector<float> centroid_;
  std::vector<Candidate> candidates_;
  // The least k upper bounds of distances so far, as a heap.
  std::vector<float> upper_bounds_;
  size_t found_ = 0;  // bounds added in this round
  // Upper bounds of rows that a filter excludes.
  std::vector<float> rejected_;
  float limit_ = 0;  // candidates with a greater key are not among the nearest
  std::vector<std::vector<uint64_t>> rows_of_;        // by part
  std::vector<std::unique_ptr<VectorRows>> vectors_;  // by part
  // Indexed by VectorElement. Elements that are set have the current query.
  std::array<std::optional<ExactDistance>, 6> distances_;
};

}  // namespace nimble
