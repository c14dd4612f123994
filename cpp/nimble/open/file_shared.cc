#include "nimble/open/file_shared.h"

#include "nimble/encoding/symbols/shared_phrases.h"
#include "nimble/format/constants.h"

namespace nimble {

static_assert(kMaxPhrasesSection == 2 + kMaxPhrases * (1 + kMaxPhraseBytes));
static_assert(kMaxSharedValues == kSegmentValues);

namespace {

size_t resident_bytes(const PhraseTable& table) { return sizeof table; }
size_t resident_bytes(const LoadedDictionary& loaded) {
  const CodedValues& values = loaded.dictionary->values();
  return loaded.bytes.size() + values.decoded_bytes() +
         values.decoder().memory_bytes();
}

}  // namespace

ColumnShared::~ColumnShared() {
  delete phrases_.load();
  delete dictionary_.load();
}

void ColumnShared::append_sections(const SharedUse& use,
                                   std::vector<SectionRef>* out) const {
  if (use.phrases && phrases_section_ &&
      phrases_.load(std::memory_order_acquire) == nullptr) {
    out->push_back(*phrases_section_);
  }
  if (use.dictionary && dictionary_sections_ &&
      dictionary_.load(std::memory_order_acquire) == nullptr) {
    out->push_back(dictionary_sections_->head);
    if (dictionary_sections_->body.size > 0) {
      out->push_back(dictionary_sections_->body);
    }
  }
}

template <class T, class Make>
Result<const T*> ColumnShared::load(std::atomic<const T*>* slot,
                                    const std::string& what,
                                    Make&& make) const {
  const T* loaded = slot->load(std::memory_order_acquire);
  if (loaded != nullptr) return loaded;
  const ReadLock lock(mutex_, file_.file);
  loaded = slot->load(std::memory_order_acquire);
  if (loaded != nullptr) return loaded;
  auto made = make(what + " of column '" + column_ + "'");
  if (!made) return std::move(made).error();
  // The read may already have loaded this structure, if the file is a Python
  // object that reads from this same file.
  if (!slot->compare_exchange_strong(loaded, made->get(),
                                     std::memory_order_acq_rel)) {
    return loaded;
  }
  file_.budget->add_resident(resident_bytes(**made));
  return made->release();
}

// -------------------------------------------------------------------- phrases

Result<const PhraseTable*> ColumnShared::phrases() const {
  if (!phrases_section_) {
    return Status::corrupt("the stream has codes of phrases but no phrases");
  }
  return load(&phrases_, "phrases",
              [&](const std::string& what) { return make_phrases(what); });
}

Result<std::unique_ptr<const PhraseTable>> ColumnShared::make_phrases(
    const std::string& what) const {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          file_.read_section(*phrases_section_, what));
  auto phrases = parse_phrases(bytes);
  if (!phrases) return std::move(phrases).error().with_context(what);
  return std::make_unique<const PhraseTable>(*phrases);
}

// ----------------------------------------------------------------- dictionary

Result<const SharedDictionary*> ColumnShared::dictionary() const {
  if (!dictionary_sections_) {
    return Status::corrupt("the stream has codes but no shared dictionary");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      const LoadedDictionary* loaded,
      load(&dictionary_, "shared dictionary",
           [&](const std::string& what) { return make_dictionary(what); }));
  return loaded->dictionary.get();
}

Result<std::unique_ptr<const LoadedDictionary>> ColumnShared::make_dictionary(
    const std::string& what) const {
  const DictionarySections& at = *dictionary_sections_;
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> head,
                          file_.read_section(at.head, what));
  auto loaded = std::make_unique<LoadedDictionary>();
  SegmentBody body;
  body.size = at.body.size;
  body.stable = true;
  if (const uint8_t* map = file_.file.mapped()) {
    // Blocks are verified one by one when they are used.
    body.data = map + at.body.offset;
  } else if (at.body.size > 0) {
    NIMBLE_ASSIGN_OR_RETURN(loaded->bytes, file_.read_section(at.body, what));
    // Kernels may read a few bytes past the end.
    loaded->bytes.resize(at.body.size + AlignedBuffer::kSlack);
    body.data = loaded->bytes.data();
  }
  auto opened = SharedDictionary::open(type_, at.count, head, body, what);
  if (!opened) return std::move(opened).error().with_context(what);
  loaded->dictionary = std::move(opened).value();
  return std::unique_ptr<const LoadedDictionary>(std::move(loaded));
}

Status ColumnShared::verify() const {
  if (phrases_section_) {
    NIMBLE_RETURN_IF_ERROR(phrases().has_value() ? Status()
                                                 : phrases().error());
  }
  if (!dictionary_sections_) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(const SharedDictionary* shared, dictionary());
  const std::string what = "shared dictionary of column '" + column_ + "'";
  if (dictionary_sections_->body.size > 0) {
    NIMBLE_ASSIGN_OR_RETURN(
        [[maybe_unused]] const auto bytes,
        file_.read_section(dictionary_sections_->body, what));
  }
  return shared->values().decode_all(shared->body());
}

// ----------------------------------------------------------------------- file

ColumnShared* FileShared::column(const StreamPlan& plan, uint32_t node) {
  if (node >= plan.nodes().size()) return nullptr;
  const SchemaNode& n = plan.node(node);
  const Layout layout = n.field->layout;
  if (n.values == kNoStream ||
      (layout != Layout::kBytes &&
       (layout != Layout::kFixed || n.field->width > kMaxNestedWidth))) {
    return nullptr;
  }
  by_stream_.resize(plan.num_streams());
  if (by_stream_[n.values] == nullptr) {
    columns_.push_back(
        std::make_unique<ColumnShared>(file_, n, plan.streams()[n.values]));
    by_stream_[n.values] = columns_.back().get();
  }
  return by_stream_[n.values];
}

Result<std::unique_ptr<FileShared>> FileShared::create(SharedFile file,
                                                       const FileFooter& footer,
                                                       const StreamPlan& plan) {
  std::unique_ptr<FileShared> out(new FileShared(std::move(file)));
  for (const NodeSection& p : footer.phrases) {
    ColumnShared* column = out->column(plan, p.node);
    if (column == nullptr ||
        plan.node(p.node).field->layout != Layout::kBytes) {
      return Status::corrupt("footer: phrases belong to node " +
                             std::to_string(p.node) + ", which is not text");
    }
    column->set_phrases(p.section);
  }
  for (const DictionarySections& d : footer.shared_dictionaries) {
    ColumnShared* column = out->column(plan, d.node);
    if (column == nullptr) {
      return Status::corrupt("footer: a shared dictionary belongs to node " +
                             std::to_string(d.node) + ", which has no values");
    }
    column->set_dictionary(d);
  }
  return out;
}

}  // namespace nimble
