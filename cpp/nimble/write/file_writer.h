// FileWriter: rows to a file. Rows arrive in file order; with a cluster key,
// their encoded keys are verified and indexed on the way. Sorting is above
// this (sorting_writer.h).
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
#include "nimble/write/options.h"
#include "nimble/write/row_writer.h"
#include "nimble/write/secondary_index_writer.h"
#include "nimble/write/stripe_encoder.h"
#include "nimble/write/zone_builder.h"

namespace nimble {

// Each dictionary column's values, by its place in the tree of columns.
using DictionaryList = std::vector<std::unique_ptr<DictionaryValues>>;

// Gives every dictionary column below `column` its mapper, in pre-order;
// makes those that `dictionaries` lacks.
void attach_dictionaries(Column* column, DictionaryList* dictionaries);

class FileWriter final : public RowWriter {
 public:
  static Result<std::unique_ptr<FileWriter>> create(
      Field schema, WriterOptions options, std::unique_ptr<WritableFile> file);

  const Field& schema() const { return schema_; }
  const WriterOptions& options() const { return options_; }
  // Null where there is no cluster key.
  const KeyEncoder* encoder() const { return encoder_ ? &*encoder_ : nullptr; }

  // The given rows of `from`, whose keys are the same rows of `keys`.
  Status append_rows(const Column& from, const uint64_t* rows, uint64_t count,
                     const KeyBuffer* keys);
  uint64_t num_rows() const { return num_rows_ + stripe_.length(); }
  DictionaryList& dictionaries() { return dictionaries_; }

 protected:
  Status take_rows(const ArrayView& root) override;
  Status finish_file(WriteSummary* summary) override;

 private:
  FileWriter(Field schema, WriterOptions options,
             std::unique_ptr<WritableFile> file);

  // How many rows to append before flush_if_full() is asked again.
  uint64_t step(uint64_t left) const;
  Status gather_rows(const Column& from, const uint64_t* rows, uint64_t count,
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
  std::optional<ClusterIndexWriter> index_;
  SecondaryIndexWriter secondary_;
  ColumnBloomWriter column_bloom_;
  SpilledHashes bloom_hashes_;
  std::vector<ZoneBuilder> zones_;
  DictionaryList dictionaries_;
  std::vector<StreamShared> shared_;  // of each stream
  Column stripe_;
  KeyBuffer keys_;  // of the rows that are being appended

  uint64_t position_ = 0;
  uint64_t num_rows_ = 0;  // in stripes that have been written
  uint64_t group_first_row_ = 0;
  uint64_t group_begin_ = 0;
  std::vector<StripeMeta> group_;
  FileFooter footer_;
  uint64_t required_features_ = 0;
  std::vector<std::string> encodings_;
};

}  // namespace nimble
