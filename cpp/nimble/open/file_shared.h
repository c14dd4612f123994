// FileShared: what segments of a file's columns share, phrases and
// dictionaries. Each is read on first use, and resident from then on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/encoding/core/shared_source.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/symbols/phrase_table.h"
#include "nimble/format/footer.h"
#include "nimble/format/stream_plan.h"
#include "nimble/io/cache_budget.h"
#include "nimble/io/read_lock.h"

namespace nimble {

// Where it lies, and what it counts for.
struct SharedFile {
  const ReadableFile& file;
  CacheBudget* budget;
  // The verified bytes of a section; `what` is for messages.
  std::function<Result<std::vector<uint8_t>>(const SectionRef&,
                                             const std::string& what)>
      read_section;
};

// A dictionary and, where the file is not mapped, its bytes.
struct LoadedDictionary {
  std::vector<uint8_t> bytes;
  std::unique_ptr<const SharedDictionary> dictionary;
};

// Of one column.
class ColumnShared final : public SharedSource {
 public:
  ColumnShared(const SharedFile& file, const SchemaNode& node, ValueType type)
      : file_(file), column_(node.field->name), type_(type) {}
  ~ColumnShared() override;

  // Before anything is read.
  void set_phrases(const SectionRef& section) { phrases_section_ = section; }
  void set_dictionary(const DictionarySections& sections) {
    dictionary_sections_ = sections;
  }

  // Appends where what `use` names lies, as far as it is not loaded.
  void append_sections(const SharedUse& use,
                       std::vector<SectionRef>* out) const;
  Result<const PhraseTable*> phrases() const override;
  Result<const SharedDictionary*> dictionary() const override;
  // Loads what there is, and looks at all of it.
  Status verify() const;

 private:
  // Reads what `slot` lacks, once.
  template <class T, class Make>
  Result<const T*> load(std::atomic<const T*>* slot, const std::string& what,
                        Make&& make) const;
  Result<std::unique_ptr<const PhraseTable>> make_phrases(
      const std::string& what) const;
  Result<std::unique_ptr<const LoadedDictionary>> make_dictionary(
      const std::string& what) const;

  const SharedFile& file_;
  const std::string column_;
  const ValueType type_;
  std::optional<SectionRef> phrases_section_;
  std::optional<DictionarySections> dictionary_sections_;
  mutable ReadMutex mutex_;
  mutable std::atomic<const PhraseTable*> phrases_{nullptr};
  mutable std::atomic<const LoadedDictionary*> dictionary_{nullptr};
};

class FileShared {
 public:
  // Fails where a column of the footer's cannot have what it says.
  static Result<std::unique_ptr<FileShared>> create(SharedFile file,
                                                    const FileFooter& footer,
                                                    const StreamPlan& plan);

  const std::vector<std::unique_ptr<ColumnShared>>& columns() const {
    return columns_;
  }
  // Of a stream of the file's plan; null: it has nothing.
  const ColumnShared* of_stream(uint32_t stream) const {
    return stream < by_stream_.size() ? by_stream_[stream] : nullptr;
  }

 private:
  explicit FileShared(SharedFile file) : file_(std::move(file)) {}
  ColumnShared* column(const StreamPlan& plan, uint32_t node);

  const SharedFile file_;
  std::vector<std::unique_ptr<ColumnShared>> columns_;
  std::vector<ColumnShared*> by_stream_;  // empty: there are none
};

}  // namespace nimble
