#include "nimble/write/stripe_encoder.h"

#include <algorithm>
#include <numeric>

#include "nimble/encoding/choose/nullable.h"
#include "nimble/encoding/core/side_by_side.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// The values of one stream. Borrows from the column.
struct Stream {
  const Column* column = nullptr;
  ValueType type;
  uint64_t size = 0;
  const uint8_t* data = nullptr;  // fixed widths and bitmaps
  bool random_access_only = false;
  bool is_vector = false;  // items of fixed-size lists
  // The stream with the validity of these values. Both streams have the same
  // size. Either their parts are interleaved, or the encoded values also
  // contain the validity.
  uint32_t validity = kNoStream;
  bool drops_nulls = false;
  // True for values of a column: their segments may share phrases and
  // dictionaries.
  bool may_share = false;
};

// Fixed-size lists of at least this many numbers are vectors. They are read
// whole, from scattered rows, and returned in place. An encoding must save a
// sixth of their size to be worth decoding.
constexpr int32_t kVectorItems = 16;
constexpr uint64_t kVectorSaving = 6;

class StreamCollector {
 public:
  StreamCollector(const StreamPlan& plan, std::vector<Stream>* out)
      : plan_(plan), out_(*out) {
    out_.resize(plan.num_streams());
  }

  void add(uint32_t node, const Column& column) {
    const SchemaNode& n = plan_.node(node);
    if (n.validity != kNoStream && column.null_count() > 0) {
      put(n.validity, column, column.length(), column.validity.data());
    }
    const Layout layout = n.field->layout;
    if (n.values != kNoStream) {
      put(n.values, column, column.length(),
          layout == Layout::kBytes ? nullptr : column.value_data());
      if (n.validity != kNoStream && column.null_count() > 0) {
        out_[n.values].validity = n.validity;
        out_[n.values].drops_nulls = true;
      }
      out_[n.values].may_share =
          layout == Layout::kBytes ||
          (layout == Layout::kFixed && n.field->width <= kMaxNestedWidth);
    }
    if (n.ends != kNoStream) {
      const size_t skip = layout == Layout::kList ? 1 : 0;
      put(n.ends, column, column.ends.size() - skip,
          reinterpret_cast<const uint8_t*>(column.ends.data() + skip));
      // Looking up a list reads two adjacent ends, which may decode a block.
      // Other ends, such as run ends, are searched, so they need fast access to
      // each row.
      out_[n.ends].random_access_only = layout != Layout::kList;
      if (n.validity != kNoStream && column.null_count() > 0) {
        out_[n.ends].validity = n.validity;
      }
    }
    for (size_t c = 0; c < n.children.size(); ++c) {
      add(n.children[c], column.children[c]);
    }
    if (layout == Layout::kFixedList && n.field->list_size >= kVectorItems) {
      const uint32_t items = plan_.node(n.children[0]).values;
      if (items != kNoStream) {
        out_[items].is_vector = true;
        out_[items].may_share = false;
        out_[items].validity = kNoStream;  // nulls are not left out
        out_[items].drops_nulls = false;
      }
    }
  }

 private:
  void put(uint32_t stream, const Column& column, uint64_t size,
           const uint8_t* data) {
    out_[stream] = {&column,   plan_.streams()[stream],
                    size,      data,
                    false,     false,
                    kNoStream, false,
                    false};
  }

  const StreamPlan& plan_;
  std::vector<Stream>& out_;
};

constexpr size_t kNoSegment = SIZE_MAX;

struct Task {
  uint32_t stream;
  uint64_t begin;  // first value
  uint32_t size;
  // Index of the segment that has the validity of these values.
  size_t validity;
  Status status;
};

// Encodes one segment. If the encoded values contain their validity,
// `validity_head` receives the head of the validity stream.
void run_task(const std::vector<Stream>& streams, const EncodeContext& all,
              Task* task, SegmentBuilder* out, ByteBuffer* validity_head) {
  const Stream& stream = streams[task->stream];
  Values values;
  values.type = stream.type;
  values.size = task->size;
  std::vector<ByteSlice> slices;
  if (stream.type.kind == ValueKind::kBytes) {
    const BytesSink& b = stream.column->bytes;
    slices.resize(task->size);
    // If there are nulls, all empty strings must be nulls, because encodings
    // may then return any string for them.
    values.empty_is_null = stream.column->null_count() > 0;
    uint64_t begin = b.begin_of(task->begin);
    for (uint32_t i = 0; i < task->size; ++i) {
      const uint64_t end = b.end_of(task->begin + i);
      slices[i] = {b.data.data() + begin, end - begin};
      if (end == begin && stream.column->is_valid(task->begin + i)) {
        values.empty_is_null = false;
      }
      begin = end;
    }
    values.slices = slices.data();
  } else if (stream.type.kind == ValueKind::kBool) {
    values.data = stream.data + task->begin / 8;
  } else {
    values.data = stream.data + task->begin * stream.type.width;
  }
  EncodeContext context = all;
  context.random_access_only = stream.random_access_only;
  if (stream.drops_nulls) {
    const uint8_t* validity = streams[stream.validity].data + task->begin / 8;
    task->status =
        encode_nullable(values, validity, context, out, validity_head);
    return;
  }
  task->status = encode_values(values, context, out);
  if (!task->status || !stream.is_vector || all.effort == Effort::kCompact ||
      values.data == nullptr || values.type.width == 0) {
    return;
  }
  const uint64_t plain = uint64_t{values.size} * values.type.width;
  if (out->body.size() <= plain - plain / kVectorSaving) return;
  *out = {};
  task->status = encode_plain(values, out);
}

// Keeps the additions to shared structures if the final segment uses them.
Status settle(StreamShared* shared, bool had_phrases, const ValueType& type,
              uint32_t size, const SegmentBuilder& segment) {
  const bool begins_phrases = !had_phrases && shared->phrases.exist();
  if (!begins_phrases && !shared->dictionary.has_additions()) {
    return Status::ok();
  }
  SharedUse use;
  DecodeContext context;
  context.type = type;
  context.num_values = size;
  context.body_size = segment.body.size();
  context.shared_use = &use;
  ByteReader head(segment.head.span());
  NIMBLE_RETURN_IF_ERROR(
      open_decoder(&head, context).has_value()
          ? Status()
          : Status::corrupt("an encoder wrote a head that cannot be "
                            "opened"));
  if (use.dictionary) {
    shared->dictionary.keep_additions();
  } else {
    shared->dictionary.drop_additions();
  }
  if (begins_phrases && !use.phrases) shared->phrases = StreamPhrases();
  return Status::ok();
}

// Interleaves the parts of values and of their validity. `*one_body` says
// whether they share a body, and is updated. Plain values are not interleaved,
// because they can then be returned without a copy.
Status lay_with_validity(const Task& values_task, const ValueType& type,
                         SegmentBuilder* values, SegmentBuilder* validity,
                         bool* one_body) {
  const uint32_t n = values_task.size;
  const uint64_t size = values->body.size();
  std::vector<SegmentHead> heads{{&values->head, type, n, 0, size}};
  const bool is_plain =
      values->head.data()[0] == static_cast<uint8_t>(EncodingId::kPlain);
  if (*one_body) {
    heads.push_back({&validity->head, ValueType::boolean(), n, 0, size});
  } else if (validity != nullptr && !is_plain && size > 0 &&
             !validity->body.empty()) {
    ByteBuffer joined = validity->body;
    joined.align(8);
    heads[0].begin = joined.size();
    joined.put_bytes(values->body.span());
    heads[0].end = joined.size();
    heads.push_back(
        {&validity->head, ValueType::boolean(), n, 0, validity->body.size()});
    NIMBLE_ASSIGN_OR_RETURN(*one_body, lay_side_by_side(heads, &joined));
    if (*one_body) {
      values->body = std::move(joined);
      validity->body.clear();
      return Status::ok();
    }
    heads = {{&values->head, type, n, 0, size}};
  }
  auto laid = lay_side_by_side(heads, &values->body);
  return laid ? Status::ok() : std::move(laid).error();
}

}  // namespace

Status encode_stripe(const StreamPlan& plan, const Column& root,
                     const StripeOptions& options, EncodedStripe* out) {
  std::vector<Stream> streams;
  StreamCollector(plan, &streams).add(0, root);
  std::vector<Task> tasks;
  std::vector<size_t> first_tasks;  // per stream
  for (uint32_t s = 0; s < streams.size(); ++s) {
    out->values.push_back(streams[s].size);
    first_tasks.push_back(tasks.size());
    const uint32_t validity = streams[s].validity;
    for (uint64_t at = 0; at < streams[s].size; at += kSegmentValues) {
      const uint64_t left = streams[s].size - at;
      tasks.push_back(
          {s,
           at,
           static_cast<uint32_t>(std::min<uint64_t>(left, kSegmentValues)),
           validity == kNoStream ? kNoSegment
                                 : first_tasks[validity] + at / kSegmentValues,
           {}});
    }
  }
  out->segments.resize(tasks.size());
  out->bodies.resize(tasks.size());
  std::iota(out->bodies.begin(), out->bodies.end(), size_t{0});
  // Validity is encoded after the values, because the values may contain it.
  // Strings take the longest, so they start first.
  std::vector<size_t> order;
  std::vector<bool> is_later(tasks.size());
  for (const Task& t : tasks) {
    if (t.validity != kNoSegment) is_later[t.validity] = true;
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!is_later[i]) order.push_back(i);
  }
  const auto is_bytes = [&](size_t i) {
    return streams[tasks[i].stream].type.kind == ValueKind::kBytes;
  };
  std::stable_partition(order.begin(), order.end(), is_bytes);
  // The first segment of a stream may create or change the shared structures
  // that the stream's other segments use.
  const auto shared_by = [&](size_t i) -> StreamShared* {
    const uint32_t s = tasks[i].stream;
    return options.shared != nullptr && streams[s].may_share
               ? &(*options.shared)[s]
               : nullptr;
  };
  const auto later = std::stable_partition(
      order.begin(), order.end(),
      [&](size_t i) { return tasks[i].begin == 0 || shared_by(i) == nullptr; });
  const auto encode = [&](size_t i) {
    Task& t = tasks[i];
    EncodeContext context;
    context.effort = options.effort;
    ByteBuffer validity_head;
    StreamShared* shared = shared_by(i);
    const bool had_phrases = shared != nullptr && shared->phrases.exist();
    if (shared != nullptr) {
      shared->lend_to(&context);
      context.may_change_shared = t.begin == 0;
    }
    run_task(streams, context, &t, &out->segments[i], &validity_head);
    if (context.may_change_shared && t.status) {
      t.status = settle(shared, had_phrases, streams[t.stream].type, t.size,
                        out->segments[i]);
    }
    SegmentBuilder* validity = nullptr;
    bool one_body = false;
    if (t.validity != kNoSegment) {
      validity = &out->segments[t.validity];
      one_body = !validity_head.empty();
      validity->head = std::move(validity_head);
    }
    if (validity != nullptr && !one_body) {
      context = {};
      context.effort = options.effort;
      Task& of_validity = tasks[t.validity];
      run_task(streams, context, &of_validity, validity, nullptr);
      if (!of_validity.status) return;
    }
    if (!t.status) return;
    t.status = lay_with_validity(t, streams[t.stream].type, &out->segments[i],
                                 validity, &one_body);
    if (one_body) out->bodies[t.validity] = i;
  };
  if (options.shared != nullptr) {
    for (StreamShared& s : *options.shared) s.phrases.next_stripe();
  }
  const auto first = static_cast<size_t>(later - order.begin());
  parallel_for(first, options.threads, [&](size_t i) { encode(order[i]); });
  parallel_for(order.size() - first, options.threads,
               [&](size_t i) { encode(order[first + i]); });
  for (Task& t : tasks) {
    if (!t.status) return std::move(t.status);
  }
  return Status::ok();
}

}  // namespace nimble
