#include "nimble/key/key_bounds.h"

#include <algorithm>

namespace nimble {
namespace {

// A position in the order of keys. It is before or after all keys that begin
// with a prefix.
struct Cut {
  ByteBuffer prefix;
  bool after = false;
};

// Returns the position before or after the rows that equal a tuple.
Result<Cut> cut_of(const KeyEncoder& encoder,
                   const std::vector<KeyScalar>& values, bool after) {
  const auto& columns = encoder.columns();
  if (values.size() > columns.size()) {
    return Status::invalid_argument(
        "a bound has " + std::to_string(values.size()) +
        " values; the key has only " + std::to_string(columns.size()) +
        " columns");
  }
  Cut cut;
  for (size_t i = 0; i < values.size(); ++i) {
    const ScalarFit fit = fit_of(columns[i], values[i]);
    if (fit == ScalarFit::kBelow || fit == ScalarFit::kAbove) {
      // The value is outside the column's range, so later values do not matter.
      const bool last = fit == ScalarFit::kAbove;
      cut.prefix.put_u8(columns[i].value_marker());
      cut.after = last != columns[i].order.descending;
      return cut;
    }
    NIMBLE_RETURN_IF_ERROR(encoder.encode_scalar(i, values[i], &cut.prefix));
  }
  cut.after = after;
  return cut;
}

// Converts a cut to a bound: keys after the cut are >= the bound. Returns
// nullopt if the cut is after all keys.
std::optional<ByteBuffer> bound_of(Cut cut) {
  if (cut.after && !successor(&cut.prefix)) return std::nullopt;
  return std::move(cut.prefix);
}

KeyRange range_between(std::optional<Cut> lower, std::optional<Cut> upper) {
  KeyRange range;
  if (lower) {
    range.lower = bound_of(std::move(*lower));
    if (!range.lower) return KeyRange::none();
  }
  if (upper) range.upper = bound_of(std::move(*upper));
  return range.empty() ? KeyRange::none() : std::move(range);
}

// Returns the number of leading columns with equal bounds and encodes them to
// `common`.
Result<size_t> equal_columns(const KeyEncoder& encoder, const KeyBound& a,
                             const KeyBound& b, ByteBuffer* common) {
  const size_t n =
      std::min({a.values.size(), b.values.size(), encoder.columns().size()});
  for (size_t i = 0; i < n; ++i) {
    const KeyColumn& column = encoder.columns()[i];
    if (fit_of(column, a.values[i]) != ScalarFit::kExact ||
        fit_of(column, b.values[i]) != ScalarFit::kExact) {
      return i;
    }
    ByteBuffer x, y;
    NIMBLE_RETURN_IF_ERROR(encode_scalar(column, a.values[i], &x));
    NIMBLE_RETURN_IF_ERROR(encode_scalar(column, b.values[i], &y));
    if (compare_bytes(x.span(), y.span()) != 0) return i;
    common->put_bytes(x.span());
  }
  return n;
}

}  // namespace

bool successor(ByteBuffer* key) {
  size_t n = key->size();
  while (n > 0 && key->data()[n - 1] == 0xff) --n;
  key->resize(n);
  if (n == 0) return false;
  ++key->data()[n - 1];
  return true;
}

bool KeyRange::empty() const {
  if (!upper) return false;
  return lower ? compare_bytes(lower->span(), upper->span()) >= 0
               : upper->empty();
}

bool KeyRange::contains(ByteSpan key) const {
  return (!lower || compare_bytes(key, lower->span()) >= 0) &&
         (!upper || compare_bytes(key, upper->span()) < 0);
}

KeyRange KeyRange::none() {
  KeyRange range;
  range.upper.emplace();
  return range;
}

KeyRange prefix_range(ByteSpan prefix) {
  KeyRange range;
  range.lower.emplace().put_bytes(prefix);
  range.upper.emplace().put_bytes(prefix);
  if (!successor(&*range.upper)) range.upper.reset();
  return range;
}

Result<KeyRange> equal_range(const KeyEncoder& encoder,
                             std::span<const KeyScalar> values,
                             bool starts_with) {
  const auto& columns = encoder.columns();
  if (values.size() > columns.size() || (starts_with && values.empty())) {
    return Status::invalid_argument(
        std::to_string(values.size()) + " values for a key of " +
        std::to_string(columns.size()) + " columns");
  }
  ByteBuffer prefix;
  const size_t whole = values.size() - (starts_with ? 1 : 0);
  for (size_t i = 0; i < whole; ++i) {
    const ScalarFit fit = fit_of(columns[i], values[i]);
    if (fit != ScalarFit::kExact && fit != ScalarFit::kWrongType) {
      return KeyRange::none();
    }
    NIMBLE_RETURN_IF_ERROR(encode_scalar(columns[i], values[i], &prefix));
  }
  if (starts_with) {
    if (values[whole].kind != KeyScalar::Kind::kBytes) {
      return Status::invalid_argument("column '" + columns[whole].name +
                                      "': a prefix must be text or bytes");
    }
    NIMBLE_RETURN_IF_ERROR(
        encode_starts_with(columns[whole], values[whole].bytes, &prefix));
  }
  return prefix_range(prefix.span());
}

Result<KeyRange> key_order_range(const KeyEncoder& encoder,
                                 const KeyBound& lower, const KeyBound& upper) {
  std::optional<Cut> from, to;
  if (!lower.values.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(from,
                            cut_of(encoder, lower.values, !lower.inclusive));
  }
  if (!upper.values.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(to, cut_of(encoder, upper.values, upper.inclusive));
  }
  return range_between(std::move(from), std::move(to));
}

Result<KeyRange> value_range(const KeyEncoder& encoder, const KeyBound& lower,
                             const KeyBound& upper, bool include_nulls) {
  const auto& columns = encoder.columns();
  ByteBuffer common;
  NIMBLE_ASSIGN_OR_RETURN(const size_t equal,
                          equal_columns(encoder, lower, upper, &common));
  const size_t bound = std::max(lower.values.size(), upper.values.size());
  if (bound > columns.size()) {
    return Status::invalid_argument(
        "a bound has " + std::to_string(bound) + " values; the key has only " +
        std::to_string(columns.size()) + " columns");
  }
  bool descending = false;
  for (size_t i = equal; i < bound; ++i) {
    if (i == equal) {
      descending = columns[i].order.descending;
    } else if (columns[i].order.descending != descending) {
      return Status::invalid_argument(
          "columns '" + columns[equal].name + "' and '" + columns[i].name +
          "' are sorted in opposite directions: a range over both is not one "
          "range of rows; bound only the first of them");
    }
  }
  const KeyBound& first = descending ? upper : lower;
  const KeyBound& last = descending ? lower : upper;
  std::optional<Cut> from, to;
  if (!first.values.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(from,
                            cut_of(encoder, first.values, !first.inclusive));
  }
  if (!last.values.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(to, cut_of(encoder, last.values, last.inclusive));
  }
  // If a side does not have a value for column `equal`, and the other side's
  // value is not null, the side does not extend to the column's nulls.
  const auto open_side = [equal](const KeyBound& b, const KeyBound& other) {
    return b.values.size() <= equal && (b.values.empty() || b.inclusive) &&
           other.values[equal].kind != KeyScalar::Kind::kNull;
  };
  if (equal < bound && !include_nulls) {
    Cut edge{std::move(common), false};
    edge.prefix.put_u8(columns[equal].value_marker());
    if (open_side(first, last)) from = edge;
    edge.after = true;
    if (open_side(last, first)) to = std::move(edge);
  }
  return range_between(std::move(from), std::move(to));
}

}  // namespace nimble
