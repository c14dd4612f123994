// _core.raw_frames(), _core.RawFrame and _core.SparseFile: the client's side of
// rows that a server sends encoded.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/io/sparse_file.h"
#include "nimble/serve/batch/raw_frames.h"

namespace py = pybind11;

namespace nimble {
namespace {

// (offset, size) of each part.
using Parts = std::vector<std::pair<uint64_t, uint64_t>>;

// A frame with the reply that it borrows.
struct HeldFrame {
  RawFrame frame;
  py::bytes reply;
};

std::vector<HeldFrame> parse_frames(const py::bytes& reply) {
  std::vector<HeldFrame> out;
  for (RawFrame& frame :
       unwrap(RawFrame::parse(as_bytes(std::string_view(reply))))) {
    out.push_back({std::move(frame), reply});
  }
  return out;
}

std::vector<FilePart> parts_of(const Parts& given) {
  std::vector<FilePart> out;
  for (const auto& [offset, size] : given) out.push_back({offset, size});
  return out;
}

// The body of a frame, without a copy.
py::object arrow_of(const HeldFrame& held) {
  const auto* const reply = as_bytes(std::string_view(held.reply)).data();
  const auto begin = static_cast<py::ssize_t>(held.frame.body.data() - reply);
  const auto size = static_cast<py::ssize_t>(held.frame.body.size());
  return py::memoryview(held.reply)[py::slice(begin, begin + size, 1)];
}

// Decodes the rows of a frame. Returns (schema, array).
py::tuple read_frame(const HeldFrame& held, const RowReader& reader) {
  const RawFrame& frame = held.frame;
  if (!frame.rows.empty() && frame.rows.back().end > reader.file().num_rows()) {
    raise(Status::corrupt(reader.file().file().name() +
                          ": the reply has rows that the file does not have"));
  }
  Column out = reader.make_output();
  check(without_gil([&] { return reader.read_ranges(frame.rows, 1, &out); }));
  return array_capsules(std::move(out));
}

}  // namespace

void register_raw(py::module_& m) {
  m.def("raw_frames", &parse_frames, py::arg("reply"));
  py::class_<HeldFrame>(m, "RawFrame")
      .def_property_readonly("is_raw",
                             [](const HeldFrame& h) { return h.frame.is_raw; })
      .def_property_readonly("arrow", &arrow_of)
      .def_property_readonly("file",
                             [](const HeldFrame& h) {
                               return py::make_tuple(h.frame.footer_checksum,
                                                     h.frame.file_size);
                             })
      .def_property_readonly("columns",
                             [](const HeldFrame& h) { return h.frame.columns; })
      .def_property_readonly(
          "num_rows",
          [](const HeldFrame& h) { return count_rows(h.frame.rows); })
      .def("read", &read_frame, py::arg("projection"));
  py::class_<SparseFile, std::shared_ptr<SparseFile>>(m, "SparseFile")
      .def(py::init([](uint64_t size, std::string name) {
             return unwrap(SparseFile::create(size, std::move(name)));
           }),
           py::arg("size"), py::arg("name"))
      .def_property_readonly("filled_bytes", &SparseFile::filled_bytes)
      .def(
          "missing",
          [](const SparseFile& f, const HeldFrame& h) {
            Parts out;
            for (const FilePart& p : f.missing(h.frame.metadata)) {
              out.emplace_back(p.offset, p.size);
            }
            return out;
          },
          py::arg("frame"))
      .def(
          "fill",
          [](SparseFile& f, const Parts& parts, const py::bytes& bytes) {
            check(f.fill(parts_of(parts), as_bytes(std::string_view(bytes))));
          },
          py::arg("parts"), py::arg("bytes"))
      .def(
          "fill_frame",
          [](SparseFile& f, const HeldFrame& h) {
            check(f.fill(h.frame.parts, h.frame.body));
          },
          py::arg("frame"))
      .def(
          "open",
          [](const std::shared_ptr<SparseFile>& f, uint64_t cache_bytes) {
            ReaderOptions options;
            options.cache_bytes = cache_bytes;
            return unwrap(FileReader::open(f, options));
          },
          py::arg("cache_bytes"));
}

}  // namespace nimble
