#include "nimble/types/field.h"

namespace nimble {
namespace {

std::string unit_name(char c) {
  switch (c) {
    case 's':
      return "s";
    case 'm':
      return "ms";
    case 'u':
      return "us";
    default:
      return "ns";
  }
}

std::string scalar_name(const Field& f) {
  const std::string& s = f.format;
  const std::string sign = f.is_signed ? "int" : "uint";
  switch (f.logical) {
    case Logical::kNull:
      return "null";
    case Logical::kBool:
      return "bool";
    case Logical::kInt:
      return sign + std::to_string(f.width * 8);
    case Logical::kFloat:
      return "float" + std::to_string(f.width * 8);
    case Logical::kDecimal: {
      std::string args = s.substr(2);
      if (const size_t third = args.find(',', args.find(',') + 1);
          third != std::string::npos) {
        args.resize(third);
      }
      return "decimal" + std::to_string(f.width * 8) + "(" + args + ")";
    }
    case Logical::kDate:
      return f.width == 4 ? "date32" : "date64";
    case Logical::kTime:
      return "time" + std::to_string(f.width * 8) + "[" + unit_name(s[2]) + "]";
    case Logical::kTimestamp:
      return "timestamp[" + unit_name(s[2]) +
             (s.size() > 4 ? ", " + s.substr(4) : "") + "]";
    case Logical::kDuration:
      return "duration[" + unit_name(s[2]) + "]";
    case Logical::kInterval:
      return s == "tiM"   ? "month_interval"
             : s == "tiD" ? "day_time_interval"
                          : "month_day_nano_interval";
    case Logical::kFixedBinary:
      return "fixed_size_binary[" + std::to_string(f.width) + "]";
    default:
      break;
  }
  const std::string base = f.logical == Logical::kText ? "string" : "binary";
  if (f.is_view) return base + "_view";
  return f.wide_offsets ? "large_" + base : base;
}

}  // namespace

std::string Field::type_name() const {
  if (layout == Layout::kDictionary) {
    Field index = *this;
    index.dictionary.clear();
    index.logical = Logical::kInt;
    index.layout = Layout::kFixed;
    return "dictionary<" + dictionary[0].type_name() + ", " +
           scalar_name(index) + ">";
  }
  if (logical != Logical::kNested) return scalar_name(*this);
  std::string inside;
  for (const Field& c : children) {
    if (!inside.empty()) inside += ", ";
    inside += c.name + ": " + c.type_name();
  }
  std::string head = "struct";
  if (layout == Layout::kList) {
    head = is_map ? "map" : "list";
    if (is_view) head += "_view";
    if (wide_offsets) head = "large_" + head;
  } else if (layout == Layout::kFixedList) {
    head = "fixed_size_list[" + std::to_string(list_size) + "]";
  } else if (layout == Layout::kRunEnd) {
    head = "run_end_encoded";
  } else if (layout == Layout::kUnion) {
    head = is_dense_union ? "dense_union" : "sparse_union";
  }
  return head + "<" + inside + ">";
}

}  // namespace nimble
