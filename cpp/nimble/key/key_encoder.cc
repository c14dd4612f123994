#include "nimble/key/key_encoder.h"

#include "nimble/key/column_kernels.h"
#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

// A limit against hostile schemas. Real keys have a few columns.
constexpr size_t kMaxKeyColumns = 1024;

}  // namespace

Result<KeyEncoder> KeyEncoder::create(
    const Field& root_struct, const std::vector<KeyColumnSpec>& columns) {
  if (columns.empty() || columns.size() > kMaxKeyColumns) {
    return Status::invalid_argument(
        "a key has 1 to " + std::to_string(kMaxKeyColumns) + " columns, not " +
        std::to_string(columns.size()));
  }
  KeyEncoder all;
  for (const KeyColumnSpec& spec : columns) {
    NIMBLE_ASSIGN_OR_RETURN(KeyColumn column,
                            resolve_key_column(root_struct, spec));
    for (const KeyColumn& other : all.columns_) {
      if (other.path == column.path) {
        return Status::invalid_argument("column '" + column.name +
                                        "' is in the key twice");
      }
    }
    all.columns_.push_back(std::move(column));
  }
  return all.leading(all.columns_.size());
}

KeyEncoder KeyEncoder::leading(size_t k) const {
  KeyEncoder out;
  bool fixed = true;
  for (size_t i = 0; i < k && i < columns_.size(); ++i) {
    out.columns_.push_back(columns_[i]);
    out.fixed_bytes_ += 1 + columns_[i].width;
    fixed &= columns_[i].is_fixed();
  }
  out.fixed_width_ = fixed ? out.fixed_bytes_ : 0;
  return out;
}

Status KeyEncoder::encode(const ArrayView& root, int64_t begin, int64_t count,
                          KeyBuffer* out) const {
  if (begin < 0 || count < 0 || begin > root.length() ||
      count > root.length() - begin) {
    return Status::invalid_argument("the rows to encode are outside the batch");
  }
  if (out->empty()) out->reset(fixed_width_);
  if (out->fixed_width() != fixed_width_) {
    return Status::invalid_argument("the buffer holds keys of another layout");
  }
  std::vector<KeyColumnInput> inputs;
  inputs.reserve(columns_.size());
  for (const KeyColumn& column : columns_) {
    NIMBLE_ASSIGN_OR_RETURN(KeyColumnInput in,
                            KeyColumnInput::bind(column, root));
    inputs.push_back(std::move(in));
  }
  uint64_t cursors[kKeyBlock];
  for (int64_t done = 0; done < count;) {
    const auto n = static_cast<size_t>(
        std::min<int64_t>(count - done, static_cast<int64_t>(kKeyBlock)));
    for (KeyColumnInput& in : inputs) {
      NIMBLE_RETURN_IF_ERROR(in.load_block(begin + done, n));
    }
    if (fixed_width_ != 0) {
      uint8_t* to = out->extend_fixed(n);
      for (size_t c = 0; c < inputs.size(); ++c) {
        inputs[c].write_strided(to, fixed_width_);
        to += 1 + columns_[c].width;
      }
    } else {
      std::fill_n(cursors, n, fixed_bytes_);
      for (size_t c = 0; c < inputs.size(); ++c) {
        if (!columns_[c].is_fixed()) inputs[c].add_sizes(cursors);
      }
      const size_t first = out->size();
      out->extend_sized(cursors, n);
      for (size_t i = 0; i < n; ++i) cursors[i] = out->offset(first + i);
      for (const KeyColumnInput& in : inputs) in.write_at(out->data(), cursors);
    }
    done += static_cast<int64_t>(n);
  }
  return Status::ok();
}

Status KeyEncoder::encode_scalar(size_t column, const KeyScalar& value,
                                 ByteBuffer* out) const {
  if (column >= columns_.size()) {
    return Status::invalid_argument("the key has no column " +
                                    std::to_string(column));
  }
  return nimble::encode_scalar(columns_[column], value, out);
}

Status KeyEncoder::encode_tuple(std::span<const KeyScalar> values,
                                ByteBuffer* out) const {
  for (size_t i = 0; i < values.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(encode_scalar(i, values[i], out));
  }
  return Status::ok();
}

size_t KeyEncoder::encode_int_key(int64_t value, uint8_t* out) const {
  const KeyColumn& c = columns_.front();
  const bool is_signed = c.kind == KeyKind::kSigned;
  if (columns_.size() != 1 || (!is_signed && c.kind != KeyKind::kUnsigned)) {
    return 0;
  }
  const uint32_t unused = 64 - 8 * c.width;
  const auto bits = static_cast<uint64_t>(value);
  const bool fits =
      is_signed ? static_cast<int64_t>(bits << unused) >> unused == value
                : value >= 0 && (bits << unused) >> unused == bits;
  if (!fits) return 0;
  const uint64_t sign = is_signed ? uint64_t{1} << (8 * c.width - 1) : 0;
  const uint64_t invert = c.order.descending ? ~uint64_t{0} : 0;
  out[0] = c.value_marker();
  const uint64_t big = swap_bytes((bits ^ sign ^ invert) << unused);
  std::memcpy(out + 1, &big, c.width);
  return 1 + c.width;
}

size_t KeyEncoder::encode_text_key(std::string_view value, uint8_t* out) const {
  const KeyColumn& c = columns_.front();
  if (columns_.size() != 1 || c.kind != KeyKind::kBytes) return 0;
  uint8_t* p = out;
  *p++ = c.value_marker();
  const ByteSpan s = as_bytes(value);
  p = needs_escape(s) ? put_escaped(p, s, c.inversion())
                      : put_plain(p, s, c.inversion());
  *p++ = c.inversion();
  return static_cast<size_t>(p - out);
}

}  // namespace nimble
