// Parquet files, which come from other writers: footers, page tables, page
// headers and pages.
#include <algorithm>
#include <numeric>

#include "fuzz/target.h"
#include "nimble/io/memory_file.h"
#include "nimble/parquet/parquet_file.h"
#include "nimble/types/array_view.h"

namespace nimble::fuzz {
namespace {

using namespace parquet;

constexpr uint64_t kMostRows = 4096;

const char* time_format(const SchemaNode& node) {
  static constexpr const char* kTimestamps[] = {"tsm:", "tsu:UTC", "tsn:"};
  static constexpr const char* kTimes[] = {"ttm", "ttu", "ttn"};
  const size_t unit = node.time_unit >= 1 && node.time_unit <= 3
                          ? static_cast<size_t>(node.time_unit - 1)
                          : 0;
  if (node.logical == LogicalType::kTimestamp) return kTimestamps[unit];
  if (node.logical == LogicalType::kTime) return kTimes[unit];
  return nullptr;
}

// An Arrow type that a column may have.
Field field_of(const Metadata& m, uint32_t at) {
  const SchemaNode& node = m.nodes[at];
  Field f;
  f.name = node.name;
  const char* time = time_format(node);
  switch (static_cast<Physical>(node.physical)) {
    case Physical::kBoolean:
      f.format = "b";
      break;
    case Physical::kInt32:
      f.format = time != nullptr                         ? time
                 : node.logical == LogicalType::kDecimal ? "d:5,2"
                                                         : "i";
      break;
    case Physical::kInt64:
      f.format = time != nullptr                         ? time
                 : node.logical == LogicalType::kDecimal ? "d:15,2"
                                                         : "l";
      break;
    case Physical::kFloat:
      f.format = "f";
      break;
    case Physical::kDouble:
      f.format = "g";
      break;
    case Physical::kByteArray:
      f.format = at % 2 == 0 ? "z" : "U";
      break;
    case Physical::kFixedByteArray:
      f.format = node.logical == LogicalType::kDecimal
                     ? "d:38,10"
                     : "w:" + std::to_string(node.type_length);
      break;
    case Physical::kInt96:
      f.format = "l";
      break;
    default: {
      const bool is_list = node.logical == LogicalType::kList;
      const bool is_map = node.logical == LogicalType::kMap;
      f.format = is_list ? "+l" : is_map ? "+m" : "+s";
      uint32_t child = at + 1;
      if (is_list && child < node.end && m.nodes[child].num_children == 1) {
        f.children.push_back(field_of(m, child + 1));
        break;
      }
      for (; child < node.end; child = m.nodes[child].end) {
        f.children.push_back(field_of(m, child));
      }
      if (is_map && f.children.size() == 1) f.children[0].flags = 0;
    }
  }
  return f;
}

}  // namespace

FUZZ_TARGET(parquet) {
  const auto file =
      std::make_shared<MemoryFile>(input, std::shared_ptr<const void>());
  const auto footer = read_footer(*file);
  if (!footer) return;
  const auto metadata = Metadata::parse(*footer);
  if (!metadata) return;
  const auto table = make_page_table(*file, *metadata);
  if (!table) return;
  Field schema;
  schema.format = "+s";
  for (const uint32_t column : metadata->columns()) {
    schema.children.push_back(field_of(*metadata, column));
  }
  if (!schema.resolve("")) return;
  const auto opened = ParquetFile::open(
      file, *footer, *table, schema, std::make_shared<PageCache>(1u << 16),
      std::make_shared<PageStats>(), Decompress());
  if (!opened) return;
  const uint64_t rows = (*opened)->num_rows();
  std::vector<uint64_t> first(std::min(rows, kMostRows));
  std::iota(first.begin(), first.end(), uint64_t{0});
  std::vector<uint64_t> some;
  for (uint64_t row = rows / 7; row < rows && some.size() < 40;
       row += rows / 23 + 1) {
    some.push_back(row);
  }
  for (uint32_t c = 0; c < schema.children.size() && c < 64; ++c) {
    (void)(*opened)->unsupported(c);
    const uint32_t columns[] = {c};
    for (const auto& wanted : {first, some}) {
      auto found = (*opened)->read(columns, wanted);
      if (!found) continue;
      FUZZ_CHECK(found->column->length() == wanted.size());
      ArrowArray array{};
      const Status exported = std::move(*found->column).export_array(&array);
      if (!exported) continue;
      FUZZ_CHECK(array.length == static_cast<int64_t>(wanted.size()));
      // Opening checks what Arrow requires of the buffers.
      (void)ArrayView::open(*found->field, array, "x");
      array.release(&array);
    }
  }
}

}  // namespace nimble::fuzz
