#include "nimble/scan/nearest/nearest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "nimble/base/compiler.h"
#include "nimble/index/vector/code_sums.h"
#include "nimble/index/vector/vector_codes.h"
#include "nimble/index/vector/vector_math.h"
#include "nimble/scan/nearest/allowed_rows.h"
#include "nimble/scan/nearest/exact_distance.h"
#include "nimble/scan/nearest/vector_rows.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// The curve is of a sample, so a little more is asked of it.
constexpr double kRecallMargin = 0.01;
// The mean error of an estimate is .75 / sqrt(dimensions) of the product of the
// residual's length and the query's distance to the centroid. The length of a
// residual is about .4 sqrt(dimensions) of its scale.
constexpr float kErrorOfScale = 0.3f;
// Errors that a candidate's estimate may be too great by.
constexpr float kErrors = 2.0f;
// Candidates kept beyond k, whose order among each other is then precise.
constexpr size_t kSpare = 4;
// Numbers that one task compares.
constexpr uint64_t kTaskNumbers = uint64_t{1} << 18;

struct Near {
  double distance;
  uint32_t part;
  uint64_t row;

  bool operator<(const Near& o) const {
    if (distance != o.distance) return distance < o.distance;
    return part != o.part ? part < o.part : row < o.row;
  }
};

// The nearest rows so far: a heap, the farthest first.
class NearestRows {
 public:
  explicit NearestRows(size_t most) : most_(most) {}

  bool is_full() const { return rows_.size() == most_; }
  double farthest() const { return rows_.front().distance; }
  void add(const Near& row) {
    if (is_full()) {
      if (!(row < rows_.front())) return;
      std::pop_heap(rows_.begin(), rows_.end());
      rows_.back() = row;
    } else {
      rows_.push_back(row);
    }
    std::push_heap(rows_.begin(), rows_.end());
  }
  void add_all(const NearestRows& other) {
    for (const Near& row : other.rows_) add(row);
  }
  std::vector<Near>& rows() { return rows_; }

 private:
  size_t most_;
  std::vector<Near> rows_;
};

// A part with what the search needs of it.
struct Part {
  const NearestPart* given;
  VectorType type;
  AllowedRows allowed;
  bool by_lists = false;

  const VectorIndex& index() const { return *given->index; }
  // Fraction of the indexed rows that are allowed.
  double density() const {
    const uint64_t n = index().root().num_rows;
    return n == 0 ? 1
                  : std::min(1.0, static_cast<double>(allowed.size()) /
                                      static_cast<double>(n));
  }
};

// Computes 32 keys, lower bounds of distances: base + offset - scale * (a * sum
// + b). Returns a bit for each that is at most `limit`.
NIMBLE_CLONES uint32_t score_block(const uint32_t* sums, const uint8_t* scales,
                                   const uint8_t* offsets, float base, float a,
                                   float b, float limit, float* keys) {
  float scale[kVectorBlock], offset[kVectorBlock];
  __builtin_memcpy(scale, scales, sizeof scale);
  __builtin_memcpy(offset, offsets, sizeof offset);
  for (uint32_t i = 0; i < kVectorBlock; ++i) {
    const float s = a * static_cast<float>(static_cast<int32_t>(sums[i])) + b;
    keys[i] = base + offset[i] - scale[i] * s;
  }
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kVectorBlock; ++i) {
    bits |= uint32_t{keys[i] <= limit} << i;
  }
  return bits;
}

// One query over the parts that have lists.
class ListSearch {
 public:
  ListSearch(std::span<const Part> parts, const NearestOptions& options,
             const double* query, NearestStats* stats)
      : parts_(parts), options_(options), query_(query), stats_(*stats) {
    limit_candidates_ = options.k <= 100 ? std::max<size_t>(200, 20 * options.k)
                                         : 2000 + 4 * (options.k - 100);
  }

  Status run(NearestRows* out) {
    prepare_query();
    choose_lists();
    NIMBLE_RETURN_IF_ERROR(probe());
    return refine(out);
  }

 private:
  struct Candidate {
    float key;
    uint32_t part;
    uint64_t row;
    bool operator<(const Candidate& o) const { return key < o.key; }
  };
  struct Probe {
    float distance;  // of the centroid, about
    uint32_t part;
    uint32_t list;
    bool operator<(const Probe& o) const {
      if (distance != o.distance) return distance < o.distance;
      return part != o.part ? part < o.part : list < o.list;
    }
  };

  bool is_dot() const { return options_.metric == VectorMetric::kDot; }

  void prepare_query() {
    const Part* first = nullptr;
    for (const Part& p : parts_) {
      if (p.by_lists && first == nullptr) first = &p;
    }
    const VectorRoot& root = first->index().root();
    rotated_.assign(root.padded, 0);
    double scale = 1;
    if (options_.metric == VectorMetric::kCosine) {
      double greatest = 0, square = 0;
      for (uint32_t i = 0; i < root.dimensions; ++i) {
        greatest = std::max(greatest, std::fabs(query_[i]));
      }
      for (uint32_t i = 0; i < root.dimensions; ++i) {
        square += query_[i] / greatest * (query_[i] / greatest);
      }
      scale = 1 / (greatest * std::sqrt(square));
    }
    for (uint32_t i = 0; i < root.dimensions; ++i) {
      rotated_[i] = static_cast<float>(query_[i] * scale);
    }
    first->index().rotation().apply(rotated_.data());
    code_.emplace(rotated_.data(), root.padded);
    half_sum_ = 0;
    for (const float x : rotated_) half_sum_ += x / 2;
  }

  // Orders the lists of all parts by distance, and decides how many rows to
  // look at.
  void choose_lists() {
    double rows = 0, allowed = 0, needed = 0;
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      if (!part.by_lists || part.allowed.size() == 0) continue;
      const VectorRoot& root = part.index().root();
      const ListDirectory& lists = part.index().directory();
      const auto n = static_cast<double>(root.num_rows);
      rows += n;
      allowed += n * part.density();
      needed +=
          n * part.index().rows_needed(
                  std::min(1.0, options_.recall + kRecallMargin), options_.k);
      for (uint32_t i = 0; i < root.num_lists; ++i) {
        if (lists.rows_of(i) == 0) continue;
        const float product = lists.scale(i) * code_->scale *
                              static_cast<float>(dot_product(
                                  lists.codes + uint64_t{i} * root.padded,
                                  code_->whole.data(), root.padded));
        const float d =
            is_dot() ? -product : code_->norm + lists.norm(i) - 2 * product;
        probes_.push_back({d, p, i});
      }
      stats_.lists += root.num_lists;
    }
    double fraction = rows > 0 ? needed / rows : 1;
    // A filter leaves rows that may be near each other, so their neighbours are
    // in more lists.
    if (allowed < rows && allowed > 0) {
      fraction *= 1 + 0.8 * std::log10(rows / allowed);
    }
    wanted_ = std::min(1.0, fraction) * allowed;
    wanted_ = std::max(wanted_, 2.0 * static_cast<double>(options_.k));
    if (fraction >= 1) wanted_ = allowed;
    // Sort as many as are likely to be probed.
    const double share = allowed > 0 ? wanted_ / allowed : 1;
    sorted_ = std::min(
        probes_.size(),
        static_cast<size_t>(1.3 * share * static_cast<double>(probes_.size())) +
            16);
    sort_probes(0, sorted_);
  }
  void sort_probes(size_t begin, size_t end) {
    const auto from = probes_.begin() + static_cast<ptrdiff_t>(begin);
    const auto to = probes_.begin() + static_cast<ptrdiff_t>(end);
    if (to != probes_.end()) std::nth_element(from, to, probes_.end());
    std::sort(from, to);
  }

  // Probes lists until enough allowed rows have been seen, a round of reads at
  // a time.
  Status probe() {
    std::vector<std::vector<uint32_t>> lists(parts_.size());
    std::vector<std::vector<VectorIndex::List>> bytes(parts_.size());
    for (size_t at = 0; at < probes_.size() && seen_ < wanted_;) {
      double expected = seen_;
      size_t end = at;
      while (end < probes_.size() && expected < wanted_) {
        if (end == sorted_) {
          sorted_ = std::min(probes_.size(), 2 * sorted_ + 64);
          sort_probes(end, sorted_);
        }
        const Probe& p = probes_[end++];
        const Part& part = parts_[p.part];
        expected +=
            part.density() *
            static_cast<double>(part.index().directory().rows_of(p.list));
      }
      for (size_t i = at; i < end; ++i) {
        lists[probes_[i].part].push_back(probes_[i].list);
      }
      for (size_t p = 0; p < parts_.size(); ++p) {
        if (lists[p].empty()) continue;
        NIMBLE_RETURN_IF_ERROR(parts_[p].index().read(lists[p], &bytes[p]));
        lists[p].clear();
      }
      std::vector<size_t> next(parts_.size());
      for (size_t i = at; i < end; ++i) {
        const Probe& p = probes_[i];
        score(p, bytes[p.part][next[p.part]++].data);
      }
      at = end;
    }
    return Status::ok();
  }

  void score(const Probe& probe, const uint8_t* list) {
    const Part& part = parts_[probe.part];
    const VectorRoot& root = part.index().root();
    const ListLayout at(part.index().directory().rows_of(probe.list),
                        root.padded, root.row_width);
    uint64_t first = 0, last = at.rows;
    if (part.allowed.is_range()) {
      const RowRange range = part.allowed.ranges()[0];
      if (range.begin > 0) {
        first = place_of(list + at.row_at, at.rows, root, range.begin);
      }
      if (range.end < part.given->scan.output->file().num_rows()) {
        last = place_of(list + at.row_at, at.rows, root, range.end);
      }
      seen_ += static_cast<double>(last - first);
      if (first == last) return;
    }
    const uint64_t begin_block = first / kVectorBlock;
    const uint64_t end_block = div_ceil(last, kVectorBlock);
    sums_.resize(at.slots);
    sum_codes(
        list + at.codes_at + begin_block * kVectorBlock * (root.padded / 8),
        end_block - begin_block, root.padded, code_->table.data(),
        sums_.data() + begin_block * kVectorBlock);
    ++stats_.lists_probed;
    stats_.rows_scored += last - first;
    // The list has floats at multiples of 4 of its beginning only.
    centroid_.resize(root.padded);
    std::memcpy(centroid_.data(), list, root.padded * sizeof(float));
    const float base =
        is_dot()
            ? -dot_product(rotated_.data(), centroid_.data(), root.padded)
            : squared_distance(rotated_.data(), centroid_.data(), root.padded);
    const float factor = is_dot() ? 1 : 2;
    const float reach = is_dot() ? code_->norm : base;
    const float a = factor * code_->table_scale;
    const float b =
        factor * (code_->table_offset - half_sum_ +
                  kErrors * kErrorOfScale * std::sqrt(std::max(reach, 0.0f)));
    float keys[kVectorBlock];
    for (uint64_t block = begin_block; block < end_block; ++block) {
      const uint64_t slot = block * kVectorBlock;
      uint32_t hits =
          score_block(&sums_[slot], list + at.scale_at + 4 * slot,
                      list + at.offset_at + 4 * slot, base, a, b, limit_, keys);
      if (slot < first) hits &= ~uint32_t{0} << (first - slot);
      if (last - slot < kVectorBlock) hits &= (1u << (last - slot)) - 1;
      if (!part.allowed.is_range()) {
        hits = keep_allowed(part, list + at.row_at, slot,
                            std::min<uint64_t>(last - slot, kVectorBlock), root,
                            hits);
      }
      for (; hits != 0; hits &= hits - 1) {
        const auto i = static_cast<uint32_t>(std::countr_zero(hits));
        if (!(keys[i] <= limit_)) continue;
        candidates_.push_back(
            {keys[i], probe.part, row_at(list + at.row_at, slot + i, root)});
        if (candidates_.size() >= 2 * limit_candidates_) keep_nearest();
      }
    }
  }

  // Counts the allowed rows of a block. Returns the hits that are allowed.
  uint32_t keep_allowed(const Part& part, const uint8_t* rows, uint64_t slot,
                        uint64_t count, const VectorRoot& root, uint32_t hits) {
    uint32_t passing = 0;
    for (uint64_t i = 0; i < count; ++i) {
      passing |= uint32_t{part.allowed.contains(row_at(rows, slot + i, root))}
                 << i;
    }
    seen_ += std::popcount(passing);
    return hits & passing;
  }

  static uint64_t row_at(const uint8_t* rows, uint64_t i,
                         const VectorRoot& root) {
    return root.row_width == 4 ? load<uint32_t>(rows + 4 * i)
                               : load<uint64_t>(rows + 8 * i);
  }
  // Number of the list's rows that are below `row`.
  static uint64_t place_of(const uint8_t* rows, uint64_t count,
                           const VectorRoot& root, uint64_t row) {
    uint64_t low = 0, high = count;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      (row_at(rows, middle, root) < row ? low : high) =
          row_at(rows, middle, root) < row ? middle + 1 : middle;
    }
    return low;
  }

  void keep_nearest() {
    if (candidates_.size() <= limit_candidates_) return;
    const auto end =
        candidates_.begin() + static_cast<ptrdiff_t>(limit_candidates_);
    std::nth_element(candidates_.begin(), end - 1, candidates_.end());
    limit_ = (end - 1)->key;
    candidates_.erase(end, candidates_.end());
  }

  // Compares candidates with their vectors, the nearest first, until no other
  // one is likely to be nearer.
  Status refine(NearestRows* out) {
    keep_nearest();
    std::sort(candidates_.begin(), candidates_.end());
    std::vector<std::optional<VectorRows>> rows(parts_.size());
    std::vector<std::optional<ExactDistance>> distances(parts_.size());
    std::vector<std::vector<uint64_t>> of_part(parts_.size());
    for (const Candidate& c : candidates_) of_part[c.part].push_back(c.row);
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (of_part[p].empty()) continue;
      std::sort(of_part[p].begin(), of_part[p].end());
      of_part[p].erase(std::unique(of_part[p].begin(), of_part[p].end()),
                       of_part[p].end());
      rows[p].emplace(parts_[p].given->scan.output, parts_[p].type);
      distances[p].emplace(options_.metric, parts_[p].type, query_);
      NIMBLE_RETURN_IF_ERROR(rows[p]->prepare(of_part[p]));
    }
    // Squared distances of vectors of length 1 are twice 1 - cosine.
    const double by = options_.metric == VectorMetric::kCosine ? 0.5 : 1;
    for (const Candidate& c : candidates_) {
      if (out->is_full() && by * double{c.key} > out->farthest()) break;
      NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const values,
                              rows[c.part]->row(c.row));
      if (values == nullptr) continue;
      ++stats_.rows_compared;
      const double d = distances[c.part]->of(values);
      if (d != ExactDistance::kNone) out->add({d, c.part, c.row});
    }
    return Status::ok();
  }

  std::span<const Part> parts_;
  const NearestOptions& options_;
  const double* query_;
  NearestStats& stats_;
  size_t limit_candidates_;

  std::vector<float> rotated_;
  std::optional<QueryCode> code_;
  float half_sum_ = 0;
  std::vector<Probe> probes_;
  size_t sorted_ = 0;  // probes in order
  double wanted_ = 0;  // allowed rows to look at
  double seen_ = 0;
  std::vector<uint32_t> sums_;
  std::vector<float> centroid_;
  std::vector<Candidate> candidates_;
  float limit_ = std::numeric_limits<float>::infinity();
};

// Cuts ranges into pieces of about `rows` rows.
std::vector<std::vector<RowRange>> cut(const std::vector<RowRange>& ranges,
                                       uint64_t rows) {
  std::vector<RowRange> left = ranges;
  std::vector<std::vector<RowRange>> out;
  for (size_t at = 0; at < left.size();) {
    out.push_back(take_front(&left, &at, rows));
  }
  return out;
}

class Search {
 public:
  Search(std::span<const NearestPart> given, std::span<const double> queries,
         uint32_t dimensions, const NearestOptions& options,
         NearestStats* stats)
      : given_(given),
        queries_(queries),
        dimensions_(dimensions),
        options_(options),
        stats_(*stats) {}

  Result<std::vector<std::vector<NearestHit>>> run() {
    NIMBLE_RETURN_IF_ERROR(open_parts());
    const size_t count = queries_.size() / dimensions_;
    nearest_.assign(count, NearestRows(options_.k + kSpare));
    NIMBLE_RETURN_IF_ERROR(compare_rows());
    NIMBLE_RETURN_IF_ERROR(search_lists());
    std::vector<std::vector<NearestHit>> out(count);
    std::vector<Status> status(count);
    parallel_for(count, worth(count * options_.k),
                 [&](size_t q) { status[q] = finish(q, &out[q]); });
    for (Status& s : status) NIMBLE_RETURN_IF_ERROR(std::move(s));
    return out;
  }

 private:
  const double* query(size_t q) const { return &queries_[q * dimensions_]; }
  // Threads for comparing this many vectors.
  uint32_t worth(uint64_t rows) const {
    constexpr double kNanosPerNumber = 0.2;
    return threads_worth(kNanosPerNumber * static_cast<double>(rows) *
                             static_cast<double>(dimensions_),
                         options_.threads);
  }

  Status open_parts() {
    for (const NearestPart& g : given_) {
      const Field& field = g.scan.output->schema().children[0];
      NIMBLE_ASSIGN_OR_RETURN(const VectorType type, VectorType::of(field));
      if (type.dimensions != dimensions_) {
        return Status::invalid_argument(
            g.scan.output->file().file().name() + ": vectors of " +
            std::to_string(type.dimensions) + " numbers; the query has " +
            std::to_string(dimensions_));
      }
      NIMBLE_ASSIGN_OR_RETURN(AllowedRows allowed,
                              AllowedRows::of(g.scan, g.deleted));
      Part part{&g, type, std::move(allowed)};
      stats_.rows_allowed += part.allowed.size();
      part.by_lists =
          !options_.exact && options_.recall < 1 && g.index != nullptr &&
          g.index->root().num_lists > 0 &&
          part.allowed.size() >= div_ceil(kMinListedNumbers, dimensions_);
      if (part.allowed.size() > 0) {
        ++(part.by_lists ? stats_.files_by_lists : stats_.files_compared);
      }
      parts_.push_back(std::move(part));
    }
    return Status::ok();
  }

  // Compares all allowed rows of the parts without lists, for all queries at
  // once.
  Status compare_rows() {
    struct Task {
      uint32_t part;
      std::vector<RowRange> ranges;
    };
    std::vector<Task> tasks;
    uint64_t rows = 0;
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].by_lists) continue;
      rows += parts_[p].allowed.size();
      for (auto& ranges :
           cut(parts_[p].allowed.ranges(),
               std::max<uint64_t>(1, kTaskNumbers / dimensions_))) {
        tasks.push_back({p, std::move(ranges)});
      }
    }
    if (tasks.empty()) return Status::ok();
    const size_t lanes =
        std::min<size_t>(tasks.size(), worth(rows * nearest_.size()));
    std::vector<Status> status(lanes);
    std::vector<std::vector<NearestRows>> found(lanes, nearest_);
    std::vector<uint64_t> compared(lanes);
    parallel_for(lanes, static_cast<uint32_t>(lanes), [&](size_t lane) {
      for (size_t t = lane; t < tasks.size() && status[lane]; t += lanes) {
        status[lane] = compare(tasks[t].part, tasks[t].ranges, &found[lane],
                               &compared[lane]);
      }
    });
    for (size_t lane = 0; lane < lanes; ++lane) {
      NIMBLE_RETURN_IF_ERROR(std::move(status[lane]));
      stats_.rows_compared += compared[lane];
      for (size_t q = 0; q < nearest_.size(); ++q) {
        nearest_[q].add_all(found[lane][q]);
      }
    }
    return Status::ok();
  }
  Status compare(uint32_t p, std::span<const RowRange> ranges,
                 std::vector<NearestRows>* found, uint64_t* compared) const {
    const Part& part = parts_[p];
    VectorRows rows(part.given->scan.output, part.type);
    std::vector<ExactDistance> distances;
    for (size_t q = 0; q < found->size(); ++q) {
      distances.emplace_back(options_.metric, part.type, query(q));
    }
    return rows.visit(ranges, [&](uint64_t row, const uint8_t* values) {
      for (size_t q = 0; q < distances.size(); ++q) {
        const double d = distances[q].of(values);
        if (d != ExactDistance::kNone) (*found)[q].add({d, p, row});
      }
      *compared += distances.size();
    });
  }

  Status search_lists() {
    if (stats_.files_by_lists == 0) return Status::ok();
    std::vector<Status> status(nearest_.size());
    std::vector<NearestStats> stats(nearest_.size());
    const uint32_t threads =
        nearest_.size() == 1
            ? 1
            : threads_worth(5e4 * static_cast<double>(nearest_.size()),
                            options_.threads);
    parallel_for(nearest_.size(), threads, [&](size_t q) {
      status[q] =
          ListSearch(parts_, options_, query(q), &stats[q]).run(&nearest_[q]);
    });
    for (size_t q = 0; q < nearest_.size(); ++q) {
      NIMBLE_RETURN_IF_ERROR(std::move(status[q]));
      stats_.lists += stats[q].lists;
      stats_.lists_probed += stats[q].lists_probed;
      stats_.rows_scored += stats[q].rows_scored;
      stats_.rows_compared += stats[q].rows_compared;
    }
    return Status::ok();
  }

  // Computes the distances of the nearest rows precisely, and sorts them.
  Status finish(size_t q, std::vector<NearestHit>* out) {
    std::vector<Near>& found = nearest_[q].rows();
    std::sort(found.begin(), found.end(), [](const Near& a, const Near& b) {
      return a.part != b.part ? a.part < b.part : a.row < b.row;
    });
    for (size_t i = 0; i < found.size();) {
      const uint32_t p = found[i].part;
      std::vector<uint64_t> rows;
      size_t end = i;
      for (; end < found.size() && found[end].part == p; ++end) {
        if (rows.empty() || rows.back() != found[end].row) {
          rows.push_back(found[end].row);
        }
      }
      VectorRows vectors(parts_[p].given->scan.output, parts_[p].type);
      ExactDistance distance(options_.metric, parts_[p].type, query(q));
      NIMBLE_RETURN_IF_ERROR(vectors.prepare(rows));
      for (const uint64_t row : rows) {
        NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const values, vectors.row(row));
        if (values == nullptr) continue;
        out->push_back({static_cast<float>(distance.precise(values)), p, row});
      }
      i = end;
    }
    std::sort(out->begin(), out->end(),
              [](const NearestHit& a, const NearestHit& b) {
                if (a.distance != b.distance) return a.distance < b.distance;
                return a.part != b.part ? a.part < b.part : a.row < b.row;
              });
    if (out->size() > options_.k) out->resize(options_.k);
    return Status::ok();
  }

  std::span<const NearestPart> given_;
  std::span<const double> queries_;
  const uint32_t dimensions_;
  const NearestOptions& options_;
  NearestStats& stats_;
  std::vector<Part> parts_;
  std::vector<NearestRows> nearest_;
};

}  // namespace

Result<std::vector<std::vector<NearestHit>>> find_nearest(
    std::span<const NearestPart> parts, std::span<const double> queries,
    uint32_t dimensions, const NearestOptions& options, NearestStats* stats) {
  return Search(parts, queries, dimensions, options, stats).run();
}

}  // namespace nimble
