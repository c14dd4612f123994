// FilePhrases: the phrases that segments of a file's columns of text share.
// Each table is read on first use, and resident from then on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/encoding/symbols/shared_phrases.h"
#include "nimble/format/footer.h"
#include "nimble/format/stream_plan.h"
#include "nimble/io/cache_budget.h"
#include "nimble/io/read_lock.h"

namespace nimble {

// Where phrases lie, and what they count for.
struct PhrasesFile {
  const ReadableFile& file;
  CacheBudget* budget;
  // The verified bytes of a section; `what` is for messages.
  std::function<Result<std::vector<uint8_t>>(const SectionRef&,
                                             const std::string& what)>
      read_section;
};

// Those of one column.
class ColumnPhrases final : public PhraseSource {
 public:
  ColumnPhrases(const PhrasesFile& file, std::string column,
                const SectionRef& section)
      : file_(file), column_(std::move(column)), section_(section) {}
  ~ColumnPhrases() override { delete table_.load(); }

  const SectionRef& section() const { return section_; }
  bool is_loaded() const {
    return table_.load(std::memory_order_acquire) != nullptr;
  }
  // May wait for a read of the file.
  Result<const PhraseTable*> phrases() const override;

 private:
  const PhrasesFile& file_;
  const std::string column_;
  const SectionRef section_;
  mutable ReadMutex mutex_;
  mutable std::atomic<const PhraseTable*> table_{nullptr};
};

class FilePhrases {
 public:
  // `refs` are of columns of text alone.
  FilePhrases(PhrasesFile file, const std::vector<NodeSection>& refs,
              const StreamPlan& plan);

  const std::vector<std::unique_ptr<ColumnPhrases>>& columns() const {
    return columns_;
  }
  // Of a stream of the file's plan; null: it has none.
  const ColumnPhrases* of_stream(uint32_t stream) const {
    return stream < by_stream_.size() ? by_stream_[stream] : nullptr;
  }

 private:
  const PhrasesFile file_;
  std::vector<std::unique_ptr<ColumnPhrases>> columns_;
  std::vector<const ColumnPhrases*> by_stream_;  // empty: there are none
};

}  // namespace nimble
