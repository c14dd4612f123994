#include "nimble/stripe/row_reader.h"

#include <algorithm>
#include <optional>

#include "nimble/column/column_keep.h"
#include "nimble/encoding/core/part.h"
#include "nimble/key/key_sort.h"
#include "nimble/stripe/vector_reader.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

// The positions of `rows`, sorted by row. Rows are sorted as big-endian keys.
std::vector<uint64_t> sorted_places(std::span<const uint64_t> rows) {
  KeyBuffer keys(8);
  uint8_t* to = keys.extend_fixed(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    store(to + 8 * i, swap_bytes(rows[i]));
  std::vector<uint64_t> order;
  sort_keys(keys, &order);
  return order;
}

// Rows of one stripe, relative to its first row.
struct StripeRows {
  const StripeView* stripe = nullptr;
  std::vector<uint64_t> rows;
  bool is_first = true;  // first requested stripe of its group

  // Takes the rows of `from`, from *at on, that are in the stripe of from[*at].
  // REQUIRES: `from` is ascending.
  void cut(const LoadedGroup& group, std::span<const uint64_t> from,
           size_t* at) {
    stripe = &group.view().stripe_of(from[*at]);
    is_first = true;
    const auto begin = from.begin() + static_cast<ptrdiff_t>(*at);
    const auto end =
        std::lower_bound(begin, from.end(), stripe->first_row + stripe->rows);
    rows.resize(static_cast<size_t>(end - begin));
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = from[*at + i] - stripe->first_row;
    }
    *at += rows.size();
  }
};

// Rows of one stripe that are decoded together. The rows to keep are
// Pieces::kept[first, last), relative to the piece's first row.
struct Piece {
  RowRange rows;
  size_t first = 0;
  size_t last = 0;
};

// Cuts ascending ranges into pieces, stripe by stripe.
struct Pieces {
  // A piece with holes ends at a multiple of this number of rows. Its values
  // are then still in the L1 or L2 cache when the rows after a hole are moved,
  // and no block is decoded twice.
  static constexpr uint64_t kRows = 2 * kBlockValues;

  std::vector<Piece> pieces;
  std::vector<RowRange> kept;
  std::vector<RowRange> rows;  // all kept rows, numbered as in `pieces`
  std::span<const RowRange> ranges;
  size_t at = 0;     // index of the next range
  uint64_t row = 0;  // the ranges are cut up to here

  // Stores the next row in *out. Returns false at the end.
  bool next(uint64_t* out) {
    while (at < ranges.size() &&
           std::max(row, ranges[at].begin) >= ranges[at].end)
      ++at;
    if (at == ranges.size()) return false;
    *out = std::max(row, ranges[at].begin);
    return true;
  }
  // Whether another range begins before row `stop`.
  bool more_before(uint64_t stop) const {
    return at + 1 < ranges.size() && ranges[at + 1].begin < stop;
  }

  // Cuts the ranges of one stripe. If fewer than `between` rows separate two
  // ranges, these rows become a hole in a piece. With `rows_only`, makes no
  // pieces.
  void cut(const StripeView& stripe, uint64_t between, bool rows_only) {
    const uint64_t stop = stripe.first_row + stripe.rows;
    pieces.clear();
    kept.clear();
    rows.clear();
    for (; at < ranges.size(); ++at) {
      const uint64_t begin = std::max(row, ranges[at].begin);
      const uint64_t end = std::min(ranges[at].end, stop);
      if (begin >= stop) break;
      if (begin >= end) continue;
      rows.push_back({begin - stripe.first_row, end - stripe.first_row});
      if (!rows_only) add(rows.back(), between);
      row = end;
      if (ranges[at].end > stop) break;  // continues in the next stripe
    }
  }
  // The kept rows of a piece with holes; empty if all rows are kept.
  std::span<const RowRange> kept_of(const Piece& p) const {
    if (p.last - p.first == 1) return {};
    return std::span(kept).subspan(p.first, p.last - p.first);
  }

 private:
  void begin(RowRange r) {
    pieces.push_back({r, kept.size(), kept.size() + 1});
    kept.push_back({0, r.size()});
  }
  void add(RowRange r, uint64_t between) {
    if (pieces.empty() || r.begin - pieces.back().rows.end >= between) {
      return begin(r);
    }
    const uint64_t end = pieces.back().rows.end;
    const uint64_t start = end / kRows * kRows;
    if (start > pieces.back().rows.begin) {
      if (start == end) return begin(r);
      // The piece does not have a hole yet, so rows before `start` need not
      // move.
      pieces.back().rows.end = start;
      kept.back().end = start - pieces.back().rows.begin;
      begin({start, end});
    }
    if (r.begin >= start + kRows) return begin(r);
    const RowRange near{r.begin, std::min(r.end, start + kRows)};
    Piece& piece = pieces.back();
    kept.push_back(
        {near.begin - piece.rows.begin, near.end - piece.rows.begin});
    piece.last = kept.size();
    piece.rows.end = near.end;
    if (near.end < r.end) begin({near.end, r.end});
  }
};

// Reserves memory for values, so that buffers do not move while rows are
// appended. Damaged files may claim any number of rows, so large batches are
// not reserved.
void reserve_values(uint64_t rows, Column* out) {
  constexpr uint64_t kMostBytes = 4 << 20;
  for (Column& column : out->children) {
    const Layout layout = column.field().layout;
    if (layout != Layout::kFixed && layout != Layout::kDictionary) continue;
    const uint64_t width = column.field().width;
    const uint64_t room = column.length() + rows;
    if (width == 0 || room > kMostBytes / width) continue;
    column.values.reserve(room * width);
  }
}

bool is_ascending(std::span<const uint64_t> rows) {
  constexpr size_t kTogether = 256;  // rows per step
  for (size_t i = 1; i < rows.size();) {
    const size_t end = std::min(rows.size(), i + kTogether);
    bool falls = false;
    for (; i < end; ++i) falls |= rows[i] <= rows[i - 1];
    if (falls) return false;
  }
  return true;
}

}  // namespace

PlacedRows place_rows(std::span<const uint64_t> rows) {
  PlacedRows out;
  if (is_ascending(rows)) {
    out.rows.assign(rows.begin(), rows.end());
    return out;
  }
  out.rows.reserve(rows.size());
  out.places.resize(rows.size());
  for (const uint64_t place : sorted_places(rows)) {
    if (out.rows.empty() || out.rows.back() != rows[place]) {
      out.rows.push_back(rows[place]);
    }
    out.places[place] = out.rows.size() - 1;
  }
  return out;
}

Result<std::shared_ptr<const RowReader>> RowReader::create(
    std::shared_ptr<const OpenFile> file,
    const std::vector<OutputColumn>& columns) {
  std::shared_ptr<RowReader> out(new RowReader());
  out->outputs_ = columns;
  out->schema_ = file->footer().schema;
  out->schema_.children.clear();
  for (const OutputColumn& c : columns) {
    NIMBLE_ASSIGN_OR_RETURN(PlannedColumn planned,
                            find_column(file->plan(), c.path));
    Field child = *planned.field;
    child.name = c.name;
    if (!planned.parents.empty()) child.flags |= ARROW_FLAG_NULLABLE;
    out->schema_.children.push_back(std::move(child));
    out->columns_.push_back({planned.node, std::move(planned.parents)});
  }
  return finish(std::move(out), std::move(file));
}

Result<std::shared_ptr<const RowReader>> RowReader::create_all(
    std::shared_ptr<const OpenFile> file) {
  std::shared_ptr<RowReader> out(new RowReader());
  out->schema_ = file->footer().schema;
  for (const uint32_t node : file->plan().node(0).children) {
    const auto i = out->columns_.size();
    out->outputs_.push_back(
        {{static_cast<int>(i)}, out->schema_.children[i].name});
    out->columns_.push_back({node, {}});
  }
  return finish(std::move(out), std::move(file));
}

std::shared_ptr<const RowReader> RowReader::finish(
    std::shared_ptr<RowReader> reader, std::shared_ptr<const OpenFile> file) {
  const auto is_flat = [&](const Projected& p) {
    const SchemaNode& node = file->plan().node(p.node);
    const Layout layout = node.field->layout;
    return p.parents.empty() && node.values != kNoStream &&
           (layout == Layout::kFixed || layout == Layout::kBool ||
            layout == Layout::kBytes || layout == Layout::kDictionary);
  };
  reader->has_flat_columns_ =
      file->file().mapped() != nullptr &&
      std::all_of(reader->columns_.begin(), reader->columns_.end(), is_flat);
  reader->has_vectors_ = std::any_of(
      reader->columns_.begin(), reader->columns_.end(), [&](const auto& p) {
        return p.parents.empty() && is_vector(*file, p.node);
      });
  reader->file_ = std::move(file);
  return reader;
}

Status RowReader::read_column(const StripeReader& reader, size_t column,
                              const uint64_t* rows, uint64_t begin,
                              uint64_t count, Column* out) const {
  const Projected& p = columns_[column];
  const uint64_t at = out->length();
  NIMBLE_RETURN_IF_ERROR(
      rows != nullptr ? reader.read_rows(p.node, rows, count, out)
                      : reader.read_range(p.node, begin, begin + count, out));
  for (const uint32_t parent : p.parents) {
    NIMBLE_RETURN_IF_ERROR(
        reader.mask_with_parent(parent, rows, begin, count, at, out));
  }
  return Status::ok();
}

Status RowReader::want(const StripeReader& reader, const uint64_t* rows,
                       uint64_t begin, uint64_t count,
                       std::span<const uint8_t> appended) const {
  if (file_->file().mapped() != nullptr) return Status::ok();
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!appended.empty() && appended[i] != 0) continue;
    const Projected& p = columns_[i];
    NIMBLE_RETURN_IF_ERROR(
        rows != nullptr ? reader.want_rows(p.node, rows, count)
                        : reader.want_range(p.node, begin, begin + count));
  }
  return Status::ok();
}

Status plan_bytes(const RowReader& reader, std::span<const RowRange> rows,
                  uint64_t gap, std::vector<ByteRange>* out) {
  const OpenFile& file = reader.file();
  const size_t num_columns = reader.schema().children.size();
  for (size_t i = 0; i < rows.size();) {
    uint64_t begin = rows[i].begin;
    while (i < rows.size()) {
      NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group,
                              file.groups().get(file.group_of(begin)));
      const StripeView& stripe = group->view().stripe_of(begin);
      const uint64_t stop = stripe.first_row + stripe.rows;
      FetchedBodies wanted(file.file(), file.range_cache(), file.stats());
      const StripeReader of(file, file.plan(), *group, stripe, &wanted);
      for (; i < rows.size() && begin < stop;) {
        const uint64_t end = std::min(rows[i].end, stop);
        for (size_t c = 0; c < num_columns; ++c) {
          NIMBLE_RETURN_IF_ERROR(of.want_range(reader.node(c),
                                               begin - stripe.first_row,
                                               end - stripe.first_row));
        }
        begin = end;
        if (end == rows[i].end && ++i < rows.size()) begin = rows[i].begin;
      }
      wanted.append_wanted(gap, out);
    }
  }
  return Status::ok();
}

Status fetch_rows(std::span<const RowReader* const> readers,
                  std::span<const RowRange> ranges) {
  const OpenFile& file = readers.front()->file();
  const RangeCache::Share share(file.range_cache());
  if (share.bytes() == 0) return Status::ok();
  std::optional<FetchedBodies> fetched;
  fetched.emplace(file.file(), file.range_cache(), file.stats());
  for (size_t i = 0; i < ranges.size();) {
    const size_t g = file.group_of(ranges[i].begin);
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, file.groups().get(g));
    const StripeView& stripe = group->view().stripe_of(ranges[i].begin);
    const uint64_t stop = stripe.first_row + stripe.rows;
    const StripeReader reader(file, file.plan(), *group, stripe, &*fetched);
    // At most one range continues in the next stripe.
    for (; i < ranges.size() && ranges[i].begin < stop; ++i) {
      const uint64_t begin = ranges[i].begin - stripe.first_row;
      const uint64_t count = std::min(ranges[i].end, stop) - ranges[i].begin;
      for (const RowReader* r : readers) {
        NIMBLE_RETURN_IF_ERROR(r->want(reader, nullptr, begin, count, {}));
      }
    }
    if (fetched->most_bytes() < share.bytes()) continue;
    NIMBLE_RETURN_IF_ERROR(fetched->fetch());
    fetched.emplace(file.file(), file.range_cache(), file.stats());
  }
  return fetched->fetch();
}

Result<size_t> RowReader::fetch_ahead(std::span<const uint64_t> rows,
                                      std::span<const uint8_t> appended) const {
  const OpenFile& file = *file_;
  const RangeCache::Share share(file.range_cache());
  std::vector<size_t> groups;
  for (const uint64_t row : rows) {
    const size_t g = file.group_of(row);
    if (groups.empty() || groups.back() != g) groups.push_back(g);
  }
  NIMBLE_RETURN_IF_ERROR(file.groups().load_together(groups, ReadKind::kOpen));
  FetchedBodies fetched(file.file(), file.range_cache(), file.stats());
  std::vector<uint64_t> local;
  size_t i = 0;
  for (size_t stripes = 0; i < rows.size(); ++stripes) {
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group,
                            file.groups().get(file.group_of(rows[i])));
    const StripeView& stripe = group->view().stripe_of(rows[i]);
    const size_t first = i;
    local.clear();
    const uint64_t end = stripe.first_row + stripe.rows;
    for (; i < rows.size() && rows[i] < end; ++i) {
      local.push_back(rows[i] - stripe.first_row);
    }
    if (stripes == 0 && i == rows.size()) return i;
    const StripeReader reader(file, file.plan(), *group, stripe, &fetched);
    NIMBLE_RETURN_IF_ERROR(
        want(reader, local.data(), 0, local.size(), appended));
    if (fetched.most_bytes() <= share.bytes()) continue;
    // This stripe does not fit. If it is the first one, its rows take one round
    // anyway.
    if (first == 0) return i;
    break;
  }
  NIMBLE_RETURN_IF_ERROR(fetched.fetch());
  return i;
}

Status RowReader::in_column(size_t column, Status status) const {
  return std::move(status).with_context(file_->file().name() + ": column '" +
                                        schema_.children[column].name + "'");
}

double RowReader::decode_nanos(uint64_t row) const {
  const auto group = file_->groups().get(file_->group_of(row));
  if (!group) return 0;  // reading reports the error
  return decode_nanos(StripeReader(*file_, file_->plan(), **group,
                                   (*group)->view().stripe_of(row), nullptr));
}

bool RowReader::is_in_one_stripe(const RowRange& rows) const {
  if (rows.empty()) return false;
  const auto group = file_->groups().get(file_->group_of(rows.begin));
  if (!group) return false;
  const StripeView& s = (*group)->view().stripe_of(rows.begin);
  return rows.end <= s.first_row + s.rows;
}

uint64_t RowReader::rows_in_stripe(uint64_t row, uint64_t rows) const {
  const auto group = file_->groups().get(file_->group_of(row));
  if (!group) return rows;  // reading reports the error
  const StripeView& s = (*group)->view().stripe_of(row);
  return std::min(rows, s.first_row + s.rows - row);
}

double RowReader::decode_nanos(const StripeReader& reader) const {
  double nanos = 0;
  for (const Projected& p : columns_) nanos += reader.decode_nanos(p.node);
  return nanos;
}

template <class Read>
Status RowReader::each_column(const StripeReader& reader, uint64_t count,
                              bool alone, uint32_t threads, Column* out,
                              const Read& read) const {
  std::vector<Status> status(columns_.size());
  // Fetched bytes are shared between columns, so only mapped files are read in
  // parallel.
  if (file_->file().mapped() == nullptr || columns_.size() == 1) threads = 1;
  if (threads > 1) {
    // Nanoseconds to read a single row, which is usually a cache miss.
    constexpr double kTaken = 50;
    const double each =
        decode_nanos(reader) +
        (alone ? kTaken * static_cast<double>(columns_.size()) : 0);
    threads = threads_worth(each * static_cast<double>(count), threads);
  }
  parallel_for(columns_.size(), threads,
               [&](size_t i) { status[i] = read(i); });
  for (size_t i = 0; i < status.size(); ++i) {
    if (status[i]) continue;
    return in_column(i, std::move(status[i]));
  }
  out->add_rows(count);
  return Status::ok();
}

Status RowReader::read_ranges(std::span<const RowRange> ranges,
                              uint32_t threads, Column* out) const {
  // Estimated cost of starting a range, per column.
  constexpr double kBeginNanos = 120;
  if (ranges.size() > 1) {
    // The holes of a piece are decoded as well.
    reserve_values(count_rows(ranges) + Pieces::kRows, out);
  }
  Pieces cut;
  cut.ranges = ranges;
  for (uint64_t row = 0; cut.next(&row);) {
    const size_t g = file_->group_of(row);
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, file_->groups().get(g));
    const StripeView& stripe = group->view().stripe_of(row);
    FetchedBodies fetched(file_->file(), file_->range_cache(), file_->stats());
    const StripeReader reader(*file_, file_->plan(), *group, stripe, &fetched);
    uint64_t between = 0;
    if (cut.more_before(stripe.first_row + stripe.rows) &&
        can_keep_rows(schema_)) {
      // Number of rows that can be decoded and dropped in the time that
      // starting a new range takes.
      const double rows = kBeginNanos * static_cast<double>(columns_.size()) /
                          std::max(decode_nanos(reader), 0.1);
      between = static_cast<uint64_t>(std::min(rows, 4096.0));
    }
    // If there is no hole, values may be exported without a copy.
    const bool has_holes = cut.more_before(stripe.first_row + stripe.rows);
    const auto is_flat = [&](const Projected& p) {
      return has_holes && p.parents.empty() && reader.has_flat_values(p.node);
    };
    cut.cut(stripe, between,
            std::all_of(columns_.begin(), columns_.end(), is_flat));
    for (const Piece& p : cut.pieces) {
      NIMBLE_RETURN_IF_ERROR(
          want(reader, nullptr, p.rows.begin, p.rows.size(), {}));
    }
    NIMBLE_RETURN_IF_ERROR(fetched.fetch());
    uint64_t rows = 0;
    for (const RowRange& r : cut.rows) rows += r.size();
    NIMBLE_RETURN_IF_ERROR(
        each_column(reader, rows, false, threads, out, [&](size_t i) {
          Column* const column = &out->children[i];
          if (is_flat(columns_[i])) {
            return reader.read_ranges(columns_[i].node, cut.rows, column);
          }
          for (const Piece& p : cut.pieces) {
            const uint64_t from = column->length();
            NIMBLE_RETURN_IF_ERROR(read_column(reader, i, nullptr, p.rows.begin,
                                               p.rows.size(), column));
            const auto kept = cut.kept_of(p);
            if (kept.empty()) continue;
            NIMBLE_RETURN_IF_ERROR(fits_offsets(*column));
            keep_rows(from, kept, column);
          }
          return Status::ok();
        }));
  }
  return Status::ok();
}

Result<uint64_t> RowReader::read_batch(uint64_t begin, uint64_t most,
                                       ArrowArray* out) const {
  for (uint64_t n = rows_in_stripe(begin, most);; n = div_ceil(n, 2)) {
    Column column = make_output();
    const RowRange rows{begin, begin + n};
    NIMBLE_RETURN_IF_ERROR(read_ranges({&rows, 1}, 1, &column));
    Status status = std::move(column).export_array(out);
    if (status) return n;
    if (status.code() != StatusCode::kTooLarge || n == 1) return status;
  }
}

void RowReader::prefetch(const StripeReader& reader,
                         std::span<const uint64_t> rows,
                         std::span<const uint8_t> appended) const {
  const bool near =
      rows.size() > 1 && rows.back() - rows.front() < rows.size() * kRowsApart;
  if (near || file_->file().mapped() == nullptr) return;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!appended.empty() && appended[i] != 0) continue;
    reader.prefetch_rows(columns_[i].node, rows.data(), rows.size());
  }
}

Status RowReader::read_ascending(std::span<const uint64_t> rows,
                                 std::span<const uint8_t> appended,
                                 uint32_t threads, Column* out) const {
  // Rows of the current stripe, and of the next stripe of its group. The memory
  // of the next stripe is prefetched before the current rows are decoded.
  StripeRows now, next;
  const bool remote = file_->file().mapped() == nullptr;
  size_t fetched_rows = 0;
  for (size_t i = 0; i < rows.size();) {
    if (remote && i >= fetched_rows) {
      NIMBLE_ASSIGN_OR_RETURN(const size_t n,
                              fetch_ahead(rows.subspan(i), appended));
      fetched_rows = i + n;
    }
    const size_t g = file_->group_of(rows[i]);
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, file_->groups().get(g));
    const uint64_t end = file_->groups().end_row(g);
    next.cut(*group, rows, &i);
    while (!next.rows.empty()) {
      std::swap(now, next);
      next.rows.clear();
      FetchedBodies fetched(file_->file(), file_->range_cache(),
                            file_->stats());
      const StripeReader reader(*file_, file_->plan(), *group, *now.stripe,
                                &fetched);
      if (now.is_first) prefetch(reader, now.rows, appended);
      if (i < rows.size() && rows[i] < end) {
        next.cut(*group, rows, &i);
        next.is_first = false;
        prefetch(
            StripeReader(*file_, file_->plan(), *group, *next.stripe, &fetched),
            next.rows, appended);
      }
      const uint64_t count = now.rows.size();
      NIMBLE_RETURN_IF_ERROR(want(reader, now.rows.data(), 0, count, appended));
      NIMBLE_RETURN_IF_ERROR(fetched.fetch());
      NIMBLE_RETURN_IF_ERROR(
          each_column(reader, count, true, threads, out, [&](size_t c) {
            if (!appended.empty() && appended[c] != 0) return Status::ok();
            return read_column(reader, c, now.rows.data(), 0, count,
                               &out->children[c]);
          }));
    }
  }
  return Status::ok();
}

void RowReader::reserve_rows(uint64_t count, Column* out) const {
  reserve_values(count, out);
}

Status RowReader::take_ascending(std::span<const uint64_t> rows,
                                 uint32_t threads, Column* out) const {
  if (rows.size() > 1 && rows.back() - rows.front() == rows.size() - 1) {
    const RowRange all{rows.front(), rows.back() + 1};
    return read_ranges({&all, 1}, threads, out);
  }
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> appended,
                          take_wide(rows, {}, {}, threads, out));
  return read_ascending(rows, appended, threads, out);
}

Status RowReader::take_of_segment(uint64_t first_row,
                                  std::span<const uint32_t> rows,
                                  uint32_t threads, Column* out) const {
  NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group,
                          file_->groups().get(file_->group_of(first_row)));
  const StripeView& stripe = group->view().stripe_of(first_row);
  const auto segment =
      static_cast<uint32_t>((first_row - stripe.first_row) / kSegmentValues);
  const StripeReader reader(*file_, file_->plan(), *group, stripe, nullptr);
  return each_column(reader, rows.size(), true, threads, out, [&](size_t i) {
    return reader.read_segment_rows(columns_[i].node, segment, rows,
                                    &out->children[i]);
  });
}

Status RowReader::take(std::span<const uint64_t> rows, uint32_t threads,
                       Column* out) const {
  const PlacedRows wanted = place_rows(rows);
  if (!wanted.rows.empty() && wanted.rows.back() >= file_->num_rows()) {
    return Status::invalid_argument(
        "row " + std::to_string(wanted.rows.back()) + " is outside a file of " +
        std::to_string(file_->num_rows()) + " rows");
  }
  return take_placed(wanted, {}, threads, out);
}

Result<std::vector<uint8_t>> RowReader::take_wide(
    std::span<const uint64_t> rows, std::span<const uint64_t> places,
    std::span<const uint8_t> appended, uint32_t threads, Column* out) const {
  std::vector<uint8_t> done(appended.begin(), appended.end());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Projected& p = columns_[i];
    if ((!appended.empty() && appended[i] != 0) || !p.parents.empty() ||
        !is_vector(*file_, p.node)) {
      continue;
    }
    auto taken =
        take_vectors(*file_, p.node, rows, places, threads, &out->children[i]);
    if (!taken) return in_column(i, std::move(taken).error());
    if (!*taken) continue;
    done.resize(columns_.size());
    done[i] = 1;
  }
  return done;
}

Status RowReader::take_placed(const PlacedRows& wanted,
                              std::span<const uint8_t> known_before,
                              uint32_t threads, Column* out) const {
  const std::span<const uint64_t> places = wanted.places;
  if (known_before.empty() && places.empty()) {
    return take_ascending(wanted.rows, threads, out);
  }
  NIMBLE_ASSIGN_OR_RETURN(
      const std::vector<uint8_t> appended,
      take_wide(wanted.rows, places, known_before, threads, out));
  if (places.empty())
    return read_ascending(wanted.rows, appended, threads, out);
  Column read = make_output();
  NIMBLE_RETURN_IF_ERROR(read_ascending(wanted.rows, appended, threads, &read));
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!appended.empty() && appended[i] != 0) continue;
    NIMBLE_RETURN_IF_ERROR(fits_offsets(read.children[i]));
    out->children[i].append_rows(read.children[i], places.data(),
                                 places.size());
    // The next column's rows can use this memory.
    [[maybe_unused]] const Column freed = std::move(read.children[i]);
  }
  out->add_rows(places.size());
  return Status::ok();
}

}  // namespace nimble
