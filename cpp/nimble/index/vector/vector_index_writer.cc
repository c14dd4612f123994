#include "nimble/index/vector/vector_index_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "nimble/base/hash.h"
#include "nimble/index/vector/vector_codes.h"
#include "nimble/index/vector/vector_math.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

constexpr uint64_t kSampleRowsPerList = 32;
// Rounds of training on rows if it starts from known centroids, and rounds of
// reducing the known centroids to the number of lists.
constexpr uint32_t kRoundsFromKnown = 2;
constexpr uint32_t kRoundsOfKnown = 3;
constexpr uint64_t kCalibrationQueries = 256;
// Size of the sample that estimates how many keys are less than a neighbour's.
constexpr uint64_t kSampledKeys = 512;
// At most this part of the rows are queries for calibration. K-means does not
// see them. Centroids are pulled to the rows that they are trained on, so such
// rows would find their neighbours in fewer lists than other queries.
constexpr uint64_t kCalibrationPart = 4;
constexpr uint32_t kNeighbours[] = {10, 100};
// The recalls for which the curve stores the necessary number of rows.
constexpr double kRecalls[] = {.5,  .6,  .7,  .75,  .8,  .85,  .9,   .925, .95,
                               .96, .97, .98, .985, .99, .995, .999, 1};

// Number of rows whose mean is the center.
constexpr uint64_t kCenterRows = 1024;
// A center is subtracted if its squared length is this many times the mean
// squared distance of the rows from it. If vectors are nearer to the origin,
// their codes are as good without a center. Searches of many files without
// centers can share the preparation of a query.
constexpr double kFarCenter = 8;
// The relative distance of two floats. Rows that differ less from each other
// are compared exactly, without lists.
constexpr double kFloatStep = 0x1p-23;

void divide_by_length(float* values, uint64_t n) {
  const float norm = dot_product(values, values, n);
  const float by = norm > 0 ? 1 / std::sqrt(norm) : 0;
  for (uint64_t i = 0; i < n; ++i) values[i] *= by;
}

// Prepares `count` vectors for coding. `values` has rows of `dimensions`
// numbers, `out` receives rows of `padded` numbers. `center` may be empty.
void rotate_rows(VectorMetric metric, const Rotation& rotation,
                 const std::vector<float>& center, const float* values,
                 uint64_t dimensions, uint64_t count, float* out) {
  const uint64_t padded = rotation.padded();
  for (uint64_t i = 0; i < count; ++i) {
    float* const to = out + i * padded;
    std::memcpy(to, values + i * dimensions, dimensions * sizeof(float));
    std::fill(to + dimensions, to + padded, 0.0f);
    if (metric == VectorMetric::kCosine) divide_by_length(to, dimensions);
    for (uint64_t j = 0; j < center.size(); ++j) to[j] -= center[j];
    rotation.apply(to);
  }
}

}  // namespace

// The nearest rows of the calibration queries. The curve is computed from the
// lists that contain these rows.
class VectorIndexWriter::Truth {
 public:
  struct Neighbour {
    float distance;
    uint64_t row;
    bool operator<(const Neighbour& o) const {
      return distance != o.distance ? distance < o.distance : row < o.row;
    }
  };
  // A row that may be one of a query's neighbours.
  struct Candidate {
    uint32_t query;
    Neighbour neighbour;
  };

  // `own_rows`: if the queries are rows of the index, the row of each query;
  // else empty.
  Truth(VectorMetric metric, std::vector<float> queries, uint32_t padded,
        std::vector<uint64_t> own_rows)
      : metric_(metric),
        padded_(padded),
        count_(static_cast<uint32_t>(queries.size() / padded)),
        queries_(std::move(queries)),
        panels_(queries_.data(), count_, padded),
        own_rows_(std::move(own_rows)),
        nearest_(count_) {}

  // Appends the rows of a block that may be neighbours. Thread-safe while
  // offer() is not called.
  void compare(const float* rows, uint64_t first, uint64_t count,
               std::vector<Candidate>* out) const {
    std::vector<float> norms(count);
    if (metric_ != VectorMetric::kDot) {
      for (uint64_t i = 0; i < count; ++i) {
        const float* const row = rows + i * padded_;
        norms[i] = dot_product(row, row, padded_);
      }
    }
    const float by = metric_ == VectorMetric::kDot ? 1 : 2;
    panels_.products(
        rows, count, [&](uint64_t i, uint32_t query, const float* products) {
          const uint32_t end = std::min(query + VectorPanels::kPanel, count_);
          for (uint32_t q = query; q < end; ++q) {
            const float d = norms[i] - by * products[q - query];
            if (d <= limit(q)) out->push_back({q, {d, first + i}});
          }
        });
  }
  void offer(const std::vector<Candidate>& candidates) {
    for (const Candidate& c : candidates) {
      if (!own_rows_.empty() && own_rows_[c.query] == c.neighbour.row) continue;
      std::vector<Neighbour>& heap = nearest_[c.query];
      if (heap.size() == kMost) {
        if (!(c.neighbour < heap.front())) continue;
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
      }
      heap.push_back(c.neighbour);
      std::push_heap(heap.begin(), heap.end());
    }
  }

  uint32_t size() const { return count_; }
  const float* query(uint32_t i) const {
    return &queries_[uint64_t{i} * padded_];
  }
  // At most `k`, nearest first. Distances lack the squared length of the query.
  std::vector<Neighbour> neighbours(uint32_t query, uint32_t k) const {
    std::vector<Neighbour> out = nearest_[query];
    std::sort(out.begin(), out.end());
    out.resize(std::min<size_t>(k, out.size()));
    return out;
  }

  // Returns how many rows a search must look at to find a part of the `k`
  // neighbours. Orders lists by the codes of centroids, like a search. `found`
  // is the part of the neighbours in these lists that a search finds.
  std::vector<CurvePoint> curve(uint32_t k, double found,
                                const std::vector<float>& centroids,
                                const std::vector<uint32_t>& list_of) const {
    const auto num_lists = static_cast<uint32_t>(centroids.size() / padded_);
    std::vector<uint64_t> sizes(num_lists);
    for (const uint32_t list : list_of) ++sizes[list];
    std::vector<int8_t> codes(centroids.size());
    std::vector<float> scales(num_lists), norms(num_lists);
    for (uint32_t i = 0; i < num_lists; ++i) {
      const float* const c = &centroids[uint64_t{i} * padded_];
      scales[i] = encode_centroid(c, padded_, &codes[uint64_t{i} * padded_]);
      norms[i] = dot_product(c, c, padded_);
    }
    QueryCode code;
    std::vector<float> needed;
    std::vector<std::pair<float, uint32_t>> order(num_lists);
    std::vector<float> reached(num_lists);
    for (uint32_t q = 0; q < count_; ++q) {
      code.set(query(q), padded_);
      for (uint32_t i = 0; i < num_lists; ++i) {
        order[i] = {
            code.centroid_distance(metric_, &codes[uint64_t{i} * padded_],
                                   scales[i], norms[i]),
            i};
      }
      std::sort(order.begin(), order.end());
      uint64_t rows = 0;
      for (const auto& [distance, list] : order) {
        rows += sizes[list];
        reached[list] = static_cast<float>(static_cast<double>(rows) /
                                           static_cast<double>(list_of.size()));
      }
      for (const Neighbour& n : neighbours(q, k)) {
        needed.push_back(std::min(1.0f, reached[list_of[n.row]]));
      }
    }
    std::vector<CurvePoint> out;
    if (needed.empty()) return out;
    std::sort(needed.begin(), needed.end());
    for (const double recall : kRecalls) {
      const auto n = static_cast<size_t>(
          std::ceil(recall * static_cast<double>(needed.size())));
      out.push_back({needed[std::max<size_t>(n, 1) - 1],
                     static_cast<float>(recall * found)});
    }
    return out;
  }

 private:
  static constexpr size_t kMost = kNeighbours[1];

  float limit(uint32_t query) const {
    const std::vector<Neighbour>& heap = nearest_[query];
    return heap.size() < kMost ? std::numeric_limits<float>::infinity()
                               : heap.front().distance;
  }

  const VectorMetric metric_;
  const uint32_t padded_;
  const uint32_t count_;
  const std::vector<float> queries_;
  const VectorPanels panels_;
  const std::vector<uint64_t> own_rows_;
  std::vector<std::vector<Neighbour>> nearest_;  // heaps
};

Result<std::unique_ptr<VectorIndexWriter>> VectorIndexWriter::create(
    const VectorType& type, VectorIndexOptions options) {
  if (options.queries.size() % type.dimensions != 0) {
    return Status::invalid_argument(
        "VectorIndex: queries must have as many numbers as the column's "
        "vectors: " +
        std::to_string(type.dimensions));
  }
  const uint64_t padded = round_up(type.dimensions, kVectorPadding);
  if (options.known.centroids.size() != options.known.rows.size() * padded) {
    return Status::invalid_argument(
        "VectorIndex: known centroids of other dimensions than " +
        std::to_string(type.dimensions));
  }
  for (const float x : options.queries) {
    if (std::isfinite(x)) continue;
    return Status::invalid_argument(
        "VectorIndex: queries must have finite numbers only");
  }
  return std::unique_ptr<VectorIndexWriter>(
      new VectorIndexWriter(type, std::move(options)));
}

Status VectorIndexWriter::read_rotated(uint64_t first, uint64_t count,
                                       std::vector<float>* out) const {
  const VectorType& type = store_.type();
  std::vector<uint8_t> bytes;
  NIMBLE_RETURN_IF_ERROR(store_.read(first, count, &bytes));
  std::vector<float> values(count * type.dimensions);
  to_floats(type.element, bytes.data(), values.size(), values.data());
  out->resize(count * padded());
  rotate_rows(options_.metric, rotation_, center_, values.data(),
              type.dimensions, count, out->data());
  return Status::ok();
}

Result<bool> VectorIndexWriter::find_center() {
  const VectorType& type = store_.type();
  const uint64_t n = type.dimensions;
  RandomStream random(4);
  const std::vector<uint64_t> rows =
      random_numbers(store_.size(), kCenterRows, &random);
  // Differences to the first row, because squares of large numbers would lose
  // the spread.
  std::vector<double> first, sum(n), row(n);
  double squares = 0;
  std::vector<uint8_t> bytes;
  for (const uint64_t i : rows) {
    NIMBLE_RETURN_IF_ERROR(store_.read(i, 1, &bytes));
    to_doubles(type.element, bytes.data(), n, row.data());
    if (options_.metric == VectorMetric::kCosine) {
      double length = 0;
      for (const double x : row) length += x * x;
      length = std::sqrt(length);
      for (double& x : row) x /= length;  // not 0: such rows are left out
    }
    if (first.empty()) first = row;
    for (uint64_t j = 0; j < n; ++j) {
      const double d = row[j] - first[j];
      sum[j] += d;
      squares += d * d;
    }
  }
  if (first.empty()) return true;
  const auto count = static_cast<double>(rows.size());
  double norm = 0, moved = 0;
  for (uint64_t j = 0; j < n; ++j) {
    const double mean = sum[j] / count;
    moved += mean * mean;
    sum[j] = first[j] + mean;
    norm += sum[j] * sum[j];
  }
  const double spread = std::max(squares / count - moved, 0.0);
  if (norm > kFarCenter * spread && norm != 0) {
    center_.assign(sum.begin(), sum.end());
  }
  const bool is_rounded =
      is_wide(type.element) || options_.metric == VectorMetric::kCosine;
  return !is_rounded || norm * kFloatStep * kFloatStep <= spread / 16;
}

Result<std::vector<float>> VectorIndexWriter::train(
    uint32_t num_lists, const std::vector<uint64_t>& left_out) {
  const uint64_t row_bytes = uint64_t{padded()} * sizeof(float);
  const uint64_t fits =
      std::max<uint64_t>(num_lists, options_.memory_bytes / row_bytes);
  const uint64_t wanted =
      std::min(fits, uint64_t{num_lists} * kSampleRowsPerList);
  RandomStream random(2);
  std::vector<uint64_t> rows =
      random_numbers(store_.size() - left_out.size(), wanted, &random);
  // Converts positions among the rows that are not left out to row numbers.
  size_t skipped = 0;
  for (uint64_t& row : rows) {
    while (skipped < left_out.size() && left_out[skipped] <= row + skipped) {
      ++skipped;
    }
    row += skipped;
  }
  std::vector<float> sample(rows.size() * padded());
  std::vector<Status> status(div_ceil(rows.size(), VectorPanels::kBlockRows));
  parallel_for(status.size(), options_.threads, [&](size_t b) {
    std::vector<float> row;
    const size_t end =
        std::min<size_t>(rows.size(), (b + 1) * VectorPanels::kBlockRows);
    for (size_t i = b * VectorPanels::kBlockRows; i < end && status[b]; ++i) {
      status[b] = read_rotated(rows[i], 1, &row);
      if (status[b]) {
        std::memcpy(&sample[i * padded()], row.data(), row_bytes);
      }
    }
  });
  for (Status& s : status) NIMBLE_RETURN_IF_ERROR(std::move(s));
  ClusterOptions options;
  options.count = num_lists;
  NIMBLE_ASSIGN_OR_RETURN(options.start, known_centroids(num_lists));
  if (!options.start.empty()) options.iterations = kRoundsFromKnown;
  return cluster(sample, options);
}

Result<std::vector<float>> VectorIndexWriter::known_centroids(uint32_t most) {
  const KnownCentroids& known = options_.known;
  const uint64_t n = padded();
  double rows = 0;
  for (const float each : known.rows) rows += double{each};
  if (rows == 0) return std::vector<float>();
  ClusterOptions options;
  // Other rows get a share of the centroids too.
  const double share = std::min(1.0, rows / static_cast<double>(store_.size()));
  options.count = std::max(1u, static_cast<uint32_t>(std::round(share * most)));
  std::vector<float> centroids = known.centroids;
  if (!center_.empty()) {
    std::vector<float> center = center_;
    center.resize(n);
    rotation_.apply(center.data());
    for (uint64_t i = 0; i < centroids.size(); ++i) {
      centroids[i] -= center[i % n];
    }
  }
  if (known.rows.size() <= options.count) return centroids;
  options.iterations = kRoundsOfKnown;
  options.weights = known.rows;
  return cluster(centroids, options);
}

Result<std::vector<float>> VectorIndexWriter::cluster(
    const std::vector<float>& vectors, const ClusterOptions& options) {
  ClusterOptions given = options;
  given.dimensions = padded();
  given.threads = options_.threads;
  given.poll = options_.poll;
  pairs_trained_ +=
      vectors.size() / padded() * options.count * options.iterations;
  return train_centroids(vectors, given);
}

Result<std::vector<float>> VectorIndexWriter::calibration_queries(
    std::vector<uint64_t>* rows) const {
  const uint64_t n = store_.type().dimensions;
  // Products with the center are the same for all rows, so they do not change
  // the order.
  const std::vector<float> center =
      options_.metric == VectorMetric::kDot ? std::vector<float>() : center_;
  if (!options_.queries.empty()) {
    const uint64_t given = options_.queries.size() / n;
    RandomStream random(3);
    std::vector<float> values;
    for (const uint64_t i : random_numbers(given, 1024, &random)) {
      const auto from =
          options_.queries.begin() + static_cast<ptrdiff_t>(i * n);
      values.insert(values.end(), from, from + static_cast<ptrdiff_t>(n));
    }
    std::vector<float> out(values.size() / n * padded());
    rotate_rows(options_.metric, rotation_, center, values.data(), n,
                values.size() / n, out.data());
    return out;
  }
  RandomStream random(3);
  *rows = random_numbers(
      store_.size(),
      std::min(kCalibrationQueries, store_.size() / kCalibrationPart), &random);
  std::vector<float> out(rows->size() * padded()), row(n);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < rows->size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(store_.read((*rows)[i], 1, &bytes));
    to_floats(store_.type().element, bytes.data(), n, row.data());
    rotate_rows(options_.metric, rotation_, center, row.data(), n, 1,
                &out[i * padded()]);
  }
  return out;
}

Status VectorIndexWriter::assign(const std::vector<float>& centroids,
                                 Truth* truth,
                                 std::vector<uint32_t>* list_of) const {
  const VectorPanels panels(centroids.data(),
                            static_cast<uint32_t>(centroids.size() / padded()),
                            padded());
  list_of->resize(store_.size());
  // Number of blocks whose candidates are offered together.
  const uint64_t blocks = std::max<uint64_t>(4, 2 * options_.threads);
  std::vector<std::vector<Truth::Candidate>> candidates(blocks);
  std::vector<Status> status(blocks);
  for (uint64_t at = 0; at < store_.size();
       at += blocks * VectorPanels::kBlockRows) {
    NIMBLE_RETURN_IF_ERROR(poll());
    parallel_for(blocks, options_.threads, [&](size_t b) {
      candidates[b].clear();
      const uint64_t begin = at + b * VectorPanels::kBlockRows;
      if (begin >= store_.size()) return;
      const uint64_t count =
          std::min(VectorPanels::kBlockRows, store_.size() - begin);
      std::vector<float> rows;
      status[b] = read_rotated(begin, count, &rows);
      if (!status[b]) return;
      panels.nearest(rows.data(), count, &(*list_of)[begin]);
      truth->compare(rows.data(), begin, count, &candidates[b]);
    });
    for (uint64_t b = 0; b < blocks; ++b) {
      NIMBLE_RETURN_IF_ERROR(std::move(status[b]));
      status[b] = Status();
      truth->offer(candidates[b]);
    }
  }
  return Status::ok();
}

Result<std::vector<std::vector<float>>> VectorIndexWriter::sample_keys(
    const Truth& truth, const std::vector<float>& centroids,
    const std::vector<uint32_t>& list_of) const {
  RandomStream random(5);
  const std::vector<uint64_t> rows =
      random_numbers(store_.size(), kSampledKeys, &random);
  std::vector<float> sample, row;
  for (const uint64_t i : rows) {
    NIMBLE_RETURN_IF_ERROR(read_rotated(i, 1, &row));
    sample.insert(sample.end(), row.begin(), row.end());
  }
  std::vector<std::vector<float>> out(truth.size());
  parallel_for(truth.size(), options_.threads, [&](size_t q) {
    out[q].resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      out[q][i] = search_key(
          options_.metric, truth.query(static_cast<uint32_t>(q)),
          &sample[i * padded()],
          &centroids[uint64_t{list_of[rows[i]]} * padded()], padded());
    }
    std::sort(out[q].begin(), out[q].end());
  });
  return out;
}

Result<double> VectorIndexWriter::part_found(
    const Truth& truth, uint32_t k, const std::vector<float>& centroids,
    const std::vector<uint32_t>& list_of,
    const std::vector<std::vector<float>>& sampled) const {
  // Neighbours of a query that are examined.
  constexpr size_t kExamined = 10;
  uint64_t examined = 0, found = 0;
  std::vector<float> row;
  for (uint32_t q = 0; q < truth.size(); ++q) {
    const std::vector<Truth::Neighbour> near = truth.neighbours(q, k);
    if (near.empty()) continue;
    const float* const query = truth.query(q);
    float limit = near.back().distance;
    if (options_.metric != VectorMetric::kDot) {
      limit += dot_product(query, query, padded());
    }
    const std::vector<float>& keys = sampled[q];
    const double most = static_cast<double>(most_candidates(k)) *
                        static_cast<double>(keys.size()) /
                        static_cast<double>(store_.size());
    const size_t step = div_ceil(near.size(), kExamined);
    for (size_t i = step - 1; i < near.size(); i += step) {
      NIMBLE_RETURN_IF_ERROR(read_rotated(near[i].row, 1, &row));
      const float key = search_key(
          options_.metric, query, row.data(),
          &centroids[uint64_t{list_of[near[i].row]} * padded()], padded());
      const auto before =
          std::lower_bound(keys.begin(), keys.end(), key) - keys.begin();
      ++examined;
      found += key <= limit && static_cast<double>(before) <= most;
    }
  }
  return examined == 0
             ? 1.0
             : static_cast<double>(found) / static_cast<double>(examined);
}

Status VectorIndexWriter::write_lists(const std::vector<float>& centroids,
                                      const std::vector<uint32_t>& list_of,
                                      const SectionSink& sink,
                                      VectorRoot* root) const {
  const uint32_t width = padded();
  const auto num_lists = root->num_lists;
  std::vector<uint64_t> sizes(num_lists);
  for (const uint32_t list : list_of) ++sizes[list];
  std::vector<uint64_t> checksums(num_lists);
  uint64_t next_offset = 0;
  for (uint32_t first = 0; first < num_lists;) {
    // Takes as many lists as fit in memory, but at least one.
    std::vector<uint64_t> begins;
    uint64_t bytes = 0;
    uint32_t last = first;
    for (; last < num_lists; ++last) {
      const ListLayout layout(sizes[last], width, root->row_width);
      if (last > first &&
          layout.size > options_.memory_bytes / 2 -
                            std::min(bytes, options_.memory_bytes / 2)) {
        break;
      }
      begins.push_back(bytes);
      bytes += layout.size;
    }
    std::vector<uint8_t> blob(bytes);
    std::vector<ListLayout> layouts;
    for (uint32_t list = first; list < last; ++list) {
      layouts.emplace_back(sizes[list], width, root->row_width);
      uint8_t* const to = blob.data() + begins[list - first];
      std::memcpy(to, &centroids[uint64_t{list} * width],
                  width * sizeof(float));
      // An infinite offset excludes the slots after the last row from all
      // results.
      for (uint64_t i = sizes[list]; i < layouts.back().slots; ++i) {
        store(to + layouts.back().offset_at + 4 * i,
              std::numeric_limits<float>::infinity());
      }
    }
    // Many threads code rows. One thread then places them in order.
    std::vector<uint64_t> next(last - first);
    const uint64_t batch_rows =
        VectorPanels::kBlockRows * std::max<uint64_t>(4, 2 * options_.threads);
    std::vector<uint64_t> slot(batch_rows);
    std::vector<Status> status(batch_rows / VectorPanels::kBlockRows);
    for (uint64_t at = 0; at < store_.size(); at += batch_rows) {
      NIMBLE_RETURN_IF_ERROR(poll());
      const uint64_t end = std::min(store_.size(), at + batch_rows);
      for (uint64_t i = at; i < end; ++i) {
        const uint32_t list = list_of[i];
        if (list >= first && list < last) slot[i - at] = next[list - first]++;
      }
      parallel_for(status.size(), options_.threads, [&](size_t b) {
        const uint64_t begin = at + b * VectorPanels::kBlockRows;
        if (begin >= end) return;
        const uint64_t count = std::min(VectorPanels::kBlockRows, end - begin);
        std::vector<float> rows;
        status[b] = read_rotated(begin, count, &rows);
        if (!status[b]) return;
        for (uint64_t i = begin; i < begin + count; ++i) {
          const uint32_t list = list_of[i];
          if (list < first || list >= last) continue;
          const ListLayout& layout = layouts[list - first];
          uint8_t* const to = blob.data() + begins[list - first];
          const uint64_t s = slot[i - at];
          const CodeNumbers numbers = encode_residual(
              options_.metric, &rows[(i - begin) * width],
              &centroids[uint64_t{list} * width], width,
              static_cast<uint32_t>(s % kVectorBlock),
              to + layout.codes_at +
                  s / kVectorBlock * kVectorBlock * (width / 8));
          const uint64_t row = store_.file_row(i);
          if (root->row_width == 4) {
            store(to + layout.row_at + 4 * s, static_cast<uint32_t>(row));
          } else {
            store(to + layout.row_at + 8 * s, row);
          }
          store(to + layout.scale_at + 4 * s, numbers.scale);
          store(to + layout.offset_at + 4 * s, numbers.offset);
        }
      });
      for (Status& s : status) NIMBLE_RETURN_IF_ERROR(std::move(s));
    }
    for (uint32_t list = first; list < last; ++list) {
      checksums[list] = checksum64(
          {blob.data() + begins[list - first], layouts[list - first].size});
    }
    NIMBLE_ASSIGN_OR_RETURN(const SectionRef section, sink(blob));
    if (first == 0) {
      root->lists_offset = section.offset;
    } else if (section.offset != next_offset) {
      return Status::io_error("vector index: lists were not written in order");
    }
    next_offset = section.offset + section.size;
    root->lists_bytes = next_offset - root->lists_offset;
    first = last;
  }
  ByteBuffer directory;
  uint8_t* const to = directory.extend(ListDirectory::size_of(*root));
  const uint64_t n = num_lists;
  for (uint64_t i = 0; i < n; ++i) {
    const float* const c = &centroids[i * width];
    auto* const code = reinterpret_cast<int8_t*>(to + 20 * n + i * width);
    store(to + 8 * i, checksums[i]);
    store(to + 8 * n + 4 * i, static_cast<uint32_t>(sizes[i]));
    store(to + 12 * n + 4 * i, encode_centroid(c, width, code));
    store(to + 16 * n + 4 * i, dot_product(c, c, width));
  }
  if (!center_.empty()) {
    std::memcpy(to + (20 + uint64_t{width}) * n, center_.data(),
                center_.size() * sizeof(float));
  }
  NIMBLE_ASSIGN_OR_RETURN(root->directory, sink(directory.span()));
  return Status::ok();
}

Result<std::vector<uint8_t>> VectorIndexWriter::finish(
    const SectionSink& sink) {
  VectorRoot root;
  root.metric = options_.metric;
  root.dimensions = store_.type().dimensions;
  root.padded = padded();
  root.num_rows = store_.size();
  root.left_out = store_.file_rows() - store_.size();
  root.row_width = store_.file_rows() > UINT32_MAX ? 8 : 4;
  const uint64_t rows = store_.size();
  const bool is_small = rows < div_ceil(kMinListedNumbers, root.dimensions);
  // Comparing single numbers takes no longer than estimating their distances.
  const bool is_short = root.dimensions == 1;
  if (is_small || is_short || store_.has_long_rows()) return root.serialize();
  // Lists have at least a block of rows on average, because the blocks of
  // shorter lists would be half empty.
  const uint64_t best = std::min(static_cast<uint64_t>(std::llround(
                                     2 * std::sqrt(static_cast<double>(rows)))),
                                 rows / kVectorBlock);
  // At least half of the rows can train the centroids.
  root.num_lists = static_cast<uint32_t>(
      std::clamp<uint64_t>(options_.lists == 0 ? best : options_.lists, 1,
                           std::max<uint64_t>(1, rows / 2)));
  NIMBLE_ASSIGN_OR_RETURN(const bool is_precise, find_center());
  if (!is_precise) {
    root.num_lists = 0;
    return root.serialize();
  }
  if (!center_.empty()) root.rotation = kCenteredAndRotated;
  std::vector<uint64_t> own_rows;
  NIMBLE_ASSIGN_OR_RETURN(std::vector<float> queries,
                          calibration_queries(&own_rows));
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<float> centroids,
                          train(root.num_lists, own_rows));
  Truth truth(options_.metric, std::move(queries), padded(),
              std::move(own_rows));
  std::vector<uint32_t> list_of;
  NIMBLE_RETURN_IF_ERROR(assign(centroids, &truth, &list_of));
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<std::vector<float>> sampled,
                          sample_keys(truth, centroids, list_of));
  for (const uint32_t k : kNeighbours) {
    NIMBLE_ASSIGN_OR_RETURN(const double found,
                            part_found(truth, k, centroids, list_of, sampled));
    (k == kNeighbours[0] ? root.curve10 : root.curve100) =
        truth.curve(k, found, centroids, list_of);
  }
  NIMBLE_RETURN_IF_ERROR(write_lists(centroids, list_of, sink, &root));
  return root.serialize();
}

}  // namespace nimble
