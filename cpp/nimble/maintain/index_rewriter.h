// IndexRewriter: copies a file and changes its secondary indexes. Encoded rows
// are copied, and only the key columns of new indexes are decoded. The result
// has the same bytes as if FileWriter had written it. Calls block on reads and
// writes. Not thread-safe (write_state.h).
//
//   ( step* finish ) | (destroyed early: its files are removed)
#pragma once

#include <memory>
#include <vector>

#include "nimble/io/writable_file.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/write/file_writer.h"
#include "nimble/write/write_state.h"

namespace nimble {

// Indexes to drop and to add.
struct IndexChange {
  // Numbers of the indexes to drop. The footer's indexes are numbered first,
  // then its vector indexes.
  std::vector<size_t> drop;
  std::vector<IndexSpec> add;
  WriterOptions options;  // only options for indexes are used
};

class IndexRewriter {
 public:
  static Result<std::unique_ptr<IndexRewriter>> create(
      std::shared_ptr<const FileReader> source, IndexChange change,
      std::unique_ptr<WritableFile> target);

  // Indexes the next rows. Returns their number, or 0 after the last row.
  Result<uint64_t> step() {
    uint64_t rows = 0;
    NIMBLE_RETURN_IF_ERROR(state_.run([&] { return index_rows(&rows); }));
    return rows;
  }
  // Writes the file and makes it visible.
  Status finish() {
    return state_.finish([&] { return finish_file(); });
  }

 private:
  IndexRewriter(std::shared_ptr<const FileReader> source, IndexChange change,
                std::unique_ptr<WritableFile> target);

  Status open_columns();
  Status index_rows(uint64_t* rows);
  Status finish_file();
  // The end of the rows' bytes, which are bodies, key streams, groups and
  // dictionaries.
  Result<uint64_t> data_end() const;
  Status copy_data(uint64_t end);
  Result<SectionRef> write_section(ByteSpan bytes);
  Result<SectionRef> copy_section(const SectionRef& section);
  Status write_indexes();
  Status write_footer();

  WriteState state_;
  std::shared_ptr<const FileReader> source_;
  IndexChange change_;
  std::unique_ptr<WritableFile> target_;
  // The columns that new indexes need, as the schema of a file.
  std::shared_ptr<const RowReader> rows_;
  std::vector<int> tops_;  // their numbers in the file
  SecondaryIndexWriter writer_;
  DictionaryList dictionaries_;
  std::unique_ptr<Column> stripe_;
  uint64_t next_row_ = 0;

  uint64_t position_ = 0;
  FileFooter footer_;
};

}  // namespace nimble
