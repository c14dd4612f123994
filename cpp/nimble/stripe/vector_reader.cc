#include "nimble/stripe/vector_reader.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "nimble/stripe/value_reader.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// Smaller vectors are read block by block, like other columns.
constexpr uint64_t kMinBytes = 128;
// Number of vectors that are prefetched ahead of the copy.
constexpr size_t kAhead = 4;
// Bytes of the result per task.
constexpr uint64_t kTaskBytes = uint64_t{1} << 20;

// The stream of a vector column's numbers, and how many numbers a row has.
struct Vectors {
  uint32_t values;
  uint64_t size;
  uint64_t bytes;  // per row

  Vectors(const OpenFile& file, uint32_t node) {
    const SchemaNode& n = file.plan().node(node);
    const SchemaNode& items = file.plan().node(n.children[0]);
    values = items.values;
    size = static_cast<uint64_t>(n.field->list_size);
    bytes = size * items.field->width;
  }
};

// If two encoded vectors are within this many rows, they are decoded together
// with the rows between them, up to this many values at a time.
constexpr uint64_t kNearRows = 4;
constexpr uint64_t kNearValues = 8 * kBlockValues;

// Decodes vectors [first, last) of the stripe.
Status decode_together(const RowLocation& at, const Vectors& v, uint64_t first,
                       uint64_t last, AlignedBuffer* values) {
  values->resize((last - first) * v.bytes);
  Output out;
  out.data = values->data();
  return at.decode(v.values, first * v.size, last * v.size, out);
}

// Copies the rows of one task, in file order. `order` has positions in the
// result.
Status copy_vectors(const OpenFile& file, const Vectors& v,
                    std::span<const uint64_t> order,
                    const std::vector<uint64_t>& row_of, uint8_t* out) {
  RowLocation at, ahead;
  const auto locate = [&file](uint64_t row, RowLocation* to) -> Status {
    if (to->move_to(row)) return Status::ok();
    NIMBLE_ASSIGN_OR_RETURN(*to, RowLocation::find(file, row));
    return Status::ok();
  };
  AlignedBuffer values;
  size_t asked = 0;
  for (size_t i = 0; i < order.size();) {
    asked = std::max(asked, i);
    for (; asked < std::min(order.size(), i + kAhead); ++asked) {
      NIMBLE_RETURN_IF_ERROR(locate(row_of[order[asked]], &ahead));
      StreamValue first;
      NIMBLE_RETURN_IF_ERROR(
          ahead.find_value(v.values, ahead.row() * v.size, &first));
      first.prefetch();
    }
    const uint64_t row = row_of[order[i]];
    NIMBLE_RETURN_IF_ERROR(locate(row, &at));
    StreamValue first;
    NIMBLE_RETURN_IF_ERROR(at.find_value(v.values, at.row() * v.size, &first));
    NIMBLE_ASSIGN_OR_RETURN(
        const uint8_t* plain,
        first.decoder->view(first.body, first.row, first.row + 1));
    size_t n = 1;
    const uint64_t left = (first.decoder->size() - first.row) / v.size;
    if (plain != nullptr && left > 0) {
      // Adjacent rows with adjacent positions are copied at once.
      while (i + n < order.size() && n < left &&
             row_of[order[i + n]] == row + n && order[i + n] == order[i] + n) {
        ++n;
      }
      Output to;
      to.data = out + order[i] * v.bytes;
      const uint64_t begin = at.row() * v.size;
      NIMBLE_RETURN_IF_ERROR(
          at.decode(v.values, begin, begin + n * v.size, to));
    } else {
      // Decoders may write past their values, where the result may have other
      // rows. So vectors are decoded into a temporary buffer.
      const uint64_t most =
          std::min(at.num_values(v.values) / v.size - at.row(),
                   std::max<uint64_t>(1, kNearValues / v.size));
      while (i + n < order.size() &&
             row_of[order[i + n]] - row_of[order[i + n - 1]] <= kNearRows &&
             row_of[order[i + n]] - row < most) {
        ++n;
      }
      const uint64_t rows = row_of[order[i + n - 1]] - row + 1;
      NIMBLE_RETURN_IF_ERROR(
          decode_together(at, v, at.row(), at.row() + rows, &values));
      for (size_t k = i; k < i + n; ++k) {
        std::memcpy(out + order[k] * v.bytes,
                    values.data() + (row_of[order[k]] - row) * v.bytes,
                    v.bytes);
      }
    }
    i += n;
  }
  return Status::ok();
}

// Whether the stripes of these ascending rows have nulls. Fails if a stripe has
// fewer numbers than its rows need.
Result<bool> has_nulls(const OpenFile& file, uint32_t node, const Vectors& v,
                       std::span<const uint64_t> rows) {
  const SchemaNode& n = file.plan().node(node);
  const uint32_t items = file.plan().node(n.children[0]).validity;
  RowLocation at;
  for (const uint64_t row : rows) {
    if (!at.move_to(row)) {
      NIMBLE_ASSIGN_OR_RETURN(at, RowLocation::find(file, row));
      if (at.has_values(n.validity) || at.has_values(items)) return true;
    }
    if (at.row() < at.num_values(v.values) / v.size) continue;
    return Status::corrupt("stream " + std::to_string(v.values) + " has " +
                           std::to_string(at.num_values(v.values)) +
                           " numbers, too few for vector " +
                           std::to_string(at.row()) + "; each vector has " +
                           std::to_string(v.size));
  }
  return false;
}

}  // namespace

bool is_vector(const OpenFile& file, uint32_t node) {
  if (file.file().mapped() == nullptr) return false;
  const SchemaNode& n = file.plan().node(node);
  if (n.field->layout != Layout::kFixedList || n.field->list_size <= 0) {
    return false;
  }
  const auto items = FlatColumn::of(file.plan(), n.children[0]);
  return items && items->layout == Layout::kFixed &&
         Vectors(file, node).bytes >= kMinBytes;
}

Result<bool> take_vectors(const OpenFile& file, uint32_t node,
                          std::span<const uint64_t> rows,
                          std::span<const uint64_t> places, uint32_t threads,
                          Column* out) {
  const Vectors v(file, node);
  NIMBLE_ASSIGN_OR_RETURN(const bool nulls, has_nulls(file, node, v, rows));
  const uint64_t count = places.empty() ? rows.size() : places.size();
  if (nulls || count == 0 || out->length() > 0) return false;
  // Sorts the positions of the result by file row.
  std::vector<uint64_t> order(count), row_of(count);
  if (places.empty()) {
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::copy(rows.begin(), rows.end(), row_of.begin());
  } else {
    std::vector<uint64_t> next(rows.size() + 1);
    for (const uint64_t place : places) ++next[place + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (uint64_t i = 0; i < count; ++i) {
      order[next[places[i]]++] = i;
      row_of[i] = rows[places[i]];
    }
  }
  Column& items = out->children[0];
  uint8_t* const data = items.extend_values(count * v.size);
  const uint64_t step = std::max<uint64_t>(1, kTaskBytes / v.bytes);
  std::vector<Status> status(div_ceil(count, step));
  constexpr double kNanosPerByte = 0.1;
  parallel_for(
      status.size(),
      threads_worth(kNanosPerByte * static_cast<double>(count * v.bytes),
                    threads),
      [&](size_t i) {
        const uint64_t begin = i * step;
        status[i] = copy_vectors(
            file, v,
            std::span(order).subspan(begin, std::min(step, count - begin)),
            row_of, data);
      });
  for (Status& s : status) NIMBLE_RETURN_IF_ERROR(std::move(s));
  items.add_rows(count * v.size);
  out->add_rows(count);
  return true;
}

}  // namespace nimble
