#include "nimble/parquet/metadata.h"

#include <array>

#include "nimble/parquet/thrift_reader.h"

namespace nimble::parquet {
namespace {

using Type = ThriftReader::Type;

constexpr int kMaxSchemaDepth = 32;

// Reads a union {1: millis, 2: micros, 3: nanos} of empty structs.
void read_time_unit(ThriftReader* in, int8_t* unit) {
  in->read_struct([&](int64_t id, Type) {
    if (id >= 1 && id <= 3) *unit = static_cast<int8_t>(id);
    return false;
  });
}

void read_logical_type(ThriftReader* in, SchemaNode* node) {
  in->read_struct([&](int64_t id, Type type) {
    if (type != ThriftReader::kStruct || id < 1 || id > 100) return false;
    node->logical = static_cast<LogicalType>(id);
    if (node->logical == LogicalType::kDecimal) {
      in->read_struct([&](int64_t field, Type t) {
        return field == 1 && in->get_int(t, &node->scale);
      });
      return true;
    }
    if (node->logical == LogicalType::kTime ||
        node->logical == LogicalType::kTimestamp) {
      in->read_struct([&](int64_t field, Type t) {
        if (field != 2 || t != ThriftReader::kStruct) return false;
        read_time_unit(in, &node->time_unit);
        return true;
      });
      return true;
    }
    return false;
  });
}

// Applies a converted type, which is an older form of a logical type.
void apply_converted_type(int32_t converted, SchemaNode* node) {
  if (node->logical != LogicalType::kNone) return;
  switch (converted) {
    case 1:
    case 2:
      node->logical = LogicalType::kMap;
      return;
    case 3:
      node->logical = LogicalType::kList;
      return;
    case 5:
      node->logical = LogicalType::kDecimal;
      return;
    case 7:
    case 8:
      node->logical = LogicalType::kTime;
      node->time_unit = static_cast<int8_t>(converted - 6);
      return;
    case 9:
    case 10:
      node->logical = LogicalType::kTimestamp;
      node->time_unit = static_cast<int8_t>(converted - 8);
      return;
    default:
      return;
  }
}

SchemaNode read_schema_node(ThriftReader* in) {
  SchemaNode node;
  int32_t converted = -1, repetition = 0;
  in->read_struct([&](int64_t id, Type type) {
    switch (id) {
      case 1:
        return in->get_int(type, &node.physical);
      case 2:
        return in->get_int(type, &node.type_length);
      case 3:
        return in->get_int(type, &repetition);
      case 4:
        if (type != ThriftReader::kBinary) return false;
        node.name = as_string(in->get_binary());
        return true;
      case 5:
        return in->get_int(type, &node.num_children);
      case 6:
        return in->get_int(type, &converted);
      case 7:
        return in->get_int(type, &node.scale);
      case 10:
        if (type != ThriftReader::kStruct) return false;
        read_logical_type(in, &node);
        return true;
      default:
        return false;
    }
  });
  if (repetition < 0 || repetition > 2) in->fail();
  node.repetition = static_cast<Repetition>(repetition);
  if (node.num_children > 0) node.physical = -1;
  apply_converted_type(converted, &node);
  return node;
}

void read_chunk_metadata(ThriftReader* in, ChunkInfo* chunk) {
  in->read_struct([&](int64_t id, Type type) {
    switch (id) {
      case 1:
        return in->get_int(type, &chunk->physical);
      case 2:
        if (type != ThriftReader::kList) return false;
        in->read_list([&](Type element) {
          int32_t encoding = 0;
          if (!in->get_int(element, &encoding))
            return in->skip_element(element);
          chunk->encodings |=
              1u << (encoding >= 0 && encoding < 31 ? encoding : 31);
        });
        return true;
      case 4:
        return in->get_int(type, &chunk->codec);
      case 5:
        return in->get_int(type, &chunk->num_values);
      case 7:
        return in->get_int(type, &chunk->compressed_size);
      case 9:
        return in->get_int(type, &chunk->data_page_offset);
      case 11:
        return in->get_int(type, &chunk->dictionary_page_offset);
      default:
        return false;
    }
  });
}

ChunkInfo read_chunk(ThriftReader* in) {
  ChunkInfo chunk;
  bool has_metadata = false;
  in->read_struct([&](int64_t id, Type type) {
    switch (id) {
      case 1:
      case 8:
      case 9:
        chunk.is_elsewhere = true;
        return false;
      case 3:
        if (type != ThriftReader::kStruct) return false;
        has_metadata = true;
        read_chunk_metadata(in, &chunk);
        return true;
      case 4:
        return in->get_int(type, &chunk.offset_index_offset);
      case 5:
        return in->get_int(type, &chunk.offset_index_size);
      default:
        return false;
    }
  });
  if (!has_metadata) chunk.is_elsewhere = true;
  return chunk;
}

GroupInfo read_group(ThriftReader* in) {
  GroupInfo group;
  in->read_struct([&](int64_t id, Type type) {
    if (id == 3) return in->get_int(type, &group.num_rows);
    if (id != 1 || type != ThriftReader::kList) return false;
    in->read_list([&](Type element) {
      if (element != ThriftReader::kStruct) return in->fail();
      group.chunks.push_back(read_chunk(in));
    });
    return true;
  });
  return group;
}

// Sets first_leaf and end of a node and its descendants. Returns the node after
// them, or 0 if the tree is broken.
uint32_t link_nodes(Metadata* m, uint32_t at, int depth) {
  if (at >= m->nodes.size() || depth > kMaxSchemaDepth) return 0;
  SchemaNode& node = m->nodes[at];
  node.first_leaf = m->num_leaves;
  uint32_t next = at + 1;
  if (node.physical >= 0) {
    if (node.physical > 7 || node.type_length < 0) return 0;
    ++m->num_leaves;
  } else {
    for (int32_t i = 0; i < node.num_children; ++i) {
      next = link_nodes(m, next, depth + 1);
      if (next == 0) return 0;
    }
  }
  m->nodes[at].end = next;
  return next;
}

}  // namespace

std::vector<uint32_t> Metadata::columns() const {
  std::vector<uint32_t> out;
  for (uint32_t at = 1; at < nodes.size(); at = nodes[at].end) {
    out.push_back(at);
  }
  return out;
}

Result<Metadata> Metadata::parse(ByteSpan footer) {
  Metadata m;
  ThriftReader in(footer);
  in.read_struct([&](int64_t id, Type type) {
    if (id == 3) return in.get_int(type, &m.num_rows);
    if (type != ThriftReader::kList || (id != 2 && id != 4)) return false;
    in.read_list([&](Type element) {
      if (element != ThriftReader::kStruct) return in.fail();
      if (id == 2) {
        m.nodes.push_back(read_schema_node(&in));
      } else {
        m.groups.push_back(read_group(&in));
      }
    });
    return true;
  });
  NIMBLE_RETURN_IF_ERROR(in.status("Parquet footer"));
  if (m.nodes.empty() || m.nodes[0].physical >= 0 ||
      link_nodes(&m, 0, 0) != m.nodes.size()) {
    return Status::corrupt("Parquet footer: the schema is not one tree of " +
                           std::to_string(m.nodes.size()) + " nodes");
  }
  int64_t rows = 0;
  for (size_t i = 0; i < m.groups.size(); ++i) {
    const GroupInfo& g = m.groups[i];
    if (g.chunks.size() != m.num_leaves || g.num_rows < 0 ||
        g.num_rows > (int64_t{1} << 40) ||
        rows > (int64_t{1} << 44) - g.num_rows) {
      return Status::corrupt("Parquet footer: row group " + std::to_string(i) +
                             " has " + std::to_string(g.chunks.size()) +
                             " columns and " + std::to_string(g.num_rows) +
                             " rows; expected " + std::to_string(m.num_leaves) +
                             " columns");
    }
    rows += g.num_rows;
  }
  if (m.num_rows != rows) {
    return Status::corrupt("Parquet footer: " + std::to_string(m.num_rows) +
                           " rows, but the row groups have " +
                           std::to_string(rows));
  }
  return m;
}

Result<PageHeader> PageHeader::parse(ByteSpan bytes) {
  PageHeader h;
  ThriftReader in(bytes);
  in.read_struct([&](int64_t id, Type type) {
    switch (id) {
      case 1:
        return in.get_int(type, &h.kind);
      case 2:
        return in.get_int(type, &h.uncompressed_size);
      case 3:
        return in.get_int(type, &h.compressed_size);
      case 4:
        h.has_crc = in.get_int(type, &h.crc);
        return h.has_crc;
      case 5:
      case 7:
        if (type != ThriftReader::kStruct) return false;
        in.read_struct([&](int64_t field, Type t) {
          if (field == 1) return in.get_int(t, &h.num_values);
          if (field == 2) return in.get_int(t, &h.encoding);
          if (id == 7) return false;
          if (field == 3) return in.get_int(t, &h.definition_encoding);
          if (field == 4) return in.get_int(t, &h.repetition_encoding);
          return false;
        });
        return true;
      case 8:
        if (type != ThriftReader::kStruct) return false;
        in.read_struct([&](int64_t field, Type t) {
          switch (field) {
            case 1:
              return in.get_int(t, &h.num_values);
            case 3:
              return in.get_int(t, &h.num_rows);
            case 4:
              return in.get_int(t, &h.encoding);
            case 5:
              return in.get_int(t, &h.definition_bytes);
            case 6:
              return in.get_int(t, &h.repetition_bytes);
            case 7:
              return in.get_bool(t, &h.is_compressed);
            default:
              return false;
          }
        });
        return true;
      default:
        return false;
    }
  });
  NIMBLE_RETURN_IF_ERROR(in.status("Parquet page header"));
  h.header_bytes = in.position();
  if (h.uncompressed_size < 0 || h.compressed_size < 0 || h.num_values < 0 ||
      h.definition_bytes < 0 || h.repetition_bytes < 0) {
    return Status::corrupt("Parquet page header: a size is negative");
  }
  return h;
}

Result<std::vector<PageRef>> parse_offset_index(ByteSpan bytes) {
  std::vector<PageRef> out;
  ThriftReader in(bytes);
  bool is_negative = false;
  in.read_struct([&](int64_t id, Type type) {
    if (id != 1 || type != ThriftReader::kList) return false;
    in.read_list([&](Type element) {
      if (element != ThriftReader::kStruct) return in.fail();
      int64_t offset = -1, size = -1, row = -1;
      in.read_struct([&](int64_t field, Type t) {
        if (field == 1) return in.get_int(t, &offset);
        if (field == 2) return in.get_int(t, &size);
        if (field == 3) return in.get_int(t, &row);
        return false;
      });
      is_negative |= offset < 0 || size < 0 || size > INT32_MAX || row < 0;
      out.push_back({static_cast<uint64_t>(offset), static_cast<uint32_t>(size),
                     static_cast<uint64_t>(row)});
    });
    return true;
  });
  NIMBLE_RETURN_IF_ERROR(in.status("Parquet offset index"));
  if (is_negative) {
    return Status::corrupt("Parquet offset index: a page without a position");
  }
  return out;
}

Status check_pages(const ChunkPages& chunk, uint64_t file_size,
                   uint64_t num_rows) {
  if (!in_bounds(chunk.dictionary_offset, chunk.dictionary_size, file_size)) {
    return Status::corrupt("Parquet dictionary page at offset " +
                           std::to_string(chunk.dictionary_offset) +
                           " is outside the file");
  }
  if (num_rows == 0) return Status::ok();  // its pages are never read
  uint64_t next = 0;  // smallest valid first row of the next page
  uint64_t end = 0;   // of the previous page
  for (const PageRef& p : chunk.pages) {
    const bool is_first = &p == chunk.pages.data();
    if (!in_bounds(p.offset, p.size, file_size) || p.size == 0 ||
        p.offset < end || p.first_row < next ||
        (is_first && p.first_row != 0) || p.first_row >= num_rows) {
      return Status::corrupt(
          "Parquet page at offset " + std::to_string(p.offset) + ", " +
          std::to_string(p.size) + " bytes, row " +
          std::to_string(p.first_row) + ": not inside a file of " +
          std::to_string(file_size) + " bytes and a row group of " +
          std::to_string(num_rows) + " rows, or not in order");
    }
    next = p.first_row + 1;
    end = p.offset + p.size;
  }
  if (chunk.pages.empty()) {
    return Status::corrupt("Parquet column chunk without pages");
  }
  return Status::ok();
}

uint32_t page_crc(ByteSpan bytes) {
  // slicing by 8: eight tables, so that a step processes eight bytes
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) * 0xEDB88320u);
      t[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i) {
      for (size_t k = 1; k < 8; ++k) {
        t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
      }
    }
    return t;
  }();
  uint32_t crc = ~0u;
  const uint8_t* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    const uint64_t v = load<uint64_t>(p) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(v >> (8 * k)) & 0xff];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

}  // namespace nimble::parquet
