// _core.AsofSearch: as-of searches of many keys in one or more files.
#include <pybind11/stl.h>

#include <algorithm>

#include "nimble/asof/asof_search.h"
#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/key_bounds.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/key_batch.h"
#include "nimble/key/same_keys.h"

namespace py = pybind11;

namespace nimble {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;
using Flags = KeyBatch::Flags;

// A search for the keys of a batch. Python numbers the keys by their rows in
// the batch. AsofSearch numbers only the usable keys.
class BatchSearch {
 public:
  // `keys` has the first columns of an index. `exclusive` says for which keys
  // rows that equal the key are excluded. `limits` has one column. It is not
  // null for usable keys.
  BatchSearch(const py::object& keys, const KeyOrders& orders, bool backward,
              const std::optional<Flags>& exclusive,
              const std::optional<Flags>& impossible, const py::object& limits)
      : specs_(key_specs(orders)),
        batch_(specs_, keys, false, impossible),
        search_(batch_.encoder(), batch_.keys(), flags_of(exclusive),
                limits_of(limits), backward) {
    position_.resize(batch_.num_rows(), kNoRow);
    for (size_t i = 0; i < batch_.keys().size(); ++i) {
      position_[batch_.row_of(i)] = i;
    }
  }

  // Whether the first columns of the index have the same types and orders as
  // the keys.
  bool fits(const IndexHandle& index) const {
    const auto& own = batch_.encoder().columns();
    const auto& other = index->encoder().columns();
    return own.size() <= other.size() && index->is_ordered() &&
           std::equal(own.begin(), own.end(), other.begin(), have_same_keys);
  }

  // Returns the files that may have a row for one of the keys, ascending.
  Array<int64_t> files(const KeyBounds& bounds, const KeyBounds* ends) const {
    std::vector<int64_t> out;
    for (size_t i = 0; i < bounds.size(); ++i) {
      const auto file = static_cast<int64_t>(i);
      if (!search_.wanted(bounds_of(file, &bounds, ends)).empty()) {
        out.push_back(file);
      }
    }
    return Array<int64_t>(static_cast<py::ssize_t>(out.size()), out.data());
  }

  // Returns the keys that may have a nearer row in a file.
  Array<int64_t> wanted(int64_t file, const KeyBounds* bounds,
                        const KeyBounds* ends) const {
    const std::vector<uint64_t> keys =
        search_.wanted(bounds_of(file, bounds, ends));
    Array<int64_t> out(static_cast<py::ssize_t>(keys.size()));
    int64_t* to = out.mutable_data();
    for (const uint64_t key : keys) {
      *to++ = static_cast<int64_t>(batch_.row_of(key));
    }
    return out;
  }

  void search(int64_t file, const IndexHandle& index,
              const Array<int64_t>& keys, const RowBitmap* deleted,
              const std::optional<std::vector<int>>& known, bool is_only) {
    if (!fits(index)) {
      raise(Status::invalid_argument(
          index.file().file().name() +
          ": the index is over other columns than the key"));
    }
    const std::vector<uint64_t> positions = positions_of(keys);
    const AsofFile asof{&index.file(), &*index, index.is_cluster(),
                        &index.columns(), deleted};
    check(without_gil(
        [&] { return search_.search(file, asof, known, positions, is_only); }));
  }

  // Offers rows of a file as matches. `on` has one column with the rows'
  // values.
  void offer(int64_t file, const Array<int64_t>& keys,
             const Array<uint64_t>& rows, const py::object& on) {
    const auto values = ImportedArray::from_python(on);
    KeyBuffer encoded;
    const KeyEncoder encoder = unwrap(KeyEncoder::create(
        values->field(), {{{0}, batch_.encoder().columns().back().order}}));
    const ArrayView& view = values->view();
    check(encoder.encode(view, 0, view.length(), &encoded));
    const std::vector<uint64_t> positions = positions_of(keys);
    if (positions.size() != encoded.size() ||
        static_cast<size_t>(rows.size()) != encoded.size()) {
      raise(Status::invalid_argument("offer: expected one value for each key"));
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      search_.offer(positions[i], file, rows.data()[i], encoded.key(i));
    }
  }

  // Returns the rows that were found, their keys in ascending order, and their
  // files.
  py::tuple matches() const {
    std::vector<uint64_t> rows;
    std::vector<int64_t> keys, files;
    const auto& all = search_.matches();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].file < 0) continue;
      rows.push_back(all[i].row);
      keys.push_back(static_cast<int64_t>(batch_.row_of(i)));
      files.push_back(all[i].file);
    }
    const auto n = static_cast<py::ssize_t>(rows.size());
    return py::make_tuple(Array<uint64_t>(n, rows.data()),
                          Array<int64_t>(n, keys.data()),
                          Array<int64_t>(n, files.data()));
  }

 private:
  std::vector<uint8_t> flags_of(const std::optional<Flags>& exclusive) const {
    std::vector<uint8_t> out(batch_.keys().size(), 0);
    if (!exclusive) return out;
    if (static_cast<size_t>(exclusive->size()) != batch_.num_rows()) {
      raise(Status::invalid_argument(
          "exclusive: expected one flag for each key"));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = exclusive->data()[batch_.row_of(i)] ? 1 : 0;
    }
    return out;
  }
  const KeyBuffer* limits_of(const py::object& limits) {
    if (limits.is_none()) return nullptr;
    const auto values = ImportedArray::from_python(limits);
    const ArrayView& view = values->view();
    if (static_cast<size_t>(view.length()) != batch_.num_rows()) {
      raise(
          Status::invalid_argument("limits: expected one limit for each key"));
    }
    const KeyEncoder encoder =
        unwrap(KeyEncoder::create(values->field(), {{{0}, SortOrder{}}}));
    KeyBuffer all;
    check(encoder.encode(view, 0, view.length(), &all));
    limits_.reset(all.fixed_width());
    for (size_t i = 0; i < batch_.keys().size(); ++i) {
      limits_.push_back(all.key(batch_.row_of(i)));
    }
    return &limits_;
  }
  static AsofBounds bounds_of(int64_t file, const KeyBounds* bounds,
                              const KeyBounds* ends) {
    const auto i = static_cast<size_t>(file);
    for (const KeyBounds* given : {bounds, ends}) {
      if (given != nullptr && (file < 0 || i >= given->size())) {
        raise(Status::invalid_argument("there are no bounds for file " +
                                       std::to_string(file)));
      }
    }
    AsofBounds out;
    if (bounds != nullptr) {
      out.lower = bounds->lower(i);
      out.upper = bounds->upper(i);
    }
    if (ends != nullptr) {
      out.first_on = ends->lower(i);
      out.last_on = ends->upper(i);
    }
    return out;
  }
  std::vector<uint64_t> positions_of(const Array<int64_t>& keys) const {
    std::vector<uint64_t> out;
    for (py::ssize_t i = 0; i < keys.size(); ++i) {
      const auto row = static_cast<size_t>(keys.data()[i]);
      if (row >= position_.size() || position_[row] == kNoRow) {
        raise(Status::invalid_argument("the key was not searched"));
      }
      out.push_back(position_[row]);
    }
    return out;
  }

  const std::vector<KeyColumnSpec> specs_;
  const KeyBatch batch_;
  KeyBuffer limits_;
  AsofSearch search_;
  std::vector<uint64_t> position_;  // by row of the batch
};

}  // namespace

void register_asof(py::module_& m) {
  const auto none = py::none();
  py::class_<BatchSearch>(m, "AsofSearch")
      .def(py::init<const py::object&, const KeyOrders&, bool,
                    const std::optional<Flags>&, const std::optional<Flags>&,
                    const py::object&>(),
           py::arg("keys"), py::arg("orders"), py::arg("backward"),
           py::arg("exclusive") = none, py::arg("impossible") = none,
           py::arg("limits") = none)
      .def("fits", &BatchSearch::fits, py::arg("index"))
      .def("files", &BatchSearch::files, py::arg("bounds"),
           py::arg("ends") = none)
      .def("wanted", &BatchSearch::wanted, py::arg("file"),
           py::arg("bounds") = none, py::arg("ends") = none)
      .def("search", &BatchSearch::search, py::arg("file"), py::arg("index"),
           py::arg("keys"), py::arg("deleted") = none, py::arg("known") = none,
           py::arg("is_only") = false)
      .def("offer", &BatchSearch::offer, py::arg("file"), py::arg("keys"),
           py::arg("rows"), py::arg("on"))
      .def("matches", &BatchSearch::matches);
}

}  // namespace nimble
