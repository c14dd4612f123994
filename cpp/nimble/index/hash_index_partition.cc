#include "nimble/index/hash_index_partition.h"

#include <algorithm>
#include <string>

#include "nimble/base/byte_reader.h"

namespace nimble {
namespace {

// Header: u32 entries, u32 buckets, u8 bits of a fingerprint, u8 bits of a
// value, u8 bits of a bucket's end, u8 zero.
constexpr size_t kHeaderSize = 12;
// Follows the entries, so that the last entry can be loaded as eight bytes.
constexpr size_t kPadding = 8;

// Writes a little-endian stream of bits.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* zeroed) : out_(zeroed) {}
  // Writes up to 8 bytes, starting with the byte of the current bit.
  // REQUIRES: width <= 57.
  void put(uint64_t value, uint32_t width) {
    uint8_t* at = out_ + bit_ / 8;
    store(at, load<uint64_t>(at) | value << (bit_ % 8));
    bit_ += width;
  }

 private:
  uint8_t* out_;
  uint64_t bit_ = 0;
};

}  // namespace

// ------------------------------------------------------------------ builder

Status HashPartitionBuilder::add(uint64_t fraction, uint64_t row) {
  if (row >= num_rows_) {
    return Status::invalid_argument("hash index: row " + std::to_string(row) +
                                    " is outside a file of " +
                                    std::to_string(num_rows_) + " rows");
  }
  if (num_group_ > 0 && fraction != fraction_) end_group();
  fraction_ = fraction;
  if (num_group_ < kMaxEntriesOfHash) {
    few_[num_group_] = row;
  } else {
    if (num_group_ == kMaxEntriesOfHash) begin_list();
    if (gaps_.size() == kListBlock) write_block(/*more=*/true);
    gaps_.push_back(row - last_row_ - 1);
  }
  last_row_ = row;
  ++num_group_;
  return Status::ok();
}

void HashPartitionBuilder::begin_list() {
  entries_.push_back({fraction_, num_rows_ + lists_.size()});
  lists_.put_varint(few_[0]);
  for (size_t i = 1; i < kMaxEntriesOfHash; ++i) {
    gaps_.push_back(few_[i] - few_[i - 1] - 1);
  }
}

void HashPartitionBuilder::write_block(bool more) {
  const auto [low, high] = std::minmax_element(gaps_.begin(), gaps_.end());
  const uint64_t base = *low;
  const uint32_t width = bit_width_of(*high - base);
  const auto n = static_cast<uint32_t>(gaps_.size());
  lists_.put_varint(uint64_t{n} * 2 + (more ? 1 : 0));
  lists_.put_varint(base);
  lists_.put_u8(static_cast<uint8_t>(width));
  pack_tail64(width, reinterpret_cast<const uint8_t*>(gaps_.data()), n, base,
              lists_.extend(packed_bytes(n, width)));
  gaps_.clear();
}

void HashPartitionBuilder::end_group() {
  if (num_group_ <= kMaxEntriesOfHash) {
    for (size_t i = 0; i < num_group_; ++i) {
      entries_.push_back({fraction_, few_[i]});
    }
  } else {
    write_block(/*more=*/false);
  }
  num_group_ = 0;
}

ByteBuffer HashPartitionBuilder::pack(uint32_t value_bits) {
  const uint64_t n = entries_.size();
  const double wanted =
      static_cast<double>(n) / (load_factor_ * double{kBucketEntries});
  const auto buckets =
      static_cast<uint32_t>(std::clamp(wanted, 1.0, static_cast<double>(n)));
  const uint32_t end_bits = bit_width_of(n);
  ByteBuffer out;
  out.put<uint32_t>(static_cast<uint32_t>(n));
  out.put<uint32_t>(buckets);
  out.put_u8(kFingerprintBits);
  out.put_u8(static_cast<uint8_t>(value_bits));
  out.put_u8(static_cast<uint8_t>(end_bits));
  out.put_u8(0);
  const uint32_t entry_bits = kFingerprintBits + value_bits;
  const uint64_t ends_size = packed_bytes(buckets, end_bits);
  out.extend(ends_size + packed_bytes(n, entry_bits) + kPadding);
  BitWriter entries(out.data() + kHeaderSize + ends_size);
  std::vector<uint32_t> ends(buckets);
  for (const Entry& e : entries_) {
    uint64_t rest;
    ++ends[hash_digit(e.fraction, buckets, &rest)];
    entries.put(rest >> (64 - kFingerprintBits) | e.value << kFingerprintBits,
                entry_bits);
  }
  uint64_t end = 0;
  BitWriter bucket_ends(out.data() + kHeaderSize);
  for (const uint32_t count : ends) bucket_ends.put(end += count, end_bits);
  return out;
}

Result<std::vector<uint8_t>> HashPartitionBuilder::finish() {
  if (num_group_ > 0) end_group();
  uint64_t last = 0;
  for (const Entry& e : entries_) last = std::max(last, e.value);
  const uint32_t value_bits = bit_width_of(last);
  if (kFingerprintBits + value_bits > kMaxEntryBits ||
      entries_.size() >= uint64_t{1} << 31) {
    return Status::unsupported("hash index: a partition cannot hold " +
                               std::to_string(entries_.size()) +
                               " entries for rows up to " +
                               std::to_string(num_rows_));
  }
  ByteBuffer out = pack(value_bits);
  out.put_bytes(lists_.span());
  entries_.clear();
  lists_.clear();
  return out.take();
}

// ------------------------------------------------------------------- lookup

Result<HashPartition> HashPartition::open(ByteSpan bytes, uint64_t num_rows) {
  ByteReader reader(bytes);
  HashPartition p;
  p.num_entries_ = reader.get<uint32_t>();
  p.num_buckets_ = reader.get<uint32_t>();
  p.fingerprint_bits_ = reader.get_u8();
  p.entry_bits_ = p.fingerprint_bits_ + reader.get_u8();
  p.end_bits_ = reader.get_u8();
  const uint8_t zero = reader.get_u8();
  if (p.fingerprint_bits_ == 0 || p.entry_bits_ > kMaxEntryBits ||
      p.end_bits_ > 32 || p.num_buckets_ == 0 || zero != 0) {
    reader.fail();
  }
  if (reader.ok()) {
    p.ends_ =
        reader.get_bytes(packed_bytes(p.num_buckets_, p.end_bits_)).data();
    const uint64_t size =
        packed_bytes(p.num_entries_, p.entry_bits_) + kPadding;
    p.entries_ = reader.get_bytes(size).data();
    p.lists_ = reader.get_bytes(reader.remaining());
    p.num_rows_ = num_rows;
  }
  NIMBLE_RETURN_IF_ERROR(reader.status("hash partition"));
  return p;
}

Status HashPartition::find_first(const Place& place, size_t enough,
                                 std::vector<uint64_t>* rows,
                                 uint64_t* known_below) const {
  if (place.begin > place.end || place.end > num_entries_) {
    return Status::corrupt(
        "a bucket has entries " + std::to_string(place.begin) + " to " +
        std::to_string(place.end) + ", but the partition has only " +
        std::to_string(num_entries_));
  }
  const size_t first = rows->size();
  bool ascending = true;
  for (uint32_t i = place.begin; i < place.end; ++i) {
    const uint64_t entry = bits(entries_, i, entry_bits_);
    if ((entry & low_bits(fingerprint_bits_)) != place.fingerprint) continue;
    const uint64_t value = entry >> fingerprint_bits_;
    const size_t before = rows->size();
    if (value < num_rows_) {
      rows->push_back(value);
    } else {
      NIMBLE_RETURN_IF_ERROR(
          read_list(value - num_rows_, enough, rows, known_below));
    }
    ascending &= before == first || (*rows)[before - 1] < (*rows)[before];
  }
  // Two hashes may have the same fingerprint. Their rows follow each other
  // unmerged, so they are sorted here.
  if (!ascending) {
    std::sort(rows->begin() + static_cast<ptrdiff_t>(first), rows->end());
  }
  return Status::ok();
}

Status HashPartition::count_rows(uint64_t* count) const {
  std::vector<uint64_t> rows;
  uint64_t known_below = UINT64_MAX;
  for (uint64_t i = 0; i < num_entries_; ++i) {
    const uint64_t value = bits(entries_, i, entry_bits_) >> fingerprint_bits_;
    rows.clear();
    if (value >= num_rows_) {
      NIMBLE_RETURN_IF_ERROR(
          read_list(value - num_rows_, SIZE_MAX, &rows, &known_below));
    }
    *count += value < num_rows_ ? 1 : rows.size();
  }
  return Status::ok();
}

Status HashPartition::read_list(uint64_t at, size_t enough,
                                std::vector<uint64_t>* rows,
                                uint64_t* known_below) const {
  if (at >= lists_.size()) {
    return Status::corrupt("a list of rows begins at byte " +
                           std::to_string(at) + ", but the lists have only " +
                           std::to_string(lists_.size()) + " bytes");
  }
  ByteReader reader(lists_.subspan(at));
  uint64_t row = reader.get_varint();
  if (row >= num_rows_) reader.fail();
  const size_t first = rows->size();
  rows->push_back(row);
  for (bool more = true; more && reader.ok();) {
    if (rows->size() - first >= enough) {
      *known_below = std::min(*known_below, row + 1);
      return Status::ok();
    }
    const uint64_t head = reader.get_varint();
    more = (head & 1) != 0;
    const uint64_t n = head >> 1;
    const uint64_t base = reader.get_varint();
    const uint32_t width = reader.get_u8();
    if (n == 0 || n > kPackValues - 1 || width > 64) reader.fail();
    if (!reader.ok()) break;
    const ByteSpan packed = reader.get_bytes(packed_bytes(n, width));
    if (!reader.ok()) break;
    const size_t end = rows->size();
    rows->resize(end + n);
    uint64_t* out = rows->data() + end;
    unpack_tail64(width, packed.data(), static_cast<uint32_t>(n), base,
                  reinterpret_cast<uint8_t*>(out));
    for (uint64_t i = 0; i < n; ++i) {
      if (out[i] >= num_rows_ - row - 1)
        return Status::corrupt("a list has rows that the file does not have");
      out[i] = row += out[i] + 1;
    }
  }
  return reader.status("list of rows");
}

}  // namespace nimble
