#include "nimble/maintain/index_rewriter.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/maintain/index_relocation.h"

namespace nimble {
namespace {

// Number of rows whose keys are encoded at a time.
constexpr uint64_t kStepRows = 65536;
constexpr uint64_t kCopyBytes = uint64_t{1} << 20;

uint64_t end_of(const SectionRef& s) {
  return s.size == 0 ? 0 : s.offset + s.size;
}

// The end of the last byte range that a group refers to.
uint64_t end_of(const GroupView& group) {
  uint64_t end = 0;
  for (const StripeView& s : group.stripes()) {
    for (size_t i = 0; i < s.segment_offsets.size(); ++i) {
      if (s.segment_sizes[i] == 0) continue;
      end = std::max(end, s.segment_offsets[i] + s.segment_sizes[i]);
    }
  }
  if (group.has_chunks() && !group.chunks().chunk_ends.empty()) {
    end = std::max(end, group.chunks().key_stream_offset +
                            group.chunks().chunk_ends.back());
  }
  return end;
}

}  // namespace

IndexRewriter::IndexRewriter(std::shared_ptr<const FileReader> source,
                             IndexChange change,
                             std::unique_ptr<WritableFile> target)
    : source_(std::move(source)),
      change_(std::move(change)),
      target_(std::move(target)),
      footer_(source_->footer()) {}

Result<std::unique_ptr<IndexRewriter>> IndexRewriter::create(
    std::shared_ptr<const FileReader> source, IndexChange change,
    std::unique_ptr<WritableFile> target) {
  for (const size_t i : change.drop) {
    const FileFooter& footer = source->footer();
    if (i >= footer.indexes.size() + footer.vectors.size()) {
      return Status::invalid_argument("the file has no index " +
                                      std::to_string(i));
    }
  }
  std::unique_ptr<IndexRewriter> out(new IndexRewriter(
      std::move(source), std::move(change), std::move(target)));
  NIMBLE_RETURN_IF_ERROR(out->open_columns());
  return out;
}

Status IndexRewriter::open_columns() {
  std::vector<IndexSpec> specs = change_.add;
  if (specs.empty()) {
    next_row_ = source_->num_rows();
    return Status::ok();
  }
  std::vector<OutputColumn> columns;
  for (IndexSpec& spec : specs) {
    for (KeyColumnSpec& c : spec.columns) {
      const auto copied = std::find(tops_.begin(), tops_.end(), c.path[0]);
      const auto place = static_cast<int>(copied - tops_.begin());
      if (copied == tops_.end()) {
        tops_.push_back(c.path[0]);
        const auto top = static_cast<size_t>(c.path[0]);
        columns.push_back(
            {{c.path[0]}, source_->footer().schema.children[top].name});
      }
      c.path[0] = place;
    }
  }
  NIMBLE_ASSIGN_OR_RETURN(rows_, RowReader::create(source_, columns));
  WriterOptions options = change_.options;
  options.indexes = specs;
  NIMBLE_ASSIGN_OR_RETURN(
      writer_, SecondaryIndexWriter::create(rows_->schema(), options));
  stripe_ = std::make_unique<Column>(rows_->schema(), /*wide=*/true);
  attach_dictionaries(stripe_.get(), &dictionaries_);
  return Status::ok();
}

Status IndexRewriter::index_rows(uint64_t* rows) {
  const uint64_t left = source_->num_rows() - next_row_;
  if (left == 0) return Status::ok();
  ArrowArray array{};
  NIMBLE_ASSIGN_OR_RETURN(
      const uint64_t n,
      rows_->read_batch(next_row_, std::min(left, kStepRows), &array));
  auto view = ArrayView::open(rows_->schema(), array, "");
  stripe_->clear();
  Status status = view ? stripe_->append(*view, 0, view->length(), "")
                       : std::move(view).error();
  array.release(&array);
  NIMBLE_RETURN_IF_ERROR(std::move(status));
  NIMBLE_RETURN_IF_ERROR(writer_.add_stripe(*stripe_));
  next_row_ += n;
  *rows = n;
  return Status::ok();
}

Result<uint64_t> IndexRewriter::data_end() const {
  uint64_t end = sizeof kMagic;
  for (size_t g = 0; g < footer_.groups.size(); ++g) {
    NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group, source_->groups().get(g));
    end = std::max(
        {end, end_of(footer_.groups[g].section), end_of(group->view())});
  }
  for (const NodeSection& d : footer_.dictionaries) {
    if (d.section.size == 0) continue;
    const SchemaNode& node = source_->plan().node(d.node);
    if (node.field->dictionary.empty()) {
      return Status::corrupt("the column has codes but no dictionary");
    }
    const StreamPlan plan(node.field->dictionary[0]);
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            source_->read_section(d.section, "dictionary"));
    NIMBLE_ASSIGN_OR_RETURN(
        const GroupView view,
        GroupView::open(bytes, plan, 0, d.rows, source_->file().size()));
    end = std::max({end, end_of(d.section), end_of(view)});
  }
  return end;
}

Status IndexRewriter::copy_data(uint64_t end) {
  std::vector<uint8_t> buffer;
  for (uint64_t at = 0; at < end; at += kCopyBytes) {
    const uint64_t size = std::min(kCopyBytes, end - at);
    if (const uint8_t* map = source_->file().mapped()) {
      NIMBLE_RETURN_IF_ERROR(target_->append({map + at, size}));
      continue;
    }
    buffer.resize(size);
    NIMBLE_RETURN_IF_ERROR(source_->file().read_at({at, size, buffer.data()}));
    NIMBLE_RETURN_IF_ERROR(target_->append(buffer));
  }
  position_ = end;
  return Status::ok();
}

Result<SectionRef> IndexRewriter::write_section(ByteSpan bytes) {
  static constexpr uint8_t kZeros[8] = {};
  const uint64_t begin = round_up(position_, sizeof kZeros);
  NIMBLE_RETURN_IF_ERROR(target_->append({kZeros, begin - position_}));
  NIMBLE_RETURN_IF_ERROR(target_->append(bytes));
  position_ = begin + bytes.size();
  return SectionRef{begin, bytes.size(), checksum64(bytes)};
}

Result<SectionRef> IndexRewriter::copy_section(const SectionRef& section) {
  if (section.size == 0) return section;
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          source_->read_section(section, "section"));
  return write_section(bytes);
}

Status IndexRewriter::write_indexes() {
  const auto sink = [this](ByteSpan bytes) { return write_section(bytes); };
  std::vector<std::vector<uint8_t>> roots;
  footer_.indexes.clear();
  footer_.vectors.clear();
  std::vector<SecondaryIndexRef> indexes = source_->footer().indexes;
  const auto& vectors = source_->footer().vectors;
  indexes.insert(indexes.end(), vectors.begin(), vectors.end());
  std::vector<SecondaryIndexRef> kept;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const auto& drop = change_.drop;
    if (std::find(drop.begin(), drop.end(), i) != drop.end()) {
      footer_.index_bytes -=
          std::min(footer_.index_bytes, indexes[i].size_bytes);
      continue;
    }
    NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> root,
                            relocate_index(*source_, indexes[i], sink));
    roots.push_back(std::move(root));
    kept.push_back(indexes[i]);
  }
  NIMBLE_RETURN_IF_ERROR(writer_.finish(sink));
  for (NodeSection& z : footer_.zones) {
    NIMBLE_ASSIGN_OR_RETURN(z.section, copy_section(z.section));
  }
  if (footer_.cluster) {
    NIMBLE_ASSIGN_OR_RETURN(footer_.cluster->bloom,
                            copy_section(footer_.cluster->bloom));
  }
  // Column filters are among the rows' bytes, so they are copied with them.
  // Other optional sections are dropped, because they may have references that
  // this version does not know.
  std::erase_if(footer_.optional_sections, [](const OptionalSection& o) {
    return o.name != kColumnBloomSection;
  });
  for (OptionalSection& o : footer_.optional_sections) {
    NIMBLE_ASSIGN_OR_RETURN(o.section, copy_section(o.section));
  }
  // Shared structures and roots are placed near the footer, so that opening the
  // file usually reads them.
  std::vector<DictionarySections*> shared;
  for (DictionarySections& d : footer_.shared_dictionaries) {
    shared.push_back(&d);
  }
  // The smallest sections are last, as in the original file.
  std::stable_sort(
      shared.begin(), shared.end(),
      [](const auto* a, const auto* b) { return a->body.size > b->body.size; });
  for (DictionarySections* d : shared) {
    NIMBLE_ASSIGN_OR_RETURN(d->body, copy_section(d->body));
    NIMBLE_ASSIGN_OR_RETURN(d->head, copy_section(d->head));
  }
  for (NodeSection& p : footer_.phrases) {
    NIMBLE_ASSIGN_OR_RETURN(p.section, copy_section(p.section));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    NIMBLE_ASSIGN_OR_RETURN(kept[i].root, write_section(roots[i]));
    const bool is_vector = kept[i].kind == IndexKind::kVector;
    (is_vector ? footer_.vectors : footer_.indexes).push_back(kept[i]);
  }
  size_t next_index = footer_.indexes.size();
  size_t next_vector = footer_.vectors.size();
  NIMBLE_RETURN_IF_ERROR(writer_.write_roots(sink, &footer_));
  for (const IndexSpec& spec : change_.add) {
    SecondaryIndexRef& ref = spec.kind == IndexKind::kVector
                                 ? footer_.vectors[next_vector++]
                                 : footer_.indexes[next_index++];
    ref.columns = spec.columns;
  }
  return Status::ok();
}

Status IndexRewriter::write_footer() {
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef footer,
                          write_section(footer_.serialize()));
  Postscript postscript = source_->postscript();
  postscript.footer_offset = footer.offset;
  postscript.footer_size = footer.size;
  postscript.footer_checksum = footer.checksum;
  return target_->append(postscript.serialize());
}

Status IndexRewriter::finish_file() {
  if (next_row_ < source_->num_rows()) {
    return Status::invalid_argument("not all rows are indexed yet");
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t end, data_end());
  NIMBLE_RETURN_IF_ERROR(copy_data(end));
  NIMBLE_RETURN_IF_ERROR(write_indexes());
  NIMBLE_RETURN_IF_ERROR(write_footer());
  return target_->commit();
}

}  // namespace nimble
