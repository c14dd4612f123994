// FileShared: the phrases and dictionaries that the segments of a file's
// columns share. They are read on first use and then kept in memory.
// Thread-safe.
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

// The file to read shared structures from, and the budget that counts their
// memory.
struct SharedFile {
  const ReadableFile& file;
  CacheBudget* budget;
  // Reads a section and verifies it. `what` names it in messages.
  std::function<Result<std::vector<uint8_t>>(const SectionRef&,
                                             const std::string& what)>
      read_section;
};

// A dictionary, with its bytes if the file is not mapped.
struct LoadedDictionary {
  std::vector<uint8_t> bytes;
  std::unique_ptr<const SharedDictionary> dictionary;
};

// The shared structures of one column.
class ColumnShared final : public SharedSource {
 public:
  ColumnShared(const SharedFile& file, const SchemaNode& node, ValueType type)
      : file_(file), column_(node.field->name), type_(type) {}
  ~ColumnShared() override;

  // REQUIRES: nothing has been read yet.
  void set_phrases(const SectionRef& section) { phrases_section_ = section; }
  void set_dictionary(const DictionarySections& sections) {
    dictionary_sections_ = sections;
  }

  // Appends the sections that `use` needs and that are not loaded yet.
  void append_sections(const SharedUse& use,
                       std::vector<SectionRef>* out) const;
  Result<const PhraseTable*> phrases() const override;
  Result<const SharedDictionary*> dictionary() const override;
  // Loads all structures and verifies them completely.
  Status verify() const;

 private:
  // Returns *slot, loading it first if it is null.
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
  // Fails if the footer gives a column a structure that its type cannot have.
  static Result<std::unique_ptr<FileShared>> create(SharedFile file,
                                                    const FileFooter& footer,
                                                    const StreamPlan& plan);

  const std::vector<std::unique_ptr<ColumnShared>>& columns() const {
    return columns_;
  }
  // Returns the shared structures of a stream of the file's plan, or null if
  // the stream does not have any.
  const ColumnShared* of_stream(uint32_t stream) const {
    return stream < by_stream_.size() ? by_stream_[stream] : nullptr;
  }

 private:
  explicit FileShared(SharedFile file) : file_(std::move(file)) {}
  ColumnShared* column(const StreamPlan& plan, uint32_t node);

  const SharedFile file_;
  std::vector<std::unique_ptr<ColumnShared>> columns_;
  // empty if no stream has shared structures
  std::vector<ColumnShared*> by_stream_;
};

}  // namespace nimble
