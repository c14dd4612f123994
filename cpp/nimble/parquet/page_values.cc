#include "nimble/parquet/page_values.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/base/byte_reader.h"

namespace nimble::parquet {
namespace {

// A page may decode to this many values per stored byte, or to kAlwaysAllowed
// values. Pages with more values are left to another reader, so that a few
// bytes cannot make this reader allocate much memory.
constexpr uint64_t kMaxExpansion = 64;
constexpr uint64_t kAlwaysAllowed = 1u << 20;

Status check_expansion(uint64_t decoded, uint64_t stored) {
  if (decoded <= kAlwaysAllowed || decoded / kMaxExpansion <= stored) {
    return Status::ok();
  }
  return Status::unsupported("Parquet page: " + std::to_string(stored) +
                             " bytes would decode to " +
                             std::to_string(decoded));
}

Status cut_short(const char* what) {
  return Status::corrupt(std::string("Parquet page: ") + what +
                         " are cut short");
}

int64_t unzigzag(uint64_t v) {
  return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1));
}

// Decodes DELTA_BINARY_PACKED integers. Sums wrap, as Parquet specifies.
// Returns the number of bytes that were read.
Result<size_t> decode_deltas(ByteSpan bytes, uint64_t count,
                             std::vector<uint64_t>* out) {
  ByteReader in(bytes);
  const uint64_t block = in.get_varint();
  const uint64_t minis = in.get_varint();
  const uint64_t total = in.get_varint();
  uint64_t value = static_cast<uint64_t>(unzigzag(in.get_varint()));
  NIMBLE_RETURN_IF_ERROR(in.status("Parquet page: delta header"));
  if (total != count || block == 0 || block > (1u << 20) || block % 128 != 0 ||
      minis == 0 || block % minis != 0 || (block / minis) % 32 != 0) {
    return Status::corrupt("Parquet page: " + std::to_string(total) +
                           " delta values in blocks of " +
                           std::to_string(block) + " and " +
                           std::to_string(minis) + " miniblocks; expected " +
                           std::to_string(count) + " values");
  }
  NIMBLE_RETURN_IF_ERROR(check_expansion(count * 8, bytes.size()));
  out->reserve(count);
  if (count > 0) out->push_back(value);
  const uint64_t per_mini = block / minis;
  while (out->size() < count) {
    const uint64_t least = static_cast<uint64_t>(unzigzag(in.get_varint()));
    const ByteSpan widths = in.get_bytes(minis);
    if (!in.ok()) return cut_short("delta values");
    for (uint64_t m = 0; m < minis && out->size() < count; ++m) {
      const uint32_t width = widths[m];
      const uint64_t n = std::min(per_mini, count - out->size());
      // The last miniblock should be complete, but some writers end it early.
      const uint64_t whole =
          std::min<uint64_t>(per_mini / 8 * width, in.remaining());
      if (width > 64 || whole < div_ceil(n * width, 8)) {
        return cut_short("delta values");
      }
      const ByteSpan packed = in.get_bytes(whole);
      const uint64_t mask =
          width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      for (uint64_t i = 0; i < n; ++i) {
        uint64_t delta = 0;
        if (width > 0) {
          const uint64_t bit = i * width;
          const uint8_t* p = packed.data() + bit / 8;
          const uint32_t shift = bit % 8;
          delta = load<uint64_t>(p) >> shift;
          if (shift + width > 64) {
            delta |= static_cast<uint64_t>(p[8]) << (64 - shift);
          }
          delta &= mask;
        }
        value += least + delta;
        out->push_back(value);
      }
    }
  }
  return in.position();
}

}  // namespace

Result<PageValues> PageValues::open(
    PageEncoding encoding, const ValueSpec& spec, ByteSpan bytes,
    uint64_t count, std::shared_ptr<const PageValues> dictionary) {
  PageValues out;
  out.spec_ = spec;
  out.count_ = count;
  if (count == 0) return out;
  const bool is_int =
      spec.physical == Physical::kInt32 || spec.physical == Physical::kInt64;
  const auto unsupported = [&] {
    return Status::unsupported("Parquet page: unsupported encoding " +
                               std::to_string(static_cast<int>(encoding)) +
                               " of physical type " +
                               std::to_string(static_cast<int>(spec.physical)));
  };
  Status status;
  switch (encoding) {
    case PageEncoding::kPlain:
      status = out.open_plain(bytes);
      break;
    case PageEncoding::kPlainDictionary:
    case PageEncoding::kRleDictionary:
      if (dictionary == nullptr) {
        return Status::corrupt("Parquet page: codes without a dictionary");
      }
      if (spec.physical == Physical::kBoolean) return unsupported();
      out.dictionary_ = std::move(dictionary);
      status = out.open_codes(bytes);
      break;
    case PageEncoding::kDeltaBinaryPacked:
      if (!is_int) return unsupported();
      status = out.open_deltas(bytes);
      break;
    case PageEncoding::kDeltaLengthByteArray:
      if (spec.physical != Physical::kByteArray) return unsupported();
      status = out.open_delta_lengths(bytes);
      break;
    case PageEncoding::kDeltaByteArray:
      if (!out.is_bytes()) return unsupported();
      status = out.open_delta_strings(bytes);
      break;
    case PageEncoding::kByteStreamSplit:
      if (spec.width == 0) return unsupported();
      if (bytes.size() / spec.width < count) return cut_short("values");
      out.kind_ = Kind::kSplit;
      out.base_ = bytes.data();
      break;
    case PageEncoding::kRle: {
      if (spec.physical != Physical::kBoolean) return unsupported();
      ByteReader in(bytes);
      const ByteSpan runs = in.get_bytes(in.get<uint32_t>());
      if (!in.ok()) return cut_short("booleans");
      NIMBLE_ASSIGN_OR_RETURN(out.runs_, LevelRuns::parse(runs, 1, count, 1));
      out.kind_ = Kind::kRuns;
      break;
    }
    default:
      return unsupported();
  }
  NIMBLE_RETURN_IF_ERROR(std::move(status));
  return out;
}

Status PageValues::open_plain(ByteSpan bytes) {
  if (spec_.physical == Physical::kBoolean) {
    if (bytes.size() < div_ceil(count_, 8)) return cut_short("booleans");
    kind_ = Kind::kBits;
    base_ = bytes.data();
    return Status::ok();
  }
  if (spec_.physical == Physical::kByteArray) return open_prefixed(bytes);
  if (spec_.width > 0 && bytes.size() / spec_.width < count_) {
    return cut_short("values");
  }
  base_ = bytes.data();
  return Status::ok();
}

Status PageValues::open_prefixed(ByteSpan bytes) {
  if (bytes.size() / 4 < count_) return cut_short("byte strings");
  kind_ = Kind::kPrefixed;
  base_ = bytes.data();
  starts_.resize(count_);
  uint64_t at = 0;
  for (uint32_t& start : starts_) {
    if (bytes.size() - at < 4) return cut_short("byte strings");
    const uint64_t size = load<uint32_t>(base_ + at);
    at += 4;
    if (bytes.size() - at < size) return cut_short("byte strings");
    start = static_cast<uint32_t>(at);
    at += size;
  }
  return Status::ok();
}

Status PageValues::open_codes(ByteSpan bytes) {
  if (bytes.empty()) return cut_short("dictionary codes");
  const uint32_t width = bytes[0];
  if (width > 32) {
    return Status::corrupt("Parquet page: dictionary codes have " +
                           std::to_string(width) +
                           " bits; at most 32 are possible");
  }
  // Ranks of codes are not needed, and no code equals UINT32_MAX.
  NIMBLE_ASSIGN_OR_RETURN(
      runs_, LevelRuns::parse(bytes.subspan(1), width, count_, UINT32_MAX));
  kind_ = Kind::kCodes;
  return Status::ok();
}

Status PageValues::open_deltas(ByteSpan bytes) {
  std::vector<uint64_t> values;
  auto read = decode_deltas(bytes, count_, &values);
  if (!read) return std::move(read).error();
  decoded_.resize(count_ * spec_.width);
  base_ = decoded_.data();
  for (uint64_t i = 0; i < count_; ++i) {
    std::memcpy(decoded_.data() + i * spec_.width, &values[i], spec_.width);
  }
  return Status::ok();
}

Status PageValues::open_delta_lengths(ByteSpan bytes) {
  std::vector<uint64_t> lengths;
  NIMBLE_ASSIGN_OR_RETURN(const size_t read,
                          decode_deltas(bytes, count_, &lengths));
  const ByteSpan data = bytes.subspan(read);
  kind_ = Kind::kStrings;
  base_ = data.data();
  starts_.resize(count_ + 1);
  uint64_t at = 0;
  for (uint64_t i = 0; i < count_; ++i) {
    starts_[i] = static_cast<uint32_t>(at);
    const uint64_t length = static_cast<uint32_t>(lengths[i]);
    if (length > data.size() - at) return cut_short("byte strings");
    at += length;
  }
  starts_[count_] = static_cast<uint32_t>(at);
  return Status::ok();
}

Status PageValues::open_delta_strings(ByteSpan bytes) {
  std::vector<uint64_t> prefixes, lengths;
  NIMBLE_ASSIGN_OR_RETURN(const size_t first,
                          decode_deltas(bytes, count_, &prefixes));
  NIMBLE_ASSIGN_OR_RETURN(
      const size_t second,
      decode_deltas(bytes.subspan(first), count_, &lengths));
  const ByteSpan data = bytes.subspan(first + second);
  kind_ = Kind::kStrings;
  starts_.resize(count_ + 1);
  uint64_t at = 0, total = 0, last = 0;
  for (uint64_t i = 0; i < count_; ++i) {
    const uint64_t prefix = static_cast<uint32_t>(prefixes[i]);
    const uint64_t length = static_cast<uint32_t>(lengths[i]);
    if (prefix > last || length > data.size() - at) {
      return cut_short("byte strings");
    }
    at += length;
    last = prefix + length;
    total += last;
    if (spec_.width > 0 && last != spec_.width) {
      return Status::corrupt("Parquet page: a value of " +
                             std::to_string(last) + " bytes; expected " +
                             std::to_string(spec_.width));
    }
    NIMBLE_RETURN_IF_ERROR(check_expansion(total, bytes.size()));
  }
  if (total > UINT32_MAX) {
    return Status::unsupported(
        "Parquet page: its byte strings have more than 4 GiB");
  }
  decoded_.resize(total);
  base_ = decoded_.data();
  uint64_t to = 0, from = 0;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto prefix = static_cast<uint32_t>(prefixes[i]);
    const auto length = static_cast<uint32_t>(lengths[i]);
    uint8_t* out = decoded_.data() + to;
    if (prefix > 0) std::memcpy(out, decoded_.data() + starts_[i - 1], prefix);
    if (length > 0) std::memcpy(out + prefix, data.data() + from, length);
    starts_[i] = static_cast<uint32_t>(to);
    to += uint64_t{prefix} + length;
    from += length;
  }
  starts_[count_] = static_cast<uint32_t>(to);
  return Status::ok();
}

uint64_t PageValues::memory_bytes() const {
  return starts_.capacity() * sizeof(uint32_t) + decoded_.capacity() +
         runs_.memory_bytes();
}

ByteSpan PageValues::string_at(uint64_t i) const {
  const uint8_t* start = base_ + starts_[i];
  if (kind_ == Kind::kPrefixed) return {start, load<uint32_t>(start - 4)};
  return {start, starts_[i + 1] - starts_[i]};
}

bool PageValues::Cursor::get_bool(uint64_t position) {
  if (values_->kind_ == Kind::kRuns) return runs_.value_at(position) != 0;
  return get_bit(values_->base_, position);
}

bool PageValues::Cursor::get_bytes(uint64_t position, ByteSpan* out) {
  const PageValues* values = values_;
  if (values->kind_ == Kind::kCodes) {
    position = runs_.value_at(position);
    values = values->dictionary_.get();
    if (position >= values->count_) return false;
  }
  *out = values->string_at(position);
  return true;
}

bool PageValues::Cursor::get_fixed(uint64_t position, uint8_t* out) {
  const PageValues* values = values_;
  if (values->kind_ == Kind::kCodes) {
    position = runs_.value_at(position);
    values = values->dictionary_.get();
    if (position >= values->count_) return false;
  }
  const uint32_t width = values->spec_.width;
  if (values->kind_ == Kind::kSplit) {
    for (uint32_t i = 0; i < width; ++i) {
      out[i] = values->base_[i * values->count_ + position];
    }
    return true;
  }
  const uint8_t* from = values->kind_ == Kind::kStrings
                            ? values->base_ + values->starts_[position]
                            : values->base_ + position * width;
  switch (width) {
    case 4:
      std::memcpy(out, from, 4);
      break;
    case 8:
      std::memcpy(out, from, 8);
      break;
    default:
      if (width > 0) std::memcpy(out, from, width);
  }
  return true;
}

}  // namespace nimble::parquet
