// What a file is made of, and whether every byte of it is right.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/gil.h"
#include "nimble/maintain/verify.h"

namespace py = pybind11;

namespace nimble {
namespace {

// (node, role, values, bytes, encodings of its segments) of every stream.
py::list streams_of(const FileReader& f, const LoadedGroup& group,
                    const StripeView& stripe) {
  py::list out;
  for (uint32_t s = 0; s < f.plan().num_streams(); ++s) {
    const uint32_t node = f.plan().node_of(s);
    const SchemaNode& n = f.plan().node(node);
    const char* role = s == n.validity ? "validity"
                       : s == n.ends   ? "ends"
                                       : "values";
    py::list encodings;
    uint64_t bytes = 0;
    const uint64_t segments = div_ceil(stripe.values[s], kSegmentValues);
    for (uint32_t i = 0; i < segments; ++i) {
      const SegmentRef ref = stripe.segment(stripe.first_segment[s] + i);
      bytes += ref.size + ref.head.size();
      const Decoder* d =
          unwrap(group.decoder(stripe, s, i, f.plan().streams()[s]));
      encodings.append(d->describe());
    }
    out.append(py::make_tuple(node, role, stripe.values[s], bytes, encodings));
  }
  return out;
}

py::list layout_of(const FileReader& f) {
  py::list groups;
  const GroupCache::Pin pin(f.groups());
  for (size_t g = 0; g < f.footer().groups.size(); ++g) {
    const LoadedGroup* group = unwrap(f.groups().get(g));
    py::list stripes;
    for (const StripeView& s : group->view().stripes()) {
      stripes.append(
          py::make_tuple(s.first_row, s.rows, streams_of(f, *group, s)));
    }
    const ChunkDirectoryRef& c = group->view().chunks();
    groups.append(py::make_tuple(
        f.footer().groups[g].section.size, stripes, c.chunk_ends.size(),
        c.chunk_ends.empty() ? 0 : c.chunk_ends.back()));
  }
  return groups;
}

// (kind, name or node, bytes) of the sections beside the groups.
py::list sections_of(const FileReader& f) {
  py::list out;
  for (const NodeSection& d : f.footer().dictionaries) {
    out.append(py::make_tuple("dictionary", d.node, d.section.size));
  }
  for (const NodeSection& z : f.footer().zones) {
    out.append(py::make_tuple("zone_map", z.node, z.section.size));
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
        Status status;
        {
          const WithoutGil nogil;
          status = verify_file(f);
        }
        check(status);
      },
      py::arg("file"));
}

}  // namespace nimble
