#include "nimble/write/file_writer.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/format/postscript.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

constexpr char kWriterName[] = "nimblepy 0.1.0";
// A cold lookup reads a group's metadata and should read at most 64 KiB in
// total. A group therefore ends before another stripe of its size would exceed
// this limit.
constexpr uint64_t kMaxGroupMetadata = 36 * 1024;
// Total size of all shared dictionaries, which are kept in memory until the
// file is finished, and the minimum size available to each column.
constexpr uint64_t kSharedBytes = uint64_t{128} << 20;
constexpr uint64_t kMinSharedBytes = 64u << 10;
// Number of rows that are always appended first to an empty stripe.
constexpr uint64_t kFirstRows = 64;

Status check_columns(const Field& schema) {
  for (size_t i = 0; i < schema.children.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (schema.children[i].name != schema.children[j].name) continue;
      return Status::invalid_argument("two columns are named '" +
                                      schema.children[i].name +
                                      "'; column names must differ");
    }
  }
  return Status::ok();
}

// Fails if there are more items without bytes than readers accept in one
// stripe.
Status check_items(const Column& column, const std::string& path) {
  if (column.is_without_bytes() && column.length() > kMaxStripeRows) {
    return Status::unsupported(
        "column '" + path + "': " + std::to_string(column.length()) +
        " values in one stripe; expected at most " +
        std::to_string(kMaxStripeRows) +
        "; write shorter lists, or stripes of fewer rows (stripe_rows)");
  }
  for (const Column& child : column.children) {
    NIMBLE_RETURN_IF_ERROR(check_items(child, path));
  }
  return Status::ok();
}

uint64_t metadata_bytes(const StripeMeta& s) {
  return s.heads.size() + s.values.size() * 8 + s.segment_offsets.size() * 20;
}

}  // namespace

void attach_dictionaries(Column* column, DictionaryList* dictionaries) {
  struct Walk {
    DictionaryList* list;
    size_t next = 0;
    void visit(Column* c) {
      if (c->field().layout == Layout::kDictionary) {
        if (next == list->size()) {
          list->push_back(
              std::make_unique<DictionaryValues>(c->field().dictionary[0]));
        }
        c->mapper = (*list)[next++].get();
      }
      for (Column& child : c->children) visit(&child);
    }
  };
  Walk{dictionaries}.visit(column);
}

FileWriter::FileWriter(Field schema, WriterOptions options,
                       std::unique_ptr<WritableFile> file)
    : schema_(std::move(schema)),
      options_(std::move(options)),
      file_(std::move(file)),
      plan_(schema_),
      bloom_hashes_(options_.spill_directory),
      stripe_(schema_, /*wide=*/true) {}

Result<std::unique_ptr<FileWriter>> FileWriter::create(
    Field schema, WriterOptions options, std::unique_ptr<WritableFile> file) {
  NIMBLE_RETURN_IF_ERROR(check_columns(schema));
  NIMBLE_RETURN_IF_ERROR(check_storable(schema));
  std::unique_ptr<FileWriter> w(
      new FileWriter(std::move(schema), std::move(options), std::move(file)));
  WriterOptions& o = w->options_;
  o.stripe_rows = std::clamp<uint64_t>(o.stripe_rows, 1, kMaxStripeRows - 1);
  if (o.threads == 0) o.threads = default_threads();
  if (!o.cluster_by.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(w->encoder_,
                            KeyEncoder::create(w->schema_, o.cluster_by));
    w->restorer_ = KeyRestorer::create(w->schema_, *w->encoder_);
    w->open_cluster_index();
    ClusterRoot root;
    root.columns = o.cluster_by;
    root.unique = o.unique;
    w->footer_.cluster = std::move(root);
  }
  NIMBLE_ASSIGN_OR_RETURN(w->secondary_,
                          SecondaryIndexWriter::create(w->schema_, o));
  NIMBLE_ASSIGN_OR_RETURN(w->column_bloom_,
                          ColumnBloomWriter::create(w->schema_, w->plan_, o));
  attach_dictionaries(&w->stripe_, &w->dictionaries_);
  for (uint32_t n = 0; o.statistics && n < w->plan_.nodes().size(); ++n) {
    if (!ZoneBuilder::has_zones(w->plan_, n)) continue;
    uint32_t top = n;
    while (w->plan_.node(top).parent != 0) top = w->plan_.node(top).parent;
    const auto& tops = w->plan_.node(0).children;
    const auto column = static_cast<uint32_t>(
        std::find(tops.begin(), tops.end(), top) - tops.begin());
    const auto& wanted = o.statistics_columns;
    if (!wanted.empty() &&
        std::find(wanted.begin(), wanted.end(), column) == wanted.end()) {
      continue;
    }
    w->zones_.emplace_back(w->plan_, n, o.zone_rows);
  }
  w->footer_.node_bytes.resize(w->plan_.nodes().size());
  NIMBLE_RETURN_IF_ERROR(w->write_bytes(
      {reinterpret_cast<const uint8_t*>(kMagic), sizeof kMagic}));
  return w;
}

// ------------------------------------------------------------------ rows in

uint64_t FileWriter::step(uint64_t left) const {
  const uint64_t rows = stripe_.length();
  const uint64_t n = std::min(options_.stripe_rows - rows, left);
  // Long rows are appended in smaller steps, so that a stripe ends close to its
  // size limit. The first rows show how long rows are.
  if (rows == 0) return std::min(n, kFirstRows);
  const uint64_t row_bytes = std::max<uint64_t>(1, stripe_.data_bytes() / rows);
  const uint64_t fit = options_.stripe_bytes / 8 / row_bytes;
  return std::min(n, std::max<uint64_t>(1, fit));
}

Status FileWriter::add_keys(const KeyBuffer& keys, uint64_t begin,
                            uint64_t end) {
  NIMBLE_RETURN_IF_ERROR(index_->add(keys, begin, end));
  if (options_.cluster_bloom_bits > 0) {
    for (uint64_t i = begin; i < end; ++i) {
      NIMBLE_RETURN_IF_ERROR(bloom_hashes_.add(key_hash64(keys.key(i))));
    }
  }
  return Status::ok();
}

Status FileWriter::take_rows(const ArrayView& root) {
  keys_.clear();
  if (encoder_) {
    NIMBLE_RETURN_IF_ERROR(encoder_->encode(root, 0, root.length(), &keys_));
  }
  const auto length = static_cast<uint64_t>(root.length());
  for (uint64_t at = 0; at < length;) {
    const uint64_t n = step(length - at);
    if (index_) NIMBLE_RETURN_IF_ERROR(add_keys(keys_, at, at + n));
    NIMBLE_RETURN_IF_ERROR(stripe_.append(root, static_cast<int64_t>(at),
                                          static_cast<int64_t>(n), ""));
    NIMBLE_RETURN_IF_ERROR(flush_if_full());
    at += n;
  }
  return Status::ok();
}

Status FileWriter::append_rows(const Column& from, const uint64_t* rows,
                               uint64_t count, const KeyBuffer* keys) {
  return state_.run([&] { return gather_rows(&from, rows, count, keys); });
}

Status FileWriter::append_keys(const KeyBuffer& keys, const uint64_t* rows,
                               uint64_t count) {
  return state_.run([&] { return gather_rows(nullptr, rows, count, &keys); });
}

Status FileWriter::gather_rows(const Column* from, const uint64_t* rows,
                               uint64_t count, const KeyBuffer* keys) {
  while (count > 0) {
    const uint64_t n = std::min(step(count), uint64_t{8192});
    if (index_) {
      keys_.reset(keys->fixed_width());
      keys_.append_rows(*keys, rows, n);
      NIMBLE_RETURN_IF_ERROR(add_keys(keys_, 0, n));
    }
    if (from != nullptr) {
      stripe_.append_rows(*from, rows, n);
    } else {
      NIMBLE_RETURN_IF_ERROR(restorer_->append(keys_, 0, n, &stripe_));
    }
    NIMBLE_RETURN_IF_ERROR(flush_if_full());
    rows += n;
    count -= n;
  }
  return Status::ok();
}

Status FileWriter::flush_if_full() {
  if (stripe_.length() < options_.stripe_rows &&
      stripe_.data_bytes() < options_.stripe_bytes) {
    return Status::ok();
  }
  return flush_stripe();
}

// ---------------------------------------------------------------- bytes out

Status FileWriter::write_bytes(ByteSpan bytes) {
  NIMBLE_RETURN_IF_ERROR(file_->append(bytes));
  position_ += bytes.size();
  return Status::ok();
}

Status FileWriter::align_to(uint64_t alignment) {
  static constexpr uint8_t kZeros[kBodyAlignment] = {};
  const uint64_t pad = round_up(position_, alignment) - position_;
  return pad == 0 ? Status::ok() : write_bytes({kZeros, pad});
}

Result<SectionRef> FileWriter::write_section(ByteSpan bytes) {
  NIMBLE_RETURN_IF_ERROR(align_to(8));
  const SectionRef ref{position_, bytes.size(), checksum64(bytes)};
  NIMBLE_RETURN_IF_ERROR(write_bytes(bytes));
  return ref;
}

Status FileWriter::write_encoded(const StreamPlan& plan,
                                 EncodedStripe&& encoded, uint64_t rows,
                                 StripeMeta* meta,
                                 std::vector<uint64_t>* node_bytes) {
  meta->rows = rows;
  meta->values = std::move(encoded.values);
  size_t segment = 0;
  std::vector<std::optional<uint64_t>> offsets(encoded.segments.size());
  for (uint32_t s = 0; s < plan.num_streams(); ++s) {
    for (uint64_t at = 0; at < meta->values[s]; at += kSegmentValues) {
      const SegmentBuilder& b = encoded.segments[segment];
      // A segment of validity may share its body with the values. The first of
      // the two segments in stream order writes the body.
      const size_t owner = encoded.bodies[segment++];
      const ByteBuffer& body = encoded.segments[owner].body;
      std::optional<uint64_t>& offset = offsets[owner];
      const bool is_new = !offset;
      if (is_new) {
        if (!body.empty()) NIMBLE_RETURN_IF_ERROR(align_to(kBodyAlignment));
        offset = position_;
        NIMBLE_RETURN_IF_ERROR(write_bytes(body.span()));
      }
      meta->segment_offsets.push_back(*offset);
      meta->segment_sizes.push_back(body.size());
      meta->heads.insert(meta->heads.end(), b.head.data(),
                         b.head.data() + b.head.size());
      if (meta->heads.size() > UINT32_MAX) {
        return Status::unsupported("a stripe's segment heads exceed 4 GiB");
      }
      meta->head_ends.push_back(static_cast<uint32_t>(meta->heads.size()));
      if (node_bytes != nullptr) {
        (*node_bytes)[plan.node_of(s)] +=
            (is_new ? body.size() : 0) + b.head.size();
      }
    }
  }
  encoded.segments.clear();
  return Status::ok();
}

void FileWriter::remember_encodings(const EncodedStripe& encoded) {
  if (!encodings_.empty()) return;
  size_t segment = 0;
  encodings_.resize(schema_.children.size());
  const auto& tops = plan_.node(0).children;
  for (uint32_t s = 0; s < plan_.num_streams(); ++s) {
    const uint64_t values = encoded.values[s];
    const auto top = std::find(tops.begin(), tops.end(), plan_.node_of(s));
    if (values > 0 && top != tops.end() && plan_.node(*top).validity != s) {
      ByteReader head(encoded.segments[segment].head.span());
      const auto n =
          static_cast<uint32_t>(std::min<uint64_t>(values, kSegmentValues));
      const auto decoder = open_decoder(
          &head,
          {plan_.streams()[s], n, encoded.segments[segment].body.size(), 0});
      if (decoder) {
        encodings_[static_cast<size_t>(top - tops.begin())] =
            (*decoder)->describe();
      }
    }
    segment += div_ceil(values, kSegmentValues);
  }
}

Status FileWriter::flush_stripe() {
  const uint64_t rows = stripe_.length();
  if (rows == 0) return Status::ok();
  for (const Column& column : stripe_.children) {
    NIMBLE_RETURN_IF_ERROR(check_items(column, column.field().name));
  }
  EncodedStripe encoded;
  if (shared_.empty()) {
    // In a table with many columns, each dictionary must be smaller.
    const uint64_t room =
        std::clamp(kSharedBytes / plan_.num_streams(), kMinSharedBytes,
                   StreamDictionary::kMaxBytes);
    for (const ValueType& type : plan_.streams()) {
      shared_.emplace_back(type, room);
    }
  }
  NIMBLE_RETURN_IF_ERROR(encode_stripe(
      plan_, stripe_, {options_.effort, options_.threads, &shared_}, &encoded));
  parallel_for(zones_.size(), options_.threads,
               [&](size_t i) { zones_[i].add_stripe(stripe_, num_rows_); });
  NIMBLE_RETURN_IF_ERROR(secondary_.add_stripe(stripe_));
  remember_encodings(encoded);
  StripeMeta meta;
  if (group_.empty()) group_begin_ = position_;
  NIMBLE_RETURN_IF_ERROR(write_encoded(plan_, std::move(encoded), rows, &meta,
                                       &footer_.node_bytes));
  group_.push_back(std::move(meta));
  num_rows_ += rows;
  NIMBLE_RETURN_IF_ERROR(column_bloom_.add_stripe(
      stripe_, num_rows_,
      [this](ByteSpan bytes) { return write_section(bytes); }));
  ++footer_.num_stripes;
  stripe_.clear();
  uint64_t metadata = 0;
  for (const StripeMeta& s : group_) metadata += metadata_bytes(s);
  const bool full = num_rows_ - group_first_row_ >= options_.group_rows ||
                    position_ - group_begin_ >= options_.group_bytes ||
                    metadata + metadata / group_.size() > kMaxGroupMetadata;
  return full ? finish_group() : Status::ok();
}

Status FileWriter::finish_group() {
  if (group_.empty()) return Status::ok();
  ChunkDirectoryMeta chunks;
  if (index_) NIMBLE_RETURN_IF_ERROR(write_key_stream(&chunks));
  NIMBLE_ASSIGN_OR_RETURN(
      const SectionRef section,
      write_section(serialize_group(group_, index_ ? &chunks : nullptr)));
  footer_.groups.push_back({section, num_rows_});
  group_.clear();
  group_first_row_ = num_rows_;
  return Status::ok();
}

// ------------------------------------------------------------------- the end

Status FileWriter::write_dictionaries() {
  uint32_t next = 0;
  for (uint32_t n = 0; n < plan_.nodes().size(); ++n) {
    if (plan_.node(n).field->layout != Layout::kDictionary) continue;
    const Column& values = dictionaries_[next++]->values;
    NodeSection ref;
    ref.node = n;
    ref.rows = values.length();
    if (ref.rows > 0) {
      const StreamPlan plan(values.field());
      EncodedStripe encoded;
      StripeMeta meta;
      NIMBLE_RETURN_IF_ERROR(encode_stripe(
          plan, values, {options_.effort, options_.threads, nullptr},
          &encoded));
      const uint64_t begin = position_;
      NIMBLE_RETURN_IF_ERROR(
          write_encoded(plan, std::move(encoded), ref.rows, &meta, nullptr));
      NIMBLE_ASSIGN_OR_RETURN(ref.section,
                              write_section(serialize_group({meta}, nullptr)));
      footer_.node_bytes[n] += position_ - begin;
    }
    footer_.dictionaries.push_back(ref);
  }
  return Status::ok();
}

Status FileWriter::write_shared_dictionaries() {
  struct Encoded {
    DictionarySections sections;
    SegmentBuilder segment;
  };
  std::vector<Encoded> encoded;
  for (uint32_t s = 0; s < shared_.size(); ++s) {
    const StreamDictionary& dictionary = shared_[s].dictionary;
    if (!dictionary.exists()) continue;
    Encoded& e = encoded.emplace_back();
    e.sections.node = plan_.node_of(s);
    e.sections.count = dictionary.size();
    NIMBLE_RETURN_IF_ERROR(dictionary.encode(options_.effort, &e.segment));
  }
  // The smallest sections are last, so that opening a file reads as many of
  // them as possible.
  std::stable_sort(encoded.begin(), encoded.end(),
                   [](const Encoded& a, const Encoded& b) {
                     return a.segment.body.size() > b.segment.body.size();
                   });
  for (Encoded& e : encoded) {
    if (!e.segment.body.empty()) {
      NIMBLE_ASSIGN_OR_RETURN(e.sections.body,
                              write_section(e.segment.body.span()));
    }
    NIMBLE_ASSIGN_OR_RETURN(e.sections.head,
                            write_section(e.segment.head.span()));
    footer_.node_bytes[e.sections.node] +=
        e.sections.body.size + e.sections.head.size;
    footer_.shared_dictionaries.push_back(e.sections);
  }
  std::sort(footer_.shared_dictionaries.begin(),
            footer_.shared_dictionaries.end(),
            [](const DictionarySections& a, const DictionarySections& b) {
              return a.node < b.node;
            });
  return Status::ok();
}

Status FileWriter::write_phrases() {
  for (uint32_t s = 0; s < shared_.size(); ++s) {
    const StreamPhrases& phrases = shared_[s].phrases;
    if (!phrases.exist()) continue;
    NodeSection ref;
    ref.node = plan_.node_of(s);
    NIMBLE_ASSIGN_OR_RETURN(
        ref.section, write_section(serialize_phrases(phrases.phrases())));
    footer_.node_bytes[ref.node] += ref.section.size;
    footer_.phrases.push_back(ref);
  }
  return Status::ok();
}

WriteSummary FileWriter::summary() const {
  WriteSummary out;
  out.num_rows = num_rows_;
  out.size_bytes = position_;
  out.index_bytes = footer_.index_bytes;
  out.num_stripes = footer_.num_stripes;
  out.num_groups = footer_.groups.size();
  out.index_seconds = secondary_.seconds();
  const auto& tops = plan_.node(0).children;
  for (size_t i = 0; i < tops.size(); ++i) {
    const uint32_t end = i + 1 < tops.size()
                             ? tops[i + 1]
                             : static_cast<uint32_t>(plan_.nodes().size());
    uint64_t bytes = 0;
    for (uint32_t n = tops[i]; n < end; ++n) bytes += footer_.node_bytes[n];
    out.column_bytes.push_back(bytes);
  }
  out.column_encodings = encodings_;
  out.column_encodings.resize(tops.size());
  return out;
}

Status FileWriter::finish_file(WriteSummary* out) {
  NIMBLE_RETURN_IF_ERROR(flush_stripe());
  NIMBLE_RETURN_IF_ERROR(finish_group());
  NIMBLE_RETURN_IF_ERROR(write_dictionaries());
  const auto sink = [this](ByteSpan bytes) { return write_section(bytes); };
  NIMBLE_RETURN_IF_ERROR(secondary_.finish(sink));
  NIMBLE_RETURN_IF_ERROR(write_zones());
  NIMBLE_RETURN_IF_ERROR(write_bloom());
  NIMBLE_RETURN_IF_ERROR(column_bloom_.finish(sink, &footer_));
  // Shared structures and roots are placed near the footer, so that opening the
  // file usually reads them.
  NIMBLE_RETURN_IF_ERROR(write_shared_dictionaries());
  NIMBLE_RETURN_IF_ERROR(write_phrases());
  NIMBLE_RETURN_IF_ERROR(secondary_.write_roots(sink, &footer_));
  footer_.num_rows = num_rows_;
  if (footer_.cluster) footer_.cluster->num_keys = num_rows_;
  footer_.schema = schema_;
  footer_.metadata = options_.metadata;
  footer_.writer = kWriterName;
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef footer,
                          write_section(footer_.serialize()));
  Postscript postscript;
  postscript.required_features = required_features_;
  postscript.footer_offset = footer.offset;
  postscript.footer_size = footer.size;
  postscript.footer_checksum = footer.checksum;
  NIMBLE_RETURN_IF_ERROR(write_bytes(postscript.serialize()));
  NIMBLE_RETURN_IF_ERROR(file_->commit());
  *out = summary();
  return Status::ok();
}

}  // namespace nimble
