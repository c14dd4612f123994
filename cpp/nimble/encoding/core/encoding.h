// The contract of every encoding.
//
// A stream is cut into segments of up to kSegmentValues values. A segment has a
// head and a body. The *head* has the parameters of its encoding tree: a few to
// a few hundred bytes in the stripe group's metadata. The *body* is in the data
// region, 64-byte aligned in the file. Bodies are addressed in *blocks* of up
// to kBlockValues values. The head says which body bytes hold a given row, so a
// lookup reads and decodes one block per projected column.
//
// Head grammar (pre-order): EncodingId u8, then the fields that the encoding
// defines, with its children's heads in place. Every leaf stores the position
// of its part of the body: offset (varint, from the start of the segment's
// body, 8-byte aligned) and size (varint).
//
// Every block carries an XXH3-64 checksum, inside the block or in the head;
// it is verified before the first use of the block's bytes.
// docs/format/encodings.md has the bytes.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/base/byte_reader.h"
#include "nimble/base/result.h"
#include "nimble/base/row_range.h"
#include "nimble/encoding/core/encoding_type.h"
#include "nimble/encoding/core/shared_source.h"
#include "nimble/encoding/core/values.h"
#include "nimble/memory/aligned_buffer.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

struct Predicate;        // predicate.h
class StreamPhrases;     // shared_phrases.h
class StreamDictionary;  // shared_dictionary.h

inline constexpr uint32_t kBlockValues = 1024;
inline constexpr uint32_t kSegmentValues = 131072;
// Encodings nest at most this deep. A deeper head is corrupt.
inline constexpr int kMaxEncodingDepth = 6;

// ------------------------------------------------------------- encoded form

enum class Effort : uint8_t {
  kBalanced,  // small files in which a random row is cheap
  kFast,      // cheapest to encode and decode
  kCompact,   // smallest; a random row may cost a block of zstd or delta
};

// Receives an encoded segment: head bytes and body bytes.
struct SegmentBuilder {
  ByteBuffer head;
  ByteBuffer body;
  // Bytes that the segment adds elsewhere, to the stream's shared dictionary.
  // They count when sizes are compared.
  uint64_t shared_bytes = 0;

  uint64_t cost() const { return head.size() + body.size() + shared_bytes; }
  // Starts a leaf's part of the body at an 8-byte boundary.
  uint64_t begin_part() {
    body.align(8);
    return body.size();
  }
  // The two varints every leaf writes into its head: offset and size.
  void put_part(uint64_t begin) {
    head.put_varint(begin);
    head.put_varint(body.size() - begin);
  }
};

// Begins a head with this encoding.
inline void put_encoding_id(EncodingId id, SegmentBuilder* out) {
  out->head.put_u8(static_cast<uint8_t>(id));
}

// How a segment is encoded. Copied and adjusted for children.
struct EncodeContext {
  Effort effort = Effort::kBalanced;
  int depth = 0;  // 0 for a column's own values, +1 per level
  // Set for streams that are searched by position very often, such as the ends
  // of runs. Only encodings with O(1) access to a row are then allowed.
  bool random_access_only = false;
  // What the stream's segments share; null if nothing is shared. Borrowed. A
  // child gets these pointers only if it holds the stream's own values.
  StreamPhrases* phrases = nullptr;
  StreamDictionary* dictionary = nullptr;
  bool may_change_shared = false;  // no other segment uses them concurrently
  // Set when only null strings are empty. The encoder may then store the head
  // of its presence bitmap here, so that the bitmap doubles as the validity
  // stream. Not passed on to children.
  ByteBuffer* validity_head = nullptr;

  // Contexts for children. of_own() is for a child that holds the stream's own
  // values, of_others() for any other child.
  EncodeContext of_own() const {
    EncodeContext nested = *this;
    ++nested.depth;
    nested.validity_head = nullptr;
    return nested;
  }
  EncodeContext of_others() const {
    EncodeContext nested = of_own();
    nested.phrases = nullptr;
    nested.dictionary = nullptr;
    return nested;
  }
};

// Encodes `values` and appends them to `out`. Chooses the encoding by sampling:
// see choose/scheme.h. Deterministic: the same values and context give the same
// bytes. The result is never larger than plain, apart from the head.
Status encode_values(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out);

// ------------------------------------------------------------------ decoding

// The body of one segment in memory.
struct SegmentBody {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
  // True if `data` stays valid and unchanged as long as the decoder exists
  // (mapped files, memory). Checksums are then verified once. If false, `data`
  // is valid for this call only, and only the ranges that append_ranges() named
  // are filled in.
  bool stable = false;
  // Counts the blocks of a mapped body that are touched for the first time.
  class TouchCounter* touches = nullptr;
};

// Body bytes [begin, end), relative to the segment's body.
struct ByteRange {
  uint64_t begin;
  uint64_t end;
};

// Decodes one segment. Immutable, except for verified-block bits and lazily
// decoded dictionaries. Thread-safe. Row positions are relative to the segment.
// No function reads the file; only a shared dictionary or phrase table may be
// fetched.
class Decoder {
 public:
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const ValueType& type() const { return type_; }
  uint32_t size() const { return size_; }
  // Says which of the stream's shared structures decoding needs. Set by the
  // code that opened the tree.
  const SharedUse& shared_use() const { return shared_use_; }
  void set_shared_use(const SharedUse& use) { shared_use_ = use; }

  // Appends the body ranges that decode(begin, end) may access. Does not read.
  virtual void append_ranges(uint32_t begin, uint32_t end,
                             std::vector<ByteRange>* out) const = 0;
  // Decodes rows [begin, end).
  // REQUIRES: begin <= end <= size().
  virtual Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                        const Output& out) const = 0;
  // Whether decode_narrow() decodes integers of more than 8 bytes as signed
  // integers of 8 bytes.
  virtual bool has_narrow_values() const { return false; }
  // REQUIRES: has_narrow_values().
  virtual Status decode_narrow(const SegmentBody& body, uint32_t begin,
                               uint32_t end, const Output& out) const {
    return decode(body, begin, end, out);
  }
  // Decodes several ranges of rows, one after the other, for example the rows
  // that remain after deletes. Override it if parts of a block can be decoded
  // directly to their destination (decode_ranges.h).
  // REQUIRES: ranges are ascending, disjoint and not empty. The type has a
  // fixed width or is bool. The body is stable.
  virtual Status decode_ranges(const SegmentBody& body,
                               std::span<const RowRange> ranges,
                               const Output& out) const;
  // Decodes the given rows. Extracts single values if a block has few of them,
  // else decodes the block.
  // REQUIRES: rows are ascending and below size(). Duplicates are allowed.
  virtual Status gather(const SegmentBody& body, const uint32_t* rows,
                        size_t count, const Output& out) const = 0;
  // Reads one row as raw bits. Bits above the value's width are undefined.
  // Searches and reads of a single row spend most of their time here. Override
  // it if gather() does unnecessary work for one row.
  // REQUIRES: the type has a fixed width of at most 8 bytes, or is bool.
  virtual Status value(const SegmentBody& body, uint32_t row,
                       uint64_t* out) const {
    alignas(8) uint8_t bytes[8 + AlignedBuffer::kSlack] = {};
    Output to;
    to.data = bytes;
    Status status = gather(body, &row, 1, to);
    *out = load<uint64_t>(bytes);
    return status;
  }
  // Prefetches the bytes that gather() of this row needs, if the head tells
  // their position.
  // REQUIRES: the body is stable.
  virtual void prefetch(const SegmentBody& body, uint32_t row) const {
    (void)body, (void)row;
  }
  // Clears the bits of `selection` whose value does not pass `test`. Bit i is
  // row i. Blocks without a selected row are not read. Override it if encoded
  // values can be tested directly.
  // REQUIRES: `test` is of type(); `selection` has room for whole blocks, and
  // no bit at or above size() is set.
  virtual Status filter(const SegmentBody& body, const Predicate& test,
                        uint64_t* selection) const;
  // Returns rows [begin, end) as a pointer into the body, verified, so that a
  // mapped file needs no copy. Valid as long as the body. Returns null if the
  // body does not contain the plain values.
  virtual Result<const uint8_t*> view(const SegmentBody& body, uint32_t begin,
                                      uint32_t end) const {
    (void)body, (void)begin, (void)end;
    return static_cast<const uint8_t*>(nullptr);
  }
  // One line for `nimble inspect`: "bit-packed w=12" or
  // "dictionary n=5 (fsst) of bit-packed w=3".
  virtual std::string describe() const = 0;
  // Heap bytes of this tree, for cache accounting. Counts a dictionary as
  // decoded even if it is not decoded yet.
  virtual size_t memory_bytes() const = 0;

 protected:
  Decoder(ValueType type, uint32_t size) : type_(type), size_(size) {}

  // Implements filter() by decoding the selected rows.
  Status filter_decoded(const SegmentBody& body, const Predicate& test,
                        uint64_t* selection) const;

 private:
  ValueType type_;
  uint32_t size_;
  SharedUse shared_use_;
};

// The position of a part: its varints in the head, and its bytes in the body.
struct PartPlace {
  size_t head_begin, head_end;  // positions of its varints in the head
  uint64_t begin, size;         // in the body
};

// What open_decoder() needs to know in addition to the head.
struct DecodeContext {
  ValueType type;
  uint32_t num_values = 0;  // <= kSegmentValues
  uint64_t body_size = 0;   // of the whole segment
  int depth = 0;
  // Shared by the stream's segments; null if nothing is shared. Must outlive
  // the decoder.
  const SharedSource* shared = nullptr;
  SharedUse* shared_use = nullptr;  // if set, receives the tree's use
  // If set, receives the parts in the segment's body. Parts of inline children
  // are left out.
  std::vector<PartPlace>* parts = nullptr;
  bool is_inline = false;  // the body is an inline child's
};

// Reads one encoding tree from a head. Checks all parameters: part ranges are
// inside the body and large enough for num_values, widths are legal, depth is
// bounded. Decoding still checks checksums, and values that index other values.
// Does not read the file.
Result<std::unique_ptr<Decoder>> open_decoder(ByteReader* head,
                                              const DecodeContext& context);

}  // namespace nimble
