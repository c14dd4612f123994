#include "nimble/scan/nearest/list_search.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "nimble/base/compiler.h"
#include "nimble/index/vector/code_sums.h"
#include "nimble/index/vector/vector_math.h"

namespace nimble {
namespace {

// A second level of tables is used if the error of one level would be more than
// this share of the typical error of estimates.
constexpr float kTableErrorPart = 0.25f;
// Bytes of lists that are read in one round.
constexpr uint64_t kRoundBytes = uint64_t{64} << 20;
// Number of candidates whose vectors are located before the first of them is
// compared, so that the memory of the others can be fetched meanwhile.
constexpr size_t kLocated = 8;
// With a filter, or for many neighbours, a search looks at up to this many
// times as many rows as the curve says, as long as others may be nearer.
constexpr double kMostOfCurve = 64;
// Maximum number of excluded rows to count.
constexpr size_t kMostRejected = 16384;
// Growth of the number of rows to look at.
constexpr double kRoundGrowth = 1.5;
constexpr double kDeviations = 3;
// The squared length of a residual is about this many times the square of its
// scale for each dimension.
constexpr double kSquareOfScale = 0.16;
// Bytes of a list that are prefetched while another one is scored.
constexpr uint64_t kPrefetchedListBytes = 8192;
// The distance of a centroid by its code is used for the rows of its list, if
// its error is at most this share of the usual error of estimates.
constexpr double kCentroidErrorPart = 0.1;

// Maps floats to integers of the same order.
uint32_t ordered(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | uint32_t{1} << 31;
}

float unordered(uint32_t x) {
  return std::bit_cast<float>((x >> 31) != 0 ? x ^ uint32_t{1} << 31 : ~x);
}

void prefetch(const uint8_t* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

// Computes 32 keys, which are lower bounds of distances: base + offset - scale
// * (a * sum + b). Returns one bit per key, set if the key is at most `limit`.
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

uint64_t row_at(const uint8_t* rows, uint64_t i, const VectorRoot& root) {
  return root.row_width == 4 ? load<uint32_t>(rows + 4 * i)
                             : load<uint64_t>(rows + 8 * i);
}

// Number of a list's rows that are below `row`.
uint64_t place_of(const uint8_t* rows, uint64_t count, const VectorRoot& root,
                  uint64_t row) {
  uint64_t low = 0, high = count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (row_at(rows, middle, root) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

ListSearch::ListSearch(std::span<const SearchPart> parts,
                       std::span<const uint8_t> by_lists,
                       const NearestOptions& options)
    : parts_(parts),
      by_lists_(by_lists),
      options_(options),
      first_candidates_(first_candidates(options.k)),
      limit_candidates_(most_candidates(options.k)),
      prepared_of_(parts.size()),
      lists_(parts.size()),
      bytes_(parts.size()),
      next_(parts.size()),
      rows_of_(parts.size()),
      vectors_(parts.size()) {
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t without_center = kNone;
  for (uint32_t p = 0; p < parts.size(); ++p) {
    if (by_lists[p] == 0) continue;
    const VectorIndex& index = parts[p].index();
    for (uint32_t i = 0; i < index.root().num_lists; ++i) {
      all_lists_.push_back({p, i});
    }
    const bool is_shared = index.center().empty();
    if (is_shared && without_center != kNone) {
      prepared_of_[p] = without_center;
      continue;
    }
    prepared_of_[p] = static_cast<uint32_t>(prepared_.size());
    if (is_shared) without_center = prepared_of_[p];
    prepared_.emplace_back().index = &index;
  }
}

bool ListSearch::can_answer(VectorMetric metric,
                            std::span<const double> query) {
  // Only the direction matters, so any length can be answered.
  if (metric == VectorMetric::kCosine) return true;
  const double square = dot_product(query.data(), query.data(), query.size());
  // fitness_of() has the same bounds for the squared lengths of rows.
  constexpr double kLeast = 1e-30, kGreatest = 1e36;
  return square <= kGreatest &&
         (metric == VectorMetric::kL2 || square >= kLeast);
}

Status ListSearch::run(const double* query, NearestRows* out,
                       NearestStats* stats) {
  stats_ = stats;
  probes_.clear();
  candidates_.clear();
  upper_bounds_.clear();
  seen_ = 0;
  scale_squares_ = 0;
  rejected_.clear();
  limit_ = std::numeric_limits<float>::infinity();
  for (Prepared& p : prepared_) prepare(query, &p);
  choose_lists();
  NIMBLE_RETURN_IF_ERROR(probe_lists());
  return refine(query, out);
}

void ListSearch::prepare(const double* query, Prepared* out) const {
  const VectorRoot& root = out->index->root();
  const std::vector<float>& center = out->index->center();
  double greatest = 1, length = 1;
  if (options_.metric == VectorMetric::kCosine) {
    greatest = 0;
    double square = 0;
    for (uint32_t i = 0; i < root.dimensions; ++i) {
      greatest = std::max(greatest, std::fabs(query[i]));
    }
    for (uint32_t i = 0; i < root.dimensions; ++i) {
      square += query[i] / greatest * (query[i] / greatest);
    }
    length = std::sqrt(square);
  }
  out->rotated.assign(root.padded, 0);
  double with_center = 0;
  for (uint32_t i = 0; i < root.dimensions; ++i) {
    double x = query[i] / greatest / length;
    if (!center.empty()) {
      with_center += x * double{center[i]};
      if (!is_dot()) x -= double{center[i]};
    }
    out->rotated[i] = static_cast<float>(x);
  }
  out->base = is_dot() ? -static_cast<float>(with_center) : 0;
  out->index->rotation().apply(out->rotated.data());
  out->code.set(out->rotated.data(), root.padded);
  out->half_sum = 0;
  for (const float x : out->rotated) out->half_sum += x / 2;
  out->nearest = std::numeric_limits<float>::infinity();
}

// Orders the lists of all parts by distance, and decides how many rows to look
// at.
void ListSearch::choose_lists() {
  rows_ = allowed_ = 0;
  // With rows that are not in lists, because it is not known how many of these
  // are allowed.
  double file_rows = 0, allowed_of_file = 0;
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    if (by_lists_[p] == 0 || parts_[p].allowed.size() == 0) continue;
    const VectorRoot& root = parts_[p].index().root();
    rows_ += static_cast<double>(root.num_rows);
    file_rows += static_cast<double>(root.num_rows + root.left_out);
    allowed_of_file += static_cast<double>(parts_[p].allowed.size());
  }
  uint64_t first_list = 0;  // of the part, in all_lists_
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    const SearchPart& part = parts_[p];
    if (by_lists_[p] == 0) continue;
    const VectorRoot& root = part.index().root();
    const uint64_t first = first_list;
    first_list += root.num_lists;
    if (part.allowed.size() == 0) continue;
    const ListDirectory& lists = part.index().directory();
    allowed_ += static_cast<double>(root.num_rows) * part.density();
    Prepared& query = prepared(p);
    for (uint32_t i = 0; i < root.num_lists; ++i) {
      if (lists.rows_of(i) == 0) continue;
      const float d = query.base + query.code.centroid_distance(
                                       options_.metric,
                                       lists.codes + uint64_t{i} * root.padded,
                                       lists.scale(i), lists.norm(i));
      query.nearest = std::min(query.nearest, d);
      probes_.push_back(uint64_t{ordered(d)} << 32 | (first + i));
    }
    stats_->lists += root.num_lists;
  }
  for (Prepared& query : prepared_) {
    // for dot products, the error depends on the whole query
    if (is_dot()) break;
    const float usual =
        kGreatestError / 2 * std::sqrt(std::max(query.nearest, 0.0f));
    if (query.code.table_error() > kTableErrorPart * usual) {
      query.code.set(query.rotated.data(), query.index->root().padded, 2);
    }
  }
  is_filtered_ = allowed_of_file < file_rows && allowed_ > 0;
  selectivity_ = is_filtered_ ? allowed_of_file / file_rows : 1;
  wanted_ = rows_wanted(options_.k);
  // Sorts only as many probes as are likely to be needed.
  const double share = allowed_ > 0 ? wanted_ / allowed_ : 1;
  sorted_ = std::min(
      probes_.size(),
      static_cast<size_t>(1.3 * share * static_cast<double>(probes_.size())) +
          16);
  sort_probes(0, sorted_);
}

// The number of allowed rows to look at for k neighbours.
double ListSearch::rows_wanted(uint64_t k) const {
  double needed = 0;
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    if (by_lists_[p] == 0 || parts_[p].allowed.size() == 0) continue;
    const VectorIndex& index = parts_[p].index();
    const auto n = static_cast<double>(index.root().num_rows);
    needed += n * index.rows_needed(options_.recall, k, n / rows_).value_or(1);
  }
  // Rows that pass a filter may be near each other. The neighbours of a query
  // are then in more lists.
  const double fraction =
      (rows_ > 0 ? needed / rows_ : 1) * (1 - 0.8 * std::log10(selectivity_));
  if (fraction >= 1) return allowed_;
  return std::max(fraction * allowed_, 2.0 * static_cast<double>(options_.k));
}

void ListSearch::sort_probes(size_t begin, size_t end) {
  const auto from = probes_.begin() + static_cast<ptrdiff_t>(begin);
  const auto to = probes_.begin() + static_cast<ptrdiff_t>(end);
  if (to != probes_.end()) std::nth_element(from, to, probes_.end());
  std::sort(from, to);
}

// Probes lists until enough allowed rows have been seen, a round of reads at a
// time.
Status ListSearch::probe_lists() {
  double most = kMostOfCurve * wanted_;
  // The curve was measured for at most 100 neighbours. For more, the last third
  // of the rows shows whether others are needed.
  bool is_first = true;
  grows_ = options_.k > 100;
  if (grows_) wanted_ /= kRoundGrowth;
  found_ = 0;
  for (size_t at = 0; at < probes_.size();) {
    if (seen_ >= wanted_ && !grows_) {
      if (const uint64_t nearer = nearer_rejected(); nearer > 0) {
        // The search has to go past these. The curve of 10 neighbours, which
        // would be used up to 30, says nothing of the rows behind them.
        grows_ = true;
        const double rows =
            rows_wanted(std::max<uint64_t>(100, options_.k + nearer));
        most = std::max(most, kMostOfCurve * rows);
        wanted_ = std::max(wanted_, rows / kRoundGrowth);
      }
    }
    if (seen_ >= wanted_) {
      const bool goes_on = grows_ && is_first;
      if (seen_ >= most ||
          !(goes_on || has_found_many() || may_be_nearer(at))) {
        break;
      }
      is_first = false;
      found_ = 0;
      wanted_ = std::min(most, kRoundGrowth * wanted_);
    }
    double expected = seen_;
    uint64_t bytes = 0;
    size_t end = at;
    // At least one list: if its rows may be nearer, it is needed although more
    // rows have been seen than are wanted.
    while (end < probes_.size() && (end == at || expected < wanted_)) {
      if (end == sorted_) {
        sorted_ = std::min(probes_.size(), 2 * sorted_ + 64);
        sort_probes(end, sorted_);
      }
      const Probe& p = all_lists_[static_cast<uint32_t>(probes_[end])];
      const SearchPart& part = parts_[p.part];
      bytes += part.index().bytes_of(p.list);
      if (end > at && bytes > kRoundBytes) break;
      ++end;
      expected += part.density() *
                  static_cast<double>(part.index().directory().rows_of(p.list));
    }
    for (size_t i = at; i < end; ++i) {
      const Probe& p = all_lists_[static_cast<uint32_t>(probes_[i])];
      lists_[p.part].push_back(p.list);
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      next_[p] = 0;
      if (lists_[p].empty()) continue;
      NIMBLE_RETURN_IF_ERROR(parts_[p].index().read(lists_[p], &bytes_[p]));
      lists_[p].clear();
    }
    const auto bytes_of = [&](size_t i) {
      const Probe& p = all_lists_[static_cast<uint32_t>(probes_[i])];
      return bytes_[p.part][next_[p.part]++].data;
    };
    const uint8_t* next = bytes_of(at);
    for (size_t i = at; i < end; ++i) {
      const uint8_t* const list = next;
      if (i + 1 < end) {
        next = bytes_of(i + 1);
        const Probe& p = all_lists_[static_cast<uint32_t>(probes_[i + 1])];
        const VectorIndex& index = parts_[p.part].index();
        // The centroid is seldom read.
        const uint64_t head = index.root().padded * sizeof(float);
        prefetch(next + head,
                 std::min(index.bytes_of(p.list) - head, kPrefetchedListBytes));
      }
      score(all_lists_[static_cast<uint32_t>(probes_[i])],
            unordered(static_cast<uint32_t>(probes_[i] >> 32)), list);
    }
    at = end;
  }
  for (auto& lists : bytes_) lists.clear();
  return Status::ok();
}

// Returns whether the last rows had more of the nearest rows than the wanted
// recall allows to miss. Then the next rows probably have some too.
bool ListSearch::has_found_many() const {
  const auto k = static_cast<double>(options_.k);
  return grows_ && static_cast<double>(found_) > (1 - options_.recall) / 2 * k;
}

// Returns the number of rows that the filter excludes and that are nearer than
// the allowed ones, or 0 if it is no more than a filter excludes anywhere.
uint64_t ListSearch::nearer_rejected() {
  std::erase_if(rejected_, [this](float bound) { return bound > limit_; });
  const auto k = static_cast<double>(options_.k);
  const double usual = k * (1 - selectivity_) / selectivity_;
  return static_cast<double>(rejected_.size()) > 2 * usual + k / 2
             ? rejected_.size()
             : 0;
}

// Returns whether the next list probably has rows that are nearer than the
// farthest of the candidates. It seldom does, unless a filter excludes the rows
// around the query.
bool ListSearch::may_be_nearer(size_t at) {
  if (!is_filtered_) return false;
  if (at >= sorted_) {
    sorted_ = std::min(probes_.size(), 2 * sorted_ + 64);
    sort_probes(at, sorted_);
  }
  const Probe& p = all_lists_[static_cast<uint32_t>(probes_[at])];
  const VectorRoot& root = parts_[p.part].index().root();
  // Assumes that the distance of the list's rows from its centroid is that of
  // the rows seen so far from their centroids, in all directions.
  const double from_rows =
      kSquareOfScale * root.padded * scale_squares_ / seen_;
  const double d = unordered(static_cast<uint32_t>(probes_[at] >> 32));
  if (is_dot()) {
    const double deviation = std::sqrt(
        from_rows * double{prepared(p.part).code.norm()} / root.dimensions);
    return d - kDeviations * deviation <= double{limit_};
  }
  const double from_query = std::max(d, 0.0);
  const double deviation =
      2 * std::sqrt(from_rows * from_query / root.dimensions);
  return from_query + from_rows - kDeviations * deviation <= double{limit_};
}

// Returns the greatest error of the distance of a list's centroid by its code,
// or 0 if that is not exact enough.
float ListSearch::centroid_error(const Probe& probe, float distance) {
  if (is_dot()) return 0;
  const VectorIndex& index = parts_[probe.part].index();
  const Prepared& query = prepared(probe.part);
  // The squared length of the centroid is stored. The error of the product with
  // the query is that of the code's numbers, which are rounded to steps.
  const double step = double{index.directory().scale(probe.list)};
  const double error =
      kDeviations * 2 * std::sqrt(double{query.code.norm()} / 12) * step;
  // As in may_be_nearer(), rows are assumed to be as far from their centroid as
  // the query is from the nearest one. Their scale is then 2.5 times that
  // length by the root of the dimensions, if residuals are normally
  // distributed.
  const double lengths = std::sqrt(double{std::max(query.nearest, 0.0f)} *
                                   double{std::max(distance, 0.0f)});
  const double usual = 2 * double{kGreatestError} * 2.5 * lengths /
                       std::sqrt(static_cast<double>(index.root().padded));
  return error <= kCentroidErrorPart * usual ? static_cast<float>(error) : 0;
}

// Adds the rows of a list that may be among the nearest. `centroid_distance` is
// by the centroid's code.
void ListSearch::score(const Probe& probe, float centroid_distance,
                       const uint8_t* list) {
  const SearchPart& part = parts_[probe.part];
  const Prepared& query = prepared(probe.part);
  const VectorRoot& root = part.index().root();
  const ListLayout at(part.index().directory().rows_of(probe.list), root.padded,
                      root.row_width);
  uint64_t first = 0, last = at.rows;
  if (part.allowed.is_range()) {
    const RowRange range = part.allowed.range();
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
  const uint64_t begin = begin_block * kVectorBlock;
  const uint64_t end = end_block * kVectorBlock;
  sums_.resize(std::max<size_t>(sums_.size(), at.slots));
  const uint8_t* const codes = list + at.codes_at + begin * (root.padded / 8);
  sum_codes(codes, end_block - begin_block, root.padded, query.code.table(0),
            &sums_[begin]);
  if (query.code.levels() == 2) {
    more_sums_.resize(sums_.size());
    sum_codes(codes, end_block - begin_block, root.padded, query.code.table(1),
              &more_sums_[begin]);
    for (uint64_t i = begin; i < end; ++i) {
      sums_[i] = 128 * sums_[i] + more_sums_[i];
    }
  }
  ++stats_->lists_probed;
  stats_->rows_scored += last - first;
  const float slack = centroid_error(probe, centroid_distance);
  float base = centroid_distance - slack;
  if (slack == 0) {
    // Copies the centroid, because in the list it is aligned to 4 bytes only.
    centroid_.resize(root.padded);
    std::memcpy(centroid_.data(), list, root.padded * sizeof(float));
    const float* const q = query.rotated.data();
    base = query.base +
           (is_dot() ? -dot_product(q, centroid_.data(), root.padded)
                     : squared_distance(q, centroid_.data(), root.padded));
  }
  const float factor = is_dot() ? 1 : 2;
  const float reach = is_dot() ? query.code.norm() : base;
  const float a = factor * query.code.table_scale();
  // Keys are estimates minus scale * error.
  const float error =
      factor * kGreatestError * std::sqrt(std::max(reach, 0.0f));
  const float b = factor * (query.code.table_offset() - query.half_sum) + error;
  float keys[kVectorBlock];
  for (uint64_t block = begin_block; block < end_block; ++block) {
    const uint64_t slot = block * kVectorBlock;
    uint32_t hits =
        score_block(&sums_[slot], list + at.scale_at + 4 * slot,
                    list + at.offset_at + 4 * slot, base, a, b, limit_, keys);
    uint32_t allowed = ~uint32_t{0};
    if (slot < first) allowed <<= first - slot;
    if (last - slot < kVectorBlock) allowed &= (1u << (last - slot)) - 1;
    const uint32_t stored = allowed;  // the others fill the last block
    if (!part.allowed.is_range()) {
      allowed = allowed_in(part, list + at.row_at, slot,
                           std::min<uint64_t>(last - slot, kVectorBlock), root);
      seen_ += std::popcount(allowed);
    }
    if (is_filtered_) add_scales(list + at.scale_at + 4 * slot, allowed);
    const auto upper_bound = [&](uint32_t i) {
      return keys[i] +
             2 * error * load<float>(list + at.scale_at + 4 * (slot + i));
    };
    if (!part.allowed.is_range()) {
      for (uint32_t left = hits & stored & ~allowed; left != 0;
           left &= left - 1) {
        const float bound =
            upper_bound(static_cast<uint32_t>(std::countr_zero(left)));
        if (bound <= limit_ && rejected_.size() < kMostRejected) {
          rejected_.push_back(bound);
        }
      }
    }
    hits &= allowed;
    for (; hits != 0; hits &= hits - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(hits));
      if (!(keys[i] <= limit_)) continue;
      candidates_.push_back(
          {keys[i], probe.part, row_at(list + at.row_at, slot + i, root)});
      add_upper_bound(keys[i] + 2 * slack +
                      2 * error *
                          load<float>(list + at.scale_at + 4 * (slot + i)));
      if (candidates_.size() >= 2 * limit_candidates_) keep_nearest();
    }
  }
}

// Returns the rows of a block that are allowed, as bits.
uint32_t ListSearch::allowed_in(const SearchPart& part, const uint8_t* rows,
                                uint64_t slot, uint64_t count,
                                const VectorRoot& root) {
  uint32_t out = 0;
  for (uint64_t i = 0; i < count; ++i) {
    out |= uint32_t{part.allowed.contains(row_at(rows, slot + i, root))} << i;
  }
  return out;
}

void ListSearch::add_scales(const uint8_t* scales, uint32_t rows) {
  for (; rows != 0; rows &= rows - 1) {
    const float scale = load<float>(scales + 4 * std::countr_zero(rows));
    scale_squares_ += double{scale} * double{scale};
  }
}

void ListSearch::add_upper_bound(float bound) {
  if (upper_bounds_.size() < options_.k) {
    upper_bounds_.push_back(bound);
  } else if (bound < upper_bounds_.front()) {
    std::pop_heap(upper_bounds_.begin(), upper_bounds_.end());
    upper_bounds_.back() = bound;
  } else {
    return;
  }
  ++found_;
  std::push_heap(upper_bounds_.begin(), upper_bounds_.end());
  if (upper_bounds_.size() == options_.k) {
    limit_ = std::min(limit_, upper_bounds_.front());
  }
}

void ListSearch::keep_nearest() {
  if (candidates_.size() <= limit_candidates_) return;
  const auto end =
      candidates_.begin() + static_cast<ptrdiff_t>(limit_candidates_);
  std::nth_element(candidates_.begin(), end - 1, candidates_.end());
  limit_ = std::min(limit_, (end - 1)->key);
  candidates_.erase(end, candidates_.end());
}

// Compares candidates with their vectors: first those with the least keys,
// which lower the limit, then the others that may be nearer.
Status ListSearch::refine(const double* query, NearestRows* out) {
  keep_nearest();
  for (auto& distance : distances_) {
    if (distance) distance->set_query(query);
  }
  const auto at = [&](size_t i) {
    return candidates_.begin() + static_cast<ptrdiff_t>(i);
  };
  // Drops candidates above the limit, which has fallen since they were added.
  const auto drop_far = [&](size_t begin, double limit) {
    const auto is_far = [&](const Candidate& c) {
      return !(double{c.key} <= limit);
    };
    candidates_.erase(std::remove_if(at(begin), candidates_.end(), is_far),
                      candidates_.end());
  };
  drop_far(0, double{limit_});
  const size_t first = std::min(first_candidates_, candidates_.size());
  const size_t nearest = std::min(2 * options_.k + 8, first);
  if (first < candidates_.size()) {
    std::nth_element(at(0), at(first), candidates_.end());
  }
  if (nearest < first) std::nth_element(at(0), at(nearest), at(first));
  NIMBLE_RETURN_IF_ERROR(
      prepare_vectors(Candidates(candidates_).first(first), query));
  NIMBLE_RETURN_IF_ERROR(compare(Candidates(candidates_).first(nearest), out));
  NIMBLE_RETURN_IF_ERROR(
      compare(Candidates(candidates_).subspan(nearest, first - nearest), out));
  drop_far(first, out->limit() / key_scale());
  const Candidates rest = Candidates(candidates_).subspan(first);
  if (rest.empty()) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(prepare_vectors(rest, query));
  return compare(rest, out);
}

Status ListSearch::compare(Candidates candidates, NearestRows* out) {
  struct Located {
    const Candidate* candidate;
    const uint8_t* values;
  };
  std::array<Located, kLocated> located;
  for (size_t at = 0; at < candidates.size();) {
    size_t count = 0;
    for (; at < candidates.size() && count < kLocated; ++at) {
      const Candidate& c = candidates[at];
      if (key_scale() * double{c.key} > out->limit()) continue;
      located[count].candidate = &c;
      NIMBLE_RETURN_IF_ERROR(
          vectors_[c.part]->locate(c.row, &located[count++].values));
    }
    for (size_t i = 0; i < count; ++i) {
      const Candidate& c = *located[i].candidate;
      const uint8_t* values = located[i].values;
      if (values == nullptr) {
        NIMBLE_ASSIGN_OR_RETURN(values, vectors_[c.part]->row(c.row));
      }
      if (values != nullptr) compare(c, values, out);
    }
  }
  return Status::ok();
}

void ListSearch::compare(const Candidate& candidate, const uint8_t* values,
                         NearestRows* out) {
  ++stats_->rows_compared;
  const VectorElement element = parts_[candidate.part].type.element;
  double d;
  if (distances_[static_cast<size_t>(element)]->is_within(values, out->limit(),
                                                          &d)) {
    out->add({d, candidate.part, candidate.row});
  }
}

// Reads the vectors of candidates, in one round for each file.
Status ListSearch::prepare_vectors(Candidates candidates, const double* query) {
  for (const Candidate& c : candidates) {
    if (vectors_[c.part] == nullptr) open_vectors(c.part, query);
    if (parts_[c.part].index().is_new_place(c.row)) {
      rows_of_[c.part].push_back(c.row);
    }
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (rows_of_[p].empty()) continue;
    std::sort(rows_of_[p].begin(), rows_of_[p].end());
    NIMBLE_RETURN_IF_ERROR(vectors_[p]->will_need(rows_of_[p]));
    for (const uint64_t row : rows_of_[p]) parts_[p].index().use_place(row);
    rows_of_[p].clear();
  }
  for (const Candidate& c : candidates) {
    if (vectors_[c.part]->needs_rows()) rows_of_[c.part].push_back(c.row);
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    std::vector<uint64_t>& rows = rows_of_[p];
    if (rows.empty()) continue;
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    NIMBLE_RETURN_IF_ERROR(vectors_[p]->prepare(rows));
    rows.clear();
  }
  return Status::ok();
}

void ListSearch::open_vectors(uint32_t p, const double* query) {
  const SearchPart& part = parts_[p];
  const bool may_have_nulls = part.index().root().left_out > 0;
  vectors_[p] = std::make_unique<VectorRows>(part.given->scan.output, part.type,
                                             may_have_nulls);
  auto& distance = distances_[static_cast<size_t>(part.type.element)];
  if (distance) return;
  distance.emplace(options_.metric, part.type);
  distance->set_query(query);
}

}  // namespace nimble
