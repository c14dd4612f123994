#include "nimble/key/key_decoder.h"

#include "nimble/base/byte_reader.h"
#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

Status malformed(const KeyColumn& c, const char* what) {
  return Status::corrupt("key column '" + c.name + "': " + what);
}

// Converts big-endian ordered bits to a little-endian value.
template <class U>
void put_number(const KeyColumn& c, const uint8_t* key, uint8_t* out) {
  U bits = swap_bytes(load<U>(key));
  if (c.order.descending) bits = static_cast<U>(~bits);
  if (c.kind == KeyKind::kFloat) {
    bits = unordered_float(bits);
  } else if (c.kind == KeyKind::kSigned) {
    bits ^= kSignBit<U>;
  }
  store(out, bits);
}

}  // namespace

Status decode_fixed(const KeyColumn& c, const uint8_t* key, uint8_t* out) {
  const uint8_t inversion = c.inversion();
  switch (c.kind) {
    case KeyKind::kBool: {
      const auto b = static_cast<uint8_t>(*key ^ inversion);
      if (b != 1 && b != 2) return malformed(c, "invalid boolean");
      *out = b - 1;
      return Status::ok();
    }
    case KeyKind::kFixedBytes:
      put_plain(out, {key, c.width}, inversion);
      return Status::ok();
    case KeyKind::kWide:
      for (uint32_t i = 0; i < c.width; ++i) {
        out[c.width - 1 - i] = static_cast<uint8_t>(key[i] ^ inversion);
      }
      out[c.width - 1] ^= 0x80;
      return Status::ok();
    default:
      break;
  }
  switch (c.width) {
    case 1:
      put_number<uint8_t>(c, key, out);
      break;
    case 2:
      put_number<uint16_t>(c, key, out);
      break;
    case 4:
      put_number<uint32_t>(c, key, out);
      break;
    default:
      put_number<uint64_t>(c, key, out);
      break;
  }
  return Status::ok();
}

namespace {

// Reads escaped bytes up to and including the terminator.
Status read_escaped(const KeyColumn& c, ByteReader* in,
                    std::vector<uint8_t>* out) {
  const uint8_t inversion = c.inversion();
  while (true) {
    auto b = static_cast<uint8_t>(in->get_u8() ^ inversion);
    if (!in->ok()) return malformed(c, "a byte string without an end");
    if (b == 0) return Status::ok();
    if (b == 1) {
      b = static_cast<uint8_t>(in->get_u8() ^ inversion);
      if (!in->ok() || b > 1) return malformed(c, "invalid escape");
    }
    out->push_back(b);
  }
}

Status read_column(const KeyColumn& c, ByteReader* in, DecodedColumn* out) {
  const uint8_t marker = in->get_u8();
  if (!in->ok()) return malformed(c, "the key ends before it");
  if (marker > 1) return malformed(c, "invalid null marker");
  const bool valid = marker == c.value_marker();
  out->validity.push_back(valid ? 1 : 0);
  if (!c.is_fixed()) {
    if (valid) NIMBLE_RETURN_IF_ERROR(read_escaped(c, in, &out->values));
    out->ends.push_back(out->values.size());
    return Status::ok();
  }
  const ByteSpan value = in->get_bytes(c.width);
  if (!in->ok()) return malformed(c, "the key ends inside its value");
  const size_t at = out->values.size();
  out->values.resize(at + c.width);
  if (valid) return decode_fixed(c, value.data(), out->values.data() + at);
  for (const uint8_t b : value) {
    if (b != 0) return malformed(c, "a null is not followed by zeros");
  }
  return Status::ok();
}

}  // namespace

ByteSpan DecodedColumn::value(const KeyColumn& column, size_t row) const {
  if (column.is_fixed()) {
    return {values.data() + row * column.width, column.width};
  }
  const uint64_t begin = row == 0 ? 0 : ends[row - 1];
  return {values.data() + begin, static_cast<size_t>(ends[row] - begin)};
}

Status KeyDecoder::decode(ByteSpan key, std::vector<DecodedColumn>* out) const {
  out->resize(columns_.size());
  ByteReader in(key);
  for (size_t i = 0; i < columns_.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(read_column(columns_[i], &in, &(*out)[i]));
  }
  if (in.remaining() != 0) {
    return malformed(columns_.back(), "bytes follow the key");
  }
  return Status::ok();
}

Status KeyDecoder::decode(const KeyBuffer& keys, size_t begin, size_t end,
                          std::vector<DecodedColumn>* out) const {
  for (size_t i = begin; i < end; ++i) {
    NIMBLE_RETURN_IF_ERROR(decode(keys.key(i), out));
  }
  return Status::ok();
}

}  // namespace nimble
