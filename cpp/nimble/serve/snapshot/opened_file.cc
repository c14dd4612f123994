#include "nimble/serve/snapshot/opened_file.h"

#include <sys/stat.h>

#include <algorithm>

#include "nimble/io/local_file.h"
#include "nimble/key/decimal_text.h"
#include "nimble/key/same_keys.h"
#include "nimble/lookup/open_index.h"
#include "nimble/stripe/file_rows.h"

namespace nimble {
namespace {

constexpr std::string_view kFieldId = "PARQUET:field_id";

std::optional<std::string_view> field_id(const Field& field) {
  for (const auto& [key, value] : field.metadata) {
    if (key == kFieldId) return value;
  }
  return std::nullopt;
}

bool has_field_ids(const Field& parent) {
  return std::any_of(parent.children.begin(), parent.children.end(),
                     [](const Field& c) { return field_id(c).has_value(); });
}

const Field& plain(const Field& field) {
  return field.layout == Layout::kDictionary ? field.dictionary[0] : field;
}

// Whether values of `have` can be shown as values of `want`, unchanged or
// widened. Integers, floats, decimals of the same scale, and text of any offset
// width can be widened, also in lists and structs. `have` may lack nullable
// members of structs.
bool can_serve_as(const Field& have, const Field& want) {
  if (have_same_types(have, want)) return true;
  const Field& h = plain(have);
  const Field& w = plain(want);
  if (h.layout != w.layout || h.logical != w.logical || h.width > w.width) {
    return false;
  }
  switch (h.layout) {
    case Layout::kStruct:
      return std::all_of(
          w.children.begin(), w.children.end(), [&](const Field& member) {
            const std::optional<size_t> at = match_field(member, h);
            return at ? can_serve_as(h.children[*at], member)
                      : member.nullable();
          });
    case Layout::kList:
    case Layout::kFixedList:
      return h.is_map == w.is_map && h.list_size == w.list_size &&
             can_serve_as(h.children[0], w.children[0]);
    case Layout::kUnion:
    case Layout::kRunEnd:
      return false;
    default:
      break;
  }
  switch (h.logical) {
    case Logical::kInt:
      return h.is_signed == w.is_signed;
    case Logical::kFloat:
    case Logical::kText:
    case Logical::kBinary:
    case Logical::kBool:
      return true;
    case Logical::kDecimal:
      return decimal_scale(h.format) == decimal_scale(w.format);
    default:
      return h.format == w.format;
  }
}

// Whether structs at any depth have the same members in the same positions.
bool have_same_members(const Field& have, const Field& want) {
  if (have.children.size() != want.children.size()) return false;
  for (size_t i = 0; i < want.children.size(); ++i) {
    if (want.layout == Layout::kStruct &&
        (match_field(want.children[i], have) != i ||
         have.children[i].name != want.children[i].name)) {
      return false;
    }
    if (!have_same_members(have.children[i], want.children[i])) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> match_field(const Field& wanted, const Field& parent) {
  const std::optional<std::string_view> id = field_id(wanted);
  const bool by_id = id && has_field_ids(parent);
  for (size_t i = 0; i < parent.children.size(); ++i) {
    const Field& child = parent.children[i];
    if (by_id ? field_id(child) == id : child.name == wanted.name) return i;
  }
  return std::nullopt;
}

Result<std::shared_ptr<const FileReader>> OpenFiles::open(
    const ServedFile& file) {
  const std::lock_guard lock(mutex_);
  Known& known = files_[file.path];
  struct stat st{};
  const bool exists = ::stat(file.path.c_str(), &st) == 0;
  const Known now = {
      {},
      st.st_dev,
      st.st_ino,
      int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec};
  const bool is_same =
      !exists || (known.device == now.device && known.inode == now.inode &&
                  known.changed_nanos == now.changed_nanos);
  // A file of an older snapshot can still be read after it was removed.
  if (auto reader = known.reader.lock(); reader && is_same) return reader;
  auto local = LocalFile::open(file.path, true);
  if (!local) {
    files_.erase(file.path);
    return std::move(local).error();
  }
  std::shared_ptr<const ReadableFile> bytes = std::move(local).value();
  auto reader = FileReader::open(std::move(bytes), {});
  if (!reader) {
    files_.erase(file.path);
    return std::move(reader).error();
  }
  known = now;
  known.reader = *reader;
  // Forgets files that are not used by any snapshot.
  if (files_.size() % 64 == 0) {
    std::erase_if(files_,
                  [](const auto& f) { return f.second.reader.expired(); });
  }
  return reader;
}

size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(files_.begin(), files_.end(),
                    [](const auto& f) { return !f.second.reader.expired(); }));
}

Result<std::unique_ptr<const OpenedFile>> OpenedFile::open(
    const ServingManifest& manifest, const ServedFile& file,
    const KeyEncoder* lookup, const KeyEncoder* cluster, OpenFiles* files) {
  std::unique_ptr<OpenedFile> out(new OpenedFile());
  NIMBLE_ASSIGN_OR_RETURN(out->reader_, files->open(file));
  const FileReader& reader = *out->reader_;
  if (reader.num_rows() != file.rows || reader.file().size() != file.size) {
    return Status::corrupt(
        file.path + ": " + std::to_string(reader.num_rows()) + " rows in " +
        std::to_string(reader.file().size()) +
        " bytes; the serving manifest says " + std::to_string(file.rows) +
        " rows in " + std::to_string(file.size) + " bytes");
  }
  out->deleted_ = file.deleted.get();
  out->find_columns(manifest, file);
  if (reader.footer().cluster) {
    out->cluster_lookup_ = open_cluster_lookup(reader.cluster());
  }
  if (lookup != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        out->lookup_,
        out->find_index(manifest, *manifest.lookup_key, *lookup, false));
  }
  if (cluster != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        out->cluster_,
        out->find_index(manifest, *manifest.cluster_key, *cluster, true));
  }
  return std::unique_ptr<const OpenedFile>(std::move(out));
}

Status OpenedFile::check_column(size_t i) const {
  const std::string& problem = columns_[i].problem;
  if (problem.empty()) return Status::ok();
  return Status::unsupported(reader_->file().name() + ": " + problem);
}

void OpenedFile::find_columns(const ServingManifest& manifest,
                              const ServedFile& file) {
  const Field& schema = reader_->footer().schema;
  const bool is_mapped = reader_->file().mapped() != nullptr;
  for (uint32_t i = 0; i < manifest.schema.children.size(); ++i) {
    const Field& wanted = manifest.schema.children[i];
    ServedColumn& column = columns_.emplace_back();
    column.field = &wanted;
    column.top = match_field(wanted, schema);
    if (!column.top) {
      for (const auto* constants : {&file.constants, &manifest.defaults}) {
        for (const ServedConstant& c : *constants) {
          if (c.column == i && column.constant == nullptr) column.constant = &c;
        }
      }
      continue;
    }
    const Field& have = schema.children[*column.top];
    if (!can_serve_as(have, wanted)) {
      column.problem = "column '" + wanted.name + "' is " + have.type_name() +
                       " in the file and " + wanted.type_name() +
                       " in the table; rewrite the file";
      continue;
    }
    column.is_same =
        have_same_types(have, wanted) && have_same_members(have, wanted);
    const bool is_flat = have.layout == Layout::kFixed ||
                         have.layout == Layout::kBool ||
                         have.layout == Layout::kBytes;
    // The text of a float depends on its width.
    const bool same_text =
        have.logical != Logical::kFloat || have.width == wanted.width;
    if (is_mapped && is_flat && same_text) {
      const uint32_t node = reader_->plan().node(0).children[*column.top];
      column.flat = FlatColumn::of(reader_->plan(), node);
      column.field = &have;
    }
  }
}

std::vector<KeyColumnSpec> OpenedFile::key_here(const ServingManifest& manifest,
                                                const ServedKey& key) const {
  const Field& schema = reader_->footer().schema;
  std::vector<KeyColumnSpec> out;
  for (const KeyColumnSpec& column : key.columns) {
    const Field* wanted = &manifest.schema;
    const Field* here = &schema;
    KeyColumnSpec& spec = out.emplace_back();
    spec.order = column.order;
    for (const int step : column.path) {
      wanted = &wanted->children[static_cast<size_t>(step)];
      const std::optional<size_t> at = match_field(*wanted, *here);
      if (!at) return {};
      spec.path.push_back(static_cast<int>(*at));
      here = &here->children[*at];
    }
  }
  return out;
}

Result<std::optional<ServedIndex>> OpenedFile::find_index(
    const ServingManifest& manifest, const ServedKey& key,
    const KeyEncoder& encoder, bool is_ordered) const {
  const std::vector<KeyColumnSpec> wanted = key_here(manifest, key);
  if (wanted.empty()) return std::optional<ServedIndex>();
  const auto places_in =
      [&](const std::vector<KeyColumnSpec>& columns) -> std::vector<size_t> {
    std::vector<size_t> places;
    if (columns.size() < wanted.size()) return {};
    for (size_t i = 0; i < wanted.size(); ++i) {
      size_t at = 0;
      while (at < wanted.size() && wanted[at].path != columns[i].path) ++at;
      if (at == wanted.size()) return {};
      const bool is_right = at == i && columns[i].order == wanted[i].order;
      if (is_ordered && !is_right) return {};
      places.push_back(at);
    }
    return places;
  };
  const auto made = [&](const IndexLookup* lookup, std::vector<size_t> places,
                        size_t width, bool is_cluster) {
    ServedIndex out{lookup, std::move(places), width == wanted.size(), true,
                    is_cluster};
    for (size_t i = 0; i < wanted.size(); ++i) {
      out.same_keys &=
          out.places[i] == i &&
          have_same_keys(lookup->encoder().columns()[i], encoder.columns()[i]);
    }
    return std::optional<ServedIndex>(std::move(out));
  };
  const FileFooter& footer = reader_->footer();
  if (cluster_lookup_ != nullptr) {
    std::vector<size_t> places = places_in(footer.cluster->columns);
    if (!places.empty()) {
      return made(cluster_lookup_.get(), std::move(places),
                  footer.cluster->columns.size(), true);
    }
  }
  if (is_ordered) return std::optional<ServedIndex>();
  // Prefers a hash index of exactly these columns to a sorted index.
  for (const IndexKind kind : {IndexKind::kHash, IndexKind::kSorted}) {
    for (size_t i = 0; i < footer.indexes.size(); ++i) {
      const SecondaryIndexRef& ref = footer.indexes[i];
      if (ref.kind != kind) continue;
      if (kind == IndexKind::kHash && ref.columns.size() != wanted.size()) {
        continue;
      }
      std::vector<size_t> places = places_in(ref.columns);
      if (places.empty()) continue;
      NIMBLE_ASSIGN_OR_RETURN(const IndexLookup* lookup, reader_->index(i));
      return made(lookup, std::move(places), ref.columns.size(), false);
    }
  }
  return std::optional<ServedIndex>();
}

Result<const ServedIndex*> OpenedFile::lookup_index() const {
  if (lookup_) return &*lookup_;
  return Status::unsupported(reader_->file().name() +
                             ": no index on the table's key; rewrite the file "
                             "with optimize()");
}

Result<const ServedIndex*> OpenedFile::cluster_index() const {
  if (cluster_) return &*cluster_;
  return Status::unsupported(reader_->file().name() +
                             ": the rows are not in the order of the table's "
                             "cluster key; rewrite the file with optimize()");
}

}  // namespace nimble
