#include "nimble/write/zone_builder.h"

#include <algorithm>
#include <cmath>

#include "nimble/key/key_scalar.h"
#include "nimble/memory/byte_buffer.h"
#include "zone_map_generated.h"

namespace nimble {

// The values of one zone of a leaf.
struct ZoneBuilder::Bounds {
  bool any = false;
  KeyScalar min, max;
  uint64_t nans = 0;
};

namespace {

// Values [begin, end) of a leaf, and the columns that say which values count.
struct Leaf {
  const Column* column;
  // The leaf and the structs directly above it. A value counts if all are
  // valid.
  std::vector<const Column*> masks;
  uint64_t begin, end;

  bool valid(uint64_t i) const {
    for (const Column* c : masks) {
      if (!c->is_valid(i)) return false;
    }
    return true;
  }
};

template <class T, class Value>
bool find_extremes(const Leaf& leaf, const Value& value, T* min, T* max) {
  bool any = false;
  if (leaf.masks.empty() && leaf.begin < leaf.end) {
    *min = *max = value(leaf.begin);
    for (uint64_t i = leaf.begin + 1; i < leaf.end; ++i) {
      const T v = value(i);
      *min = v < *min ? v : *min;
      *max = *max < v ? v : *max;
    }
    return true;
  }
  for (uint64_t i = leaf.begin; i < leaf.end; ++i) {
    if (!leaf.valid(i)) continue;
    const T v = value(i);
    if (!any || v < *min) *min = v;
    if (!any || *max < v) *max = v;
    any = true;
  }
  return any;
}

template <class T>
const T* values_of(const Leaf& leaf) {
  return reinterpret_cast<const T*>(leaf.column->value_data());
}

template <class T>
bool int_bounds(const Leaf& leaf, KeyScalar* min, KeyScalar* max) {
  const T* v = values_of<T>(leaf);
  T lo{}, hi{};
  if (!find_extremes<T>(leaf, [v](uint64_t i) { return v[i]; }, &lo, &hi)) {
    return false;
  }
  if constexpr (std::is_signed_v<T>) {
    *min = KeyScalar::from_int(lo);
    *max = KeyScalar::from_int(hi);
  } else {
    *min = KeyScalar::from_uint(lo);
    *max = KeyScalar::from_uint(hi);
  }
  return true;
}

template <class Value>
bool float_bounds(const Leaf& leaf, const Value& value, KeyScalar* min,
                  KeyScalar* max, uint64_t* nans) {
  bool any = false;
  double lo = 0, hi = 0;
  for (uint64_t i = leaf.begin; i < leaf.end; ++i) {
    if (!leaf.masks.empty() && !leaf.valid(i)) continue;
    const double v = value(i);
    if (std::isnan(v)) {
      ++*nans;
      continue;
    }
    if (!any || v < lo) lo = v;
    if (!any || v > hi) hi = v;
    any = true;
  }
  *min = KeyScalar::from_double(lo);
  *max = KeyScalar::from_double(hi);
  return any;
}

// Compares two's complement values of 16 or 32 bytes, word by word.
bool wide_bounds(const Leaf& leaf, uint32_t width, KeyScalar* min,
                 KeyScalar* max) {
  const uint8_t* v = leaf.column->value_data();
  const auto extend = [&leaf, width](const uint8_t* p) {
    return KeyScalar::from_value(leaf.column->field(), {p, width});
  };
  const auto less = [width](const uint8_t* a, const uint8_t* b) {
    const auto ha = load<int64_t>(a + width - 8),
               hb = load<int64_t>(b + width - 8);
    if (ha != hb) return ha < hb;
    for (uint32_t at = width - 8; at > 0; at -= 8) {
      const auto x = load<uint64_t>(a + at - 8), y = load<uint64_t>(b + at - 8);
      if (x != y) return x < y;
    }
    return false;
  };
  const uint8_t* lo = nullptr;
  const uint8_t* hi = nullptr;
  for (uint64_t i = leaf.begin; i < leaf.end; ++i) {
    if (!leaf.masks.empty() && !leaf.valid(i)) continue;
    const uint8_t* p = v + i * width;
    if (lo == nullptr || less(p, lo)) lo = p;
    if (hi == nullptr || less(hi, p)) hi = p;
  }
  if (lo == nullptr) return false;
  *min = extend(lo);
  *max = extend(hi);
  return true;
}

template <class Value>
bool bytes_bounds(const Leaf& leaf, const Value& value, KeyScalar* min,
                  KeyScalar* max) {
  std::string_view lo, hi;
  bool any = false;
  for (uint64_t i = leaf.begin; i < leaf.end; ++i) {
    if (!leaf.masks.empty() && !leaf.valid(i)) continue;
    const std::string_view s = value(i);
    if (!any || s < lo) lo = s;
    if (!any || s > hi) hi = s;
    any = true;
  }
  *min = KeyScalar::from_bytes(as_bytes(lo));
  *max = KeyScalar::from_bytes(as_bytes(hi));
  return any;
}

bool bool_bounds(const Leaf& leaf, KeyScalar* min, KeyScalar* max) {
  const uint8_t* bits = leaf.column->values.data();
  bool lo = false, hi = false;
  const bool any = find_extremes<bool>(
      leaf, [bits](uint64_t i) { return get_bit(bits, i); }, &lo, &hi);
  *min = KeyScalar::from_bool(lo);
  *max = KeyScalar::from_bool(hi);
  return any;
}

bool find_bounds(const Leaf& leaf, const KeyColumn& key, KeyScalar* min,
                 KeyScalar* max, uint64_t* nans) {
  switch (key.kind) {
    case KeyKind::kBool:
      return bool_bounds(leaf, min, max);
    case KeyKind::kSigned:
      return key.width == 1   ? int_bounds<int8_t>(leaf, min, max)
             : key.width == 2 ? int_bounds<int16_t>(leaf, min, max)
             : key.width == 4 ? int_bounds<int32_t>(leaf, min, max)
                              : int_bounds<int64_t>(leaf, min, max);
    case KeyKind::kUnsigned:
      return key.width == 1   ? int_bounds<uint8_t>(leaf, min, max)
             : key.width == 2 ? int_bounds<uint16_t>(leaf, min, max)
             : key.width == 4 ? int_bounds<uint32_t>(leaf, min, max)
                              : int_bounds<uint64_t>(leaf, min, max);
    case KeyKind::kFloat: {
      const uint8_t* p = leaf.column->value_data();
      if (key.width == 2) {
        return float_bounds(
            leaf,
            [p](uint64_t i) {
              return half_to_double(load<uint16_t>(p + i * 2));
            },
            min, max, nans);
      }
      if (key.width == 4) {
        return float_bounds(
            leaf, [p](uint64_t i) { return double{load<float>(p + i * 4)}; },
            min, max, nans);
      }
      return float_bounds(
          leaf, [p](uint64_t i) { return load<double>(p + i * 8); }, min, max,
          nans);
    }
    case KeyKind::kWide:
      return wide_bounds(leaf, key.width, min, max);
    case KeyKind::kFixedBytes: {
      const auto* p = reinterpret_cast<const char*>(leaf.column->value_data());
      const size_t width = key.width;
      return bytes_bounds(
          leaf,
          [p, width](uint64_t i) {
            return std::string_view(p + i * width, width);
          },
          min, max);
    }
    case KeyKind::kBytes: {
      const BytesSink& b = leaf.column->bytes;
      return bytes_bounds(
          leaf,
          [&b](uint64_t i) {
            const uint64_t begin = b.begin_of(i);
            return as_string({b.data.data() + begin,
                              static_cast<size_t>(b.end_of(i) - begin)});
          },
          min, max);
    }
  }
  return false;
}

}  // namespace

bool ZoneBuilder::has_zones(const StreamPlan& plan, uint32_t node) {
  const Field& f = *plan.node(node).field;
  KeyKind kind;
  uint32_t width;
  if (f.layout == Layout::kDictionary || !classify_key(f, &kind, &width) ||
      (kind == KeyKind::kFixedBytes && width == 0)) {
    return false;
  }
  for (uint32_t n = plan.node(node).parent; n != 0; n = plan.node(n).parent) {
    const Layout l = plan.node(n).field->layout;
    if (l != Layout::kStruct && l != Layout::kList && l != Layout::kFixedList) {
      return false;
    }
  }
  return node != 0;
}

ZoneBuilder::ZoneBuilder(const StreamPlan& plan, uint32_t node,
                         uint32_t zone_rows)
    : node_(node), zone_rows_(zone_rows) {
  for (uint32_t n = node; n != 0; n = plan.node(n).parent) {
    const auto& siblings = plan.node(plan.node(n).parent).children;
    path_.push_back(static_cast<uint32_t>(
        std::find(siblings.begin(), siblings.end(), n) - siblings.begin()));
  }
  std::reverse(path_.begin(), path_.end());
  const Field& f = *plan.node(node).field;
  key_.name = f.name;
  key_.format = f.format;
  key_.logical = f.logical;
  classify_key(f, &key_.kind, &key_.width);
}

void ZoneBuilder::add_stripe(const Column& root, uint64_t first_row) {
  std::vector<const Column*> path{&root};
  for (const uint32_t c : path_) path.push_back(&path.back()->children[c]);
  for (uint64_t row = 0; row < root.length(); row += zone_rows_) {
    const uint64_t end = std::min<uint64_t>(root.length(), row + zone_rows_);
    add_zone(path, row, end);
    end_rows_.push_back(first_row + end);
  }
}

void ZoneBuilder::add_zone(const std::vector<const Column*>& path,
                           uint64_t begin, uint64_t end) {
  Leaf leaf{path.back(), {}, begin, end};
  for (size_t i = 1; i < path.size(); ++i) {
    const Column& c = *path[i];
    const Layout layout = c.field().layout;
    if (layout == Layout::kList) {
      leaf.begin = static_cast<uint64_t>(c.ends[leaf.begin]);
      leaf.end = static_cast<uint64_t>(c.ends[leaf.end]);
    } else if (layout == Layout::kFixedList) {
      leaf.begin *= static_cast<uint64_t>(c.field().list_size);
      leaf.end *= static_cast<uint64_t>(c.field().list_size);
    }
    // A null list has no values, so nulls above a list are not nulls of the
    // leaf.
    if (layout == Layout::kList || layout == Layout::kFixedList) {
      leaf.masks.clear();
    } else if (c.null_count() > 0) {
      leaf.masks.push_back(&c);
    }
  }
  uint64_t valid = leaf.end - leaf.begin;
  if (!leaf.masks.empty()) {
    valid = 0;
    for (uint64_t i = leaf.begin; i < leaf.end; ++i) valid += leaf.valid(i);
  }
  counts_.push_back(leaf.end - leaf.begin);
  nulls_.push_back(leaf.end - leaf.begin - valid);
  Bounds b;
  b.any = find_bounds(leaf, key_, &b.min, &b.max, &b.nans);
  nans_.push_back(b.nans);
  put_bounds(b);
}

void ZoneBuilder::put_bounds(const Bounds& b) {
  bool exact = true;
  if (b.any) {
    ByteBuffer min, max;
    // Values of a column can always be encoded for this column.
    const Status low = encode_scalar(key_, b.min, &min);
    const Status high = encode_scalar(key_, b.max, &max);
    if (low && high) {
      exact = max.size() <= kMaxZoneBound;
      min_bytes_.insert(min_bytes_.end(), min.data(),
                        min.data() + std::min(min.size(), kMaxZoneBound));
      max_bytes_.insert(max_bytes_.end(), max.data(),
                        max.data() + std::min(max.size(), kMaxZoneBound));
    }
  }
  min_ends_.push_back(static_cast<uint32_t>(min_bytes_.size()));
  max_ends_.push_back(static_cast<uint32_t>(max_bytes_.size()));
  max_exact_.push_back(exact ? 1 : 0);
}

std::vector<uint8_t> ZoneBuilder::serialize() const {
  flatbuffers::FlatBufferBuilder b;
  const auto end_rows = b.CreateVector(end_rows_);
  const auto nulls = b.CreateVector(nulls_);
  flatbuffers::Offset<flatbuffers::Vector<uint64_t>> nans;
  if (key_.kind == KeyKind::kFloat) nans = b.CreateVector(nans_);
  const auto counts = b.CreateVector(counts_);
  const auto min_bytes = b.CreateVector(min_bytes_);
  const auto min_ends = b.CreateVector(min_ends_);
  const auto max_bytes = b.CreateVector(max_bytes_);
  const auto max_ends = b.CreateVector(max_ends_);
  const auto exact = b.CreateVector(max_exact_);
  fb::FinishZoneMapBuffer(
      b, fb::CreateZoneMap(b, end_rows, nulls, nans, counts, min_bytes,
                           min_ends, max_bytes, max_ends, exact));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

}  // namespace nimble
