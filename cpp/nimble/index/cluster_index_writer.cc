#include "nimble/index/cluster_index_writer.h"

#include <utility>

#include "nimble/key/key_decoder.h"

namespace nimble {
namespace {

// A key of 1 to 16 bytes as two numbers: its first and its last 8 bytes. They
// may overlap. That does not change the order, because the overlap is equal if
// the first numbers are equal.
struct Halves {
  uint64_t high, low;
};

// Checks the order without branches, so that checking runs at memory speed.
// Reads up to 8 bytes past the last key, which KeyBuffer's slack allows.
template <bool kStrict>
bool any_disorder(const uint8_t* keys, size_t width, size_t n) {
  const uint32_t unused = width < 8 ? static_cast<uint32_t>(64 - 8 * width) : 0;
  const size_t second = width < 8 ? 0 : width - 8;
  const auto halves = [=](const uint8_t* p) {
    return Halves{load_be64(p) >> unused, load_be64(p + second) >> unused};
  };
  Halves last = halves(keys);
  uint64_t bad = 0;
  for (size_t i = 1; i < n; ++i) {
    const Halves now = halves(keys + i * width);
    const bool below = kStrict ? now.low <= last.low : now.low < last.low;
    bad |= static_cast<uint64_t>(now.high < last.high) |
           (static_cast<uint64_t>(now.high == last.high) &
            static_cast<uint64_t>(below));
    last = now;
  }
  return bad != 0;
}

}  // namespace

size_t find_disorder(const KeyBuffer& keys, size_t begin, size_t end,
                     bool strict) {
  const size_t width = keys.fixed_width();
  if (end - begin < 2) return end;
  if (width != 0 && width <= 16) {
    const uint8_t* first = keys.data() + begin * width;
    const bool bad = strict ? any_disorder<true>(first, width, end - begin)
                            : any_disorder<false>(first, width, end - begin);
    if (!bad) return end;
  }
  const int least = strict ? 1 : 0;
  ByteSpan last = keys.key(begin);
  for (size_t i = begin + 1; i < end; ++i) {
    const ByteSpan key = keys.key(i);
    if (compare_bytes(key, last) < least) return i;
    last = key;
  }
  return end;
}

void separator(ByteSpan a, ByteSpan b, ByteBuffer* s) {
  s->clear();
  const size_t shared = shared_prefix(a, b);
  for (size_t i = shared; i < a.size(); ++i) {
    // Cuts a after byte i, and increments this byte if the result is still
    // below b.
    const int raised = a[i] + 1;
    if (raised > 0xff) continue;
    if (i == shared) {
      const bool below = i < b.size() && (raised < b[i] ||
                                          (raised == b[i] && i + 1 < b.size()));
      if (!below) continue;
    }
    if (i + 1 == a.size()) break;  // a itself is not longer, and is below s
    s->put_bytes(a.first(i));
    s->put_u8(static_cast<uint8_t>(raised));
    return;
  }
  s->put_bytes(a);
}

ClusterIndexWriter::ClusterIndexWriter(ClusterIndexOptions options)
    : options_(std::move(options)) {
  options_.chunk_keys = std::clamp<uint32_t>(options_.chunk_keys, 1, 1u << 24);
  options_.chunk_bytes = std::clamp<uint64_t>(options_.chunk_bytes, 1,
                                              kMaxChunkBytes - kMaxKeySize);
}

Status ClusterIndexWriter::order_error(uint64_t row, ByteSpan before,
                                       ByteSpan key) const {
  const auto text = [this](ByteSpan k) {
    return options_.describe ? options_.describe(k) : "0x" + to_hex(k);
  };
  const std::string rows = "row " + std::to_string(row) + " (key " + text(key) +
                           ") and row " + std::to_string(row - 1);
  if (compare_bytes(before, key) == 0) {
    return {StatusCode::kDuplicateKey,
            rows + " have the same key in a unique cluster index"};
  }
  return {StatusCode::kKeyOrder,
          rows + " (key " + text(before) + ") are not in the order of the key"};
}

Status ClusterIndexWriter::check_order(const KeyBuffer& keys, size_t begin,
                                       size_t end) const {
  if (any_) {
    const ByteSpan first = keys.key(begin);
    if (compare_bytes(first, last_.span()) < (options_.unique ? 1 : 0)) {
      return order_error(num_rows_, last_.span(), first);
    }
  }
  const size_t at = find_disorder(keys, begin, end, options_.unique);
  if (at == end) return Status::ok();
  return order_error(num_rows_ + (at - begin), keys.key(at - 1), keys.key(at));
}

Status ClusterIndexWriter::check_sizes(const KeyBuffer& keys, size_t begin,
                                       size_t end) const {
  if (keys.offset(end) - keys.offset(begin) <= kMaxKeySize) return Status::ok();
  for (size_t i = begin; i < end; ++i) {
    if (keys.key(i).size() <= kMaxKeySize) continue;
    return Status::invalid_argument(
        "row " + std::to_string(num_rows_ + (i - begin)) + ": a key of " +
        std::to_string(keys.key(i).size()) + " bytes is longer than " +
        std::to_string(kMaxKeySize));
  }
  return Status::ok();
}

Status ClusterIndexWriter::add(const KeyBuffer& keys, size_t begin,
                               size_t end) {
  if (begin >= end) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(check_sizes(keys, begin, end));
  NIMBLE_RETURN_IF_ERROR(check_order(keys, begin, end));
  if (pending_.empty()) pending_.reset(keys.fixed_width());
  num_rows_ += end - begin;
  any_ = true;
  const ByteSpan last = keys.key(end - 1);
  last_.clear();
  last_.put_bytes(last);
  while (begin < end) {
    bool full = false;
    const size_t to = fill(keys, begin, end, &full);
    if (pending_.empty() && full) {
      // avoids copying the keys to pending_ in the common case
      cut(keys, begin, to);
    } else {
      pending_.append(keys, begin, to);
      if (full) {
        cut(pending_, 0, pending_.size());
        pending_.clear();
      }
    }
    begin = to;
  }
  return Status::ok();
}

size_t ClusterIndexWriter::fill(const KeyBuffer& keys, size_t begin, size_t end,
                                bool* full) const {
  const size_t room = options_.chunk_keys - pending_.size();
  size_t to = std::min(end, begin + room);
  *full = to - begin == room;
  const uint64_t limit =
      keys.offset(begin) + (options_.chunk_bytes - pending_.num_bytes());
  if (keys.offset(to) < limit) return to;
  *full = true;
  size_t low = begin + 1;
  while (low < to) {
    const size_t mid = low + (to - low) / 2;
    if (keys.offset(mid) < limit) {
      low = mid + 1;
    } else {
      to = mid;
    }
  }
  return low;
}

void ClusterIndexWriter::cut(const KeyBuffer& keys, size_t begin, size_t end) {
  if (group_.chunks.empty()) {
    group_.first_key.put_bytes(keys.key(begin));
  } else {
    // group_.last_key is still the last key of the previous chunk.
    ByteBuffer boundary;
    separator(group_.last_key.span(), keys.key(begin), &boundary);
    group_.boundaries.push_back(boundary.span());
  }
  const size_t before = group_.blob.size();
  group_.has_samples |=
      build_key_chunk(keys, begin, end, options_.chunk, &group_.blob);
  group_.chunks.push_back(
      {group_.blob.size() - before, static_cast<uint32_t>(end - begin)});
  group_.num_keys += end - begin;
  group_.last_key.clear();
  group_.last_key.put_bytes(keys.key(end - 1));
}

GroupKeys ClusterIndexWriter::finish_group() {
  if (!pending_.empty()) {
    cut(pending_, 0, pending_.size());
    pending_.clear();
  }
  if (!group_.chunks.empty()) {
    group_.boundaries.push_back(group_.last_key.span());
  }
  return std::exchange(group_, GroupKeys{});
}

}  // namespace nimble
