// FilePhrases: the phrases that segments of a file's columns of text share.
// Each table is read on first use, and resident from then on.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/encoding/strings/shared_phrases.h"
#include "nimble/format/footer.h"
#include "nimble/io/read_lock.h"

namespace nimble {

class OpenFile;

// Those of one column.
class ColumnPhrases final : public PhraseSource {
 public:
  ColumnPhrases(const OpenFile& file, const NodeSection& ref)
      : file_(file), ref_(ref) {}
  ~ColumnPhrases() override { delete table_.load(); }

  const SectionRef& section() const { return ref_.section; }
  bool is_loaded() const {
    return table_.load(std::memory_order_acquire) != nullptr;
  }
  // May wait for a read of the file.
  Result<const PhraseTable*> phrases() const override;

 private:
  Result<std::unique_ptr<const PhraseTable>> read() const;

  const OpenFile& file_;
  const NodeSection ref_;
  mutable ReadMutex mutex_;
  mutable std::atomic<const PhraseTable*> table_{nullptr};
};

class FilePhrases {
 public:
  // Of a file whose footer names columns of text alone.
  explicit FilePhrases(const OpenFile& file);

  const std::vector<std::unique_ptr<ColumnPhrases>>& columns() const {
    return columns_;
  }
  // Of a stream of the file's plan; null: it has none.
  const ColumnPhrases* of_stream(uint32_t stream) const {
    return stream < by_stream_.size() ? by_stream_[stream] : nullptr;
  }

 private:
  std::vector<std::unique_ptr<ColumnPhrases>> columns_;
  std::vector<const ColumnPhrases*> by_stream_;  // empty: there are none
};

}  // namespace nimble
