// Field: one node of a schema tree, in the vocabulary of the Arrow C data
// interface: its format string names the type exactly, so schemas go from
// Arrow to the file and back without loss. Derived members say how the node
// is stored. docs/format/schema.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/types/arrow_c.h"
#include "nimble/types/value_type.h"

namespace nimble {

// How the rows of a node are laid out; the logical type (date, decimal, text
// or binary) matters only to keys and statistics.
enum class Layout : uint8_t {
  kNull,        // no buffers
  kFixed,       // validity, fixed-width values
  kBool,        // validity, bitmap
  kBytes,       // validity, byte strings (any offset width or views)
  kList,        // validity, ends, one child (lists, large, views, maps)
  kFixedList,   // validity, one child of list_size rows a row
  kStruct,      // validity, children
  kDictionary,  // validity, integer codes, a dictionary
  kRunEnd,      // run ends and values: two children in Arrow
  kUnion,       // type ids (dense ones: offsets), children
};

// What the values mean: decides order in keys and in statistics.
enum class Logical : uint8_t {
  kNull,
  kBool,
  kInt,      // signed or unsigned by is_signed
  kFloat,    // 2, 4, 8 bytes
  kDecimal,  // 4, 8, 16, 32 bytes, two's complement little-endian
  kDate,     // ints from here on
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
  std::vector<Field> dictionary;  // empty, or the one field of the values

  // Derived from `format` by resolve().
  Layout layout = Layout::kNull;
  Logical logical = Logical::kNull;
  uint32_t width = 0;  // bytes of a fixed-width value
  bool is_signed = false;
  bool wide_offsets = false;  // 64-bit offsets or ends in Arrow
  bool is_view = false;       // binary view, list view
  bool is_map = false;
  bool is_dense_union = false;
  int32_t list_size = 0;         // kFixedList
  std::vector<int8_t> type_ids;  // kUnion: id of each child

  bool nullable() const { return (flags & ARROW_FLAG_NULLABLE) != 0; }
  // Nulls of these layouts live in their children.
  bool has_validity() const {
    return layout != Layout::kNull && layout != Layout::kRunEnd &&
           layout != Layout::kUnion;
  }
  // The stream type of kFixed / kBool / kBytes values and of codes.
  ValueType value_type() const;
  // Readable type name: "int64", "decimal128(15,2)", "list<item: float>".
  std::string type_name() const;

  // Fills the derived members of this node and all below; `path` is the
  // column path for the error that an unknown format gives.
  Status resolve(const std::string& path);

  static Result<Field> from_arrow(const ArrowSchema& schema);
};

// Owned C struct of a field (release with out->release).
void export_schema(const Field& field, ArrowSchema* out);

// Is `field` or anything below it dictionary-encoded?
bool has_dictionary(const Field& field);
// Refuses types that Arrow has and files must not: dictionaries inside
// dictionaries, and runs of run-end encoded values, which Arrow C++ refuses to
// import. Writers ask before the first byte, readers for every footer.
Status check_storable(const Field& schema);

// A column: child indices from the root struct downward. Names are no
// addresses: they may hold dots, and a file may have one twice.
using ColumnPath = std::vector<int>;

// The names along a path that leads somewhere, with dots between: for messages.
std::string path_name(const Field& root, const ColumnPath& path);

}  // namespace nimble
