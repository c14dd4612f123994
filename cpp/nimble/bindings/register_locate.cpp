// Classes for finding rows in many files. _core.KeyProbes holds keys, which are
// encoded and sorted once for all files. _core.KeyBounds returns which files
// may have these keys. _core.RowBitmap has the deleted rows of a file.
#include <pybind11/stl.h>

#include <algorithm>

#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/key_bounds.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/key_batch.h"
#include "nimble/key/same_keys.h"
#include "nimble/locate/locate.h"

namespace py = pybind11;

namespace nimble {
namespace {

using Numbers = py::array_t<int64_t, py::array::c_style>;

using Rows = py::array_t<uint64_t, py::array::c_style>;
template <class T>
using Array = py::array_t<T, py::array::c_style>;

std::span<const uint64_t> span_of(const Rows& rows) {
  return {rows.data(), static_cast<size_t>(rows.size())};
}

template <class T>
Array<T> to_numpy(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

Array<bool> contains(const RowBitmap& bitmap, const Rows& rows) {
  Array<bool> out(rows.size());
  bool* to = out.mutable_data();
  for (const uint64_t row : span_of(rows)) *to++ = bitmap.contains(row);
  return out;
}

// Returns the parts of ranges that are not in the bitmap, and for each part the
// index of its range.
py::tuple absent(const RowBitmap& bitmap, const Rows& begin, const Rows& end) {
  if (begin.size() != end.size()) {
    raise(Status::invalid_argument(
        "absent: expected one end for each first row"));
  }
  std::vector<RowRange> parts;
  std::vector<int64_t> of;
  for (py::ssize_t i = 0; i < begin.size(); ++i) {
    bitmap.append_absent({begin.at(i), end.at(i)}, &parts);
    of.resize(parts.size(), i);
  }
  return py::make_tuple(ranges_to_numpy(parts), to_numpy(of));
}

class Probes {
 public:
  Probes(const py::object& keys, const KeyOrders& orders, bool null_equals,
         const std::optional<KeyBatch::Flags>& impossible)
      : specs_(key_specs(orders)),
        batch_(specs_, keys, null_equals, impossible),
        probes_(batch_.keys()) {}

  // Whether the first columns of the index have the same types and orders as
  // the keys.
  bool fits(const IndexHandle& index) const {
    const auto& mine = batch_.encoder().columns();
    const auto& theirs = index->encoder().columns();
    const bool is_whole = mine.size() == theirs.size();
    return mine.size() <= theirs.size() && (is_whole || index->is_ordered()) &&
           std::equal(mine.begin(), mine.end(), theirs.begin(), have_same_keys);
  }

  // Returns the files that may have one of the keys, ascending.
  Numbers files(const KeyBounds& bounds) const {
    std::vector<int64_t> found;
    for (size_t i = 0; i < bounds.size(); ++i) {
      const ProbeSpan asked = probes_.between(bounds.lower(i), bounds.upper(i));
      if (!asked.numbers.empty()) found.push_back(static_cast<int64_t>(i));
    }
    return Numbers(static_cast<py::ssize_t>(found.size()), found.data());
  }

  // Returns (first rows, ends, keys, files). `ends` is None if each range has
  // only one row.
  py::tuple locate(const Numbers& files,
                   const std::vector<std::shared_ptr<IndexHandle>>& indexes,
                   const std::vector<std::shared_ptr<RowBitmap>>& deleted,
                   const KeyBounds* bounds) const {
    if (static_cast<size_t>(files.size()) != indexes.size() ||
        deleted.size() != indexes.size()) {
      raise(
          Status::invalid_argument("locate: expected one index for each file"));
    }
    std::vector<FileProbes> asked;
    asked.reserve(indexes.size());
    for (size_t i = 0; i < indexes.size(); ++i) {
      const IndexHandle& index = *indexes[i];
      if (!fits(index)) {
        raise(Status::invalid_argument(
            index.file().file().name() +
            ": the index is over other columns than the key"));
      }
      const int64_t file = files.at(static_cast<py::ssize_t>(i));
      if (file < 0 ||
          (bounds != nullptr && static_cast<size_t>(file) >= bounds->size())) {
        raise(Status::invalid_argument("locate: there are no bounds for file " +
                                       std::to_string(file)));
      }
      const auto number = static_cast<size_t>(file);
      asked.push_back(
          {file, &*index,
           index.columns().size() == batch_.encoder().columns().size(),
           bounds == nullptr
               ? probes_.part(0, probes_.num_distinct())
               : probes_.between(bounds->lower(number), bounds->upper(number)),
           deleted[i].get()});
    }
    Result<LocatedRows> found =
        without_gil([&] { return nimble::locate(probes_, asked); });
    return to_python(unwrap(std::move(found)));
  }

 private:
  py::tuple to_python(const LocatedRows& found) const {
    const auto n = static_cast<py::ssize_t>(found.keys.size());
    py::array_t<uint64_t> begin(n);
    Numbers keys(n), files(n);
    const bool single =
        std::all_of(found.ranges.begin(), found.ranges.end(),
                    [](const RowRange& r) { return r.end - r.begin == 1; });
    uint64_t* const first = begin.mutable_data();
    int64_t* const key = keys.mutable_data();
    for (size_t i = 0; i < found.keys.size(); ++i) {
      first[i] = found.ranges[i].begin;
      key[i] = static_cast<int64_t>(batch_.row_of(found.keys[i]));
    }
    std::copy(found.files.begin(), found.files.end(), files.mutable_data());
    py::object ends = py::none();
    if (!single) {
      py::array_t<uint64_t> end(n);
      uint64_t* const last = end.mutable_data();
      for (size_t i = 0; i < found.keys.size(); ++i)
        last[i] = found.ranges[i].end;
      ends = std::move(end);
    }
    return py::make_tuple(begin, ends, keys, files);
  }

  const std::vector<KeyColumnSpec> specs_;
  const KeyBatch batch_;
  const KeyProbes probes_;
};

}  // namespace

void register_locate(py::module_& m) {
  py::class_<RowBitmap, std::shared_ptr<RowBitmap>>(m, "RowBitmap")
      .def(py::init([](const Rows& rows) {
             return std::make_shared<RowBitmap>(span_of(rows));
           }),
           py::arg("rows"))
      .def("__len__", &RowBitmap::size)
      .def_property_readonly("last", &RowBitmap::last)
      .def_property_readonly("nbytes", &RowBitmap::memory_bytes)
      .def("rows",
           [](const RowBitmap& bitmap) {
             std::vector<uint64_t> rows;
             bitmap.append_rows(&rows);
             return to_numpy(rows);
           })
      .def(
          "plus",
          [](const RowBitmap& bitmap, const Rows& rows) {
            return std::make_shared<RowBitmap>(
                bitmap.with(RowBitmap(span_of(rows))));
          },
          py::arg("rows"))
      .def("roaring",
           [](const RowBitmap& bitmap) {
             const std::vector<uint8_t> octets = bitmap.roaring();
             return py::bytes(reinterpret_cast<const char*>(octets.data()),
                              octets.size());
           })
      .def("contains", &contains, py::arg("rows"))
      .def("absent", &absent, py::arg("begin"), py::arg("end"));
  py::class_<KeyBounds, std::shared_ptr<KeyBounds>>(m, "KeyBounds")
      .def(py::init<const py::object&>(), py::arg("bounds"));
  py::class_<Probes>(m, "KeyProbes")
      .def(py::init<const py::object&, const KeyOrders&, bool,
                    const std::optional<KeyBatch::Flags>&>(),
           py::arg("keys"), py::arg("orders"), py::arg("null_equals") = false,
           py::arg("impossible") = py::none())
      .def("fits", &Probes::fits, py::arg("index"))
      .def("files", &Probes::files, py::arg("bounds"))
      .def("locate", &Probes::locate, py::arg("files"), py::arg("indexes"),
           py::arg("deleted"), py::arg("bounds") = nullptr);
}

}  // namespace nimble
