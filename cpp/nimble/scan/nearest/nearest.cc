#include "nimble/scan/nearest/nearest.h"

#include <algorithm>
#include <numeric>

#include "nimble/scan/nearest/allowed_rows.h"
#include "nimble/scan/nearest/exact_distance.h"
#include "nimble/scan/nearest/list_search.h"
#include "nimble/scan/nearest/nearest_rows.h"
#include "nimble/scan/nearest/vector_rows.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// Number of vector elements that one task compares.
constexpr uint64_t kTaskNumbers = uint64_t{1} << 18;

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

// One run of a search.
class Run {
 public:
  Run(std::span<const SearchPart> parts, std::span<const double> queries,
      uint32_t dimensions, const NearestOptions& options, NearestStats* stats)
      : parts_(parts),
        queries_(queries),
        dimensions_(dimensions),
        options_(options),
        stats_(*stats) {}

  Result<NearestHits> run() {
    choose_parts();
    const size_t count = queries_.size() / dimensions_;
    nearest_.assign(count, NearestRows(options_.k));
    all_queries_.resize(count);
    std::iota(all_queries_.begin(), all_queries_.end(), size_t{0});
    for (size_t q = 0; q < count; ++q) {
      (ListSearch::can_answer(options_.metric, {query(q), dimensions_})
           ? listed_queries_
           : unusual_)
          .push_back(q);
    }
    NIMBLE_RETURN_IF_ERROR(compare_rows());
    NIMBLE_RETURN_IF_ERROR(search_lists());
    NearestHits out(count);
    for (size_t q = 0; q < count; ++q) {
      for (const NearRow& row : nearest_[q].take_sorted()) {
        out[q].push_back({static_cast<float>(row.distance), row.part, row.row});
      }
    }
    return out;
  }

 private:
  const double* query(size_t q) const { return &queries_[q * dimensions_]; }
  // The number of threads worth using to compare this many vectors.
  uint32_t worth(uint64_t rows) const {
    constexpr double kNanosPerNumber = 0.2;
    return threads_worth(kNanosPerNumber * static_cast<double>(rows) *
                             static_cast<double>(dimensions_),
                         options_.threads);
  }

  // Decides which parts are searched by lists.
  void choose_parts() {
    by_lists_.assign(parts_.size(), 0);
    const uint64_t least = div_ceil(kMinSearchedNumbers, dimensions_);
    uint64_t rows = 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const SearchPart& part = parts_[p];
      stats_.rows_allowed += part.allowed.size();
      if (options_.exact || options_.recall >= 1 || !part.has_lists()) continue;
      if (!part.index().rows_needed(options_.recall, options_.k)) {
        ++stats_.files_below_recall;
        continue;
      }
      by_lists_[p] = 1;
      rows += part.allowed.size();
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      const SearchPart& part = parts_[p];
      // Searching the lists of a part for few of its rows costs more than
      // comparing these. Rows that are stored together are compared faster.
      constexpr double kFewRows = 1.0 / 16;
      const uint64_t few = part.allowed.is_range() ? 2 * least : least;
      if (rows < least || (by_lists_[p] != 0 && part.allowed.size() < few &&
                           part.density() < kFewRows)) {
        by_lists_[p] = 0;
      }
      if (part.allowed.size() == 0) continue;
      ++(by_lists_[p] != 0 ? stats_.files_by_lists : stats_.files_compared);
    }
  }

  // The queries that are compared with all rows of a part.
  const std::vector<size_t>& compared_with(uint32_t part) const {
    return by_lists_[part] != 0 ? unusual_ : all_queries_;
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
      const size_t queries = compared_with(p).size();
      if (queries == 0) continue;
      rows += parts_[p].allowed.size() * queries;
      for (auto& ranges :
           cut(parts_[p].allowed.ranges(),
               std::max<uint64_t>(1, kTaskNumbers / dimensions_))) {
        tasks.push_back({p, std::move(ranges)});
      }
    }
    if (tasks.empty()) return Status::ok();
    const size_t lanes = std::min<size_t>(tasks.size(), worth(rows));
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
    const SearchPart& part = parts_[p];
    const std::vector<size_t>& queries = compared_with(p);
    VectorRows rows(part.given->scan.output, part.type);
    std::vector<ExactDistance> distances;
    for (const size_t q : queries) {
      distances.emplace_back(options_.metric, part.type).set_query(query(q));
    }
    return rows.visit(ranges, [&](uint64_t row, const uint8_t* values,
                                  uint64_t count) {
      for (size_t i = 0; i < queries.size(); ++i) {
        distances[i].add_nearest(values, count, p, row, &(*found)[queries[i]]);
      }
      *compared += count * queries.size();
    });
  }

  Status search_lists() {
    if (stats_.files_by_lists == 0 || listed_queries_.empty())
      return Status::ok();
    const size_t lanes = std::min<size_t>(
        listed_queries_.size(),
        listed_queries_.size() == 1
            ? 1
            : threads_worth(5e4 * static_cast<double>(listed_queries_.size()),
                            options_.threads));
    std::vector<Status> status(lanes);
    std::vector<NearestStats> stats(lanes);
    parallel_for(lanes, static_cast<uint32_t>(lanes), [&](size_t lane) {
      ListSearch search(parts_, by_lists_, options_);
      for (size_t i = lane; i < listed_queries_.size() && status[lane];
           i += lanes) {
        const size_t q = listed_queries_[i];
        status[lane] = search.run(query(q), &nearest_[q], &stats[lane]);
      }
    });
    for (size_t lane = 0; lane < lanes; ++lane) {
      NIMBLE_RETURN_IF_ERROR(std::move(status[lane]));
      stats_.lists += stats[lane].lists;
      stats_.lists_probed += stats[lane].lists_probed;
      stats_.rows_scored += stats[lane].rows_scored;
      stats_.rows_compared += stats[lane].rows_compared;
    }
    return Status::ok();
  }

  std::span<const SearchPart> parts_;
  std::span<const double> queries_;
  const uint32_t dimensions_;
  const NearestOptions& options_;
  NearestStats& stats_;
  std::vector<uint8_t> by_lists_;  // by part: whether its lists are searched
  std::vector<NearestRows> nearest_;
  // Indexes of queries: all, those that lists can answer, and the others.
  std::vector<size_t> all_queries_, listed_queries_, unusual_;
};

}  // namespace

NearestSearch::NearestSearch(std::vector<NearestPart> parts,
                             uint32_t dimensions)
    : given_(std::move(parts)), dimensions_(dimensions) {}
NearestSearch::~NearestSearch() = default;

Result<std::unique_ptr<const NearestSearch>> NearestSearch::prepare(
    std::vector<NearestPart> parts, uint32_t dimensions) {
  std::unique_ptr<NearestSearch> out(
      new NearestSearch(std::move(parts), dimensions));
  for (const NearestPart& g : out->given_) {
    const Field& field = g.scan.output->schema().children[0];
    NIMBLE_ASSIGN_OR_RETURN(const VectorType type, VectorType::of(field));
    if (type.dimensions != dimensions) {
      return Status::invalid_argument(
          g.scan.output->file().file().name() + ": vectors of " +
          std::to_string(type.dimensions) + " numbers; the query has " +
          std::to_string(dimensions));
    }
    NIMBLE_ASSIGN_OR_RETURN(AllowedRows allowed,
                            AllowedRows::of(g.scan, g.deleted));
    out->parts_.push_back({&g, type, std::move(allowed)});
  }
  return std::unique_ptr<const NearestSearch>(std::move(out));
}

Result<NearestHits> NearestSearch::run(std::span<const double> queries,
                                       const NearestOptions& options,
                                       NearestStats* stats) const {
  return Run(parts_, queries, dimensions_, options, stats).run();
}

}  // namespace nimble
