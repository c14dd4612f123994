#include "nimble/reader/file_reader.h"

#include "nimble/format/constants.h"
#include "nimble/lookup/open_index.h"

namespace nimble {

Result<std::shared_ptr<const FileReader>> FileReader::open(
    std::shared_ptr<const ReadableFile> file, const ReaderOptions& options) {
  std::shared_ptr<FileReader> reader(new FileReader());
  NIMBLE_RETURN_IF_ERROR(reader->OpenFile::open(std::move(file), options));
  for (size_t i = 0; i < reader->footer().indexes.size(); ++i) {
    reader->indexes_.push_back(std::make_unique<OpenIndex>());
  }
  return std::shared_ptr<const FileReader>(std::move(reader));
}

Result<const IndexLookup*> FileReader::index(size_t i) const {
  OpenIndex& slot = *indexes_[i];
  if (const auto* ready = slot.ready.load(std::memory_order_acquire)) {
    return ready;
  }
  const ReadLock lock(slot.mutex, file());
  if (slot.owner == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(auto made, open_secondary_lookup(*this, i));
    if (slot.owner != nullptr) return slot.owner.get();
    slot.owner = std::move(made);
    slot.ready.store(slot.owner.get(), std::memory_order_release);
  }
  return slot.owner.get();
}

Result<std::shared_ptr<const ColumnBlooms>> FileReader::column_blooms() const {
  const ReadLock lock(column_blooms_.mutex, file());
  for (const OptionalSection& s : footer().optional_sections) {
    if (s.name != kColumnBloomSection || column_blooms_.owner != nullptr)
      continue;
    NIMBLE_ASSIGN_OR_RETURN(column_blooms_.owner,
                            ColumnBlooms::open(*this, s.section));
    budget()->add_resident(s.section.size);  // about the size of the list
  }
  return column_blooms_.owner;
}

}  // namespace nimble
