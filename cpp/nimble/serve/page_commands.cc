// Commands of rows in key order, page by page: NB.PREFIX, NB.RANGE.
#include <algorithm>
#include <array>

#include "nimble/base/hash.h"
#include "nimble/serve/batch/raw_rows.h"
#include "nimble/serve/commands_impl.h"
#include "nimble/serve/page_token.h"
#include "nimble/serve/snapshot/key_filter.h"

namespace nimble {
namespace {

// A filter tests this many rows, and then more if too few of them pass.
constexpr uint64_t kFirstTested = 256;

// Options that a command accepts.
constexpr std::array kPrefixOptions = {"COLS",   "AS",   "LIMIT", "REVERSE",
                                       "STARTS", "PAGE", "FILTER"};
constexpr std::array kRangeOptions = {"COLS",  "AS",        "LIMIT", "REVERSE",
                                      "AFTER", "INCLUSIVE", "PAGE",  "FILTER"};

uint64_t count_of(std::span<const FileRange> rows) {
  uint64_t n = 0;
  for (const FileRange& r : rows) n += r.rows.size();
  return n;
}

// Identifies the snapshot. A table may have one state in two manifests.
uint64_t snapshot_of(const ServedTable& table) {
  const ServingManifest& m = table.manifest();
  return m.snapshot ? static_cast<uint64_t>(*m.snapshot) : m.checksum;
}

// The last row of a read, or nullopt if it has no rows.
std::optional<RowAddress> last_of(std::span<const FileRange> rows,
                                  bool reverse) {
  if (rows.empty()) return std::nullopt;
  const RowRange& range = rows.back().rows;
  return RowAddress{rows.back().file, reverse ? range.begin : range.end - 1};
}

void drop_last(bool reverse, std::vector<FileRange>* rows) {
  RowRange& last = rows->back().rows;
  if (reverse) {
    ++last.begin;
  } else {
    --last.end;
  }
  if (last.empty()) rows->pop_back();
}

// Finds the rows after the previous page: first the other rows with its last
// key, then the rows with later keys. Like find_ordered(), returns up to
// wanted.limit + 1 rows.
Result<std::vector<FileRange>> find_page(const ServedTable& table,
                                         const TypedKey& last,
                                         uint64_t rows_of_last,
                                         OrderedRows wanted) {
  const uint64_t limit = wanted.limit;
  wanted.resume = &last;
  wanted.is_resume_key = true;
  wanted.limit =
      rows_of_last < UINT64_MAX - limit ? rows_of_last + limit : UINT64_MAX;
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> equal,
                          table.find_ordered(wanted));
  std::vector<FileRange> out;
  uint64_t skip = rows_of_last;
  for (FileRange r : equal) {
    const uint64_t n = std::min(skip, r.rows.size());
    skip -= n;
    if (wanted.reverse) {
      r.rows.end -= n;
    } else {
      r.rows.begin += n;
    }
    if (!r.rows.empty()) out.push_back(r);
  }
  const uint64_t n = count_of(out);
  if (n > limit) return out;
  wanted.is_resume_key = false;
  wanted.limit = limit - n;
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> later,
                          table.find_ordered(wanted));
  out.insert(out.end(), later.begin(), later.end());
  return out;
}

}  // namespace

uint64_t Command::request_hash(const ServedTable& table, bool is_prefix,
                               const Options& options) const {
  const ServingManifest& m = table.manifest();
  std::string text;
  const auto add = [&](std::string_view part) {
    text += std::to_string(part.size()) + ":";
    text += part;
  };
  add(m.uuid);
  add(m.name);
  for (const KeyColumnSpec& column : m.cluster_key->columns) {
    add(path_name(table.schema(), column.path));
    text += column.order.descending ? 'd' : 'a';
    text += column.order.nulls_first ? 'f' : 'l';
  }
  text += is_prefix ? 'p' : 'r';
  text += options.reverse ? 'r' : 'f';
  text += options.starts_with ? 's' : 'w';
  add(options.inclusive);
  add(arguments_[2]);
  if (!is_prefix) add(arguments_[3]);
  if (options.filter) {
    for (const std::string_view word : *options.filter) add(word);
  }
  return checksum64(as_bytes(text));
}

Result<std::string> Command::next_page(const ServedTable& table, bool is_prefix,
                                       const Options& options,
                                       OrderedRows wanted, RowAddress last,
                                       const std::string& text,
                                       uint64_t most) const {
  TypedKey key;
  NIMBLE_ASSIGN_OR_RETURN(const bool fits,
                          table.read_cluster_key(text, false, &key));
  if (!fits) return Status::corrupt("the key '" + text + "' cannot be read");
  wanted.resume = &key;
  wanted.is_resume_key = true;
  wanted.limit = most;
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> equal,
                          table.find_ordered(wanted));
  PageToken token;
  for (const FileRange& r : equal) {
    if (r.file == last.file && r.rows.begin <= last.row &&
        last.row < r.rows.end) {
      token.rows_of_key +=
          options.reverse ? r.rows.end - last.row : last.row - r.rows.begin + 1;
      break;
    }
    token.rows_of_key += r.rows.size();
  }
  token.request = request_hash(table, is_prefix, options);
  token.snapshot = snapshot_of(table);
  token.key = text;
  return token.seal(options_.page_secret);
}

Status Command::ordered(bool is_prefix) {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  Options options;
  NIMBLE_RETURN_IF_ERROR(
      is_prefix ? read_options(*table, 3, kPrefixOptions, &options)
                : read_options(*table, 4, kRangeOptions, &options));
  OrderedRows wanted;
  wanted.is_prefix = is_prefix;
  wanted.reverse = options.reverse;
  wanted.limit = std::min(options.limit, options_.max_rows);
  wanted.starts_with = is_prefix && options.starts_with;
  const uint64_t most = wanted.limit;
  std::optional<KeyFilter> filter;
  if (options.filter) {
    NIMBLE_ASSIGN_OR_RETURN(filter, KeyFilter::parse(*table, *options.filter));
    // Rows to test. If too few of them pass, more are tested.
    wanted.limit =
        most > options_.max_rows / 4
            ? options_.max_rows
            : std::min(options_.max_rows, std::max(kFirstTested, 4 * most));
  }
  bool possible = true;
  // `open` is the text that stands for "no bound", if there is one.
  const auto bound = [&](std::string_view text,
                         std::optional<std::string_view> open, bool* has,
                         TypedKey* key) -> Status {
    *has = text != open;
    if (!*has) return Status::ok();
    const bool is_escaped = text == "\\-" || text == "\\+";
    if (open && is_escaped) text.remove_prefix(1);
    NIMBLE_ASSIGN_OR_RETURN(
        const bool fits,
        table->read_cluster_key(text, wanted.starts_with, key));
    if (!fits && !is_prefix) {
      return Status::invalid_argument(
          "bound '" + std::string(text) +
          "' is outside of the values of its column");
    }
    possible &= fits;
    return Status::ok();
  };
  if (is_prefix) {
    NIMBLE_RETURN_IF_ERROR(
        bound(arguments_[2], std::nullopt, &wanted.has_lower, &wanted.lower));
  } else {
    wanted.lower_inclusive = options.inclusive[0] == '[';
    wanted.upper_inclusive = options.inclusive[1] == ']';
    NIMBLE_RETURN_IF_ERROR(
        bound(arguments_[2], "-", &wanted.has_lower, &wanted.lower));
    NIMBLE_RETURN_IF_ERROR(
        bound(arguments_[3], "+", &wanted.has_upper, &wanted.upper));
  }
  if (options.after) {
    if (options.reverse) {
      wanted.upper_inclusive = false;
      NIMBLE_RETURN_IF_ERROR(bound(*options.after, std::nullopt,
                                   &wanted.has_upper, &wanted.upper));
    } else {
      wanted.lower_inclusive = false;
      NIMBLE_RETURN_IF_ERROR(bound(*options.after, std::nullopt,
                                   &wanted.has_lower, &wanted.lower));
    }
  }
  std::vector<FileRange> rows;
  PageToken page;
  bool has_moved = false;
  if (options.page) {
    if (options.after || options.limit == 0) {
      return Status::invalid_argument(
          "PAGE cannot be given with AFTER or LIMIT 0");
    }
    if (!options.page->empty()) {
      NIMBLE_ASSIGN_OR_RETURN(
          page, PageToken::open(*options.page, options_.page_secret));
      if (page.request != request_hash(*table, is_prefix, options)) {
        return Status::invalid_argument(
            "page token: it belongs to another table, or to other bounds; "
            "give the bounds of the first page");
      }
      has_moved = page.snapshot != snapshot_of(*table);
    }
  }
  TypedKey resume;
  if (possible && page.rows_of_key > 0) {
    NIMBLE_ASSIGN_OR_RETURN(const bool fits,
                            table->read_cluster_key(page.key, false, &resume));
    if (!fits) {
      return Status::invalid_argument(
          "page token: the key columns have other types now; begin again "
          "without a token");
    }
  }
  uint64_t walked = 0;
  bool has_more = false;
  std::optional<RowAddress> last;
  for (;;) {
    if (possible && page.rows_of_key > 0) {
      NIMBLE_ASSIGN_OR_RETURN(
          rows, find_page(*table, resume, page.rows_of_key, wanted));
    } else if (possible) {
      NIMBLE_ASSIGN_OR_RETURN(rows, table->find_ordered(wanted));
    }
    // The read may return one row more than the limit. If it does, there are
    // more rows.
    walked = count_of(rows);
    has_more = walked > wanted.limit;
    if (has_more) drop_last(options.reverse, &rows);
    last = last_of(rows, options.reverse);
    if (!filter) break;
    std::vector<FileRange> passing;
    NIMBLE_ASSIGN_OR_RETURN(
        [[maybe_unused]] const uint64_t tested,
        filter->append_passing(*table, rows, options.reverse,
                               most < UINT64_MAX ? most + 1 : most, &passing));
    rows = std::move(passing);
    // If too few rows passed, the next page begins after the tested rows.
    if (count_of(rows) > most) {
      drop_last(options.reverse, &rows);
      last = last_of(rows, options.reverse);
      has_more = true;
      break;
    }
    if (!has_more) break;
    if (wanted.limit < options_.max_rows) {
      wanted.limit = wanted.limit > options_.max_rows / 8 ? options_.max_rows
                                                          : 8 * wanted.limit;
      continue;
    }
    if (!options.page) {
      return Status::too_large("the filter has to test more than " +
                               std::to_string(options_.max_rows) +
                               " rows; give PAGE");
    }
    break;
  }
  const uint64_t total = count_of(rows);
  if (has_more && !options.page && options.limit > options_.max_rows) {
    return check_rows(total + 1);
  }
  std::string next;
  const bool has_next = has_more && last;
  if (has_next) {
    NIMBLE_RETURN_IF_ERROR(table->append_cluster_key(*last, &next));
    if (options.page) {
      NIMBLE_ASSIGN_OR_RETURN(
          next, next_page(*table, is_prefix, options, wanted, *last, next,
                          page.rows_of_key + walked));
    }
  }
  text_.clear();
  if (options.as_raw) {
    NIMBLE_RETURN_IF_ERROR(
        append_raw_rows(*table, arrow_request(options),
                        {rows, options.reverse, options_.allow_raw}, &text_));
  } else if (options.as_arrow) {
    NIMBLE_RETURN_IF_ERROR(append_arrow_rows(
        *table, arrow_request(options), rows, options.reverse, {}, &text_));
  } else {
    NIMBLE_RETURN_IF_ERROR(
        read_cells(*table, rows, options.reverse, options.columns));
  }
  reply_->array(options.page ? 3 : 2);
  if (has_next) {
    reply_->text(next);
  } else {
    reply_->null();
  }
  if (options.as_arrow || options.as_raw) {
    reply_->text(text_);
  } else {
    reply_->array(total);
    for (uint64_t i = 0; i < total; ++i) {
      put_cells(i, options.columns.size());
    }
  }
  if (options.page) reply_->integer(has_moved ? 1 : 0);
  return Status::ok();
}

}  // namespace nimble
