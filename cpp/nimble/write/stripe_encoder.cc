#include "nimble/write/stripe_encoder.h"

#include <algorithm>
#include <numeric>

#include "nimble/base/parallel.h"
#include "nimble/encoding/ints/plain.h"

namespace nimble {
namespace {

// The values of one stream, as the column holds them.
struct Stream {
  const Column* column = nullptr;
  ValueType type;
  uint64_t size = 0;
  const uint8_t* data = nullptr;  // fixed widths and bitmaps
  bool random_access_only = false;
  bool is_vector = false;  // items of fixed-size lists
};

// Fixed-size lists of so many numbers are vectors: read whole, of scattered
// rows, and handed on where they lie. An encoding has to save a sixth of them
// to be worth decoding them.
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
    }
    if (n.ends != kNoStream) {
      const size_t skip = layout == Layout::kList ? 1 : 0;
      put(n.ends, column, column.ends.size() - skip,
          reinterpret_cast<const uint8_t*>(column.ends.data() + skip));
      out_[n.ends].random_access_only = true;
    }
    for (size_t c = 0; c < n.children.size(); ++c) {
      add(n.children[c], column.children[c]);
    }
    if (layout == Layout::kFixedList && n.field->list_size >= kVectorItems) {
      const uint32_t items = plan_.node(n.children[0]).values;
      if (items != kNoStream) out_[items].is_vector = true;
    }
  }

 private:
  void put(uint32_t stream, const Column& column, uint64_t size,
           const uint8_t* data) {
    out_[stream] = {&column, plan_.streams()[stream], size, data, false, false};
  }

  const StreamPlan& plan_;
  std::vector<Stream>& out_;
};

struct Task {
  uint32_t stream;
  uint64_t begin;  // first value
  uint32_t size;
  Status status;
};

void run_task(const Stream& stream, Effort effort, Task* task,
              SegmentBuilder* out) {
  Values values;
  values.type = stream.type;
  values.size = task->size;
  std::vector<ByteSlice> slices;
  if (stream.type.kind == ValueKind::kBytes) {
    const BytesSink& b = stream.column->bytes;
    slices.resize(task->size);
    // An encoding may store anything for a null, but an empty string is one.
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
  EncodeContext context;
  context.effort = effort;
  context.random_access_only = stream.random_access_only;
  task->status = encode_values(values, context, out);
  if (!task->status || !stream.is_vector || effort == Effort::kCompact ||
      values.data == nullptr || values.type.width == 0) {
    return;
  }
  const uint64_t plain = uint64_t{values.size} * values.type.width;
  if (out->body.size() <= plain - plain / kVectorSaving) return;
  *out = {};
  task->status = encode_plain(values, out);
}

}  // namespace

Status encode_stripe(const StreamPlan& plan, const Column& root, Effort effort,
                     uint32_t threads, EncodedStripe* out) {
  std::vector<Stream> streams;
  StreamCollector(plan, &streams).add(0, root);
  std::vector<Task> tasks;
  for (uint32_t s = 0; s < streams.size(); ++s) {
    out->values.push_back(streams[s].size);
    for (uint64_t at = 0; at < streams[s].size; at += kSegmentValues) {
      const uint64_t left = streams[s].size - at;
      tasks.push_back(
          {s,
           at,
           static_cast<uint32_t>(std::min<uint64_t>(left, kSegmentValues)),
           {}});
    }
  }
  out->segments.resize(tasks.size());
  // Strings take longest: begun first, they do not keep one thread waiting.
  std::vector<size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t i) {
    return streams[tasks[i].stream].type.kind == ValueKind::kBytes;
  });
  parallel_for(tasks.size(), threads, [&](size_t i) {
    const size_t t = order[i];
    run_task(streams[tasks[t].stream], effort, &tasks[t], &out->segments[t]);
  });
  for (Task& t : tasks) {
    if (!t.status) return std::move(t.status);
  }
  return Status::ok();
}

}  // namespace nimble
