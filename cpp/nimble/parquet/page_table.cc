// Finds the pages of a file.
#include <algorithm>

#include "nimble/parquet/parquet_file.h"

namespace nimble::parquet {
namespace {

constexpr uint64_t kTailBytes = 64u << 10;
constexpr uint64_t kHeaderBytes = 4u << 10;
constexpr uint64_t kMaxHeaderBytes = 16u << 20;

void put_varint(uint64_t v, std::vector<uint8_t>* out) {
  for (; v >= 0x80; v >>= 7) out->push_back(static_cast<uint8_t>(v | 0x80));
  out->push_back(static_cast<uint8_t>(v));
}

Status from_offset_index(const ReadableFile& file, const ChunkInfo& chunk,
                         ChunkPages* out) {
  const auto offset = static_cast<uint64_t>(chunk.offset_index_offset);
  const auto size = static_cast<uint64_t>(chunk.offset_index_size);
  if (chunk.offset_index_size < 0 || !in_bounds(offset, size, file.size())) {
    return Status::corrupt("Parquet offset index at offset " +
                           std::to_string(offset) + " is outside the file");
  }
  std::vector<uint8_t> bytes(size);
  NIMBLE_RETURN_IF_ERROR(file.read_at({offset, size, bytes.data()}));
  NIMBLE_ASSIGN_OR_RETURN(out->pages, parse_offset_index(bytes));
  if (out->pages.empty()) return Status::ok();
  // Some writers store the dictionary's position. Others only store where the
  // data begins, and the dictionary is there.
  const uint64_t first = out->pages[0].offset;
  const int64_t start = chunk.dictionary_page_offset > 0
                            ? chunk.dictionary_page_offset
                            : chunk.data_page_offset;
  if (start > 0 && static_cast<uint64_t>(start) < first &&
      first - static_cast<uint64_t>(start) <= INT32_MAX) {
    out->dictionary_offset = static_cast<uint64_t>(start);
    out->dictionary_size =
        static_cast<uint32_t>(first - static_cast<uint64_t>(start));
  }
  return Status::ok();
}

// Parses the header at `offset`. Reads more bytes until the header is complete.
Result<PageHeader> header_at(const ReadableFile& file, uint64_t offset,
                             uint64_t end) {
  std::vector<uint8_t> bytes;
  for (uint64_t size = kHeaderBytes;; size *= 8) {
    bytes.resize(std::min(size, end - offset));
    NIMBLE_RETURN_IF_ERROR(file.read_at({offset, bytes.size(), bytes.data()}));
    auto header = PageHeader::parse(bytes);
    if (header || bytes.size() == end - offset || size > kMaxHeaderBytes) {
      return header;
    }
  }
}

// Leaves the chunk without pages if the number of a page's rows is not known,
// or if a row is in two pages.
Status walk_headers(const ReadableFile& file, const ChunkInfo& chunk,
                    bool is_repeated, ChunkPages* out) {
  uint64_t at = static_cast<uint64_t>(chunk.data_page_offset);
  if (chunk.dictionary_page_offset > 0) {
    at = std::min(at, static_cast<uint64_t>(chunk.dictionary_page_offset));
  }
  const auto size = static_cast<uint64_t>(chunk.compressed_size);
  if (chunk.data_page_offset < 0 || chunk.compressed_size < 0 ||
      !in_bounds(at, size, file.size())) {
    return Status::corrupt("Parquet column chunk at offset " +
                           std::to_string(at) + " is outside the file");
  }
  const uint64_t end = at + size;
  uint64_t row = 0, values = 0;
  while (at < end && values < static_cast<uint64_t>(chunk.num_values)) {
    NIMBLE_ASSIGN_OR_RETURN(const PageHeader h, header_at(file, at, end));
    const uint64_t total =
        h.header_bytes + static_cast<uint64_t>(h.compressed_size);
    if (total > end - at || total > INT32_MAX) {
      return Status::corrupt("Parquet page at offset " + std::to_string(at) +
                             ": " + std::to_string(total) +
                             " bytes are more than its column chunk has");
    }
    if (h.kind == PageHeader::kDictionary) {
      out->dictionary_offset = at;
      out->dictionary_size = static_cast<uint32_t>(total);
    } else if (h.kind == PageHeader::kData || h.kind == PageHeader::kDataV2) {
      values += static_cast<uint64_t>(h.num_values);
      const bool is_v2 = h.kind == PageHeader::kDataV2 && h.num_rows >= 0;
      if (is_repeated && !is_v2) {
        out->pages.clear();
        return Status::ok();
      }
      const auto rows =
          static_cast<uint64_t>(is_v2 ? h.num_rows : h.num_values);
      if (rows > 0)
        out->pages.push_back({at, static_cast<uint32_t>(total), row});
      // A page in which no row begins continues a row of the previous page.
      if (is_repeated && rows == 0 && h.num_values > 0) {
        out->pages.clear();
        return Status::ok();
      }
      row += rows;
    }
    at += total;
  }
  return Status::ok();
}

// Returns the pages of a chunk, or no pages if another reader must read it.
Result<ChunkPages> find_pages(const ReadableFile& file, const ChunkInfo& chunk,
                              uint64_t num_rows, bool is_repeated) {
  if (chunk.offset_index_offset > 0) {
    ChunkPages pages;
    Status status = from_offset_index(file, chunk, &pages);
    // If a row continues in a second page, another reader must read the chunk.
    const auto same_row = [](const PageRef& a, const PageRef& b) {
      return a.first_row == b.first_row;
    };
    if (status && std::ranges::adjacent_find(pages.pages, same_row) !=
                      pages.pages.end()) {
      return ChunkPages{};
    }
    if (status && !pages.pages.empty()) {
      status = check_pages(pages, file.size(), num_rows);
    }
    if (status) return pages;
    if (status.code() != StatusCode::kCorrupt) return status;
    // The page headers also tell where pages are.
  }
  ChunkPages pages;
  NIMBLE_RETURN_IF_ERROR(walk_headers(file, chunk, is_repeated, &pages));
  if (!pages.pages.empty()) {
    NIMBLE_RETURN_IF_ERROR(check_pages(pages, file.size(), num_rows));
  }
  return pages;
}

// Whether each leaf is below a repeated node.
std::vector<bool> repeated_leaves(const Metadata& m) {
  std::vector<bool> out(m.num_leaves, false);
  for (size_t i = 1; i < m.nodes.size(); ++i) {
    if (m.nodes[i].repetition != Repetition::kRepeated) continue;
    const uint32_t end = m.nodes[i].end < m.nodes.size()
                             ? m.nodes[m.nodes[i].end].first_leaf
                             : m.num_leaves;
    for (uint32_t l = m.nodes[i].first_leaf; l < end; ++l) out[l] = true;
  }
  return out;
}

}  // namespace

Result<std::vector<uint8_t>> read_footer(const ReadableFile& file) {
  const uint64_t size = file.size();
  if (size < 12) {
    return Status::corrupt(file.name() + ": " + std::to_string(size) +
                           " bytes are not a Parquet file");
  }
  std::vector<uint8_t> tail(std::min(size, kTailBytes));
  NIMBLE_RETURN_IF_ERROR(
      file.read_at({size - tail.size(), tail.size(), tail.data()}));
  const std::string_view magic = as_string(ByteSpan(tail).last(4));
  if (magic == "PARE") {
    return Status::unsupported(file.name() + ": the footer is encrypted");
  }
  const uint64_t footer = load<uint32_t>(tail.data() + tail.size() - 8);
  if (magic != "PAR1" || footer > size - 12) {
    return Status::corrupt(file.name() + ": not a Parquet file, or cut short");
  }
  if (footer + 8 <= tail.size()) {
    const ByteSpan found = ByteSpan(tail).last(footer + 8).first(footer);
    return std::vector<uint8_t>(found.begin(), found.end());
  }
  std::vector<uint8_t> out(footer);
  NIMBLE_RETURN_IF_ERROR(file.read_at({size - 8 - footer, footer, out.data()}));
  return out;
}

Result<std::vector<uint8_t>> make_page_table(const ReadableFile& file,
                                             const Metadata& metadata) {
  std::vector<uint8_t> out;
  const std::vector<bool> repeated = repeated_leaves(metadata);
  for (const GroupInfo& group : metadata.groups) {
    for (size_t leaf = 0; leaf < group.chunks.size(); ++leaf) {
      const ChunkInfo& chunk = group.chunks[leaf];
      ChunkPages pages;
      if (!chunk.is_elsewhere && group.num_rows > 0) {
        NIMBLE_ASSIGN_OR_RETURN(
            pages,
            find_pages(file, chunk, static_cast<uint64_t>(group.num_rows),
                       repeated[leaf]));
      }
      put_varint(pages.dictionary_offset, &out);
      put_varint(pages.dictionary_size, &out);
      put_varint(pages.pages.size(), &out);
      for (const PageRef& p : pages.pages) {
        put_varint(p.offset, &out);
        put_varint(p.size, &out);
        put_varint(p.first_row, &out);
      }
    }
  }
  return out;
}

}  // namespace nimble::parquet
