#include "nimble/parquet/parquet_file.h"

#include <algorithm>

#include "nimble/base/byte_reader.h"
#include "nimble/parquet/assemble.h"

namespace nimble::parquet {
namespace {

constexpr uint32_t kDictionaryPage = UINT32_MAX;

// A bitmap of the encodings that a chunk may have, for values and for levels.
constexpr uint32_t kReadableEncodings =
    1u << 0 | 1u << 2 | 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 |
    // bit-packed levels are listed here, but reading such a page fails
    1u << 9 | 1u << 4;

uint64_t next_id() {
  static std::atomic<uint64_t> id{0};
  return ++id;
}

}  // namespace

// A page that a read needs, with the rows to read from it.
struct ParquetFile::Needed {
  size_t leaf;    // position in the read's leaves
  uint32_t page;  // or kDictionaryPage
  uint64_t offset;
  uint32_t size;
  uint64_t rows;  // of the page
  std::vector<uint32_t> wanted;
  std::shared_ptr<const void> opened;
};

Result<std::shared_ptr<const ParquetFile>> ParquetFile::open(
    std::shared_ptr<const ReadableFile> file, ByteSpan footer,
    ByteSpan page_table, Field schema, std::shared_ptr<PageCache> cache,
    std::shared_ptr<PageStats> stats, Decompress decompress) {
  std::shared_ptr<ParquetFile> out(new ParquetFile());
  out->file_ = std::move(file);
  NIMBLE_ASSIGN_OR_RETURN(out->metadata_, Metadata::parse(footer));
  out->first_rows_.push_back(0);
  for (const GroupInfo& g : out->metadata_.groups) {
    out->first_rows_.push_back(out->first_rows_.back() +
                               static_cast<uint64_t>(g.num_rows));
  }
  NIMBLE_RETURN_IF_ERROR(out->parse_page_table(page_table));
  const std::vector<uint32_t> columns = out->metadata_.columns();
  if (columns.size() != schema.children.size()) {
    return Status::corrupt(
        out->file_->name() + ": " + std::to_string(columns.size()) +
        " columns; expected " + std::to_string(schema.children.size()));
  }
  out->schema_ = std::move(schema);
  for (size_t i = 0; i < columns.size(); ++i) {
    auto plan =
        ColumnPlan::make(out->metadata_, columns[i], out->schema_.children[i]);
    out->reasons_.emplace_back(plan ? "" : plan.error().message());
    if (plan) {
      out->plans_.emplace_back(std::move(plan).value());
    } else {
      out->plans_.emplace_back();
    }
  }
  out->cache_ = std::move(cache);
  out->stats_ = std::move(stats);
  out->decompress_ = std::move(decompress);
  out->id_ = next_id();
  return std::shared_ptr<const ParquetFile>(std::move(out));
}

Status ParquetFile::parse_page_table(ByteSpan bytes) {
  ByteReader in(bytes);
  for (const GroupInfo& group : metadata_.groups) {
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      ChunkPages chunk;
      chunk.dictionary_offset = in.get_varint();
      const uint64_t dictionary = in.get_varint();
      const uint64_t count = in.get_varint();
      if (dictionary > INT32_MAX || count > in.remaining()) in.fail();
      chunk.dictionary_size = static_cast<uint32_t>(dictionary);
      for (uint64_t p = 0; p < count && in.ok(); ++p) {
        const uint64_t offset = in.get_varint();
        const uint64_t size = in.get_varint();
        if (size > INT32_MAX) in.fail();
        chunk.pages.push_back(
            {offset, static_cast<uint32_t>(size), in.get_varint()});
      }
      NIMBLE_RETURN_IF_ERROR(in.status("Parquet page table"));
      if (!chunk.pages.empty()) {
        NIMBLE_RETURN_IF_ERROR(check_pages(
            chunk, file_->size(), static_cast<uint64_t>(group.num_rows)));
      }
      chunks_.push_back(std::move(chunk));
    }
  }
  return Status::ok();
}

Status ParquetFile::check_chunk(const LeafPlan& leaf, uint32_t group) const {
  const ChunkInfo& chunk = metadata_.groups[group].chunks[leaf.leaf];
  const auto fail = [&](const char* why) {
    return Status::unsupported(file_->name() + ": row group " +
                               std::to_string(group) + ", leaf " +
                               std::to_string(leaf.leaf) + ": " + why);
  };
  if (chunk.is_elsewhere) return fail("encrypted, or in another file");
  if (chunk.physical != static_cast<int32_t>(leaf.values.physical)) {
    return Status::corrupt(
        file_->name() + ": row group " + std::to_string(group) + ", leaf " +
        std::to_string(leaf.leaf) + ": physical type " +
        std::to_string(chunk.physical) + "; expected " +
        std::to_string(static_cast<int>(leaf.values.physical)));
  }
  if ((chunk.encodings & ~kReadableEncodings) != 0) return fail("encoding");
  if (chunks_[group * metadata_.num_leaves + leaf.leaf].pages.empty()) {
    return fail("its pages are not known");
  }
  return Status::ok();
}

std::string ParquetFile::unsupported(uint32_t column) const {
  if (column >= plans_.size()) return "no such column";
  if (!plans_[column]) return reasons_[column];
  for (uint32_t g = 0; g < metadata_.groups.size(); ++g) {
    if (metadata_.groups[g].num_rows == 0) continue;
    for (const LeafPlan& leaf : plans_[column]->leaves) {
      const Status status = check_chunk(leaf, g);
      if (!status) return std::string(status.message());
    }
  }
  return "";
}

Result<ReadRows> ParquetFile::read(std::span<const uint32_t> columns,
                                   std::span<const uint64_t> rows) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= num_rows() || (i > 0 && rows[i] <= rows[i - 1])) {
      return Status::invalid_argument(
          file_->name() + ": row " + std::to_string(rows[i]) +
          ": expected ascending rows below " + std::to_string(num_rows()));
    }
  }
  auto field = std::make_unique<Field>();
  field->format = "+s";
  for (const uint32_t c : columns) {
    if (c >= plans_.size()) {
      return Status::invalid_argument(file_->name() + ": no column " +
                                      std::to_string(c));
    }
    if (!plans_[c]) return Status::unsupported(reasons_[c]);
    field->children.push_back(schema_.children[c]);
  }
  NIMBLE_RETURN_IF_ERROR(field->resolve(""));
  auto root = std::make_unique<Column>(*field, false);
  std::vector<const LeafPlan*> leaves;
  std::vector<Column*> outs;
  std::vector<std::vector<LeafLevels>> levels(columns.size());
  std::vector<LeafLevels*> level_of;
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnPlan& plan = *plans_[columns[i]];
    const bool is_nested = plan.root.kind != PlanNode::Kind::kLeaf;
    leaf_columns(plan.root, &root->children[i], &outs);
    levels[i].resize(plan.leaves.size());
    for (size_t l = 0; l < plan.leaves.size(); ++l) {
      leaves.push_back(&plan.leaves[l]);
      level_of.push_back(is_nested ? &levels[i][l] : nullptr);
    }
  }
  size_t done = 0;
  while (done < rows.size()) {
    const auto after =
        std::upper_bound(first_rows_.begin(), first_rows_.end(), rows[done]);
    const auto group = static_cast<uint32_t>(after - first_rows_.begin()) - 1;
    const auto end = static_cast<size_t>(
        std::lower_bound(rows.begin() + static_cast<std::ptrdiff_t>(done),
                         rows.end(), first_rows_[group + 1]) -
        rows.begin());
    NIMBLE_RETURN_IF_ERROR(read_group(group, rows.subspan(done, end - done),
                                      leaves, outs, level_of));
    done = end;
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnPlan& plan = *plans_[columns[i]];
    NIMBLE_RETURN_IF_ERROR(
        assemble(plan.root, plan.leaves, levels[i], &root->children[i]));
    if (root->children[i].length() != rows.size()) {
      return Status::corrupt(file_->name() + ": column " +
                             std::to_string(columns[i]) + " has " +
                             std::to_string(root->children[i].length()) +
                             " of " + std::to_string(rows.size()) + " rows");
    }
  }
  root->add_rows(rows.size());
  return ReadRows{std::move(field), std::move(root)};
}

Status ParquetFile::read_group(uint32_t group, std::span<const uint64_t> rows,
                               std::span<const LeafPlan* const> leaves,
                               std::span<Column* const> outs,
                               std::span<LeafLevels* const> levels) const {
  std::vector<Needed> needed;
  const auto num_rows = static_cast<uint64_t>(metadata_.groups[group].num_rows);
  for (size_t l = 0; l < leaves.size(); ++l) {
    NIMBLE_RETURN_IF_ERROR(check_chunk(*leaves[l], group));
    const ChunkPages& chunk =
        chunks_[group * metadata_.num_leaves + leaves[l]->leaf];
    if (chunk.dictionary_size > 0) {
      needed.push_back({l,
                        kDictionaryPage,
                        chunk.dictionary_offset,
                        chunk.dictionary_size,
                        0,
                        {},
                        nullptr});
    }
    const auto& pages = chunk.pages;
    const auto end_of = [&](size_t page) {
      return page + 1 < pages.size() ? pages[page + 1].first_row : num_rows;
    };
    const auto is_in = [&](size_t page, uint64_t row) {
      return row - first_rows_[group] < end_of(page);
    };
    size_t at = 0;
    while (at < rows.size()) {
      const uint64_t row = rows[at] - first_rows_[group];
      const auto after = std::upper_bound(
          pages.begin(), pages.end(), row,
          [](uint64_t r, const PageRef& p) { return r < p.first_row; });
      const auto page = static_cast<size_t>(after - pages.begin()) - 1;
      const uint64_t end = end_of(page);
      const PageRef& ref = pages[page];
      Needed n{l,        static_cast<uint32_t>(page), ref.offset,
               ref.size, end - ref.first_row,         {},
               nullptr};
      for (; at < rows.size() && rows[at] - first_rows_[group] < end; ++at) {
        n.wanted.push_back(static_cast<uint32_t>(rows[at] - first_rows_[group] -
                                                 ref.first_row));
      }
      // Some writers let a row continue in the next page. Opening that page
      // then fails, and another reader reads the rows.
      const bool may_go_on = leaves[l]->max_repetition > 0 &&
                             n.wanted.back() + 1 == n.rows &&
                             page + 1 < pages.size();
      needed.push_back(std::move(n));
      if (!may_go_on || (at < rows.size() && is_in(page + 1, rows[at]))) {
        continue;
      }
      const PageRef& next = pages[page + 1];
      needed.push_back({l,
                        static_cast<uint32_t>(page + 1),
                        next.offset,
                        next.size,
                        end_of(page + 1) - next.first_row,
                        {},
                        nullptr});
    }
  }
  NIMBLE_RETURN_IF_ERROR(fetch(group, leaves, &needed));
  for (const Needed& n : needed) {
    if (n.page == kDictionaryPage) continue;
    const auto* page = static_cast<const DataPage*>(n.opened.get());
    Status status =
        page->read(n.wanted, *leaves[n.leaf], outs[n.leaf], levels[n.leaf]);
    if (!status) {
      return std::move(status).with_context(
          file_->name() + ", page at offset " + std::to_string(n.offset));
    }
  }
  return Status::ok();
}

// Opens the pages that are not in the cache, after one round of reads.
Status ParquetFile::fetch(uint32_t group,
                          std::span<const LeafPlan* const> leaves,
                          std::vector<Needed>* needed) const {
  const auto key_of = [&](const Needed& n) {
    return PageKey{id_, group, leaves[n.leaf]->leaf, n.page};
  };
  std::vector<AlignedBuffer> buffers(needed->size());
  std::vector<ReadRequest> requests;
  uint64_t bytes = 0;
  for (size_t i = 0; i < needed->size(); ++i) {
    Needed& n = (*needed)[i];
    n.opened = cache_->find(key_of(n));
    if (n.opened != nullptr) continue;
    buffers[i].resize(n.size);
    requests.push_back({n.offset, n.size, buffers[i].data()});
    bytes += n.size;
  }
  if (!requests.empty()) {
    NIMBLE_RETURN_IF_ERROR(file_->read_many(requests));
    stats_->reads += requests.size();
    stats_->bytes += bytes;
    ++stats_->rounds;
  }
  std::shared_ptr<const Dictionary> dictionary;  // of the previous leaf
  size_t dictionary_leaf = SIZE_MAX;
  for (size_t i = 0; i < needed->size(); ++i) {
    Needed& n = (*needed)[i];
    const LeafPlan& leaf = *leaves[n.leaf];
    const auto codec =
        static_cast<Codec>(metadata_.groups[group].chunks[leaf.leaf].codec);
    if (n.opened == nullptr) {
      uint64_t size = 0;
      Status status;
      if (n.page == kDictionaryPage) {
        auto opened =
            Dictionary::open(buffers[i].span(), leaf, codec, decompress_);
        if (opened) {
          size = (*opened)->memory_bytes();
          n.opened = std::move(opened).value();
        } else {
          status = std::move(opened).error();
        }
      } else {
        std::shared_ptr<const PageValues> values;
        if (dictionary_leaf == n.leaf) {
          values = {dictionary, &dictionary->values};
        }
        auto opened = DataPage::open(buffers[i].span(), leaf, codec, n.rows,
                                     std::move(values), decompress_);
        if (opened) {
          size = (*opened)->memory_bytes();
          n.opened = std::move(opened).value();
        } else {
          status = std::move(opened).error();
        }
      }
      if (!status) {
        return std::move(status).with_context(
            file_->name() + ", page at offset " + std::to_string(n.offset));
      }
      ++stats_->pages;
      cache_->put(key_of(n), n.opened, size);
      buffers[i] = AlignedBuffer();
    }
    if (n.page == kDictionaryPage) {
      dictionary = std::static_pointer_cast<const Dictionary>(n.opened);
      dictionary_leaf = n.leaf;
    }
  }
  return Status::ok();
}

}  // namespace nimble::parquet
