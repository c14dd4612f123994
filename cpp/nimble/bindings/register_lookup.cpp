// Returns row ranges from zone maps and Bloom filters, and encodes keys.
#include <pybind11/stl.h>

#include <numeric>

#include "nimble/base/hash.h"
#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/key_batch.h"
#include "nimble/bindings/values/point_key.h"
#include "nimble/key/key_sort.h"
#include "nimble/scan/column_bloom.h"
#include "nimble/scan/zone_map.h"

namespace py = pybind11;

namespace nimble {
namespace {

KeyScalar scalar_at(const ArrayView& v, int64_t row) {
  if (!v.is_valid(row)) return KeyScalar::null();
  const Field& f = v.field();
  if (f.layout == Layout::kDictionary) {
    return scalar_at(v.dictionary(), v.code_at(row));
  }
  if (f.layout == Layout::kBool) return KeyScalar::from_bool(v.bool_at(row));
  if (f.layout == Layout::kBytes) {
    return KeyScalar::from_bytes(as_bytes(v.bytes_at(row)));
  }
  return KeyScalar::from_value(
      f, {v.values() + static_cast<uint64_t>(row) * f.width, f.width});
}

KeyEncoder encoder_of(const ImportedArray& batch, const KeyOrders& orders) {
  return unwrap(KeyEncoder::create(batch.field(), key_specs(orders)));
}

// Encodes the keys of all rows of a batch. Returns (bytes, n + 1 offsets).
py::tuple encode_keys(const py::object& batch, const KeyOrders& orders) {
  const auto imported = ImportedArray::from_python(batch);
  const KeyEncoder encoder = encoder_of(*imported, orders);
  KeyBuffer keys;
  const ArrayView& view = imported->view();
  check(encoder.encode(view, 0, view.length(), &keys));
  py::array_t<uint8_t> bytes(static_cast<py::ssize_t>(keys.num_bytes()));
  std::copy_n(keys.data(), keys.num_bytes(), bytes.mutable_data());
  py::array_t<uint64_t> offsets(static_cast<py::ssize_t>(keys.size() + 1));
  uint64_t* offset = offsets.mutable_data();
  for (size_t i = 0; i <= keys.size(); ++i) offset[i] = keys.offset(i);
  return py::make_tuple(bytes, offsets);
}

// Returns the hashes of the keys of all rows of a batch.
py::array_t<uint64_t> hash_keys(const py::object& batch,
                                const KeyOrders& orders) {
  const auto imported = ImportedArray::from_python(batch);
  const KeyEncoder encoder = encoder_of(*imported, orders);
  const ArrayView& view = imported->view();
  py::array_t<uint64_t> out(static_cast<py::ssize_t>(view.length()));
  uint64_t* to = out.mutable_data();
  check(without_gil([&]() -> Status {
    KeyBuffer keys;
    NIMBLE_RETURN_IF_ERROR(encoder.encode(view, 0, view.length(), &keys));
    for (size_t i = 0; i < keys.size(); ++i) to[i] = key_hash64(keys.key(i));
    return Status::ok();
  }));
  return out;
}

// Hashes the key of one row, without Arrow arrays.
class KeyHasher {
 public:
  // `batch` has the key columns, and `orders` their (descending, nulls first).
  // Hashes have the upper `bits` bits of those of hash_keys().
  KeyHasher(const py::object& batch, const KeyOrders& orders, uint32_t bits)
      : encoder_(encoder_of(*ImportedArray::from_python(batch), orders)),
        key_(&encoder_, all_columns(orders.size())),
        bits_(bits) {
    if (bits == 0 || bits > 64) {
      raise(Status::invalid_argument("a hash of " + std::to_string(bits) +
                                     " bits; expected 1 to 64"));
    }
  }

  // Returns NotImplemented if Python code must convert the key.
  py::object hash(const py::handle& key) const {
    PointKey::Memory memory;
    const ByteSpan encoded = key_.encode(key.ptr(), &memory);
    if (encoded.empty()) {
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    }
    return py::int_(key_hash64(encoded) >> (64 - bits_));
  }

 private:
  static std::vector<size_t> all_columns(size_t n) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

  const KeyEncoder encoder_;
  const PointKey key_;
  const uint32_t bits_;
};

// Reverses the order of keys. Rows with equal keys keep their order.
std::vector<uint64_t> reversed(const KeyBuffer& keys,
                               const std::vector<uint64_t>& order) {
  std::vector<uint64_t> out;
  out.reserve(order.size());
  for (size_t end = order.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 &&
           compare_keys(keys, order[begin - 1], keys, order[begin]) == 0) {
      --begin;
    }
    for (size_t i = begin; i < end; ++i) out.push_back(order[i]);
    end = begin;
  }
  return out;
}

// Sorts the rows of all batches together by their keys. Rows with equal keys
// keep their order, even if `reverse`. `orders`: see encode_keys().
py::array_t<int64_t> key_order(const std::vector<py::object>& batches,
                               const KeyOrders& orders, bool reverse) {
  KeyBuffer keys;
  for (const py::object& batch : batches) {
    const auto imported = ImportedArray::from_python(batch);
    const KeyEncoder encoder = encoder_of(*imported, orders);
    if (keys.empty()) keys.reset(encoder.fixed_width());
    if (keys.fixed_width() != encoder.fixed_width()) {
      raise(Status::invalid_argument(
          "key_order: the batches have different types"));
    }
    const ArrayView& view = imported->view();
    check(without_gil(
        [&] { return encoder.encode(view, 0, view.length(), &keys); }));
  }
  std::vector<uint64_t> order;
  without_gil([&] {
    if (!keys.empty()) sort_keys(keys, &order);
    if (reverse) order = reversed(keys, order);
  });
  py::array_t<int64_t> out(static_cast<py::ssize_t>(order.size()));
  std::copy(order.begin(), order.end(), out.mutable_data());
  return out;
}

// Encodes one value of one column as a key, ascending, with nulls last.
std::optional<std::vector<uint8_t>> encode_bound(const py::object& array,
                                                 bool after) {
  if (array.is_none()) return std::nullopt;
  const auto imported = ImportedArray::from_python(array);
  KeyColumn column;
  const Field& f = imported->field();
  column.format = f.format;
  column.logical = f.logical;
  if (!classify_key(f, &column.kind, &column.width)) return std::nullopt;
  ByteBuffer key;
  check(encode_scalar(column, scalar_at(imported->view(), 0), &key));
  if (after && !successor(&key)) return std::nullopt;
  return std::vector<uint8_t>(key.data(), key.data() + key.size());
}

ZoneQuery query_of(const std::string& kind, const py::object& lower,
                   bool lower_inclusive, const py::object& upper,
                   bool upper_inclusive, bool nan) {
  ZoneQuery q;
  q.nan_matches = nan;
  q.kind = kind == "null"    ? ZoneQuery::Kind::kNull
           : kind == "valid" ? ZoneQuery::Kind::kValid
                             : ZoneQuery::Kind::kRange;
  q.lower = encode_bound(lower, !lower_inclusive);
  q.upper = encode_bound(upper, upper_inclusive);
  return q;
}

py::array_t<uint64_t> prune(const FileReader& file, const ColumnPath& path,
                            const std::string& kind, const py::object& lower,
                            bool lower_inclusive, const py::object& upper,
                            bool upper_inclusive, bool nan) {
  const ZoneQuery q =
      query_of(kind, lower, lower_inclusive, upper, upper_inclusive, nan);
  const uint32_t node = unwrap(find_column(file.plan(), path)).node;
  return ranges_to_numpy(
      unwrap(without_gil([&] { return prune_rows(file, node, q); })));
}

// Returns the values of a column in a file, or None if they are not known.
std::optional<ZoneValues> zone_values(const FileReader& file,
                                      const ColumnPath& path) {
  const uint32_t node = unwrap(find_column(file.plan(), path)).node;
  return unwrap(without_gil([&] { return values_in_file(file, node); }));
}

// Like prune(), but for files instead of rows. Returns ranges of file numbers.
py::array_t<uint64_t> prune_files(const std::vector<const ZoneValues*>& files,
                                  const std::string& kind,
                                  const py::object& lower, bool lower_inclusive,
                                  const py::object& upper, bool upper_inclusive,
                                  bool nan) {
  const ZoneQuery q =
      query_of(kind, lower, lower_inclusive, upper, upper_inclusive, nan);
  std::vector<RowRange> out;
  for (uint64_t i = 0; i < files.size(); ++i) {
    if (files[i] == nullptr || may_hold(*files[i], q))
      out.push_back({i, i + 1});
  }
  return ranges_to_numpy(merge_ranges(std::move(out)));
}

using Ranges = py::array_t<uint64_t, py::array::c_style>;

// Returns the rows of `within` that are in stripes that may contain one of the
// values. `values` is a batch with a single column.
py::array_t<uint64_t> prune_equal(const FileReader& file,
                                  const ColumnPath& path,
                                  const py::object& values,
                                  const Ranges& within) {
  const auto batch = ImportedArray::from_python(values);
  const KeyEncoder encoder =
      unwrap(KeyEncoder::create(batch->field(), {{{0}, SortOrder{}}}));
  KeyBuffer keys;
  check(encoder.encode(batch->view(), 0, batch->view().length(), &keys));
  const uint32_t node = unwrap(find_column(file.plan(), path)).node;
  Result<std::vector<RowRange>> found = ranges_from_numpy(within);
  {
    const WithoutGil nogil;
    const auto blooms = file.column_blooms();
    if (!blooms) {
      found =
          Status(blooms.error().code(), std::string(blooms.error().message()));
    } else if (*blooms != nullptr) {
      found = (*blooms)->prune(node, keys, *found);
    }
  }
  return ranges_to_numpy(unwrap(std::move(found)));
}

}  // namespace

std::vector<KeyScalar> scalars_of(const ArrayView& row) {
  std::vector<KeyScalar> out;
  for (const ArrayView& c : row.children()) {
    out.push_back(scalar_at(c, row.child_row(0)));
  }
  return out;
}

void register_lookup(py::module_& m) {
  m.def("encode_keys", &encode_keys, py::arg("batch"), py::arg("orders"));
  m.def("hash_keys", &hash_keys, py::arg("batch"), py::arg("orders"));
  py::class_<KeyHasher>(m, "KeyHasher")
      .def(py::init<const py::object&, const KeyOrders&, uint32_t>(),
           py::arg("batch"), py::arg("orders"), py::arg("bits"))
      .def("hash", &KeyHasher::hash, py::arg("key"));
  m.def("key_order", &key_order, py::arg("batches"), py::arg("orders"),
        py::arg("reverse"));
  m.def("prune", &prune, py::arg("file"), py::arg("path"), py::arg("kind"),
        py::arg("lower"), py::arg("lower_inclusive"), py::arg("upper"),
        py::arg("upper_inclusive"), py::arg("nan"));
  py::class_<ZoneValues>(m, "ZoneValues");
  m.def("zone_values", &zone_values, py::arg("file"), py::arg("path"));
  m.def("prune_files", &prune_files, py::arg("files"), py::arg("kind"),
        py::arg("lower"), py::arg("lower_inclusive"), py::arg("upper"),
        py::arg("upper_inclusive"), py::arg("nan"));
  m.def("prune_equal", &prune_equal, py::arg("file"), py::arg("path"),
        py::arg("values"), py::arg("within"));
  m.def(
      "intersect",
      [](const Ranges& a, const Ranges& b) {
        return ranges_to_numpy(
            intersect_ranges(ranges_from_numpy(a), ranges_from_numpy(b)));
      },
      py::arg("a"), py::arg("b"));
  m.def(
      "merge",
      [](const Ranges& a) {
        return ranges_to_numpy(merge_ranges(ranges_from_numpy(a)));
      },
      py::arg("ranges"));
}

}  // namespace nimble
