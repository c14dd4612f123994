#include "nimble/format/footer.h"

#include "file_generated.h"
#include "nimble/format/constants.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/format/schema_node.h"

namespace nimble {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Vector = flatbuffers::Vector<T>;
template <class T>
using Offset = flatbuffers::Offset<T>;

Offset<fb::ClusterRoot> put_cluster(Builder* b, const ClusterRoot& c) {
  const auto cols = put_key_columns(b, c.columns);
  const auto bytes = b->CreateVector(c.key_bytes);
  const auto ends = b->CreateVector(c.key_ends);
  const auto first = b->CreateVector(c.first_key);
  const fb::Section bloom = to_fb(c.bloom);
  return fb::CreateClusterRoot(*b, cols, c.unique, bytes, ends, first, &bloom,
                               c.num_keys);
}

// Checks a ClusterRoot against the schema and the groups, then copies it.
Result<ClusterRoot> get_cluster(const fb::ClusterRoot& c, const Field& schema,
                                size_t num_groups) {
  ClusterRoot out;
  NIMBLE_ASSIGN_OR_RETURN(out.columns,
                          get_key_columns(c.columns(), schema, "footer"));
  out.unique = c.unique();
  if (c.key_bytes() != nullptr) {
    out.key_bytes.assign(c.key_bytes()->begin(), c.key_bytes()->end());
  }
  if (c.key_ends() != nullptr) {
    out.key_ends.assign(c.key_ends()->begin(), c.key_ends()->end());
  }
  if (c.first_key() != nullptr) {
    out.first_key.assign(c.first_key()->begin(), c.first_key()->end());
  }
  if (c.bloom() != nullptr) out.bloom = from_fb(*c.bloom());
  out.num_keys = c.num_keys();
  if (out.key_ends.size() != num_groups) {
    return Status::corrupt("footer: " + std::to_string(out.key_ends.size()) +
                           " boundary keys for " + std::to_string(num_groups) +
                           " groups");
  }
  uint32_t last = 0;
  for (uint32_t end : out.key_ends) {
    if (end < last || end > out.key_bytes.size()) {
      return Status::corrupt("footer: boundary keys overlap");
    }
    last = end;
  }
  return out;
}

Status check_section(const SectionRef& s, uint64_t limit, const char* what) {
  if (in_bounds(s.offset, s.size, limit)) return Status::ok();
  return Status::corrupt(
      std::string("footer: ") + what + " of " + std::to_string(s.size) +
      " bytes at offset " + std::to_string(s.offset) +
      " lies outside the data of " + std::to_string(limit) + " bytes");
}

Status get_groups(const fb::Footer& footer, uint64_t limit, FileFooter* out) {
  uint64_t rows = 0;
  if (footer.groups() != nullptr) {
    for (const fb::GroupRef* g : *footer.groups()) {
      const GroupRef ref{from_fb(g->section()), g->end_row()};
      NIMBLE_RETURN_IF_ERROR(check_section(ref.section, limit, "stripe group"));
      if (ref.end_row <= rows) {
        return Status::corrupt("footer: stripe group " +
                               std::to_string(out->groups.size()) +
                               " has no rows");
      }
      rows = ref.end_row;
      out->groups.push_back(ref);
    }
  }
  if (rows != out->num_rows) {
    return Status::corrupt("footer: " + std::to_string(out->num_rows) +
                           " rows, but its groups have " +
                           std::to_string(rows));
  }
  return Status::ok();
}

using IndexVector = Vector<Offset<fb::SecondaryIndex>>;

Offset<IndexVector> put_indexes(Builder* b,
                                const std::vector<SecondaryIndexRef>& indexes,
                                const std::vector<SecondaryIndexRef>& vectors) {
  if (indexes.empty() && vectors.empty()) {
    return 0;  // omitted if empty, as in files of earlier writers
  }
  std::vector<Offset<fb::SecondaryIndex>> refs;
  const auto put = [&](const SecondaryIndexRef& i) {
    const auto columns = put_key_columns(b, i.columns);
    const fb::Section root = to_fb(i.root);
    refs.push_back(fb::CreateSecondaryIndex(*b, static_cast<uint8_t>(i.kind),
                                            columns, &root, i.num_keys,
                                            i.size_bytes, i.has_bloom));
  };
  for (const SecondaryIndexRef& i : indexes) put(i);
  for (const SecondaryIndexRef& i : vectors) put(i);
  return b->CreateVector(refs);
}

Status get_indexes(const IndexVector* indexes, uint64_t limit,
                   FileFooter* out) {
  if (indexes == nullptr) return Status::ok();
  for (const fb::SecondaryIndex* i : *indexes) {
    const auto kind = static_cast<IndexKind>(i->kind());
    const bool is_vector = kind == IndexKind::kVector;
    if (kind != IndexKind::kHash && kind != IndexKind::kSorted && !is_vector) {
      continue;
    }
    if (i->root() == nullptr) {
      return Status::corrupt("footer: an index has no root");
    }
    SecondaryIndexRef ref;
    ref.kind = kind;
    NIMBLE_ASSIGN_OR_RETURN(
        ref.columns, get_key_columns(i->columns(), out->schema, "footer"));
    ref.root = from_fb(*i->root());
    NIMBLE_RETURN_IF_ERROR(check_section(ref.root, limit, "index root"));
    ref.num_keys = i->num_keys();
    ref.size_bytes = i->size_bytes();
    ref.has_bloom = i->has_bloom();
    if (is_vector && ref.columns.size() != 1) {
      return Status::corrupt("footer: a vector index has more than one column");
    }
    (is_vector ? out->vectors : out->indexes).push_back(std::move(ref));
  }
  return Status::ok();
}

Status get_shared_dictionaries(const fb::Footer& footer, uint64_t limit,
                               FileFooter* out) {
  if (footer.shared_dictionaries() == nullptr) return Status::ok();
  for (const fb::SharedDictionaryRef* d : *footer.shared_dictionaries()) {
    const std::string what =
        "shared dictionary of node " + std::to_string(d->node());
    if (!out->shared_dictionaries.empty() &&
        out->shared_dictionaries.back().node >= d->node()) {
      return Status::corrupt(what + " does not follow that of the node before");
    }
    if (d->count() > kMaxSharedValues) {
      return Status::corrupt(
          what + " of " + std::to_string(d->count()) + " values; at most " +
          std::to_string(kMaxSharedValues) + " are possible");
    }
    out->shared_dictionaries.push_back(
        {d->node(), d->count(), from_fb(d->head()), from_fb(d->body())});
    const DictionarySections& made = out->shared_dictionaries.back();
    NIMBLE_RETURN_IF_ERROR(check_section(made.head, limit, what.c_str()));
    NIMBLE_RETURN_IF_ERROR(check_section(made.body, limit, what.c_str()));
  }
  return Status::ok();
}

}  // namespace

std::vector<uint8_t> FileFooter::serialize() const {
  Builder b;
  const auto schema_node = put_schema(&b, schema);
  std::vector<fb::GroupRef> group_refs;
  for (const GroupRef& g : groups)
    group_refs.emplace_back(to_fb(g.section), g.end_row);
  const auto groups_v = b.CreateVectorOfStructs(group_refs);
  Offset<fb::ClusterRoot> cluster_root;
  if (cluster) cluster_root = put_cluster(&b, *cluster);
  std::vector<fb::ZoneRef> zone_refs;
  for (const NodeSection& z : zones)
    zone_refs.emplace_back(z.node, 0, to_fb(z.section));
  const auto zones_v = b.CreateVectorOfStructs(zone_refs);
  std::vector<fb::DictionaryRef> dictionary_refs;
  for (const NodeSection& d : dictionaries) {
    dictionary_refs.emplace_back(d.node, 0, to_fb(d.section), d.rows);
  }
  const auto dictionaries_v = b.CreateVectorOfStructs(dictionary_refs);
  std::vector<fb::PhrasesRef> phrases_refs;
  for (const NodeSection& p : phrases)
    phrases_refs.emplace_back(p.node, 0, to_fb(p.section));
  // Omitted if there are no phrases, as in files of earlier writers.
  Offset<flatbuffers::Vector<const fb::PhrasesRef*>> phrases_v;
  if (!phrases.empty()) phrases_v = b.CreateVectorOfStructs(phrases_refs);
  std::vector<fb::SharedDictionaryRef> shared_refs;
  for (const DictionarySections& d : shared_dictionaries) {
    shared_refs.emplace_back(d.node, d.count, to_fb(d.head), to_fb(d.body));
  }
  Offset<flatbuffers::Vector<const fb::SharedDictionaryRef*>> shared_v;
  if (!shared_refs.empty()) shared_v = b.CreateVectorOfStructs(shared_refs);
  const auto metadata_v = put_metadata(&b, metadata);
  std::vector<Offset<fb::OptionalSection>> optional_refs;
  for (const OptionalSection& s : optional_sections) {
    const auto name = b.CreateString(s.name);
    const fb::Section section = to_fb(s.section);
    optional_refs.push_back(fb::CreateOptionalSection(b, name, &section));
  }
  const auto optional_v = b.CreateVector(optional_refs);
  const auto bytes_v = b.CreateVector(node_bytes);
  const auto writer_v = b.CreateString(writer);
  const auto indexes_v = put_indexes(&b, indexes, vectors);
  fb::FinishFooterBuffer(
      b, fb::CreateFooter(b, num_rows, schema_node, groups_v, cluster_root,
                          zones_v, dictionaries_v, metadata_v, optional_v,
                          bytes_v, key_stream_bytes, index_bytes, num_stripes,
                          writer_v, indexes_v, phrases_v, shared_v));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<FileFooter> FileFooter::parse(ByteSpan bytes, uint64_t limit) {
  auto view = FlatBufferView<fb::Footer>::open(bytes, fb::FooterIdentifier());
  if (!view) return std::move(view).error().with_context("footer");
  const fb::Footer& footer = **view;
  if (!is_aligned(footer.groups()) || !is_aligned(footer.zones()) ||
      !is_aligned(footer.dictionaries()) || !is_aligned(footer.phrases()) ||
      !is_aligned(footer.shared_dictionaries()) ||
      !is_aligned(footer.node_bytes())) {
    return Status::corrupt("footer: arrays are not aligned");
  }
  FileFooter out;
  out.num_rows = footer.num_rows();
  if (footer.schema() == nullptr)
    return Status::corrupt("footer: it has no schema");
  out.schema = get_schema(*footer.schema());
  NIMBLE_RETURN_IF_ERROR(out.schema.resolve("").with_context("footer"));
  if (out.schema.layout != Layout::kStruct) {
    return Status::corrupt("footer: the schema's root is not a struct");
  }
  // Writers do not create these types, and reading them would not terminate.
  if (const Status storable = check_storable(out.schema); !storable) {
    return Status::corrupt("footer: " + std::string(storable.message()));
  }
  NIMBLE_RETURN_IF_ERROR(get_groups(footer, limit, &out));
  if (footer.cluster() != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        out.cluster,
        get_cluster(*footer.cluster(), out.schema, out.groups.size()));
    NIMBLE_RETURN_IF_ERROR(
        check_section(out.cluster->bloom, limit, "Bloom filter"));
  }
  if (footer.zones() != nullptr) {
    for (const fb::ZoneRef* z : *footer.zones()) {
      out.zones.push_back({z->node(), from_fb(z->section()), 0});
      NIMBLE_RETURN_IF_ERROR(
          check_section(out.zones.back().section, limit, "zone map"));
    }
  }
  if (footer.dictionaries() != nullptr) {
    for (const fb::DictionaryRef* d : *footer.dictionaries()) {
      out.dictionaries.push_back({d->node(), from_fb(d->section()), d->rows()});
      NIMBLE_RETURN_IF_ERROR(
          check_section(out.dictionaries.back().section, limit, "dictionary"));
    }
  }
  if (footer.phrases() != nullptr) {
    for (const fb::PhrasesRef* p : *footer.phrases()) {
      out.phrases.push_back({p->node(), from_fb(p->section()), 0});
      NIMBLE_RETURN_IF_ERROR(
          check_section(out.phrases.back().section, limit, "phrases"));
      const size_t n = out.phrases.size();
      if (n > 1 && out.phrases[n - 2].node >= p->node()) {
        return Status::corrupt("phrases of node " + std::to_string(p->node()) +
                               " do not follow those of the node before");
      }
      if (p->section().size() > kMaxPhrasesSection) {
        return Status::corrupt(
            "phrases of " + std::to_string(p->section().size()) +
            " bytes; at most " + std::to_string(kMaxPhrasesSection) +
            " are possible");
      }
    }
  }
  NIMBLE_RETURN_IF_ERROR(get_shared_dictionaries(footer, limit, &out));
  out.metadata = get_metadata(footer.metadata());
  if (footer.optional_sections() != nullptr) {
    for (const fb::OptionalSection* s : *footer.optional_sections()) {
      if (s->name() == nullptr || s->section() == nullptr) continue;
      out.optional_sections.push_back(
          {s->name()->str(), from_fb(*s->section())});
      NIMBLE_RETURN_IF_ERROR(check_section(out.optional_sections.back().section,
                                           limit, "optional section"));
    }
  }
  NIMBLE_RETURN_IF_ERROR(get_indexes(footer.indexes(), limit, &out));
  if (footer.node_bytes() != nullptr) {
    out.node_bytes.assign(footer.node_bytes()->begin(),
                          footer.node_bytes()->end());
  }
  out.key_stream_bytes = footer.key_stream_bytes();
  out.index_bytes = footer.index_bytes();
  out.num_stripes = footer.num_stripes();
  if (footer.writer() != nullptr) out.writer = footer.writer()->str();
  return out;
}

}  // namespace nimble
