#include "nimble/open/file_phrases.h"

#include "nimble/format/constants.h"
#include "nimble/open/open_file.h"

namespace nimble {

static_assert(kMaxPhrasesSection == 2 + kMaxPhrases * (1 + kMaxPhraseBytes));

Result<const PhraseTable*> ColumnPhrases::phrases() const {
  const PhraseTable* table = table_.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  const ReadLock lock(mutex_, file_.file());
  table = table_.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  auto made = read();
  if (!made) {
    return std::move(made).error().with_context(
        file_.file().name() + ": phrases of column '" +
        file_.plan().node(ref_.node).field->name + "'");
  }
  // The read may have asked for the table itself.
  if (!table_.compare_exchange_strong(table, made->get(),
                                      std::memory_order_acq_rel)) {
    return table;
  }
  file_.budget()->add_resident(sizeof(PhraseTable));
  return std::move(made).value().release();
}

Result<std::unique_ptr<const PhraseTable>> ColumnPhrases::read() const {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          file_.read_section(ref_.section, "section"));
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<Phrase> phrases,
                          parse_phrases(bytes));
  return std::make_unique<const PhraseTable>(phrases);
}

FilePhrases::FilePhrases(const OpenFile& file) {
  const StreamPlan& plan = file.plan();
  for (const NodeSection& ref : file.footer().phrases) {
    by_stream_.resize(plan.num_streams());
    columns_.push_back(std::make_unique<ColumnPhrases>(file, ref));
    by_stream_[plan.node(ref.node).values] = columns_.back().get();
  }
}

}  // namespace nimble
