// The Bloom filter by itself, over the bytes of values: for tests, which
// compare its bits with those of Parquet files and count what it lets through.
#include <pybind11/numpy.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/index_tools.h"
#include "nimble/index/bloom_filter.h"

namespace py = pybind11;

namespace nimble {
namespace {

std::vector<uint64_t> hashes_of(const py::object& array) {
  const auto values = ImportedArray::from_python(array);
  const ArrayView& view = values->view();
  if (values->field().layout != Layout::kBytes) {
    raise(Status::invalid_argument("expected an array of byte strings"));
  }
  std::vector<uint64_t> out;
  for (int64_t i = 0; i < view.length(); ++i) {
    if (view.is_valid(i)) out.push_back(key_hash64(as_bytes(view.bytes_at(i))));
  }
  return out;
}

// The bits of a filter over the values that are not null.
py::bytes bloom_bits(const py::object& array, double bits_per_key) {
  const std::vector<uint64_t> hashes = hashes_of(array);
  BloomFilterBuilder builder(hashes.size(), bits_per_key);
  builder.insert(hashes);
  return py::bytes(as_string(builder.bytes()));
}

// 1 for each value that a filter lets through, else 0.
py::array_t<uint8_t> bloom_probe(const py::bytes& bits,
                                 const py::object& array) {
  const std::string bytes(bits);
  const BloomFilter filter = unwrap(BloomFilter::open(as_bytes(bytes)));
  const std::vector<uint64_t> hashes = hashes_of(array);
  py::array_t<uint8_t> found(static_cast<py::ssize_t>(hashes.size()));
  filter.might_contain(hashes, found.mutable_data());
  return found;
}

}  // namespace

void register_bloom(py::module_& m) {
  m.def("bloom_bits", &bloom_bits, py::arg("values"), py::arg("bits_per_key"));
  m.def("bloom_probe", &bloom_probe, py::arg("bits"), py::arg("values"));
}

}  // namespace nimble
