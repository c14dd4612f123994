// The stored parts of a vector index as plain values: the root, the directory
// of lists, and the places in a list. docs/format/vector_index.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/section_ref.h"

namespace nimble {

enum class VectorMetric : uint8_t {  // stored: never renumber
  kL2 = 1,                           // squared Euclidean distance
  kCosine = 2,                       // 1 - cosine
  kDot = 3,                          // minus the dot product
};
const char* metric_name(VectorMetric metric);
// Returns an error that lists the valid names if `name` is unknown.
Result<VectorMetric> metric_of(const std::string& name);

// Rows are coded in blocks of this size.
constexpr uint32_t kVectorBlock = 32;
// Dimensions are padded with zeros to a multiple of this number.
constexpr uint32_t kVectorPadding = 64;
constexpr uint32_t kMaxVectorDimensions = 65536;
// Stored values of VectorRoot::rotation.
constexpr uint8_t kRotated = 1;
constexpr uint8_t kCenteredAndRotated = 2;
// Searches of fewer numbers (rows times dimensions), over all files, compare
// all rows. This takes about as long as searching lists.
constexpr uint64_t kMinSearchedNumbers = uint64_t{1} << 20;
// Files with fewer numbers do not have lists. The files of a table are searched
// together, so lists are of use in smaller files than those above.
constexpr uint64_t kMinListedNumbers = uint64_t{1} << 16;

struct CurvePoint {
  float rows = 0;
  float recall = 0;
};

struct VectorRoot {
  VectorMetric metric = VectorMetric::kL2;
  uint8_t bits = 1;
  uint8_t rotation = kRotated;
  uint8_t row_width = 4;
  uint32_t dimensions = 0;
  uint32_t padded = 0;
  uint32_t num_lists = 0;
  uint64_t num_rows = 0;
  uint64_t left_out = 0;
  uint64_t lists_offset = 0;
  uint64_t lists_bytes = 0;
  SectionRef directory;
  std::vector<CurvePoint> curve10;
  std::vector<CurvePoint> curve100;

  // Whether a center is subtracted from vectors before they are rotated.
  bool has_center() const { return rotation == kCenteredAndRotated; }
  std::vector<uint8_t> serialize() const;
  // Checks the values and their relations. Unknown `bits` and `rotation` are
  // kUnsupported errors.
  // REQUIRES: the checksum of `bytes` is verified. Sections must end at or
  // before `limit`; row numbers are below `file_rows`.
  static Result<VectorRoot> parse(ByteSpan bytes, uint64_t limit,
                                  uint64_t file_rows);
  // The metric of a root whose other values may be unknown to this version.
  static Result<VectorMetric> parse_metric(ByteSpan bytes);
};

// Positions in the bytes of one list.
struct ListLayout {
  uint64_t rows;    // stored, without padding
  uint64_t slots;   // rows, rounded up to blocks
  uint64_t row_at;  // row numbers, ascending; after the centroid
  uint64_t scale_at;
  uint64_t offset_at;
  uint64_t codes_at;
  uint64_t size;

  ListLayout(uint64_t rows, uint32_t padded, uint32_t row_width);
};

// The directory: one entry per list, then the codes of the centroids, then the
// center. Its members point into the section's bytes, which must outlive it.
struct ListDirectory {
  uint32_t num_lists = 0;
  const uint8_t* checksums = nullptr;  // u64 each, of a list's bytes
  const uint8_t* rows = nullptr;       // u32 each
  const uint8_t* scales = nullptr;     // f32 each: centroid = scale * code
  const uint8_t* norms = nullptr;      // f32 each: squared length of a centroid
  const int8_t* codes = nullptr;       // padded each
  const uint8_t* center = nullptr;     // f32 per dimension, or null

  // REQUIRES: the root has lists, dimensions and a rotation.
  static uint64_t size_of(const VectorRoot& root);
  // Checks that the lists' sizes fit the root.
  static Result<ListDirectory> parse(ByteSpan bytes, const VectorRoot& root);

  uint64_t checksum(uint32_t list) const;
  uint64_t rows_of(uint32_t list) const;
  float scale(uint32_t list) const;
  float norm(uint32_t list) const;
};

// Centroids of the lists of finished indexes with the same metric and number of
// dimensions. An index of the same rows can be trained from them.
struct KnownCentroids {
  std::vector<float> centroids;  // rotated, with no center subtracted
  std::vector<float> rows;       // number of rows of each list
};

}  // namespace nimble
