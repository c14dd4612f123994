#include "nimble/open/file_phrases.h"

#include "nimble/format/constants.h"

namespace nimble {

static_assert(kMaxPhrasesSection == 2 + kMaxPhrases * (1 + kMaxPhraseBytes));

Result<const PhraseTable*> ColumnPhrases::phrases() const {
  const PhraseTable* table = table_.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  const ReadLock lock(mutex_, file_.file);
  table = table_.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  const std::string what = "phrases of column '" + column_ + "'";
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          file_.read_section(section_, what));
  auto phrases = parse_phrases(bytes);
  if (!phrases) return std::move(phrases).error().with_context(what);
  auto made = std::make_unique<const PhraseTable>(*phrases);
  // The read may have asked for the table itself.
  if (!table_.compare_exchange_strong(table, made.get(),
                                      std::memory_order_acq_rel)) {
    return table;
  }
  file_.budget->add_resident(sizeof(PhraseTable));
  return made.release();
}

FilePhrases::FilePhrases(PhrasesFile file, const std::vector<NodeSection>& refs,
                         const StreamPlan& plan)
    : file_(std::move(file)) {
  for (const NodeSection& ref : refs) {
    const SchemaNode& node = plan.node(ref.node);
    by_stream_.resize(plan.num_streams());
    columns_.push_back(
        std::make_unique<ColumnPhrases>(file_, node.field->name, ref.section));
    by_stream_[node.values] = columns_.back().get();
  }
}

}  // namespace nimble
