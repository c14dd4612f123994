#include "nimble/encoding/ints/run_length.h"

#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/running_sums.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/memory/scratch.h"

namespace nimble {

// --------------------------------------------------------------------- encode

bool can_be_run_length(const ValueType& type) {
  return type.width <= kMaxNestedWidth;
}

namespace {

// Ends of runs. same(i) tells whether row i is equal to row i - 1.
template <class F>
std::vector<uint32_t> ends_where(uint32_t n, uint32_t max_runs, F&& same) {
  std::vector<uint32_t> ends;
  for (uint32_t i = 1; i < n; ++i) {
    if (same(i)) continue;
    if (ends.size() + 1 >= max_runs) return {};
    ends.push_back(i);
  }
  if (n > 0) ends.push_back(n);
  return ends;
}

// The values of the runs that end at `ends`. Owns fixed-width values and
// borrows strings.
struct RunValues {
  Values values;
  std::vector<uint8_t> data;
  std::vector<ByteSlice> slices;

  RunValues(const Values& all, const std::vector<uint32_t>& ends) {
    const uint32_t width = all.type.width;
    values = all;
    values.size = static_cast<uint32_t>(ends.size());
    if (all.type.kind == ValueKind::kBytes) {
      for (const uint32_t end : ends) slices.push_back(all.slices[end - 1]);
      values.slices = slices.data();
      return;
    }
    const bool is_bool = all.type.kind == ValueKind::kBool;
    data.resize(is_bool ? ends.size() / 8 + 1 : ends.size() * width);
    for (size_t i = 0; i < ends.size(); ++i) {
      const uint64_t row = ends[i] - 1;
      if (is_bool) {
        put_bit(data.data(), i, get_bit(all.data, row));
      } else {
        std::memcpy(data.data() + i * width, all.data + row * width, width);
      }
    }
    values.data = data.data();
  }
};

}  // namespace

std::vector<uint32_t> run_ends(const Values& values, uint32_t max_runs) {
  const uint8_t* data = values.data;
  const uint32_t width = values.type.width;
  const auto compare = [&]<class T>(T) {
    return ends_where(values.size, max_runs, [&](uint32_t i) {
      const uint8_t* p = data + i * sizeof(T);
      return load<T>(p) == load<T>(p - sizeof(T));
    });
  };
  if (values.type.kind == ValueKind::kBool) {
    return ends_where(values.size, max_runs, [&](uint32_t i) {
      return get_bit(data, i) == get_bit(data, i - 1);
    });
  }
  if (values.type.kind == ValueKind::kBytes) {
    return ends_where(values.size, max_runs, [&](uint32_t i) {
      const ByteSlice& a = values.slices[i - 1];
      const ByteSlice& b = values.slices[i];
      return a.size == b.size &&
             (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
    });
  }
  switch (width) {
    case 1:
      return compare(uint8_t{});
    case 2:
      return compare(uint16_t{});
    case 4:
      return compare(uint32_t{});
    case 8:
      return compare(uint64_t{});
    default:
      return ends_where(values.size, max_runs, [&](uint32_t i) {
        const uint8_t* p = data + uint64_t{i} * width;
        return std::memcmp(p, p - width, width) == 0;
      });
  }
}

Status encode_run_length(const Values& values,
                         const std::vector<uint32_t>& ends,
                         const EncodeContext& context, SegmentBuilder* out) {
  put_encoding_id(EncodingId::kRunLength, out);
  out->head.put_varint(ends.size());
  uint32_t run = 0;
  for (uint32_t b = 1; b < num_blocks_of(values.size); ++b) {
    const uint32_t before = run;
    while (ends[run] <= b * kBlockValues) ++run;
    out->head.put_varint(run - before);
  }
  Values positions;
  positions.type = ValueType::unsigned_int(4);
  positions.size = static_cast<uint32_t>(ends.size());
  positions.data = reinterpret_cast<const uint8_t*>(ends.data());
  NIMBLE_RETURN_IF_ERROR(encode_child_with(
      [&](SegmentBuilder* to) { return encode_bit_packed(positions, to); },
      kInlineBytes, out));
  const RunValues runs(values, ends);
  return encode_own(runs.values, context, kInlineBytes, out);
}

namespace {

// --------------------------------------------------------------------- decode

// Up to this many rows of a block are searched one by one. With more, all ends
// of the block's runs are decoded.
constexpr size_t kSearchedRows = 2;

// Appends n copies of a string.
void append_copies(const uint8_t* data, uint64_t size, uint32_t n,
                   BytesSink* sink) {
  const uint64_t first = sink->add_values(n);
  sink->data.reserve(sink->data.size() + size * n);
  for (uint32_t i = 0; i < n; ++i) {
    sink->data.append(data, size);
    sink->set_end(first + i, sink->data.size());
  }
}

class RunLengthDecoder final : public Decoder, public SummedDecoder {
 public:
  RunLengthDecoder(const DecodeContext& context,
                   std::vector<uint32_t> first_runs, Child ends, Child values)
      : Decoder(context.type, context.num_values),
        first_runs_(std::move(first_runs)),
        ends_(std::move(ends)),
        values_(std::move(values)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t first = first_runs_[begin / kBlockValues];
    const uint32_t limit = run_limit((end - 1) / kBlockValues);
    ends_.append_ranges(first, limit, out);
    values_.append_ranges(first, limit, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint32_t run = 0;
    NIMBLE_RETURN_IF_ERROR(find_runs(body, row / kBlockValues, &row, 1, &run));
    return values_.value(body, run, out);
  }
  Status sum_to(const SegmentBody& body, const uint32_t* rows, size_t n,
                uint64_t* sums) const override;
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override {
    return "run length n=" + std::to_string(values_.size()) + " (" +
           values_.describe() + ") ends " + ends_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + first_runs_.capacity() * 4 + ends_.memory_bytes() +
           values_.memory_bytes();
  }

 private:
  // The first run without rows in `block` or earlier blocks.
  uint32_t run_limit(uint32_t block) const {
    return block + 1 < first_runs_.size() ? first_runs_[block + 1] + 1
                                          : values_.size();
  }
  const BitPackedDecoder& packed_ends() const {
    return static_cast<const BitPackedDecoder&>(ends_.decoder());
  }
  Status broken(uint32_t row) const {
    return Status::corrupt("run ends do not cover row " + std::to_string(row));
  }
  // Finds the runs of rows in one block.
  Status find_runs(const SegmentBody& body, uint32_t block,
                   const uint32_t* rows, size_t n, uint32_t* runs) const;

  std::vector<uint32_t> first_runs_;  // of every block's first row
  Child ends_;
  Child values_;
};

// Holds the values of up to kBlockValues runs and repeats them into an Output.
class RunWriter {
 public:
  RunWriter(const ValueType& type, const Output& out)
      : type_(type), out_(out) {}

  Status load(const Child& values, const SegmentBody& body, uint32_t begin,
              uint32_t end) {
    Output to;
    sink_ = BytesSink{};
    sink_.wide = true;
    to.bytes = &sink_;
    data_->resize(type_.kind == ValueKind::kBool
                      ? kBlockValues / 8
                      : uint64_t{end - begin} * type_.width);
    to.data = data_->data();
    return values.decode(body, begin, end, to);
  }
  // Writes loaded value i n times, from row `row` of the output on.
  void repeat(uint32_t i, uint32_t n, uint64_t row) {
    const uint8_t* const values = data_->data();
    if (type_.kind == ValueKind::kBytes) {
      append_copies(sink_.data.data() + sink_.begin_of(i),
                    sink_.end_of(i) - sink_.begin_of(i), n, out_.bytes);
    } else if (type_.kind == ValueKind::kBool) {
      fill_bits(out_.data, out_.bit_offset + row, n, get_bit(values, i));
    } else {
      fill_value(values + uint64_t{i} * type_.width, type_.width, n,
                 out_.data + row * type_.width);
    }
  }

 private:
  ValueType type_;
  Output out_;
  ThreadScratch<AlignedBuffer, RunWriter> data_;
  BytesSink sink_;
};

Status RunLengthDecoder::decode(const SegmentBody& body, uint32_t begin,
                                uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  const uint32_t limit = run_limit((end - 1) / kBlockValues);
  uint32_t run = 0;  // of row `begin`
  NIMBLE_RETURN_IF_ERROR(
      find_runs(body, begin / kBlockValues, &begin, 1, &run));
  RunWriter writer(type(), out);
  Scratch ends;
  uint32_t row = begin;
  for (; run < limit && row < end; run += kBlockValues) {
    const uint32_t n = std::min(limit - run, kBlockValues);
    NIMBLE_RETURN_IF_ERROR(ends_.decode(body, run, run + n, ends.output()));
    NIMBLE_RETURN_IF_ERROR(writer.load(values_, body, run, run + n));
    const uint32_t* run_end = ends.as<uint32_t>();
    for (uint32_t i = 0; i < n && row < end; ++i) {
      const uint32_t to = std::min(run_end[i], end);
      if (to <= row) return broken(row);
      writer.repeat(i, to - row, row - begin);
      row = to;
    }
  }
  return row == end ? Status::ok() : broken(row);
}

// --------------------------------------------------------------------- gather

Status RunLengthDecoder::find_runs(const SegmentBody& body, uint32_t block,
                                   const uint32_t* rows, size_t n,
                                   uint32_t* runs) const {
  const uint32_t first = first_runs_[block];
  const uint32_t limit = run_limit(block);
  if (n <= kSearchedRows) {
    for (size_t i = 0; i < n; ++i) {
      NIMBLE_RETURN_IF_ERROR(packed_ends().search(
          ends_.body(body), first, limit, uint64_t{rows[i]} + 1, &runs[i]));
      if (runs[i] == limit) return broken(rows[i]);
    }
    return Status::ok();
  }
  // The block's rows are in at most kBlockValues runs, and one more end
  // follows.
  alignas(64) uint32_t ends[kBlockValues + 1 + AlignedBuffer::kSlack / 4];
  Output out;
  out.data = reinterpret_cast<uint8_t*>(ends);
  NIMBLE_RETURN_IF_ERROR(ends_.decode(body, first, limit, out));
  uint32_t run = first;
  for (size_t i = 0; i < n; ++i) {
    while (run < limit && ends[run - first] <= rows[i]) ++run;
    if (run == limit) return broken(rows[i]);
    runs[i] = run;
  }
  return Status::ok();
}

Status RunLengthDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                size_t count, const Output& out) const {
  return for_chunks(count, [&](size_t chunk, uint32_t size) -> Status {
    uint32_t runs[kBlockValues];
    NIMBLE_RETURN_IF_ERROR(for_row_groups(
        rows + chunk, size, [&](uint32_t block, size_t first, size_t n) {
          return find_runs(body, block, rows + chunk + first, n, runs + first);
        }));
    Output to = out;
    to.data += chunk * type().width;
    to.bit_offset += chunk;
    return values_.gather(body, runs, size, to);
  });
}

Status RunLengthDecoder::sum_to(const SegmentBody& body, const uint32_t* rows,
                                size_t n, uint64_t* sums) const {
  const uint32_t block = rows[0] / kBlockValues;
  const uint32_t first = first_runs_[block];
  const uint32_t limit = run_limit(block);
  alignas(64) uint32_t ends[kBlockValues + 1 + AlignedBuffer::kSlack / 4];
  alignas(64) uint8_t values[(kBlockValues + 1) * 8 + AlignedBuffer::kSlack];
  Output out;
  out.data = reinterpret_cast<uint8_t*>(ends);
  NIMBLE_RETURN_IF_ERROR(ends_.decode(body, first, limit, out));
  out.data = values;
  NIMBLE_RETURN_IF_ERROR(values_.decode(body, first, limit, out));
  uint32_t row = block * kBlockValues + 1;  // next row to add
  uint64_t sum = 0;
  for (uint32_t i = 0, run = 0; i < n; ++i) {
    while (row <= rows[i]) {
      while (run < limit - first && ends[run] <= row) ++run;
      if (run == limit - first) return broken(row);
      const uint32_t end = std::min(ends[run], rows[i] + 1);
      sum += (end - row) * load_int(type(), values, run);
      row = end;
    }
    sums[i] = sum;
  }
  return Status::ok();
}

// --------------------------------------------------------------------- filter

Status RunLengthDecoder::filter(const SegmentBody& body, const Predicate& test,
                                uint64_t* selection) const {
  // Tests only runs that have rows in blocks with a selected row. Bytes of
  // other blocks may not be available.
  std::vector<uint64_t> runs(num_blocks_of(values_.size()) * kSelectionWords);
  auto* const run_bits = reinterpret_cast<uint8_t*>(runs.data());
  const auto for_wanted = [&](auto&& f) -> Status {
    for (uint32_t b = 0; b < first_runs_.size(); ++b) {
      uint64_t* const words = selection + b * kSelectionWords;
      if (count_selected(words, kSelectionWords) == 0) continue;
      NIMBLE_RETURN_IF_ERROR(f(b, first_runs_[b], run_limit(b), words));
    }
    return Status::ok();
  };
  NIMBLE_RETURN_IF_ERROR(for_wanted(
      [&](uint32_t, uint32_t first, uint32_t limit, uint64_t*) -> Status {
        fill_bits(run_bits, first, limit - first, true);
        return Status::ok();
      }));
  NIMBLE_RETURN_IF_ERROR(values_.filter(body, test, runs.data()));
  alignas(64) uint32_t ends[kBlockValues + 1 + AlignedBuffer::kSlack / 4];
  Output out;
  out.data = reinterpret_cast<uint8_t*>(ends);
  return for_wanted([&](uint32_t block, uint32_t first, uint32_t limit,
                        uint64_t* words) -> Status {
    NIMBLE_RETURN_IF_ERROR(ends_.decode(body, first, limit, out));
    const uint32_t begin = block * kBlockValues;
    const uint32_t end = begin + block_rows(block, size());
    uint32_t row = begin;
    for (uint32_t run = first; run < limit && row < end; ++run) {
      const uint32_t to = std::min(ends[run - first], end);
      if (to <= row) return broken(row);
      if (!get_bit(run_bits, run)) {
        fill_bits(reinterpret_cast<uint8_t*>(words), row - begin, to - row,
                  false);
      }
      row = to;
    }
    return row == end ? Status::ok() : broken(row);
  });
}

// ----------------------------------------------------------------------- open

Result<std::vector<uint32_t>> read_first_runs(ByteReader* head,
                                              uint64_t num_runs,
                                              uint32_t num_values) {
  std::vector<uint32_t> first_runs;
  uint64_t run = 0;
  for (uint32_t b = 0; b < num_blocks_of(num_values); ++b) {
    if (b > 0) {
      const uint64_t step = head->get_varint();
      // A block of 1024 rows begins at most this many runs.
      if (step > kBlockValues || step >= num_runs - run) {
        return Status::corrupt("the runs of block " + std::to_string(b) +
                               " are past the last run");
      }
      run += step;
    }
    first_runs.push_back(static_cast<uint32_t>(run));
  }
  NIMBLE_RETURN_IF_ERROR(head->status("first runs of blocks"));
  if (num_values > 0 && num_runs - run > kBlockValues) {
    return Status::corrupt("the last block has more runs than rows");
  }
  return first_runs;
}

}  // namespace

Result<std::unique_ptr<Decoder>> open_run_length(ByteReader* head,
                                                 const DecodeContext& context) {
  const uint64_t num_runs = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("run length head"));
  if (!can_be_run_length(context.type) || num_runs > context.num_values ||
      (num_runs == 0) != (context.num_values == 0)) {
    return Status::corrupt(std::to_string(num_runs) + " runs for " +
                           std::to_string(context.num_values) + " rows");
  }
  NIMBLE_ASSIGN_OR_RETURN(std::vector<uint32_t> first_runs,
                          read_first_runs(head, num_runs, context.num_values));
  const uint32_t runs = static_cast<uint32_t>(num_runs);
  NIMBLE_ASSIGN_OR_RETURN(
      Child ends, Child::open(head, context, ValueType::unsigned_int(4), runs));
  if (ends.id() != EncodingId::kBitPacked) {
    return Status::corrupt("run ends are not bit-packed");
  }
  NIMBLE_ASSIGN_OR_RETURN(Child values,
                          Child::open(head, context, context.type, runs));
  return std::unique_ptr<Decoder>(std::make_unique<RunLengthDecoder>(
      context, std::move(first_runs), std::move(ends), std::move(values)));
}

}  // namespace nimble
