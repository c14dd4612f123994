#include "nimble/serve/batch/arrow_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "nimble/serve/batch/arrow_ipc.h"
#include "nimble/serve/snapshot/convert_column.h"
#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/table_rows.h"

namespace nimble {
namespace {

void drop_field_ids(Field* field) {
  std::erase_if(field->metadata,
                [](const auto& m) { return m.first == "PARQUET:field_id"; });
  for (Field& child : field->children) drop_field_ids(&child);
}

// Returns a struct with the columns to send. Dictionaries are sent as their
// values.
Result<std::unique_ptr<const Field>> form_of(const ServedTable& table,
                                             std::span<const uint32_t> columns,
                                             const std::string& probe,
                                             bool may_miss) {
  auto out = std::make_unique<Field>();
  out->format = "+s";
  out->flags = 0;
  if (!probe.empty()) {
    Field& field = out->children.emplace_back();
    field.name = probe;
    field.format = "l";
    field.flags = 0;
  }
  for (const uint32_t c : columns) {
    Field& field =
        out->children.emplace_back(plain_field(table.schema().children[c]));
    drop_field_ids(&field);
    if (may_miss) field.flags |= ARROW_FLAG_NULLABLE;
  }
  NIMBLE_RETURN_IF_ERROR(out->resolve(""));
  return std::unique_ptr<const Field>(std::move(out));
}

// The schema of a reply, and the message with it.
struct ReplyForm {
  std::unique_ptr<const Field> root;
  std::string message;
};

// Returns the form of a reply. Clients often ask for the columns of the request
// before, so each thread keeps its last form: to make one takes a tenth of the
// time of a reply of 100 rows.
Result<std::shared_ptr<const ReplyForm>> reply_form(const ServedTable& table,
                                                    const ArrowRequest& request,
                                                    bool may_miss) {
  struct Kept {
    uint64_t manifest = 0;  // checksum
    std::vector<uint32_t> columns;
    std::string probe;
    bool may_miss = false;
    std::shared_ptr<const ReplyForm> form;
  };
  thread_local Kept kept;
  const uint64_t manifest = table.manifest().checksum;
  if (kept.form != nullptr && kept.manifest == manifest &&
      kept.may_miss == may_miss && kept.probe == request.probe &&
      std::equal(kept.columns.begin(), kept.columns.end(),
                 request.columns.begin(), request.columns.end())) {
    return kept.form;
  }
  auto form = std::make_shared<ReplyForm>();
  NIMBLE_ASSIGN_OR_RETURN(
      form->root, form_of(table, request.columns, request.probe, may_miss));
  IpcWriter writer(&form->message);
  NIMBLE_RETURN_IF_ERROR(writer.write_schema(*form->root));
  // A client chooses the name of the probe column.
  constexpr size_t kMostKept = size_t{64} << 10;
  if (form->message.size() > kMostKept) {
    return std::shared_ptr<const ReplyForm>(std::move(form));
  }
  kept = {manifest,
          {request.columns.begin(), request.columns.end()},
          std::string(request.probe),
          may_miss,
          form};
  return std::shared_ptr<const ReplyForm>(std::move(form));
}

// Decodes rows slice by slice, and writes them in batches of about
// SliceSize::kBytes. The size of the reply is checked after each slice.
class ReplyBatches {
 public:
  // Begins a reply with its schema. Borrows all arguments.
  ReplyBatches(const ReplyForm& form, const TableRows& rows,
               const ArrowRequest& request, std::string* out)
      : form_(*form.root),
        rows_(rows),
        request_(request),
        out_(out),
        writer_(out),
        before_(out->size()),
        first_(request.probe.empty() ? 0 : 1),
        batch_(rows.make_output()),
        plain_(form_, /*wide=*/false) {
    out->append(form.message);
    for (const Field& field : rows.schema().children) {
      is_plain_.push_back(has_dictionary(field) ? 1 : 0);
      has_dictionary_ |= is_plain_.back() != 0;
    }
  }

  // Appends rows. `positions` has a number for each row if the request has a
  // probe.
  Status add(std::span<const FileRange> rows, bool reverse,
             std::span<const int64_t> positions) {
    if (!has_dictionary_) {
      NIMBLE_RETURN_IF_ERROR(rows_.append(rows, reverse, &batch_));
    } else {
      Column part = rows_.make_output();
      NIMBLE_RETURN_IF_ERROR(rows_.append(rows, reverse, &part));
      const std::vector<uint8_t> exists(part.length(), 1);
      NIMBLE_RETURN_IF_ERROR(add_part(part, exists));
    }
    return end_slice(positions);
  }
  // Appends a row for each element of `exists`: the next one of `rows`, or a
  // row of nulls where it is 0.
  Status add_existing(std::span<const FileRange> rows,
                      std::span<const uint8_t> exists,
                      std::span<const int64_t> positions) {
    if (rows.size() == exists.size()) return add(rows, false, positions);
    Column part = rows_.make_output();
    if (!rows.empty()) NIMBLE_RETURN_IF_ERROR(rows_.append(rows, false, &part));
    NIMBLE_RETURN_IF_ERROR(add_part(part, exists));
    return end_slice(positions);
  }
  Status end() {
    if (batch_.length() > 0) NIMBLE_RETURN_IF_ERROR(write());
    writer_.end();
    return Status::ok();
  }
  // Bytes of the rows so far.
  uint64_t num_bytes() const { return out_->size() - before_ + waiting_; }

 private:
  Column& target(size_t i) {
    return is_plain_[i] != 0 ? plain_.children[first_ + i] : batch_.children[i];
  }
  Status add_part(const Column& part, std::span<const uint8_t> exists) {
    for (size_t i = 0; i < part.children.size(); ++i) {
      const Column* values = &part.children[i];
      std::optional<Column> converted;
      if (is_plain_[i] != 0) {
        converted.emplace(form_.children[first_ + i], false);
        NIMBLE_RETURN_IF_ERROR(append_converted(*values, &*converted));
        values = &*converted;
      }
      // Alternates between runs of existing rows and runs of missing rows.
      Column& to = target(i);
      std::vector<uint64_t> run;
      uint64_t next = 0;
      for (size_t k = 0; k < exists.size();) {
        run.clear();
        for (; k < exists.size() && exists[k] != 0; ++k) run.push_back(next++);
        if (!run.empty()) to.append_rows(*values, run.data(), run.size());
        size_t missing = 0;
        for (; k < exists.size() && exists[k] == 0; ++k) ++missing;
        if (missing > 0) append_constant(nullptr, missing, &to);
      }
    }
    batch_.add_rows(exists.size());
    return Status::ok();
  }
  Status end_slice(std::span<const int64_t> positions) {
    if (first_ == 1) {
      positions_.insert(positions_.end(), positions.begin(), positions.end());
    }
    waiting_ = positions_.size() * sizeof(int64_t);
    for (size_t i = 0; i < batch_.children.size(); ++i) {
      waiting_ += target(i).data_bytes();
    }
    NIMBLE_RETURN_IF_ERROR(check_reply_bytes(num_bytes(), request_.max_bytes));
    return waiting_ < SliceSize::kBytes ? Status::ok() : write();
  }
  Status write() {
    std::vector<const Column*> columns;
    std::optional<Column> numbers;
    if (first_ == 1) {
      numbers.emplace(form_.children[0], false);
      std::memcpy(numbers->extend_values(positions_.size()), positions_.data(),
                  positions_.size() * sizeof(int64_t));
      numbers->add_rows(positions_.size());
      columns.push_back(&*numbers);
    }
    for (size_t i = 0; i < batch_.children.size(); ++i) {
      columns.push_back(&target(i));
    }
    NIMBLE_RETURN_IF_ERROR(writer_.write_batch(columns, batch_.length()));
    batch_.clear();
    plain_.clear();
    positions_.clear();
    waiting_ = 0;
    return check_reply_bytes(num_bytes(), request_.max_bytes);
  }

  const Field& form_;
  const TableRows& rows_;
  const ArrowRequest& request_;
  std::string* const out_;
  IpcWriter writer_;
  const size_t before_;
  const size_t first_;  // the reply's column of column 0 of the request
  bool has_dictionary_ = false;
  Column batch_;  // its length is that of the batch
  Column plain_;  // the columns whose files have dictionaries
  std::vector<uint8_t> is_plain_;
  std::vector<int64_t> positions_;
  uint64_t waiting_ = 0;  // bytes of the batch
};

}  // namespace

Status append_arrow_schema(const ServedTable& table,
                           std::span<const uint32_t> columns,
                           std::string* out) {
  NIMBLE_ASSIGN_OR_RETURN(const auto form, form_of(table, columns, "", false));
  IpcWriter writer(out);
  NIMBLE_RETURN_IF_ERROR(writer.write_schema(*form));
  writer.end();
  return Status::ok();
}

Status append_arrow_rows(const ServedTable& table, const ArrowRequest& request,
                         std::span<const FileRange> rows, bool reverse,
                         std::span<const int64_t> positions, std::string* out) {
  NIMBLE_ASSIGN_OR_RETURN(const auto form,
                          reply_form(table, request, request.may_miss));
  NIMBLE_ASSIGN_OR_RETURN(const TableRows reader,
                          TableRows::create(table, rows, request.columns));
  ReplyBatches batches(*form, reader, request, out);
  RowSlices slices(rows, reverse);
  SliceSize size(table.schema(), request.columns);
  for (size_t done = 0; !slices.is_done();) {
    const uint64_t before = batches.num_bytes();
    const std::vector<FileRange> slice = slices.next(size.rows());
    uint64_t n = 0;
    for (const FileRange& r : slice) n += r.rows.size();
    NIMBLE_RETURN_IF_ERROR(batches.add(
        slice, reverse,
        request.probe.empty() ? positions : positions.subspan(done, n)));
    size.add(n, batches.num_bytes() - before);
    done += n;
  }
  return batches.end();
}

Status append_arrow_places(const ServedTable& table,
                           const ArrowRequest& request,
                           std::span<const FileRange> rows,
                           std::span<const size_t> places, std::string* out) {
  NIMBLE_ASSIGN_OR_RETURN(const auto form, reply_form(table, request, true));
  NIMBLE_ASSIGN_OR_RETURN(const TableRows reader,
                          TableRows::create(table, rows, request.columns));
  ReplyBatches batches(*form, reader, request, out);
  SliceSize size(table.schema(), request.columns);
  std::vector<FileRange> wanted;
  std::vector<uint8_t> exists;
  std::vector<int64_t> positions;
  for (size_t at = 0; at < places.size();) {
    const uint64_t before = batches.num_bytes();
    wanted.clear();
    exists.clear();
    positions.clear();
    for (; at < places.size() && exists.size() < SliceSize::kFixedRows &&
           wanted.size() < size.rows();
         ++at) {
      exists.push_back(places[at] == SIZE_MAX ? 0 : 1);
      positions.push_back(static_cast<int64_t>(at));
      if (exists.back() != 0) wanted.push_back(rows[places[at]]);
    }
    NIMBLE_RETURN_IF_ERROR(batches.add_existing(wanted, exists, positions));
    size.add(wanted.size(), batches.num_bytes() - before);
  }
  return batches.end();
}

}  // namespace nimble
