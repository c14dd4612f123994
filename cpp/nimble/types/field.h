// Field: one node of a schema tree. It uses the Arrow C data interface: the
// format string identifies the type exactly, so that schemas survive a round
// trip through the file. Derived members describe how the node is stored.
// docs/format/schema.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/types/arrow_c.h"
#include "nimble/types/value_type.h"

namespace nimble {

// How the rows of a node are stored. The logical type (date, decimal, text or
// binary) only matters for keys and statistics.
enum class Layout : uint8_t {
  kNull,        // no buffers
  kFixed,       // validity, fixed-width values
  kBool,        // validity, bitmap
  kBytes,       // validity, byte strings (with offsets of any width, or views)
  kList,        // validity, ends, one child (all lists, maps)
  kFixedList,   // validity, one child, list_size rows per row
  kStruct,      // validity, children
  kDictionary,  // validity, integer codes, a dictionary
  kRunEnd,      // run ends and values, children in Arrow
  kUnion,       // type ids (dense: offsets), children
};

// The meaning of values, which determines their order in keys and statistics.
enum class Logical : uint8_t {
  kNull,
  kBool,
  kInt,      // signed or unsigned by is_signed
  kFloat,    // 2, 4, 8 bytes
  kDecimal,  // 4, 8, 16, 32 bytes, two's complement little-endian
  kDate,     // integers from here on
  kTime,
  kTimestamp,
  kDuration,
  kInterval,  // not ordered
  kText,
  kBinary,
  kFixedBinary,
  kNested,
  kDictionary,
};

struct Field {
  std::string name;
  std::string format;  // Arrow C data interface format string
  int64_t flags = ARROW_FLAG_NULLABLE;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Field> children;
  std::vector<Field> dictionary;  // empty, or one field: the values

  // The following members are derived from `format` by resolve().
  Layout layout = Layout::kNull;
  Logical logical = Logical::kNull;
  uint32_t width = 0;  // bytes per fixed-width value
  bool is_signed = false;
  bool wide_offsets = false;  // 64-bit offsets or ends in Arrow
  bool is_view = false;       // binary view, list view
  bool is_map = false;
  bool is_dense_union = false;
  int32_t list_size = 0;         // kFixedList
  std::vector<int8_t> type_ids;  // kUnion: id of each child

  bool nullable() const { return (flags & ARROW_FLAG_NULLABLE) != 0; }
  // The other layouts store nulls in their children.
  bool has_validity() const {
    return layout != Layout::kNull && layout != Layout::kRunEnd &&
           layout != Layout::kUnion;
  }
  // The stream type of values (kFixed, kBool, kBytes) and of codes.
  ValueType value_type() const;
  // A readable type name: "int64", "decimal128(15,2)", "list<item: float>".
  std::string type_name() const;

  // Sets the derived members of this node and its descendants. `path` is the
  // column path for error messages.
  Status resolve(const std::string& path);

  static Result<Field> from_arrow(const ArrowSchema& schema);
};

// Exports a field as an owned C struct. The caller must call out->release.
void export_schema(const Field& field, ArrowSchema* out);

// Whether `field` or a descendant is dictionary-encoded.
bool has_dictionary(const Field& field);
// Fails for types that files cannot store: nested dictionaries, and run-end
// encoded values inside run-end encoded columns, which Arrow C++ does not
// import. Writers check before the first byte, and readers check every footer.
Status check_storable(const Field& schema);

// A column, as child indexes from the root struct. Names do not identify
// columns, because they may contain dots and may repeat.
using ColumnPath = std::vector<int>;

// The names along a path, joined with dots, for messages.
// REQUIRES: the path is valid.
std::string path_name(const Field& root, const ColumnPath& path);

}  // namespace nimble
