// The contract of every encoding.
//
// A stream is cut into segments of up to kSegmentValues values. A segment has
// two parts: a *head* (parameters of its encoding tree, a few to a few hundred
// bytes, kept in the stripe group's metadata) and a *body* (the bytes in the
// data region, 64-byte aligned in the file). Bodies are addressed in *blocks*
// of up to kBlockValues values: the head alone tells which body bytes hold a
// given row, so a lookup reads and decodes one block per projected column.
//
// Head grammar (pre-order): EncodingId u8, then what that encoding defines,
// with its children's heads in place. Every leaf names the place of its part
// of the body: offset (varint, from the start of the segment's body, 8-byte
// aligned) and size (varint).
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
// Encodings nest at most this deep; a head that goes deeper is corrupt.
inline constexpr int kMaxEncodingDepth = 6;

// ------------------------------------------------------------- encoded form

enum class Effort : uint8_t {
  kBalanced,  // small, and a random row stays cheap
  kFast,      // cheapest to encode and decode
  kCompact,   // smallest; a random row may cost a block of zstd or delta
};

// Where encoders put a segment: head bytes and body bytes.
struct SegmentBuilder {
  ByteBuffer head;
  ByteBuffer body;
  // What the segment has to pay for elsewhere: values that it adds to a
  // dictionary which the stream shares. Counts where sizes are compared.
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

struct EncodeContext {
  Effort effort = Effort::kBalanced;
  int depth = 0;  // 0 for a column's own values, +1 a nesting
  // Set for streams that are searched by position very often (ends of runs):
  // only encodings with O(1) access to a row.
  bool random_access_only = false;
  // What a stream's segments share; null: nothing. Not passed on to what is
  // nested, but for values that are the stream's own.
  StreamPhrases* phrases = nullptr;
  StreamDictionary* dictionary = nullptr;
  bool may_change_shared = false;  // no other segment has them meanwhile
  // Strings of which exactly the nulls are empty: an encoding that holds where
  // those are that are not gives their head, as a stream of its own, to whoever
  // asks. Not passed on.
  ByteBuffer* validity_head = nullptr;

  // What a child that holds the stream's own values is encoded with, and one
  // that holds others.
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

// Encodes `values` with the encoding that sampling finds best (or cheapest to
// carry on with: see selection.h), appending to `out`. Deterministic: the same
// values and context give the same bytes. Never larger than plain, heads aside.
Status encode_values(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out);

// ------------------------------------------------------------------ decoding

// The body of one segment in memory.
struct SegmentBody {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
  // True where `data` stays valid and unchanged as long as the decoder lives
  // (mapped files, memory): checksums are then verified once. Otherwise only
  // the ranges that append_ranges() named are filled in, for this call.
  bool stable = false;
  // Counts the blocks of a mapped body that are touched for the first time.
  class TouchCounter* touches = nullptr;
};

// Body bytes [begin, end), relative to the segment's body.
struct ByteRange {
  uint64_t begin;
  uint64_t end;
};

// One segment's encoding tree, prepared. Immutable but for verified-block
// bits and lazily decoded dictionaries, both safe to share between threads.
// Row positions are inside the segment.
class Decoder {
 public:
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const ValueType& type() const { return type_; }
  uint32_t size() const { return size_; }
  // What decode() and the like need of what the stream's segments share. Told
  // by whoever opened the tree.
  const SharedUse& shared_use() const { return shared_use_; }
  void set_shared_use(const SharedUse& use) { shared_use_ = use; }

  // Appends the body ranges that decode(begin, end) may touch. Never reads.
  virtual void append_ranges(uint32_t begin, uint32_t end,
                             std::vector<ByteRange>* out) const = 0;
  // Rows [begin, end), begin <= end <= size().
  virtual Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                        const Output& out) const = 0;
  // Rows of ascending ranges, disjoint and not empty, one behind the other:
  // what is left where rows were deleted. Of a fixed width or bools, in a
  // stable body. Override decode_ranges() where parts of a block can be decoded
  // to where they belong (decode_ranges.h).
  virtual Status decode_ranges(const SegmentBody& body,
                               std::span<const RowRange> ranges,
                               const Output& out) const;
  // Rows in ascending order, duplicates allowed, each < size(). Extracts
  // single values where few are wanted of a block, else decodes the block.
  virtual Status gather(const SegmentBody& body, const uint32_t* rows,
                        size_t count, const Output& out) const = 0;
  // One row of a fixed width of up to 8 bytes, or a boolean: its bits, with
  // anything in the bits above them. What a search and a single row cost is
  // mostly this: override it where gather() does more than one row needs.
  virtual Status value(const SegmentBody& body, uint32_t row,
                       uint64_t* out) const {
    alignas(8) uint8_t bytes[8 + AlignedBuffer::kSlack] = {};
    Output to;
    to.data = bytes;
    Status status = gather(body, &row, 1, to);
    *out = load<uint64_t>(bytes);
    return status;
  }
  // Tells the processor which bytes gather() of this row is about to need, as
  // far as the head alone says where they are. Only for stable bodies.
  virtual void prefetch(const SegmentBody& body, uint32_t row) const {
    (void)body, (void)row;
  }
  // Clears the bits of `selection` (bit i is row i; room for whole blocks, no
  // bit set past size()) whose value does not pass `test`, which is of type().
  // Blocks without a selected row are not touched. Override filter() where the
  // question can be asked of encoded values.
  virtual Status filter(const SegmentBody& body, const Predicate& test,
                        uint64_t* selection) const;
  // Rows [begin, end) as they lie in the body, verified: what a mapped file can
  // hand on without a copy, as long as the body lives. Null where the body
  // holds something else than the values themselves.
  virtual Result<const uint8_t*> view(const SegmentBody& body, uint32_t begin,
                                      uint32_t end) const {
    (void)body, (void)begin, (void)end;
    return static_cast<const uint8_t*>(nullptr);
  }
  // One line for `nimble inspect`: "bit-packed w=12" or
  // "dictionary n=5 (fsst) of bit-packed w=3".
  virtual std::string describe() const = 0;
  // Heap bytes held by this tree, for cache accounting, with those that a
  // dictionary takes once it is decoded.
  virtual size_t memory_bytes() const = 0;

 protected:
  Decoder(ValueType type, uint32_t size) : type_(type), size_(size) {}

  // filter() by decoding what is selected.
  Status filter_decoded(const SegmentBody& body, const Predicate& test,
                        uint64_t* selection) const;

 private:
  ValueType type_;
  uint32_t size_;
  SharedUse shared_use_;
};

// What a head says of itself, for whoever writes it.
struct HeadFacts {
  struct PartPlace {
    size_t head_begin, head_end;  // of what names it, from the reader's start
    uint64_t begin, size;         // in the body
  };
  uint8_t latest_encoding = 0;   // the highest id that is a later one (18 on)
  bool has_pieces = false;       // parts are in pieces
  std::vector<PartPlace> parts;  // of the segment's body, not of inline ones
};

struct DecodeContext {
  ValueType type;
  uint32_t num_values = 0;  // <= kSegmentValues
  uint64_t body_size = 0;   // of the whole segment
  int depth = 0;
  // What the stream's segments share, which outlives the decoder; null:
  // nothing.
  const SharedSource* shared = nullptr;
  SharedUse* shared_use = nullptr;  // to which the tree adds what it uses
  HeadFacts* facts = nullptr;       // the same
  bool is_inline = false;           // the body is a child's own
};

// Reads one encoding tree from a head. All parameters are checked here: part
// ranges lie in the body and are large enough for num_values, widths are
// legal, depth is bounded. What remains for decode() is checksums and values
// that index other values.
Result<std::unique_ptr<Decoder>> open_decoder(ByteReader* head,
                                              const DecodeContext& context);

}  // namespace nimble
