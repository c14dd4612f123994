// _core.Projection: a prepared reader of selected columns of a file.
#include <pybind11/stl.h>

#include <algorithm>
#include <set>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/stripe/file_rows.h"
#include "nimble/threads/parallel.h"

namespace py = pybind11;

namespace nimble {
namespace {

using Rows = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

// For each column: its path, and its name in the result. If not set, all
// columns of the file.
using Columns = std::optional<std::vector<std::pair<ColumnPath, std::string>>>;

std::vector<OutputColumn> outputs_of(const Columns::value_type& columns) {
  std::vector<OutputColumn> out;
  for (const auto& [path, name] : columns) out.push_back({path, name});
  return out;
}

// Reads rows as one batch, the fast way for small results. Returns (schema,
// array).
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

// Reads rows of many files as one batch. Returns (schema, array), or None if
// the files' columns cannot be combined or the result is too large for one
// batch.
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
  raise(Status::invalid_argument(
      "rows " + std::to_string(begin) + " to " + std::to_string(end) +
      " are outside a file of " + std::to_string(rows) + " rows"));
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

// The reads that the rows of one stripe need.
struct StripeReads {
  size_t group;
  uint64_t first_row;  // of the stripe
  uint64_t rows = 0, reads = 0, bytes = 0;
};

// Computes the reads that `ranges` need, stripe by stripe. Reads only metadata.
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
    // All ranges of a stripe are fetched in one round.
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

// Returns (group, first row of the stripe, rows, reads, bytes) for each stripe.
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

std::vector<RowRange> rows_of_file(
    const py::array_t<uint64_t, py::array::c_style>& ranges,
    const OpenFile& file) {
  std::vector<RowRange> r = ranges_from_numpy(ranges);
  for (const RowRange& range : r) {
    if (range.end <= file.num_rows()) continue;
    raise(Status::invalid_argument("rows [" + std::to_string(range.begin) +
                                   ", " + std::to_string(range.end) +
                                   ") are outside a file of " +
                                   std::to_string(file.num_rows()) + " rows"));
  }
  return merge_ranges(std::move(r));
}

void register_projection(py::module_& m) {
  m.def("take_files", &take_files, py::arg("projections"), py::arg("files"),
        py::arg("rows"), py::arg("threads"));
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
      .def("take_batch", &take_batch, py::arg("rows"), py::arg("threads"))
      .def("range_batch", &range_batch, py::arg("begin"), py::arg("end"),
           py::arg("threads"))
      .def("plan_reads", &plan_reads, py::arg("ranges"));
}

}  // namespace nimble
