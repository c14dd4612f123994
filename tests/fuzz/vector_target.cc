// The root and the directory of a vector index. Input: the length of the root
// as u16, the root, the directory.
#include <cmath>

#include "fuzz/seeds.h"
#include "fuzz/target.h"
#include "nimble/index/vector/vector_layout.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble::fuzz {
namespace {

constexpr uint64_t kFileBytes = uint64_t{1} << 20;
constexpr uint64_t kFileRows = 100;

VectorRoot small_root(uint32_t dimensions, uint32_t lists) {
  VectorRoot root;
  root.metric = VectorMetric::kCosine;
  root.dimensions = dimensions;
  root.padded =
      static_cast<uint32_t>(round_up(dimensions, uint64_t{kVectorPadding}));
  root.num_lists = lists;
  root.num_rows = 40;
  root.left_out = 3;
  root.curve10 = {{.1f, .5f}, {.6f, .9f}, {1, .99f}};
  root.curve100 = {{.2f, .5f}, {1, 1}};
  root.lists_offset = 640;
  return root;
}

// `root` and a directory whose lists share its rows.
std::vector<uint8_t> to_input(VectorRoot root) {
  ByteBuffer directory;
  if (root.num_lists > 0) {
    const uint64_t n = root.num_lists;
    uint8_t* const to = directory.extend(ListDirectory::size_of(root));
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t rows = i == 0 ? root.num_rows - (n - 1) : 1;
      store(to + 8 * n + 4 * i, static_cast<uint32_t>(rows));
      store(to + 12 * n + 4 * i, .5f);
      store(to + 16 * n + 4 * i, 2.0f);
      root.lists_bytes += ListLayout(rows, root.padded, root.row_width).size;
    }
    root.directory = {4096, directory.size(), 7};
  }
  const std::vector<uint8_t> bytes = root.serialize();
  ByteBuffer out;
  out.put(static_cast<uint16_t>(bytes.size()));
  out.put_bytes(bytes);
  out.put_bytes(directory.span());
  return out.take();
}

}  // namespace

std::vector<std::vector<uint8_t>> vector_index_seeds() {
  std::vector<std::vector<uint8_t>> out;
  for (const uint32_t dimensions : {2, 64, 65}) {
    for (const uint32_t lists : {0, 1, 3}) {
      VectorRoot root = small_root(dimensions, lists);
      out.push_back(to_input(root));
      root.rotation = kCenteredAndRotated;
      root.row_width = 8;
      out.push_back(to_input(root));
    }
  }
  return out;
}

FUZZ_TARGET(vector_index) {
  if (input.size() < 2) return;
  const uint64_t size = load<uint16_t>(input.data());
  if (size > input.size() - 2) return;
  const ByteSpan bytes = input.subspan(2, size);
  (void)VectorRoot::parse_metric(bytes);
  const auto root = VectorRoot::parse(bytes, kFileBytes, kFileRows);
  if (!root) return;
  FUZZ_CHECK(root->num_rows <= kFileRows);
  FUZZ_CHECK(root->left_out <= kFileRows - root->num_rows);
  FUZZ_CHECK(in_bounds(root->lists_offset, root->lists_bytes, kFileBytes));
  for (const auto* curve : {&root->curve10, &root->curve100}) {
    for (const CurvePoint& p : *curve) {
      FUZZ_CHECK(p.rows >= 0 && p.rows <= 1 && p.recall >= 0 && p.recall <= 1);
    }
  }
  const auto again =
      VectorRoot::parse(root->serialize(), kFileBytes, kFileRows);
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(again->serialize() == root->serialize());
  if (root->num_lists == 0) return;
  const auto directory = ListDirectory::parse(input.subspan(2 + size), *root);
  if (!directory) return;
  uint64_t rows = 0, bytes_of_lists = 0;
  for (uint32_t i = 0; i < directory->num_lists; ++i) {
    rows += directory->rows_of(i);
    bytes_of_lists +=
        ListLayout(directory->rows_of(i), root->padded, root->row_width).size;
    FUZZ_CHECK(std::isfinite(directory->scale(i)) && directory->norm(i) >= 0);
    (void)directory->checksum(i);
    (void)directory->codes[uint64_t{i} * root->padded + root->padded - 1];
  }
  FUZZ_CHECK(rows == root->num_rows && bytes_of_lists == root->lists_bytes);
}

}  // namespace nimble::fuzz
