// Describes the structure of a file, and verifies files.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/maintain/verify.h"

namespace py = pybind11;

namespace nimble {
namespace {

// The result of layout(). It is read without the GIL and then converted to
// Python objects.
struct StreamLayout {
  uint32_t node;
  const char* role;
  uint64_t values;
  uint64_t bytes = 0;
  std::vector<std::string> encodings;  // of its segments
};
struct StripeLayout {
  uint64_t first_row, rows;
  std::vector<StreamLayout> streams;
};
struct GroupLayout {
  uint64_t metadata_bytes;
  std::vector<StripeLayout> stripes;
  uint64_t key_chunks, key_bytes;
};

Result<StreamLayout> stream_layout(const FileReader& f,
                                   const LoadedGroup& group,
                                   const StripeView& stripe, uint32_t stream) {
  const uint32_t node = f.plan().node_of(stream);
  const SchemaNode& n = f.plan().node(node);
  const char* const role = stream == n.validity ? "validity"
                           : stream == n.ends   ? "ends"
                                                : "values";
  StreamLayout out{node, role, stripe.values[stream], 0, {}};
  const uint64_t segments = div_ceil(out.values, kSegmentValues);
  for (uint32_t i = 0; i < segments; ++i) {
    const SegmentRef ref = stripe.segment(stripe.first_segment[stream] + i);
    out.bytes += ref.head.size();
    // Validity that shares the values' body is counted with the values.
    if (stream != n.validity || n.values == kNoStream || ref.size == 0 ||
        stripe.values[n.values] == 0 ||
        stripe.segment(stripe.first_segment[n.values] + i).offset !=
            ref.offset) {
      out.bytes += ref.size;
    }
    NIMBLE_ASSIGN_OR_RETURN(
        const Decoder* d,
        group.decoder(stripe, stream, i, f.plan().streams()[stream]));
    out.encodings.push_back(d->describe());
  }
  return out;
}

Result<std::vector<GroupLayout>> read_layout(const FileReader& f) {
  std::vector<GroupLayout> out;
  for (size_t g = 0; g < f.footer().groups.size(); ++g) {
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, f.groups().get(g));
    const ChunkDirectoryRef& c = group->view().chunks();
    GroupLayout layout{f.footer().groups[g].section.size,
                       {},
                       c.chunk_ends.size(),
                       c.chunk_ends.empty() ? 0 : c.chunk_ends.back()};
    for (const StripeView& s : group->view().stripes()) {
      StripeLayout stripe{s.first_row, s.rows, {}};
      for (uint32_t i = 0; i < f.plan().num_streams(); ++i) {
        NIMBLE_ASSIGN_OR_RETURN(StreamLayout stream,
                                stream_layout(f, *group, s, i));
        stripe.streams.push_back(std::move(stream));
      }
      layout.stripes.push_back(std::move(stripe));
    }
    out.push_back(std::move(layout));
  }
  return out;
}

// Returns a list of groups. A group is (bytes of metadata, stripes, key chunks,
// bytes of key chunks). A stripe is (first row, rows, streams). A stream is
// (node, role, values, bytes, encodings).
py::list layout_of(const FileReader& f) {
  const auto read = unwrap(without_gil([&] { return read_layout(f); }));
  py::list groups;
  for (const GroupLayout& g : read) {
    py::list stripes;
    for (const StripeLayout& s : g.stripes) {
      py::list streams;
      for (const StreamLayout& i : s.streams) {
        streams.append(
            py::make_tuple(i.node, i.role, i.values, i.bytes, i.encodings));
      }
      stripes.append(py::make_tuple(s.first_row, s.rows, streams));
    }
    groups.append(
        py::make_tuple(g.metadata_bytes, stripes, g.key_chunks, g.key_bytes));
  }
  return groups;
}

// Returns (kind, name or node, bytes) for each section outside the groups.
py::list sections_of(const FileReader& f) {
  py::list out;
  for (const NodeSection& d : f.footer().dictionaries) {
    out.append(py::make_tuple("dictionary", d.node, d.section.size));
  }
  for (const NodeSection& z : f.footer().zones) {
    out.append(py::make_tuple("zone_map", z.node, z.section.size));
  }
  for (const NodeSection& p : f.footer().phrases) {
    out.append(py::make_tuple("phrases", p.node, p.section.size));
  }
  for (const DictionarySections& d : f.footer().shared_dictionaries) {
    out.append(
        py::make_tuple("shared_dictionary", d.node, d.head.size + d.body.size));
  }
  for (size_t i = 0; i < f.footer().indexes.size(); ++i) {
    out.append(py::make_tuple("index", i, f.footer().indexes[i].size_bytes));
  }
  if (f.footer().cluster) {
    out.append(py::make_tuple("bloom", 0, f.footer().cluster->bloom.size));
  }
  out.append(py::make_tuple("footer", 0, f.postscript().footer_size));
  return out;
}

py::list nodes_of(const FileReader& f) {
  py::list out;
  for (const SchemaNode& n : f.plan().nodes()) {
    out.append(py::make_tuple(n.field->name, n.field->type_name(), n.parent));
  }
  return out;
}

}  // namespace

void register_inspect(py::module_& m) {
  m.def("layout", &layout_of, py::arg("file"));
  m.def("sections", &sections_of, py::arg("file"));
  m.def("nodes", &nodes_of, py::arg("file"));
  m.def(
      "verify",
      [](const FileReader& f) {
        check(without_gil([&] { return verify_file(f); }));
      },
      py::arg("file"));
}

}  // namespace nimble
