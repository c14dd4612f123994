#include "nimble/scan/filter_constants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nimble/encoding/core/int_values.h"

namespace nimble {
namespace {

using Shape = Predicate::Shape;

// Sets inclusive bounds for the comparison `op` with `value`. `least` and
// `most` are the limits of the type, `next` returns its next value. Returns
// false if no value can pass.
template <class V, class Less, class Next>
bool set_bounds(TestOp op, const V& value, const V& least, const V& most,
                Less&& less, Next&& next, Bounds<V>* out) {
  out->low = least;
  out->high = most;
  switch (op) {
    case TestOp::kEqual:
      out->low = out->high = value;
      return true;
    case TestOp::kLess:
      if (!less(least, value)) return false;
      out->high = next(value, false);
      return true;
    case TestOp::kLessEqual:
      out->high = value;
      return true;
    case TestOp::kGreater:
      if (!less(value, most)) return false;
      out->low = next(value, true);
      return true;
    default:
      out->low = value;
      return true;
  }
}

template <class V, class Less>
void set_members(std::vector<V> members, Less&& less, Bounds<V>* out) {
  std::sort(members.begin(), members.end(), less);
  const auto same = [&](const V& a, const V& b) {
    return !less(a, b) && !less(b, a);
  };
  members.erase(std::unique(members.begin(), members.end(), same),
                members.end());
  if (members.empty()) return;
  out->low = members.front();
  out->high = members.back();
  out->set = std::move(members);
}

// Sets the bounds, or the set of values, of a test of numbers.
template <class V, class Less, class Next>
void compare_numbers(TestOp op, std::vector<V> values, const V& least,
                     const V& most, Less&& less, Next&& next, Bounds<V>* bounds,
                     Shape* shape) {
  if (op != TestOp::kOneOf) {
    if (set_bounds(op, values[0], least, most, less, next, bounds)) {
      *shape = Shape::kRange;
    }
    return;
  }
  set_members(std::move(values), less, bounds);
  if (bounds->set.empty()) return;
  *shape = bounds->set.size() == 1 ? Shape::kRange : Shape::kSet;
}

void compare_ints(TestOp op, const ArrayView& values, Predicate* out) {
  std::vector<uint64_t> v(static_cast<size_t>(values.length()));
  const bool is_bool = out->type.kind == ValueKind::kBool;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = is_bool ? (values.bool_at(static_cast<int64_t>(i)) ? 1 : 0)
                   : load_int(out->type, values.values(), i);
  }
  const bool is_signed = out->type.is_signed;
  const uint32_t bits = is_bool ? 1 : 8 * out->type.width;
  const uint64_t most = ~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  compare_numbers(
      op, std::move(v), is_signed ? ~most : 0, most,
      [=](uint64_t a, uint64_t b) { return int_less(is_signed, a, b); },
      [](uint64_t x, bool up) { return up ? x + 1 : x - 1; }, &out->ints,
      &out->shape);
}

template <class F>
void compare_floats(TestOp op, const ArrayView& values, Predicate* out) {
  std::vector<double> v;
  for (int64_t i = 0; i < values.length(); ++i) {
    const F value =
        load<F>(values.values() + static_cast<uint64_t>(i) * sizeof(F));
    if (!std::isnan(value)) v.push_back(static_cast<double>(value));
  }
  if (v.empty()) return;  // NaN is not equal to any value and has no order
  const double infinity = std::numeric_limits<double>::infinity();
  compare_numbers(
      op, std::move(v), -infinity, infinity, std::less<double>(),
      [=](double x, bool up) {
        const auto to = static_cast<F>(up ? infinity : -infinity);
        return static_cast<double>(std::nextafter(static_cast<F>(x), to));
      },
      &out->floats, &out->shape);
}

WideInt neighbour(WideInt v, bool up) {
  for (uint64_t& word : v) {
    word += up ? 1 : ~uint64_t{0};
    if (word != (up ? 0 : ~uint64_t{0})) break;
  }
  return v;
}

void compare_wides(TestOp op, const ArrayView& values, Predicate* out) {
  const uint32_t width = out->type.width;
  std::vector<WideInt> v;
  for (int64_t i = 0; i < values.length(); ++i) {
    v.push_back(
        load_wide(values.values() + static_cast<uint64_t>(i) * width, width));
  }
  const uint64_t ones = ~uint64_t{0};
  const WideInt most{ones, ones, ones, ones >> 1};
  const WideInt least{0, 0, 0, ones - (ones >> 1)};
  compare_numbers(
      op, std::move(v), least, most,
      [](const WideInt& a, const WideInt& b) { return compare_wide(a, b) < 0; },
      neighbour, &out->wides, &out->shape);
}

std::string bytes_of(const ArrayView& values, int64_t i) {
  const Field& f = values.field();
  if (f.layout == Layout::kBytes) return std::string(values.bytes_at(i));
  const auto* p = reinterpret_cast<const char*>(
      values.values() + static_cast<uint64_t>(i) * f.width);
  return {p, f.width};
}

void compare_strings(TestOp op, const ArrayView& values, Predicate* out) {
  ByteBounds& b = out->bytes;
  if (op == TestOp::kOneOf) {
    for (int64_t i = 0; i < values.length(); ++i) {
      b.set.push_back(bytes_of(values, i));
    }
    std::sort(b.set.begin(), b.set.end());
    b.set.erase(std::unique(b.set.begin(), b.set.end()), b.set.end());
    if (b.set.size() > 1) out->shape = Shape::kSet;
    if (b.set.size() != 1) return;
  }
  std::string value = bytes_of(values, 0);
  if (op == TestOp::kContains) {
    out->shape = Shape::kContains;
    b.part = std::move(value);
    return;
  }
  out->shape = Shape::kRange;
  b.set.clear();
  switch (op) {
    case TestOp::kLess:
    case TestOp::kLessEqual:
      b.high_inclusive = op == TestOp::kLessEqual;
      b.high = std::move(value);
      return;
    case TestOp::kGreater:
    case TestOp::kGreaterEqual:
      b.low_inclusive = op == TestOp::kGreaterEqual;
      b.low = std::move(value);
      return;
    case TestOp::kPrefix:
      b.low = value;
      while (!value.empty() && value.back() == '\xff') value.pop_back();
      if (value.empty()) return;
      value.back() = static_cast<char>(value.back() + 1);
      b.high = std::move(value);
      b.high_inclusive = false;
      return;
    default:
      b.low = b.high = std::move(value);
  }
}

}  // namespace

Result<Predicate> make_predicate(TestOp op, const ArrayView& values) {
  const Field& field = values.field();
  const bool is_one = op != TestOp::kOneOf;
  for (int64_t i = 0; i < values.length(); ++i) {
    if (values.is_valid(i)) continue;
    return Status::invalid_argument("the values of a test must not be null");
  }
  Predicate out;
  out.type = field.value_type();
  const bool is_bytes =
      field.layout == Layout::kBytes ||
      (out.type.kind == ValueKind::kFixed && !is_wide_int(out.type));
  if ((is_one && values.length() != 1) || !can_be_tested(out.type) ||
      ((op == TestOp::kPrefix || op == TestOp::kContains) &&
       field.layout != Layout::kBytes) ||
      (field.layout != Layout::kFixed && field.layout != Layout::kBool &&
       field.layout != Layout::kBytes)) {
    return Status::unsupported("this test is not possible for " +
                               field.type_name());
  }
  if (is_bytes) {
    compare_strings(op, values, &out);
  } else if (is_wide_int(out.type)) {
    compare_wides(op, values, &out);
  } else if (out.type.kind != ValueKind::kFloat) {
    compare_ints(op, values, &out);
  } else if (out.type.width == 8) {
    compare_floats<double>(op, values, &out);
  } else {
    compare_floats<float>(op, values, &out);
  }
  return out;
}

}  // namespace nimble
