#include "nimble/key/column_kernels.h"

#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

struct Strided {
  uint8_t* out;
  size_t stride;
  uint8_t* next(size_t i, size_t) const { return out + i * stride; }
};
struct Scattered {
  uint8_t* out;
  uint64_t* at;
  uint8_t* next(size_t i, size_t size) const {
    uint8_t* p = out + at[i];
    at[i] += size;
    return p;
  }
};

// Combines the bytes of `valid` with `count` bits, from bit `bit` on, by AND.
// Returns whether any of the bits is 0.
bool unpack_bits(const uint8_t* bitmap, uint64_t bit, size_t count,
                 uint8_t* valid) {
  uint8_t all = 1;
  for (size_t i = 0; i < count; ++i, ++bit) {
    const auto b = static_cast<uint8_t>((bitmap[bit / 8] >> (bit % 8)) & 1);
    valid[i] &= b;
    all &= b;
  }
  return all == 0;
}

// Building an index spends most of its time in this loop, so it has only loads,
// a byte swap and stores. `flip` combines the sign flip and the inversion for
// descending order.
template <class U, bool kFloat, class Cursor>
void write_plain(const uint8_t* values, size_t count, uint8_t marker, U flip,
                 Cursor cursor) {
  for (size_t i = 0; i < count; ++i) {
    U v = load<U>(values + i * sizeof(U));
    if constexpr (kFloat) v = ordered_float(v);
    uint8_t* out = cursor.next(i, 1 + sizeof(U));
    out[0] = marker;
    store<U>(out + 1, swap_bytes(static_cast<U>(v ^ flip)));
  }
}

}  // namespace

Result<KeyColumnInput> KeyColumnInput::bind(const KeyColumn& column,
                                            const ArrayView& root) {
  KeyColumnInput in;
  in.column_ = &column;
  in.leaf_ = {&root, 0};
  if (root.may_have_nulls()) in.nodes_.push_back(in.leaf_);
  for (const int i : column.path) {
    const ArrayView& parent = *in.leaf_.view;
    if (parent.field().layout != Layout::kStruct ||
        static_cast<size_t>(i) >= parent.children().size()) {
      return Status::invalid_argument("the rows have no column '" +
                                      column.name + "'");
    }
    in.leaf_ = {&parent.children()[static_cast<size_t>(i)],
                in.leaf_.shift + parent.child_row(0)};
    if (in.leaf_.view->may_have_nulls()) in.nodes_.push_back(in.leaf_);
  }
  const ArrayView& leaf = *in.leaf_.view;
  KeyKind kind{};
  uint32_t width = 0;
  if (!classify_key(leaf.field(), &kind, &width) || kind != column.kind ||
      width != column.width) {
    return Status::invalid_argument("column '" + column.name + "' of type " +
                                    leaf.field().type_name() +
                                    " has another type than the key");
  }
  in.has_codes_ = leaf.field().layout == Layout::kDictionary;
  in.values_ = in.has_codes_ ? &leaf.dictionary() : &leaf;
  in.valid_.resize(kKeyBlock);
  if (in.has_codes_) in.rows_.resize(kKeyBlock);
  if (kind == KeyKind::kBytes) {
    in.strings_.resize(kKeyBlock);
    in.escapes_.resize(kKeyBlock);
  }
  return in;
}

Status KeyColumnInput::load_block(int64_t begin, size_t count) {
  count_ = count;
  first_ = begin + leaf_.shift;
  find_nulls(begin);
  if (has_codes_) NIMBLE_RETURN_IF_ERROR(resolve_codes(begin));
  if (column_->kind != KeyKind::kBytes) return Status::ok();
  if (!has_codes_ && count > 0 &&
      !values_->has_sound_offsets(first_, static_cast<int64_t>(count))) {
    return Status::invalid_argument("column '" + column_->name +
                                    "': string offsets go down: invalid data");
  }
  collect_bytes();
  return Status::ok();
}

void KeyColumnInput::find_nulls(int64_t begin) {
  has_nulls_ = false;
  if (nodes_.empty() && !has_codes_) return;
  std::fill_n(valid_.begin(), count_, uint8_t{1});
  for (const Node& node : nodes_) {
    const auto bit =
        static_cast<uint64_t>(node.view->offset() + begin + node.shift);
    has_nulls_ |=
        unpack_bits(node.view->validity(), bit, count_, valid_.data());
  }
}

Status KeyColumnInput::resolve_codes(int64_t begin) {
  const int64_t size = values_->length();
  for (size_t i = 0; i < count_; ++i) {
    rows_[i] = 0;
    if (valid_[i] == 0) continue;
    const int64_t row = begin + leaf_.shift + static_cast<int64_t>(i);
    const int64_t code = leaf_.view->code_at(row);
    if (code < 0 || code >= size) {
      return Status::invalid_argument(
          "column '" + column_->name + "': code " + std::to_string(code) +
          " is outside its dictionary of " + std::to_string(size) + " values");
    }
    rows_[i] = code;
    if (!values_->is_valid(code)) {
      valid_[i] = 0;
      has_nulls_ = true;
    }
  }
  return Status::ok();
}

void KeyColumnInput::collect_bytes() {
  for (size_t i = 0; i < count_; ++i) {
    if (is_null(i)) {
      strings_[i] = {};
      escapes_[i] = 0;
      continue;
    }
    strings_[i] = values_->bytes_at(row_of(i));
    escapes_[i] = needs_escape(as_bytes(strings_[i])) ? 1 : 0;
  }
}

void KeyColumnInput::add_sizes(uint64_t* sizes) const {
  for (size_t i = 0; i < count_; ++i) {
    if (is_null(i)) continue;
    sizes[i] += strings_[i].size() + 1;
    if (escapes_[i] != 0) sizes[i] += count_escapes(as_bytes(strings_[i]));
  }
}

template <class U, bool kFloat, class Cursor>
void KeyColumnInput::write_numbers(Cursor cursor) const {
  const U sign = column_->kind == KeyKind::kSigned ? kSignBit<U> : U{0};
  const U flip = column_->order.descending ? static_cast<U>(~sign) : sign;
  const uint8_t marker = column_->value_marker();
  const uint8_t* values = values_->values();
  if (!has_nulls_ && !has_codes_) {
    write_plain<U, kFloat>(values + static_cast<uint64_t>(first_) * sizeof(U),
                           count_, marker, flip, cursor);
    return;
  }
  const uint8_t null_marker = column_->null_marker();
  for (size_t i = 0; i < count_; ++i) {
    uint8_t* out = cursor.next(i, 1 + sizeof(U));
    // A null's value bytes are zeros, so that all keys have the same length.
    U bits = 0;
    out[0] = null_marker;
    if (!is_null(i)) {
      bits = load<U>(values + static_cast<uint64_t>(row_of(i)) * sizeof(U));
      if constexpr (kFloat) bits = ordered_float(bits);
      bits = static_cast<U>(bits ^ flip);
      out[0] = marker;
    }
    store<U>(out + 1, swap_bytes(bits));
  }
}

template <class Cursor>
void KeyColumnInput::write_bools(Cursor cursor) const {
  const uint8_t inversion = column_->inversion();
  for (size_t i = 0; i < count_; ++i) {
    uint8_t* out = cursor.next(i, 2);
    const bool null = is_null(i);
    out[0] = null ? column_->null_marker() : column_->value_marker();
    out[1] = null ? 0
                  : static_cast<uint8_t>((values_->bool_at(row_of(i)) ? 2 : 1) ^
                                         inversion);
  }
}

template <class Cursor>
void KeyColumnInput::write_opaque(Cursor cursor) const {
  const size_t width = column_->width;
  const uint8_t inversion = column_->inversion();
  for (size_t i = 0; i < count_; ++i) {
    uint8_t* out = cursor.next(i, 1 + width);
    if (is_null(i)) {
      out[0] = column_->null_marker();
      std::memset(out + 1, 0, width);
      continue;
    }
    out[0] = column_->value_marker();
    const uint8_t* value =
        values_->values() + static_cast<uint64_t>(row_of(i)) * width;
    if (column_->kind == KeyKind::kWide) {
      put_wide(out + 1, value, column_->width, inversion);
    } else if (width > 0) {
      put_plain(out + 1, {value, width}, inversion);
    }
  }
}

void KeyColumnInput::write_bytes(uint8_t* out, uint64_t* at) const {
  const uint8_t inversion = column_->inversion();
  for (size_t i = 0; i < count_; ++i) {
    uint8_t* p = out + at[i];
    if (is_null(i)) {
      *p = column_->null_marker();
      at[i] += 1;
      continue;
    }
    *p++ = column_->value_marker();
    const ByteSpan s = as_bytes(strings_[i]);
    p = escapes_[i] != 0 ? put_escaped(p, s, inversion)
                         : put_plain(p, s, inversion);
    *p++ = inversion;  // the terminator, 0
    at[i] = static_cast<uint64_t>(p - out);
  }
}

template <class Cursor>
void KeyColumnInput::write(Cursor cursor) const {
  const bool is_float = column_->kind == KeyKind::kFloat;
  switch (column_->kind) {
    case KeyKind::kBool:
      return write_bools(cursor);
    case KeyKind::kSigned:
    case KeyKind::kUnsigned:
    case KeyKind::kFloat:
      switch (column_->width) {
        case 1:
          return write_numbers<uint8_t, false>(cursor);
        case 2:
          return is_float ? write_numbers<uint16_t, true>(cursor)
                          : write_numbers<uint16_t, false>(cursor);
        case 4:
          return is_float ? write_numbers<uint32_t, true>(cursor)
                          : write_numbers<uint32_t, false>(cursor);
        default:
          return is_float ? write_numbers<uint64_t, true>(cursor)
                          : write_numbers<uint64_t, false>(cursor);
      }
    default:
      return write_opaque(cursor);
  }
}

void KeyColumnInput::write_strided(uint8_t* out, size_t stride) const {
  write(Strided{out, stride});
}

void KeyColumnInput::write_at(uint8_t* out, uint64_t* at) const {
  if (column_->kind == KeyKind::kBytes) return write_bytes(out, at);
  write(Scattered{out, at});
}

}  // namespace nimble
