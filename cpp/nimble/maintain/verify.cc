#include "nimble/maintain/verify.h"

#include <algorithm>

#include "nimble/cursor/cluster_cursor.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/scan/column_bloom.h"
#include "nimble/scan/nearest/vector_index.h"
#include "nimble/scan/zone_map.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {
namespace {

constexpr uint64_t kBatchRows = 65536;

Status check_magic(const FileReader& file) {
  uint8_t head[sizeof kMagic];
  NIMBLE_RETURN_IF_ERROR(file.file().read_at({0, sizeof head, head}));
  if (std::memcmp(head, kMagic, sizeof head) == 0) return Status::ok();
  return Status::corrupt(file.file().name() +
                         ": does not begin with the magic 'NIMBLEPY'");
}

// Compares the keys of rows [begin, end) with the key stream, and checks their
// order.
class KeyChecker {
 public:
  explicit KeyChecker(const FileReader& file)
      : file_(file), cursor_(file.cluster()) {}

  Status check(const ArrayView& rows, uint64_t first_row) {
    keys_.clear();
    NIMBLE_RETURN_IF_ERROR(
        file_.encoder()->encode(rows, 0, rows.length(), &keys_));
    for (size_t i = 0; i < keys_.size(); ++i) {
      NIMBLE_RETURN_IF_ERROR(check_key(first_row + i, keys_.key(i)));
    }
    return Status::ok();
  }

 private:
  Status check_key(uint64_t row, ByteSpan key) {
    NIMBLE_ASSIGN_OR_RETURN(const bool is_stored,
                            cursor_.stored_key_at(row, &stored_));
    if (is_stored && compare_bytes(stored_.span(), key) != 0) {
      return wrong(row, "the key stream has another key than the row");
    }
    if (row > 0) {
      const int c = compare_bytes(last_.span(), key);
      if (c > 0) return wrong(row, "its key is below that of the row before");
      if (c == 0 && file_.footer().cluster->unique) {
        return wrong(row, "its key repeats in a file of unique keys");
      }
    }
    NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom,
                            file_.cluster().bloom(UINT32_MAX));
    if (bloom != nullptr && !bloom->might_contain(key)) {
      return wrong(row, "the Bloom filter does not know its key");
    }
    last_.clear();
    last_.put_bytes(key);
    return Status::ok();
  }
  Status wrong(uint64_t row, const char* what) const {
    return Status::corrupt(file_.file().name() + ": row " +
                           std::to_string(row) + ": " + what);
  }

  const FileReader& file_;
  ClusterCursor cursor_;
  KeyBuffer keys_;
  ByteBuffer stored_, last_;
};

// Compares the secondary indexes with the rows.
class IndexChecker {
 public:
  Status open(const FileReader& file) {
    for (size_t i = 0; i < file.footer().indexes.size(); ++i) {
      NIMBLE_ASSIGN_OR_RETURN(const IndexLookup* index, file.index(i));
      indexes_.push_back(index);
    }
    return Status::ok();
  }
  bool empty() const { return indexes_.empty(); }

  Status check(const ArrayView& rows, uint64_t first_row) {
    for (size_t i = 0; i < indexes_.size(); ++i) {
      keys_.clear();
      NIMBLE_RETURN_IF_ERROR(
          indexes_[i]->encoder().encode(rows, 0, rows.length(), &keys_));
      NIMBLE_RETURN_IF_ERROR(
          named(i, indexes_[i]->check_rows(keys_, first_row)));
    }
    return Status::ok();
  }
  Status finish() const {
    for (size_t i = 0; i < indexes_.size(); ++i) {
      NIMBLE_RETURN_IF_ERROR(named(i, indexes_[i]->check_order()));
    }
    return Status::ok();
  }

 private:
  static Status named(size_t i, Status status) {
    return std::move(status).with_context("index " + std::to_string(i));
  }

  std::vector<const IndexLookup*> indexes_;
  KeyBuffer keys_;
};

// Compares the Bloom filters of columns with the rows.
class BloomChecker {
 public:
  // `schema` is the schema of the rows to check, with all columns.
  Status open(const FileReader& file, const Field& schema) {
    NIMBLE_ASSIGN_OR_RETURN(blooms_, file.column_blooms());
    if (blooms_ == nullptr) return Status::ok();
    for (const uint32_t node : blooms_->nodes()) {
      std::vector<int> path;
      if (!find_path(file.plan(), 0, node, &path)) {
        return Status::corrupt(
            file.file().name() + ": a Bloom filter of node " +
            std::to_string(node) + ", which is not a column");
      }
      NIMBLE_ASSIGN_OR_RETURN(
          KeyEncoder encoder,
          KeyEncoder::create(schema, {{path, SortOrder{}}}));
      parts_.push_back({node, std::move(encoder)});
    }
    return Status::ok();
  }
  bool empty() const { return parts_.empty(); }

  Status check(const ArrayView& rows, uint64_t first_row) {
    for (const Part& part : parts_) {
      keys_.clear();
      NIMBLE_RETURN_IF_ERROR(
          part.encoder.encode(rows, 0, rows.length(), &keys_));
      NIMBLE_RETURN_IF_ERROR(blooms_->check_keys(part.node, keys_, first_row));
    }
    return Status::ok();
  }

 private:
  struct Part {
    uint32_t node;
    KeyEncoder encoder;
  };

  // Finds the child indexes from node `from` down to node `to`, through
  // structs.
  static bool find_path(const StreamPlan& plan, uint32_t from, uint32_t to,
                        std::vector<int>* path) {
    const SchemaNode& n = plan.node(from);
    if (from == to) return !path->empty();
    if (n.field->layout != Layout::kStruct) return false;
    for (size_t i = 0; i < n.children.size(); ++i) {
      path->push_back(static_cast<int>(i));
      if (find_path(plan, n.children[i], to, path)) return true;
      path->pop_back();
    }
    return false;
  }

  std::shared_ptr<const ColumnBlooms> blooms_;
  std::vector<Part> parts_;
  KeyBuffer keys_;
};

}  // namespace

Status verify_file(const FileReader& file) {
  NIMBLE_RETURN_IF_ERROR(check_magic(file));
  std::shared_ptr<const FileReader> borrowed(&file, [](const FileReader*) {});
  NIMBLE_ASSIGN_OR_RETURN(const auto rows, RowReader::create_all(borrowed));
  KeyChecker keys(file);
  IndexChecker indexes;
  NIMBLE_RETURN_IF_ERROR(indexes.open(file));
  BloomChecker blooms;
  NIMBLE_RETURN_IF_ERROR(blooms.open(file, rows->schema()));
  for (uint64_t at = 0; at < file.num_rows();) {
    ArrowArray array{};
    NIMBLE_ASSIGN_OR_RETURN(
        const uint64_t n,
        rows->read_batch(at, std::min(file.num_rows() - at, kBatchRows),
                         &array));
    Status status;
    if (file.encoder() != nullptr || !indexes.empty() || !blooms.empty()) {
      auto view = ArrayView::open(rows->schema(), array, "");
      if (!view) status = std::move(view).error();
      if (status && file.encoder() != nullptr) status = keys.check(*view, at);
      if (status) status = indexes.check(*view, at);
      if (status) status = blooms.check(*view, at);
    }
    array.release(&array);
    NIMBLE_RETURN_IF_ERROR(std::move(status));
    at += n;
  }
  NIMBLE_RETURN_IF_ERROR(indexes.finish());
  for (size_t i = 0; i < file.footer().vectors.size(); ++i) {
    NIMBLE_ASSIGN_OR_RETURN(const auto index, VectorIndex::open(file, i));
    NIMBLE_RETURN_IF_ERROR(index->verify());
  }
  for (const NodeSection& z : file.footer().zones) {
    NIMBLE_RETURN_IF_ERROR(prune_rows(file, z.node, {}).has_value()
                               ? Status()
                               : prune_rows(file, z.node, {}).error());
  }
  for (const auto& column : file.shared().columns()) {
    NIMBLE_RETURN_IF_ERROR(column->verify());
  }
  for (const OptionalSection& s : file.footer().optional_sections) {
    NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const auto bytes,
                            file.read_section(s.section, s.name));
  }
  return Status::ok();
}

}  // namespace nimble
