// _core.Projection: some columns of a file, prepared: takes and scans.
#include <pybind11/stl.h>

#include <algorithm>
#include <set>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/batch_scan.h"
#include "nimble/scan/files_scan.h"
#include "nimble/stripe/file_rows.h"
#include "nimble/threads/parallel.h"

namespace py = pybind11;

namespace nimble {
namespace {

using Rows = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

// An object with __arrow_c_stream__; may be consumed once.
class BatchStream {
 public:
  explicit BatchStream(std::shared_ptr<BatchSource> source)
      : source_(std::move(source)) {}
  py::object stream() {
    if (used_) raise(Status::invalid_argument("the stream is used up"));
    used_ = true;
    return stream_capsule(source_);
  }
  // Raises what ended the stream too early, as the exception it is.
  void check_failure() const {
    if (!source_->failure) raise(source_->failure);
  }

 private:
  std::shared_ptr<BatchSource> source_;
  bool used_ = false;
};

// Rows in a given order, a limited number a batch. Where the bytes of one
// batch do not fit in Arrow's 32-bit offsets, its rows are halved.
class TakeSource final : public BatchSource {
 public:
  TakeSource(std::shared_ptr<const RowReader> reader,
             std::vector<uint64_t> rows, uint64_t batch_rows, uint32_t threads)
      : reader_(std::move(reader)),
        rows_(std::move(rows)),
        batch_rows_(std::max<uint64_t>(1, batch_rows)),
        threads_(threads) {}

  const Field& schema() const override { return reader_->schema(); }
  Status next(ArrowArray* out) override {
    *out = ArrowArray{};
    for (uint64_t n = std::min<uint64_t>(batch_rows_, rows_.size() - at_);
         n > 0;) {
      Column column = reader_->make_output();
      NIMBLE_RETURN_IF_ERROR(
          reader_->take(std::span(rows_).subspan(at_, n), threads_, &column));
      Status status = std::move(column).export_array(out);
      if (status) {
        at_ += n;
        return status;
      }
      if (n == 1 || status.code() != StatusCode::kTooLarge) return status;
      n /= 2;
    }
    return Status::ok();
  }

 private:
  std::shared_ptr<const RowReader> reader_;
  std::vector<uint64_t> rows_;
  uint64_t batch_rows_;
  uint32_t threads_;
  uint64_t at_ = 0;
};

// Disjoint ascending ranges, in batches.
class ScanSource final : public BatchSource {
 public:
  template <class... Args>
  explicit ScanSource(Args&&... args) : scan_(std::forward<Args>(args)...) {}
  const Field& schema() const override { return scan_.schema(); }
  Status next(ArrowArray* out) override { return scan_.next(out); }

 private:
  BatchScan scan_;
};

// Rows of several files of one form, file by file.
class FilesScanSource final : public BatchSource {
 public:
  template <class... Args>
  explicit FilesScanSource(Args&&... args)
      : scan_(std::forward<Args>(args)...) {}
  const Field& schema() const override { return scan_.schema(); }
  Status next(ArrowArray* out) override { return scan_.next(out); }

 private:
  FilesScan scan_;
};

uint32_t threads_or_default(uint32_t threads) {
  return threads == 0 ? default_threads() : threads;
}

BatchStream take(const std::shared_ptr<RowReader>& reader, const Rows& rows,
                 uint64_t batch_rows, uint32_t threads) {
  std::vector<uint64_t> r(rows.data(), rows.data() + rows.size());
  return BatchStream(std::make_shared<TakeSource>(
      reader, std::move(r), batch_rows, threads_or_default(threads)));
}

BatchStream scan(const std::shared_ptr<RowReader>& reader, const Rows& ranges,
                 uint64_t batch_rows, uint32_t threads,
                 const std::shared_ptr<RowFilter>& filter) {
  if (filter && &filter->file() != &reader->file()) {
    raise(Status::invalid_argument("the filter is of another file"));
  }
  return BatchStream(std::make_shared<ScanSource>(
      reader, filter, rows_of_file(ranges, reader->file()), batch_rows,
      threads_or_default(threads)));
}

// The same of several files, file by file. None if their columns cannot be one,
// or if several threads are asked for and a file is not mapped.
std::optional<BatchStream> scan_files(
    const std::vector<std::shared_ptr<RowReader>>& readers,
    const std::vector<Rows>& ranges, uint64_t batch_rows, uint32_t threads) {
  if (readers.size() != ranges.size()) {
    raise(Status::invalid_argument("not one array of ranges for each file"));
  }
  std::vector<const RowReader*> of;
  std::vector<FileRanges> files;
  for (size_t i = 0; i < readers.size(); ++i) {
    const OpenFile& file = readers[i]->file();
    if (threads != 1 && file.file().mapped() == nullptr) return std::nullopt;
    of.push_back(readers[i].get());
    files.push_back({readers[i], rows_of_file(ranges[i], file)});
  }
  if (of.empty() || !have_one_form(of)) return std::nullopt;
  return BatchStream(std::make_shared<FilesScanSource>(
      std::move(files), batch_rows, threads_or_default(threads)));
}

// (path, name in the result) of each column; none: all of the file.
using Columns = std::optional<std::vector<std::pair<ColumnPath, std::string>>>;

std::vector<OutputColumn> outputs_of(const Columns::value_type& columns) {
  std::vector<OutputColumn> out;
  for (const auto& [path, name] : columns) out.push_back({path, name});
  return out;
}

// One batch of rows, the quick way for small results: (schema, array).
py::tuple take_batch(const RowReader& reader, const Rows& rows,
                     uint32_t threads) {
  Column out = reader.make_output();
  const std::span<const uint64_t> r(rows.data(),
                                    static_cast<size_t>(rows.size()));
  Status status;
  {
    const WithoutGil nogil;
    status = reader.take(r, threads_or_default(threads), &out);
  }
  check(status);
  return array_capsules(std::move(out));
}

// Rows of many files as one batch: (schema, array). None where their columns
// cannot be one, or the result is too large for it.
py::object take_files(const std::vector<std::shared_ptr<RowReader>>& readers,
                      const py::array_t<int64_t, py::array::c_style>& files,
                      const Rows& rows, uint32_t threads) {
  std::vector<const RowReader*> of;
  for (const auto& reader : readers) of.push_back(reader.get());
  if (of.empty() || !have_one_form(of)) return py::none();
  const FileRows wanted{{files.data(), static_cast<size_t>(files.size())},
                        {rows.data(), static_cast<size_t>(rows.size())}};
  Column out = of.front()->make_output();
  ArrowArray array{};
  const Status status = without_gil([&] {
    NIMBLE_RETURN_IF_ERROR(
        take_file_rows(of, wanted, threads_or_default(threads), &out));
    return std::move(out).export_array(&array);
  });
  if (status.code() == StatusCode::kTooLarge) return py::none();
  check(status);
  return array_capsules(of.front()->schema(), &array);
}

void check_range(const RowReader& reader, uint64_t begin, uint64_t end) {
  const uint64_t rows = reader.file().num_rows();
  if (begin <= end && end <= rows) return;
  raise(Status::invalid_argument("rows " + std::to_string(begin) + " to " +
                                 std::to_string(end) + " of a file of " +
                                 std::to_string(rows) + " rows"));
}

py::tuple range_batch(const RowReader& reader, uint64_t begin, uint64_t end,
                      uint32_t threads) {
  check_range(reader, begin, end);
  Column out = reader.make_output();
  const RowRange range{begin, end};
  Status status;
  {
    const WithoutGil nogil;
    status = reader.read_ranges({&range, 1}, threads_or_default(threads), &out);
  }
  check(status);
  return array_capsules(std::move(out));
}

// The batch that a scan of these rows would give, if it would give one: none
// where they are of several stripes, or too much for a batch. Its values may
// lie in the mapped file, which they keep open.
py::object stripe_batch(const RowReader& reader, uint64_t begin, uint64_t end,
                        uint32_t threads) {
  check_range(reader, begin, end);
  const RowRange range{begin, end};
  Column out = reader.make_output();
  ArrowArray array{};
  const Status status = without_gil([&] {
    if (!reader.is_in_one_stripe(range)) {
      return Status::too_large("rows of several stripes");
    }
    out.set_wants_views(true);
    NIMBLE_RETURN_IF_ERROR(
        reader.read_ranges({&range, 1}, threads_or_default(threads), &out));
    return std::move(out).export_array(&array);
  });
  if (status.code() == StatusCode::kTooLarge) return py::none();
  check(status);
  return array_capsules(reader.schema(), &array);
}

// What reading the rows of one stripe would touch.
struct StripeReads {
  size_t group;
  uint64_t first_row;  // of the stripe
  uint64_t rows = 0, reads = 0, bytes = 0;
};

// What reading `ranges` would touch, stripe by stripe. Reads metadata only.
Result<std::vector<StripeReads>> stripe_reads(const RowReader& reader,
                                              std::vector<RowRange> ranges) {
  std::vector<StripeReads> out;
  const OpenFile& f = reader.file();
  std::set<uint64_t> shared;
  for (auto r = ranges.begin(); r != ranges.end();) {
    const size_t g = f.group_of(r->begin);
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, f.groups().get(g));
    const StripeView& s = group->view().stripe_of(r->begin);
    FetchedBodies fetched(f.file(), f.range_cache(), f.stats(), &shared);
    const StripeReader stripe(f, f.plan(), *group, s, &fetched);
    const uint64_t end = s.first_row + s.rows;
    StripeReads& reads = out.emplace_back(StripeReads{g, s.first_row});
    // All of the stripe are fetched together.
    for (; r != ranges.end() && r->begin < end; ++r) {
      const RowRange here{r->begin, std::min(r->end, end)};
      for (size_t c = 0; c < reader.schema().children.size(); ++c) {
        NIMBLE_RETURN_IF_ERROR(stripe.want_range(
            reader.node(c), here.begin - s.first_row, here.end - s.first_row));
      }
      reads.rows += here.size();
      r->begin = here.end;
      if (!r->empty()) break;
    }
    fetched.count(&reads.reads, &reads.bytes);
  }
  return out;
}

// (group, first row of the stripe, rows, reads, bytes) per stripe.
py::list plan_reads(const RowReader& reader, const Rows& ranges) {
  std::vector<RowRange> merged = merge_ranges(ranges_from_numpy(ranges));
  const auto plan = unwrap(
      without_gil([&] { return stripe_reads(reader, std::move(merged)); }));
  py::list out;
  for (const StripeReads& s : plan) {
    out.append(py::make_tuple(s.group, s.first_row, s.rows, s.reads, s.bytes));
  }
  return out;
}

}  // namespace

py::array_t<uint64_t> ranges_to_numpy(const std::vector<RowRange>& r) {
  py::array_t<uint64_t> out(
      {static_cast<py::ssize_t>(r.size()), py::ssize_t{2}});
  static_assert(sizeof(RowRange) == 16);
  if (!r.empty()) std::memcpy(out.mutable_data(), r.data(), r.size() * 16);
  return out;
}

std::vector<RowRange> ranges_from_numpy(
    const py::array_t<uint64_t, py::array::c_style>& r) {
  std::vector<RowRange> out(static_cast<size_t>(r.size()) / 2);
  const uint64_t* p = r.data();
  for (RowRange& range : out) {
    range.begin = *p++;
    range.end = *p++;
  }
  return out;
}

void register_projection(py::module_& m) {
  m.def("take_files", &take_files, py::arg("projections"), py::arg("files"),
        py::arg("rows"), py::arg("threads"));
  m.def("scan_files", &scan_files, py::arg("projections"), py::arg("ranges"),
        py::arg("batch_rows"), py::arg("threads"));
  py::class_<BatchStream>(m, "BatchStream")
      .def(
          "__arrow_c_stream__",
          [](BatchStream& s, const py::object&) { return s.stream(); },
          py::arg("requested_schema") = py::none())
      .def("check_failure", &BatchStream::check_failure);
  py::class_<RowReader, std::shared_ptr<RowReader>>(m, "Projection")
      .def(py::init([](std::shared_ptr<FileReader> file,
                       const Columns& columns) {
             auto made = columns ? RowReader::create(std::move(file),
                                                     outputs_of(*columns))
                                 : RowReader::create_all(std::move(file));
             return std::const_pointer_cast<RowReader>(unwrap(std::move(made)));
           }),
           py::arg("file"), py::arg("columns"))
      .def("__arrow_c_schema__",
           [](const RowReader& r) { return schema_capsule(r.schema()); })
      .def("take", &take, py::arg("rows"), py::arg("batch_rows"),
           py::arg("threads"))
      .def("take_batch", &take_batch, py::arg("rows"), py::arg("threads"))
      .def("range_batch", &range_batch, py::arg("begin"), py::arg("end"),
           py::arg("threads"))
      .def("stripe_batch", &stripe_batch, py::arg("begin"), py::arg("end"),
           py::arg("threads"))
      .def("scan", &scan, py::arg("ranges"), py::arg("batch_rows"),
           py::arg("threads"), py::arg("filter") = nullptr)
      .def("plan_reads", &plan_reads, py::arg("ranges"));
}

}  // namespace nimble
