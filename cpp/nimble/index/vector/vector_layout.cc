#include "nimble/index/vector/vector_layout.h"

#include <cmath>

#include "nimble/format/flat_buffer.h"
#include "vector_index_generated.h"

namespace nimble {
namespace {

using CurveVector = flatbuffers::Vector<const fb::VectorCurvePoint*>;
constexpr uint32_t kMaxCurvePoints = 1024;

std::vector<fb::VectorCurvePoint> put_curve(const std::vector<CurvePoint>& c) {
  std::vector<fb::VectorCurvePoint> out;
  for (const CurvePoint& p : c) out.emplace_back(p.rows, p.recall);
  return out;
}

Status get_curve(const CurveVector* from, std::vector<CurvePoint>* out) {
  if (from == nullptr) return Status::ok();
  if (from->size() > kMaxCurvePoints) {
    return Status::corrupt("vector index: a curve has " +
                           std::to_string(from->size()) + " points; at most " +
                           std::to_string(kMaxCurvePoints) + " are possible");
  }
  CurvePoint last{0, 0};
  for (const fb::VectorCurvePoint* p : *from) {
    const CurvePoint next{p->rows(), p->recall()};
    // Written so that the check fails for NaN.
    const bool ascends = next.rows >= last.rows && next.rows <= 1 &&
                         next.recall >= last.recall && next.recall <= 1;
    if (!ascends) {
      return Status::corrupt("vector index: the curve does not ascend");
    }
    out->push_back(last = next);
  }
  return Status::ok();
}

}  // namespace

const char* metric_name(VectorMetric metric) {
  switch (metric) {
    case VectorMetric::kL2:
      return "l2";
    case VectorMetric::kCosine:
      return "cosine";
    case VectorMetric::kDot:
      break;
  }
  return "dot";
}

Result<VectorMetric> metric_of(const std::string& name) {
  for (const auto m :
       {VectorMetric::kL2, VectorMetric::kCosine, VectorMetric::kDot}) {
    if (name == metric_name(m)) return m;
  }
  return Status::invalid_argument("metric '" + name +
                                  "': expected 'l2', 'cosine' or 'dot'");
}

std::vector<uint8_t> VectorRoot::serialize() const {
  flatbuffers::FlatBufferBuilder b;
  const auto c10 = b.CreateVectorOfStructs(put_curve(curve10));
  const auto c100 = b.CreateVectorOfStructs(put_curve(curve100));
  const fb::Section section = to_fb(directory);
  fb::FinishVectorIndexRootBuffer(
      b, fb::CreateVectorIndexRoot(b, static_cast<uint8_t>(metric), bits,
                                   rotation, row_width, dimensions, padded,
                                   num_lists, num_rows, left_out, lists_offset,
                                   lists_bytes, &section, c10, c100));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<VectorMetric> VectorRoot::parse_metric(ByteSpan bytes) {
  NIMBLE_ASSIGN_OR_RETURN(const auto root,
                          FlatBufferView<fb::VectorIndexRoot>::open(
                              bytes, fb::VectorIndexRootIdentifier()));
  if (root->metric() < 1 || root->metric() > 3) {
    return Status::unsupported("vector index: metric " +
                               std::to_string(root->metric()) +
                               "; this version knows 1 to 3");
  }
  return static_cast<VectorMetric>(root->metric());
}

Result<VectorRoot> VectorRoot::parse(ByteSpan bytes, uint64_t limit,
                                     uint64_t file_rows) {
  NIMBLE_ASSIGN_OR_RETURN(const auto root,
                          FlatBufferView<fb::VectorIndexRoot>::open(
                              bytes, fb::VectorIndexRootIdentifier()));
  VectorRoot out;
  NIMBLE_ASSIGN_OR_RETURN(out.metric, parse_metric(bytes));
  out.bits = root->bits();
  out.rotation = root->rotation();
  if (out.bits != 1 ||
      (out.rotation != kRotated && out.rotation != kCenteredAndRotated)) {
    return Status::unsupported("vector index: bits " +
                               std::to_string(out.bits) + ", rotation " +
                               std::to_string(out.rotation) +
                               "; this version knows bits 1, rotation 1 and 2");
  }
  out.row_width = root->row_width();
  out.dimensions = root->dimensions();
  out.padded = root->padded();
  out.num_lists = root->num_lists();
  out.num_rows = root->num_rows();
  out.left_out = root->left_out();
  out.lists_offset = root->lists_offset();
  out.lists_bytes = root->lists_bytes();
  if (out.dimensions == 0 || out.dimensions > kMaxVectorDimensions ||
      out.padded != round_up(out.dimensions, kVectorPadding)) {
    return Status::corrupt("vector index: " + std::to_string(out.dimensions) +
                           " dimensions cannot be padded to " +
                           std::to_string(out.padded));
  }
  if (out.row_width != 4 && out.row_width != 8) {
    return Status::corrupt("vector index: row numbers of " +
                           std::to_string(out.row_width) +
                           " bytes; expected 4 or 8");
  }
  if (out.num_rows > file_rows || out.left_out > file_rows - out.num_rows) {
    return Status::corrupt("vector index: " + std::to_string(out.num_rows) +
                           " indexed rows and " + std::to_string(out.left_out) +
                           " other rows, but the file has only " +
                           std::to_string(file_rows));
  }
  if (!in_bounds(out.lists_offset, out.lists_bytes, limit)) {
    return Status::corrupt("vector index: its lists end after byte " +
                           std::to_string(limit));
  }
  if (out.num_lists > 0) {
    if (root->directory() == nullptr) {
      return Status::corrupt("vector index: it has lists but no directory");
    }
    out.directory = from_fb(*root->directory());
    if (!in_bounds(out.directory.offset, out.directory.size, limit) ||
        out.directory.size != ListDirectory::size_of(out)) {
      return Status::corrupt(
          "vector index: a directory of " + std::to_string(out.directory.size) +
          " bytes does not fit " + std::to_string(out.num_lists) + " lists");
    }
  }
  NIMBLE_RETURN_IF_ERROR(get_curve(root->curve10(), &out.curve10));
  NIMBLE_RETURN_IF_ERROR(get_curve(root->curve100(), &out.curve100));
  return out;
}

ListLayout::ListLayout(uint64_t num_rows, uint32_t padded, uint32_t row_width)
    : rows(num_rows),
      slots(round_up(num_rows, kVectorBlock)),
      row_at(uint64_t{padded} * sizeof(float)),
      scale_at(row_at + slots * row_width),
      offset_at(scale_at + slots * sizeof(float)),
      codes_at(offset_at + slots * sizeof(float)),
      size(codes_at + slots * (padded / 8)) {}

uint64_t ListDirectory::size_of(const VectorRoot& root) {
  return uint64_t{root.num_lists} * (8 + 4 + 4 + 4 + uint64_t{root.padded}) +
         (root.has_center() ? sizeof(float) * uint64_t{root.dimensions} : 0);
}

Result<ListDirectory> ListDirectory::parse(ByteSpan bytes,
                                           const VectorRoot& root) {
  if (bytes.size() != size_of(root)) {
    return Status::corrupt(
        "vector index: a directory of " + std::to_string(bytes.size()) +
        " bytes does not fit " + std::to_string(root.num_lists) + " lists");
  }
  const uint64_t n = root.num_lists;
  ListDirectory out;
  out.num_lists = root.num_lists;
  out.checksums = bytes.data();
  out.rows = out.checksums + 8 * n;
  out.scales = out.rows + 4 * n;
  out.norms = out.scales + 4 * n;
  const uint8_t* const codes = out.norms + 4 * n;
  out.codes = reinterpret_cast<const int8_t*>(codes);
  if (root.has_center()) out.center = codes + n * root.padded;
  const auto fail = [&](const std::string& what) {
    return Status::corrupt("vector index: " + what);
  };
  uint64_t rows = 0, size = 0;
  for (uint32_t i = 0; i < root.num_lists; ++i) {
    const uint64_t list_size =
        ListLayout(out.rows_of(i), root.padded, root.row_width).size;
    if (out.rows_of(i) > root.num_rows - rows ||
        list_size > root.lists_bytes - size) {
      return fail("lists 0 to " + std::to_string(i) +
                  " have more rows or bytes than all, which are " +
                  std::to_string(root.num_rows) + " rows of " +
                  std::to_string(root.lists_bytes) + " bytes");
    }
    rows += out.rows_of(i);
    size += list_size;
    if (!std::isfinite(out.scale(i)) || !(out.norm(i) >= 0) ||
        !std::isfinite(out.norm(i))) {
      return fail("list " + std::to_string(i) +
                  " has a centroid that is not finite");
    }
  }
  if (rows != root.num_rows || size != root.lists_bytes) {
    return fail("lists of " + std::to_string(rows) + " rows and " +
                std::to_string(size) + " bytes; the root has " +
                std::to_string(root.num_rows) + " and " +
                std::to_string(root.lists_bytes));
  }
  for (uint64_t i = 0; out.center != nullptr && i < root.dimensions; ++i) {
    if (!std::isfinite(load<float>(out.center + 4 * i))) {
      return fail("the center has a number that is not finite");
    }
  }
  return out;
}

uint64_t ListDirectory::checksum(uint32_t list) const {
  return load<uint64_t>(checksums + 8 * uint64_t{list});
}
uint64_t ListDirectory::rows_of(uint32_t list) const {
  return load<uint32_t>(rows + 4 * uint64_t{list});
}
float ListDirectory::scale(uint32_t list) const {
  return load<float>(scales + 4 * uint64_t{list});
}
float ListDirectory::norm(uint32_t list) const {
  return load<float>(norms + 4 * uint64_t{list});
}

}  // namespace nimble
