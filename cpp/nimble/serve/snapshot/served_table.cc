#include "nimble/serve/snapshot/served_table.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "nimble/serve/snapshot/key_parts.h"
#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

std::vector<const Field*> key_fields(const Field& schema,
                                     const std::vector<KeyColumnSpec>& key) {
  std::vector<const Field*> out;
  for (const KeyColumnSpec& column : key) {
    const Field* field = &schema;
    for (const int step : column.path) {
      field = &field->children[static_cast<size_t>(step)];
    }
    if (field->layout == Layout::kDictionary) field = &field->dictionary[0];
    out.push_back(field);
  }
  return out;
}

// Reads a key of a single integer column, which most keys are. Returns false if
// the key has other columns, or if the text is not the plain form of an integer
// of up to 18 digits that the column can have.
bool read_integer_key(std::string_view text, const KeyEncoder& encoder,
                      const Field& field, TypedKey* out) {
  constexpr size_t kMaxDigits = 18;
  if (field.logical != Logical::kInt) return false;
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  if (digits.empty() || digits.size() > kMaxDigits ||
      (digits[0] == '0' && text != "0")) {
    return false;
  }
  int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  if (is_negative) value = -value;
  uint8_t encoded[1 + sizeof value];
  const size_t size = encoder.encode_int_key(value, encoded);
  if (size == 0) return false;
  out->encoded.put_bytes(encoded, size);
  out->values.push_back(
      field.is_signed ? KeyScalar::from_int(value)
                      : KeyScalar::from_uint(static_cast<uint64_t>(value)));
  return true;
}

}  // namespace

Result<std::shared_ptr<const ServedTable>> ServedTable::create(
    ServingManifest manifest, std::shared_ptr<OpenFiles> files) {
  std::shared_ptr<ServedTable> out(new ServedTable());
  out->manifest_ = std::move(manifest);
  out->open_files_ = std::move(files);
  const ServingManifest& m = out->manifest_;
  for (uint32_t i = 0; i < m.schema.children.size(); ++i) {
    out->all_columns_.push_back(i);
    out->names_.emplace_back(m.schema.children[i].name, i);
    out->name_bytes_ += m.schema.children[i].name.size() + kReplyValueBytes;
  }
  std::sort(out->names_.begin(), out->names_.end());
  for (const ServedFile& file : m.files) {
    const uint64_t deleted = file.deleted == nullptr ? 0 : file.deleted->size();
    if (deleted > file.rows) {
      return Status::corrupt(file.path + ": more deleted rows than rows");
    }
    out->num_rows_ += file.rows - deleted;
  }
  if (m.lookup_key) {
    NIMBLE_ASSIGN_OR_RETURN(
        KeyEncoder encoder,
        KeyEncoder::create(m.schema, m.lookup_key->columns));
    out->lookup_encoder_.emplace(std::move(encoder));
    out->lookup_fields_ = key_fields(m.schema, m.lookup_key->columns);
    out->lookup_router_ = make_router(*m.lookup_key);
  }
  if (m.cluster_key) {
    NIMBLE_ASSIGN_OR_RETURN(
        KeyEncoder encoder,
        KeyEncoder::create(m.schema, m.cluster_key->columns));
    out->cluster_encoder_.emplace(std::move(encoder));
    out->cluster_fields_ = key_fields(m.schema, m.cluster_key->columns);
    out->cluster_router_ = make_router(*m.cluster_key);
  }
  out->owners_.resize(m.files.size());
  out->opened_ =
      std::make_unique<std::atomic<const OpenedFile*>[]>(m.files.size());
  return std::shared_ptr<const ServedTable>(std::move(out));
}

std::string ServedTable::version() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(manifest_.checksum));
  return text;
}

std::optional<uint32_t> ServedTable::find_column(std::string_view name) const {
  const auto at = std::lower_bound(
      names_.begin(), names_.end(), name,
      [](const auto& known, std::string_view n) { return known.first < n; });
  if (at == names_.end() || at->first != name) return std::nullopt;
  return at->second;
}

void ServedTable::open_ahead(size_t most) const {
  for (uint32_t i = 0; i < manifest_.files.size() && i < most; ++i) {
    if (!file(i)) continue;  // the first request will name the problem
  }
}

Result<const OpenedFile*> ServedTable::file(uint32_t i) const {
  const OpenedFile* opened = opened_[i].load(std::memory_order_acquire);
  if (opened != nullptr) [[likely]] {
    return opened;
  }
  const std::lock_guard lock(mutex_);
  if (owners_[i] == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        owners_[i],
        OpenedFile::open(manifest_, manifest_.files[i],
                         lookup_encoder_ ? &*lookup_encoder_ : nullptr,
                         cluster_encoder_ ? &*cluster_encoder_ : nullptr,
                         open_files_.get()));
    opened_[i].store(owners_[i].get(), std::memory_order_release);
  }
  return owners_[i].get();
}

const OpenedFile* ServedTable::find_file(uint64_t checksum,
                                         uint64_t size) const {
  for (uint32_t i = 0; i < manifest_.files.size(); ++i) {
    const OpenedFile* opened = opened_[i].load(std::memory_order_acquire);
    if (opened != nullptr && manifest_.files[i].size == size &&
        opened->reader().postscript().footer_checksum == checksum) {
      return opened;
    }
  }
  return nullptr;
}

// ---- keys

Result<bool> ServedTable::read_values(std::string_view text,
                                      const KeyEncoder& encoder,
                                      std::span<const Field* const> fields,
                                      bool is_whole, bool starts_with,
                                      TypedKey* out) const {
  out->values.clear();
  out->encoded.clear();
  out->has_null = false;
  if (!starts_with && fields.size() == 1 &&
      read_integer_key(text, encoder, *fields[0], out)) {
    return true;
  }
  const auto problem = [&](const std::string& what) {
    return Status::invalid_argument("key '" + std::string(text.substr(0, 100)) +
                                    "' " + what);
  };
  std::vector<std::optional<std::string>> parts;
  const bool is_plain =
      fields.size() == 1 && std::none_of(text.begin(), text.end(), [](char c) {
        return c == ':' || c == '\\';
      });
  if (!is_plain) {
    if (!split_key(text, &parts)) {
      return problem("has an escape other than \\:, \\\\ and \\N");
    }
    if (parts.size() > fields.size() ||
        (is_whole && parts.size() < fields.size())) {
      return problem("has " + std::to_string(parts.size()) +
                     " values; the key has " + std::to_string(fields.size()));
    }
  }
  const size_t count = is_plain ? 1 : parts.size();
  out->bytes.resize(fields.size());
  bool is_possible = true;
  for (size_t i = 0; i < count; ++i) {
    if (!is_plain && !parts[i]) {
      out->has_null = true;
      out->values.push_back(KeyScalar::null());
      continue;
    }
    const std::string_view part = is_plain ? text : std::string_view(*parts[i]);
    const KeyColumn& column = encoder.columns()[i];
    if (starts_with && i + 1 == count) {
      if (column.kind != KeyKind::kBytes &&
          column.kind != KeyKind::kFixedBytes) {
        return problem("begins a value of column '" + column.name + "' (" +
                       fields[i]->type_name() + "), which is not text");
      }
      out->bytes[i] = part;
      out->values.push_back(KeyScalar::from_bytes(as_bytes(out->bytes[i])));
      continue;
    }
    const TextFit fit = parse_text(*fields[i], part, &out->bytes[i]);
    if (fit == TextFit::kInvalid) {
      return problem("cannot be converted to column '" + column.name + "' (" +
                     fields[i]->type_name() + ")");
    }
    is_possible &= fit == TextFit::kExact;
    if (fit == TextFit::kExact) {
      out->values.push_back(
          KeyScalar::from_value(*fields[i], as_bytes(out->bytes[i])));
    }
  }
  if (!is_possible) return false;
  if (!starts_with) {
    NIMBLE_RETURN_IF_ERROR(encoder.encode_tuple(out->values, &out->encoded));
  }
  return true;
}

Result<bool> ServedTable::read_key(std::string_view text, TypedKey* out) const {
  if (!lookup_encoder_) {
    return Status::unsupported(manifest_.name +
                               ": it has no primary key and no cluster key");
  }
  return read_values(text, *lookup_encoder_, lookup_fields_, true, false, out);
}

Result<bool> ServedTable::read_cluster_key(std::string_view text,
                                           bool starts_with,
                                           TypedKey* out) const {
  if (!cluster_encoder_) {
    return Status::unsupported(manifest_.name + ": it has no cluster key");
  }
  return read_values(text, *cluster_encoder_, cluster_fields_, false,
                     starts_with, out);
}

// ---- which files

ServedTable::Router ServedTable::make_router(const ServedKey& key) {
  Router out;
  out.order.resize(key.lower.size());
  std::iota(out.order.begin(), out.order.end(), 0u);
  std::stable_sort(
      out.order.begin(), out.order.end(), [&](uint32_t a, uint32_t b) {
        return compare_bytes(as_bytes(key.lower[a]), as_bytes(key.lower[b])) <
               0;
      });
  for (const uint32_t i : out.order) {
    const std::string& upper = key.upper[i];
    const bool is_above =
        out.reach.empty() ||
        compare_bytes(as_bytes(out.reach.back()), as_bytes(upper)) < 0;
    out.reach.push_back(is_above ? upper : out.reach.back());
  }
  return out;
}

void ServedTable::route(const ServedKey& key, const Router& router,
                        ByteSpan first, ByteSpan end,
                        std::vector<uint32_t>* out) {
  const auto begin = std::partition_point(
      router.reach.begin(), router.reach.end(), [&](const std::string& reach) {
        return compare_bytes(as_bytes(reach), first) < 0;
      });
  for (auto i = static_cast<size_t>(begin - router.reach.begin());
       i < router.order.size(); ++i) {
    const uint32_t file = router.order[i];
    if (!end.empty() && compare_bytes(as_bytes(key.lower[file]), end) >= 0) {
      break;
    }
    if (compare_bytes(as_bytes(key.upper[file]), first) >= 0) {
      out->push_back(file);
    }
  }
  std::sort(out->begin(), out->end());
}

// ---- rows by key

Result<std::optional<uint64_t>> ServedTable::find_in(
    const OpenedFile& file, const ServedIndex& index,
    const TypedKey& key) const {
  const IndexLookup& lookup = *index.lookup;
  ByteBuffer own;
  ByteSpan encoded = key.encoded.span();
  if (!index.same_keys) {
    std::vector<KeyScalar> values;
    for (size_t i = 0; i < index.places.size(); ++i) {
      const KeyScalar& value = key.values[index.places[i]];
      if (fit_of(lookup.encoder().columns()[i], value) != ScalarFit::kExact) {
        return std::optional<uint64_t>();  // this file cannot contain the value
      }
      values.push_back(value);
    }
    NIMBLE_RETURN_IF_ERROR(lookup.encoder().encode_tuple(values, &own));
    encoded = own.span();
  }
  if (index.is_whole) {
    return file.deleted() == nullptr
               ? lookup.find_first(encoded, nullptr)
               : find_first_live(lookup, encoded, nullptr, *file.deleted());
  }
  KeyBuffer keys;
  keys.push_back(encoded);
  LookupAnswer answer;
  NIMBLE_RETURN_IF_ERROR(lookup.find(keys, false, nullptr, &answer));
  std::optional<uint64_t> first;
  std::vector<RowRange> live;
  for (const RowRange& r : answer.ranges) {
    if (r.empty()) continue;
    live.clear();
    if (file.deleted() == nullptr) {
      live.push_back(r);
    } else {
      file.deleted()->append_absent(r, &live);
    }
    if (!live.empty() && (!first || live[0].begin < *first)) {
      first = live[0].begin;
    }
  }
  return first;
}

Result<std::optional<RowAddress>> ServedTable::find_first(
    const TypedKey& key) const {
  if (key.has_null) return std::optional<RowAddress>();
  const ByteSpan encoded = key.encoded.span();
  const auto search =
      [&](uint32_t number) -> Result<std::optional<RowAddress>> {
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, file(number));
    NIMBLE_ASSIGN_OR_RETURN(const ServedIndex* index, opened->lookup_index());
    NIMBLE_ASSIGN_OR_RETURN(const std::optional<uint64_t> row,
                            find_in(*opened, *index, key));
    if (!row) return std::optional<RowAddress>();
    return std::optional<RowAddress>(RowAddress{number, *row});
  };
  if (manifest_.files.size() == 1) return search(0);
  const ServedKey& bounds = *manifest_.lookup_key;
  std::vector<uint32_t> files;
  ByteBuffer end;
  end.put_bytes(encoded);
  end.put_u8(0);  // the least key above this one
  route(bounds, lookup_router_, encoded, end.span(), &files);
  for (const uint32_t number : files) {
    NIMBLE_ASSIGN_OR_RETURN(const std::optional<RowAddress> row,
                            search(number));
    if (row) return row;
  }
  return std::optional<RowAddress>();
}

Result<LocatedRows> ServedTable::find(std::span<const std::string_view> texts,
                                      TypedKey* scratch) const {
  // The indexes of the keys that can match.
  std::vector<uint64_t> numbers;
  KeyBuffer encoded(lookup_encoder_ ? lookup_encoder_->fixed_width() : 0);
  for (size_t i = 0; i < texts.size(); ++i) {
    NIMBLE_ASSIGN_OR_RETURN(const bool possible, read_key(texts[i], scratch));
    if (!possible || scratch->has_null) continue;
    numbers.push_back(i);
    encoded.push_back(scratch->encoded.span());
  }
  if (numbers.empty()) return LocatedRows();
  const ServedKey& bounds = *manifest_.lookup_key;
  const KeyProbes probes(encoded);
  std::vector<FileProbes> asked;
  LocatedRows others;  // in files whose keys are encoded differently
  std::vector<std::pair<uint64_t, size_t>> by_rank;
  for (uint32_t i = 0; i < manifest_.files.size(); ++i) {
    const ProbeSpan span =
        probes.between(as_bytes(bounds.lower[i]), as_bytes(bounds.upper[i]));
    if (span.numbers.empty()) continue;
    NIMBLE_ASSIGN_OR_RETURN(const OpenedFile* opened, file(i));
    NIMBLE_ASSIGN_OR_RETURN(const ServedIndex* index, opened->lookup_index());
    if (index->same_keys) {
      asked.push_back(
          {i, index->lookup, index->is_whole, span, opened->deleted()});
      continue;
    }
    const KeyEncoder& encoder = index->lookup->encoder();
    std::vector<uint64_t> of;
    KeyBuffer own(index->is_whole ? encoder.fixed_width() : 0);
    for (const uint64_t at : span.numbers) {
      NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const bool possible,
                              read_key(texts[numbers[at]], scratch));
      std::vector<KeyScalar> values;
      bool fits = true;
      for (size_t c = 0; c < index->places.size(); ++c) {
        values.push_back(scratch->values[index->places[c]]);
        fits &=
            fit_of(encoder.columns()[c], values.back()) == ScalarFit::kExact;
      }
      if (!fits) continue;
      ByteBuffer key;
      NIMBLE_RETURN_IF_ERROR(encoder.encode_tuple(values, &key));
      own.push_back(key.span());
      of.push_back(at);
    }
    const KeyProbes own_probes(own);
    const FileProbes one{i, index->lookup, index->is_whole,
                         own_probes.part(0, own_probes.num_distinct()),
                         opened->deleted()};
    NIMBLE_ASSIGN_OR_RETURN(const LocatedRows rows,
                            locate(own_probes, {&one, 1}));
    // `span` has distinct keys. Equal keys get the same rows.
    if (by_rank.empty()) {
      for (size_t k = 0; k < encoded.size(); ++k) {
        by_rank.emplace_back(probes.rank(k), k);
      }
      std::sort(by_rank.begin(), by_rank.end());
    }
    for (size_t r = 0; r < rows.keys.size(); ++r) {
      const uint64_t rank = probes.rank(of[rows.keys[r]]);
      for (auto k = std::lower_bound(by_rank.begin(), by_rank.end(),
                                     std::pair(rank, size_t{0}));
           k != by_rank.end() && k->first == rank; ++k) {
        others.keys.push_back(k->second);
        others.files.push_back(i);
        others.ranges.push_back(rows.ranges[r]);
      }
    }
  }
  NIMBLE_ASSIGN_OR_RETURN(LocatedRows out, locate(probes, asked));
  if (!others.keys.empty()) {
    out.keys.insert(out.keys.end(), others.keys.begin(), others.keys.end());
    out.files.insert(out.files.end(), others.files.begin(), others.files.end());
    out.ranges.insert(out.ranges.end(), others.ranges.begin(),
                      others.ranges.end());
    std::vector<size_t> order(out.keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(out.keys[a], out.files[a]) <
             std::pair(out.keys[b], out.files[b]);
    });
    LocatedRows sorted;
    for (const size_t i : order) {
      sorted.keys.push_back(out.keys[i]);
      sorted.files.push_back(out.files[i]);
      sorted.ranges.push_back(out.ranges[i]);
    }
    out = std::move(sorted);
  }
  for (uint64_t& key : out.keys) key = numbers[key];
  return out;
}

}  // namespace nimble
