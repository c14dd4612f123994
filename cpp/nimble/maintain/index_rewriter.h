// IndexRewriter: a file with other secondary indexes, made of the bytes of an
// existing one. Rows are copied as they are encoded; only the key columns of
// new indexes are decoded. The new file is what FileWriter would have written.
//
//   ( step* finish ) | (destroyed early: nothing is left behind)
#pragma once

#include <memory>
#include <vector>

#include "nimble/io/writable_file.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/write/file_writer.h"
#include "nimble/write/write_state.h"

namespace nimble {

struct IndexChange {
  std::vector<size_t> drop;  // numbers in the footer
  std::vector<IndexSpec> add;
  WriterOptions options;  // those of indexes
};

class IndexRewriter {
 public:
  static Result<std::unique_ptr<IndexRewriter>> create(
      std::shared_ptr<const FileReader> source, IndexChange change,
      std::unique_ptr<WritableFile> target);

  // Indexes some rows more; gives how many, 0 when all are.
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
  // Where the rows' bytes end: bodies, key streams, groups and dictionaries.
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
  // The columns that new indexes need, as a file of their own would have them.
  std::shared_ptr<const RowReader> rows_;
  std::vector<int> tops_;  // of the file, of each of these columns
  SecondaryIndexWriter writer_;
  DictionaryList dictionaries_;
  std::unique_ptr<Column> stripe_;
  uint64_t next_row_ = 0;

  uint64_t position_ = 0;
  FileFooter footer_;
};

}  // namespace nimble
