// FileWriter: writes rows to a file. Rows arrive in file order. With a cluster
// key, their encoded keys are verified and indexed. Sorting is a higher layer
// (sorting_writer.h). Calls may block on writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/format/group.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/cluster_index_writer.h"
#include "nimble/index/spilled_hashes.h"
#include "nimble/io/writable_file.h"
#include "nimble/key/key_encoder.h"
#include "nimble/write/column_bloom_writer.h"
#include "nimble/write/key_restorer.h"
#include "nimble/write/options.h"
#include "nimble/write/row_writer.h"
#include "nimble/write/secondary_index_writer.h"
#include "nimble/write/stripe_encoder.h"
#include "nimble/write/zone_builder.h"

namespace nimble {

// The dictionary values of each dictionary column, in pre-order of the columns.
using DictionaryList = std::vector<std::unique_ptr<DictionaryValues>>;

// Sets the mapper of every dictionary column below `column`, in pre-order. Adds
// values to `dictionaries` for columns that do not have any yet.
void attach_dictionaries(Column* column, DictionaryList* dictionaries);

class FileWriter final : public RowWriter {
 public:
  static Result<std::unique_ptr<FileWriter>> create(
      Field schema, WriterOptions options, std::unique_ptr<WritableFile> file);

  const Field& schema() const { return schema_; }
  const WriterOptions& options() const { return options_; }
  // Null if the file has no cluster key.
  const KeyEncoder* encoder() const { return encoder_ ? &*encoder_ : nullptr; }

  // Appends the given rows of `from`. Row i of `from` has key i of `keys`.
  Status append_rows(const Column& from, const uint64_t* rows, uint64_t count,
                     const KeyBuffer* keys);
  // Whether append_keys() can be used.
  bool can_restore_rows() const { return restorer_.has_value(); }
  // Appends the rows of these keys.
  // REQUIRES: can_restore_rows().
  Status append_keys(const KeyBuffer& keys, const uint64_t* rows,
                     uint64_t count);
  uint64_t num_rows() const { return num_rows_ + stripe_.length(); }
  DictionaryList& dictionaries() { return dictionaries_; }

 protected:
  Status take_rows(const ArrayView& root) override;
  Status finish_file(WriteSummary* summary) override;

 private:
  FileWriter(Field schema, WriterOptions options,
             std::unique_ptr<WritableFile> file);

  // Number of rows to append before the next flush_if_full().
  uint64_t step(uint64_t left) const;
  // If `from` is null, restores the rows from their keys.
  Status gather_rows(const Column* from, const uint64_t* rows, uint64_t count,
                     const KeyBuffer* keys);
  Status add_keys(const KeyBuffer& keys, uint64_t begin, uint64_t end);
  Status flush_if_full();
  Status flush_stripe();
  Status finish_group();
  void open_cluster_index();
  Status write_key_stream(ChunkDirectoryMeta* chunks);
  Status write_encoded(const StreamPlan& plan, EncodedStripe&& encoded,
                       uint64_t rows, StripeMeta* meta,
                       std::vector<uint64_t>* node_bytes);
  Status write_dictionaries();
  Status write_shared_dictionaries();
  Status write_phrases();
  Status write_zones();
  Status write_bloom();
  Status write_bytes(ByteSpan bytes);
  Status align_to(uint64_t alignment);
  Result<SectionRef> write_section(ByteSpan bytes);
  WriteSummary summary() const;
  void remember_encodings(const EncodedStripe& encoded);

  Field schema_;
  WriterOptions options_;
  std::unique_ptr<WritableFile> file_;
  StreamPlan plan_;
  std::optional<KeyEncoder> encoder_;
  std::optional<KeyRestorer> restorer_;
  std::optional<ClusterIndexWriter> index_;
  SecondaryIndexWriter secondary_;
  ColumnBloomWriter column_bloom_;
  SpilledHashes bloom_hashes_;
  std::vector<ZoneBuilder> zones_;
  DictionaryList dictionaries_;
  std::vector<StreamShared> shared_;  // one per stream
  Column stripe_;
  KeyBuffer keys_;  // of the rows that are being appended

  uint64_t position_ = 0;
  uint64_t num_rows_ = 0;  // in stripes already written
  uint64_t group_first_row_ = 0;
  uint64_t group_begin_ = 0;
  std::vector<StripeMeta> group_;
  FileFooter footer_;
  uint64_t required_features_ = 0;
  std::vector<std::string> encodings_;
};

}  // namespace nimble
