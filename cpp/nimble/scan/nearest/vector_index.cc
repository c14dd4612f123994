#include "nimble/scan/nearest/vector_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "nimble/base/hash.h"
#include "nimble/open/section_fetch.h"

namespace nimble {
namespace {

constexpr double kStandardErrors = 2.25;
// Number of vector elements in one place, see is_new_place(): the elements of a
// plain column that share a checksum, usually a page of memory.
constexpr uint64_t kPlaceNumbers = 1024;
// Cold lists with a smaller gap than this are read as one range.
constexpr uint64_t kListGap = 32 * 1024;

// Interpolates the fraction of rows at which a curve reaches the recall. Empty
// if it never does.
std::optional<double> rows_on(const std::vector<CurvePoint>& curve,
                              double recall) {
  if (curve.empty() || double{curve.back().recall} < recall) return {};
  CurvePoint last{0, 0};
  for (const CurvePoint& p : curve) {
    if (double{p.recall} >= recall) {
      const double step = double{p.recall} - double{last.recall};
      const double part =
          step > 0 ? (recall - double{last.recall}) / step : 1.0;
      return double{last.rows} + part * (double{p.rows} - double{last.rows});
    }
    last = p;
  }
  return 1.0;
}

}  // namespace

Result<std::unique_ptr<const VectorIndex>> VectorIndex::open(
    const OpenFile& file, size_t i) {
  const SecondaryIndexRef& ref = file.footer().vectors[i];
  const auto fail = [&](Status s) {
    return std::move(s).with_context(file.file().name() + ": vector index " +
                                     std::to_string(i));
  };
  const auto top = static_cast<size_t>(ref.columns[0].path[0]);
  const Field& field = file.footer().schema.children[top];
  if (ref.columns[0].path.size() != 1 || field.layout != Layout::kFixedList) {
    return fail(Status::corrupt("its column has no vectors"));
  }
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          file.read_section(ref.root, "vector index root"));
  auto root = VectorRoot::parse(bytes, file.postscript().footer_offset,
                                file.num_rows());
  if (!root) return fail(std::move(root).error());
  if (static_cast<int64_t>(root->dimensions) != field.list_size) {
    return fail(Status::corrupt(std::to_string(root->dimensions) +
                                " dimensions; the column has " +
                                std::to_string(field.list_size)));
  }
  std::unique_ptr<VectorIndex> out(
      new VectorIndex(file, std::move(root).value(), static_cast<int>(top)));
  if (out->root_.num_lists == 0) {
    return std::unique_ptr<const VectorIndex>(std::move(out));
  }
  file.file().will_need(out->root_.directory.offset, out->root_.directory.size);
  NIMBLE_ASSIGN_OR_RETURN(
      out->directory_bytes_,
      file.read_section(out->root_.directory, "vector index directory"));
  auto directory = ListDirectory::parse(out->directory_bytes_, out->root_);
  if (!directory) return fail(std::move(directory).error());
  out->directory_ = std::move(directory).value();
  if (out->directory_.center != nullptr) {
    out->center_.resize(out->root_.dimensions);
    std::memcpy(out->center_.data(), out->directory_.center,
                out->center_.size() * sizeof(float));
  }
  uint64_t at = out->root_.lists_offset;
  for (uint32_t list = 0; list < out->root_.num_lists; ++list) {
    out->offsets_.push_back(at);
    at += out->layout(list).size;
  }
  file.budget()->add_resident(out->directory_bytes_.size() +
                              8 * out->offsets_.size());
  if (file.file().mapped() != nullptr) {
    out->verified_ = std::vector<std::atomic<uint8_t>>(out->root_.num_lists);
    out->rows_of_place_ =
        std::max<uint64_t>(1, kPlaceNumbers / out->root_.dimensions);
    out->used_places_ = std::vector<std::atomic<uint64_t>>(
        file.num_rows() / out->rows_of_place_ / 64 + 1);
  }
  return std::unique_ptr<const VectorIndex>(std::move(out));
}

Result<VectorMetric> VectorIndex::read_metric(const OpenFile& file, size_t i) {
  NIMBLE_ASSIGN_OR_RETURN(
      const std::vector<uint8_t> bytes,
      file.read_section(file.footer().vectors[i].root, "vector index root"));
  auto metric = VectorRoot::parse_metric(bytes);
  if (metric) return metric;
  return std::move(metric).error().with_context(
      file.file().name() + ": vector index " + std::to_string(i));
}

KnownCentroids VectorIndex::known_centroids() const {
  std::vector<float> center = center_;
  center.resize(root_.padded);
  rotation_.apply(center.data());
  KnownCentroids out;
  for (uint32_t i = 0; i < root_.num_lists; ++i) {
    if (directory_.rows_of(i) == 0) continue;
    const float scale = directory_.scale(i);
    const int8_t* const code = directory_.codes + uint64_t{i} * root_.padded;
    for (uint32_t j = 0; j < root_.padded; ++j) {
      out.centroids.push_back(scale * static_cast<float>(code[j]) + center[j]);
    }
    out.rows.push_back(static_cast<float>(directory_.rows_of(i)));
  }
  return out;
}

Status VectorIndex::check(uint32_t list, ByteSpan bytes) const {
  const ListLayout at = layout(list);
  const auto fail = [&](const std::string& what) {
    return Status::corrupt(file_.file().name() + ": list " +
                           std::to_string(list) +
                           " of the vector index at offset " +
                           std::to_string(offsets_[list]) + ": " + what);
  };
  if (checksum64(bytes) != directory_.checksum(list)) {
    return fail("the checksum does not match");
  }
  uint64_t next = 0;
  for (uint64_t i = 0; i < at.rows; ++i) {
    const uint8_t* const p = bytes.data() + at.row_at + i * root_.row_width;
    const uint64_t row =
        root_.row_width == 4 ? load<uint32_t>(p) : load<uint64_t>(p);
    if (row < next || row >= file_.num_rows()) {
      return fail("row " + std::to_string(row) + " after row " +
                  std::to_string(next) + " in a file of " +
                  std::to_string(file_.num_rows()) + " rows");
    }
    next = row + 1;
  }
  return Status::ok();
}

void VectorIndex::will_need(std::span<const uint32_t> lists) const {
  std::vector<uint32_t> cold;
  for (const uint32_t list : lists) {
    if (verified_[list].load(std::memory_order_relaxed) == 0) {
      cold.push_back(list);
    }
  }
  std::sort(cold.begin(), cold.end());  // also ascending in the file
  for (size_t i = 0; i < cold.size();) {
    const uint64_t begin = offsets_[cold[i]];
    uint64_t end = begin + bytes_of(cold[i]);
    for (++i; i < cold.size() && offsets_[cold[i]] < end + kListGap; ++i) {
      end = offsets_[cold[i]] + bytes_of(cold[i]);
    }
    file_.file().will_need(begin, end - begin);
  }
}

Status VectorIndex::read(std::span<const uint32_t> lists,
                         std::vector<List>* out) const {
  out->assign(lists.size(), {});
  if (const uint8_t* const map = file_.file().mapped()) {
    will_need(lists);
    for (size_t i = 0; i < lists.size(); ++i) {
      const uint32_t list = lists[i];
      (*out)[i].data = map + offsets_[list];
      if (verified_[list].load(std::memory_order_relaxed) != 0) continue;
      NIMBLE_RETURN_IF_ERROR(
          check(list, {map + offsets_[list], layout(list).size}));
      verified_[list].store(1, std::memory_order_relaxed);
    }
    return Status::ok();
  }
  std::vector<size_t> order(lists.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return lists[a] < lists[b]; });
  std::vector<SectionRef> sections;
  for (const size_t i : order) {
    sections.push_back({offsets_[lists[i]], layout(lists[i]).size,
                        directory_.checksum(lists[i])});
  }
  std::vector<RangeCache::Bytes> bytes;
  NIMBLE_RETURN_IF_ERROR(
      fetch_sections(file_, sections, "list of the vector index", &bytes));
  for (size_t i = 0; i < order.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(check(lists[order[i]], *bytes[i]));
    (*out)[order[i]] = {bytes[i]->data(), bytes[i]};
  }
  return Status::ok();
}

std::optional<double> VectorIndex::rows_needed(double recall, uint64_t k,
                                               double part) const {
  // The curve was measured with a sample of queries, so a higher recall is
  // looked up. `error` is about the standard error of 256 queries, if the
  // recall of single queries varies as much as for random vectors.
  const double error = 0.02 * std::sqrt(std::max(0.0, 1 - recall));
  recall += std::min(kStandardErrors * error, (1 - recall) / 2);
  const std::optional<double> of10 = rows_on(root_.curve10, recall);
  const std::optional<double> of100 = rows_on(root_.curve100, recall);
  if (!(k <= 30 ? of10 : of100)) return {};
  double rows = k <= 30 ? *of10 : *of100;
  // The curve was measured for at most 100 neighbours.
  if (k > 100) rows *= 1 + 0.5 * std::log10(static_cast<double>(k) / 100);
  // A part of the rows has about the same part of the neighbours. Fewer
  // neighbours are nearer, and are found in fewer lists. So the curves are
  // extrapolated below 10 neighbours, with less than their slope between 100
  // and 10: they become flat where few lists are left.
  if (part > 0 && part < 1 && of10 && of100 && *of10 > 0 && *of10 < *of100) {
    constexpr double kSlope = 0.75, kMostDecades = 2, kLeastRatio = 0.5;
    const double decades = std::min(-std::log10(part), kMostDecades);
    rows *= std::pow(std::max(*of10 / *of100, kLeastRatio), kSlope * decades);
  }
  return std::clamp(rows, 0.0, 1.0);
}

Status VectorIndex::verify() const {
  std::vector<uint64_t> seen(div_ceil(file_.num_rows(), 64));
  std::vector<List> read_list;
  for (uint32_t list = 0; list < root_.num_lists; ++list) {
    if (!verified_.empty()) verified_[list].store(0);
    NIMBLE_RETURN_IF_ERROR(read({&list, 1}, &read_list));
    const ListLayout at = layout(list);
    for (uint64_t i = 0; i < at.rows; ++i) {
      const uint8_t* const p =
          read_list[0].data + at.row_at + i * root_.row_width;
      const uint64_t row =
          root_.row_width == 4 ? load<uint32_t>(p) : load<uint64_t>(p);
      uint64_t& word = seen[row / 64];
      const uint64_t bit = uint64_t{1} << row % 64;
      if ((word & bit) != 0) {
        return Status::corrupt(file_.file().name() + ": row " +
                               std::to_string(row) +
                               " is in two lists of the vector index");
      }
      word |= bit;
    }
  }
  return Status::ok();
}

}  // namespace nimble
