// Column: exporting the buffers as an Arrow array, which keeps the column
// alive. Only offsets of another width are copied.
#include <cassert>
#include <memory>

#include "nimble/base/compiler.h"
#include "nimble/column/column.h"

namespace nimble {
namespace {

// The buffers that one exported node owns in addition to the shared column.
struct Holder {
  std::shared_ptr<const void> owner;
  std::vector<AlignedBuffer> made;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
  ArrowArray dictionary{};
};

void release_array(ArrowArray* a) {
  for (int64_t i = 0; i < a->n_children; ++i) {
    if (a->children[i]->release != nullptr)
      a->children[i]->release(a->children[i]);
  }
  if (a->dictionary != nullptr && a->dictionary->release != nullptr) {
    a->dictionary->release(a->dictionary);
  }
  delete static_cast<Holder*>(a->private_data);
  a->release = nullptr;
}

// Returns false if some value is negative or too large. Combining the bits of
// all values avoids a branch per value.
NIMBLE_CLONES bool narrow_ends(const int64_t* __restrict from, size_t n,
                               int32_t* __restrict to) {
  int64_t bits = 0;
  for (size_t i = 0; i < n; ++i) {
    bits |= from[i];
    to[i] = static_cast<int32_t>(from[i]);
  }
  return bits >= 0 && bits <= INT32_MAX;
}

// Arrow requires an address even for empty buffers.
const void* address(const uint8_t* p) {
  alignas(64) static const uint8_t empty[64] = {};
  return p != nullptr ? p : empty;
}

}  // namespace

class ColumnExporter {
 public:
  // If `owner` is null, the buffers are lent.
  ColumnExporter(const Column& column, std::shared_ptr<const void> owner)
      : column_(column),
        lends_(owner == nullptr),
        holder_(std::make_unique<Holder>()) {
    holder_->owner = std::move(owner);
  }

  Status run(ArrowArray* out) {
    const Field& f = column_.field();
    if (f.has_validity()) {
      holder_->buffers.push_back(
          column_.null_count_ > 0 ? column_.validity.data() : nullptr);
    }
    Status status = add_values();
    if (status) status = add_children();
    if (!status) {
      for (ArrowArray& c : holder_->children) {
        if (c.release != nullptr) c.release(&c);
      }
      return status;
    }
    *out = ArrowArray{};
    out->length = static_cast<int64_t>(column_.length_);
    out->null_count = f.layout == Layout::kNull
                          ? out->length
                          : static_cast<int64_t>(column_.null_count_);
    out->n_buffers = static_cast<int64_t>(holder_->buffers.size());
    out->buffers = holder_->buffers.data();
    out->n_children = static_cast<int64_t>(holder_->children.size());
    for (ArrowArray& c : holder_->children)
      holder_->child_pointers.push_back(&c);
    out->children =
        out->n_children > 0 ? holder_->child_pointers.data() : nullptr;
    if (holder_->dictionary.release != nullptr) {
      out->dictionary = &holder_->dictionary;
    }
    out->release = release_array;
    out->private_data = holder_.release();
    return Status::ok();
  }

 private:
  template <class T>
  T* make(size_t count) {
    holder_->made.emplace_back(count * sizeof(T));
    return holder_->made.back().as<T>();
  }
  void add(const void* buffer) { holder_->buffers.push_back(buffer); }

  // Adds non-negative ends as 32-bit values. Fails if one does not fit.
  Status add_narrow(const int64_t* from, size_t count) {
    auto* to = make<int32_t>(count);
    if (!narrow_ends(from, count, to)) {
      return Status::too_large("more than " + std::to_string(INT32_MAX) +
                               " items do not fit in one array of " +
                               column_.field().type_name() +
                               "; read fewer rows at a time");
    }
    add(to);
    return Status::ok();
  }

  Status add_offsets(const int64_t* from, size_t count) {
    if (!column_.field().wide_offsets) return add_narrow(from, count);
    int64_t* to = make<int64_t>(count);
    if (count > 0) std::memcpy(to, from, count * 8);
    add(to);
    return Status::ok();
  }

  Status add_strings() {
    const BytesSink& b = column_.bytes;
    if (column_.field().is_view && !lends_) return add_views();
    if (b.count == 0) {
      add(address(nullptr));
    } else if (lends_) {
      assert(b.wide);
      add(b.offsets.data());
    } else if (b.wide == column_.field().wide_offsets) {
      if (!b.wide && b.data.size() > size_t{INT32_MAX}) return too_long();
      add(b.offsets.data());
    } else {
      if (b.data.size() > size_t{INT32_MAX}) return too_long();
      NIMBLE_RETURN_IF_ERROR(add_narrow(b.offsets.as<int64_t>(), b.count + 1));
    }
    add(address(b.data.data()));
    return Status::ok();
  }
  Status too_long() const {
    return Status::too_large(std::to_string(column_.bytes.data.size()) +
                             " bytes do not fit in one array of " +
                             column_.field().type_name() +
                             "; read fewer rows at a time");
  }

  Status add_views() {
    const BytesSink& b = column_.bytes;
    uint8_t* views = make<uint8_t>(b.count * 16);
    add(views);
    std::vector<int64_t> sizes;
    uint64_t base = 0;
    for (uint64_t i = 0; i < b.count; ++i, views += 16) {
      const uint64_t begin = b.begin_of(i), end = b.end_of(i);
      const uint8_t* bytes = b.data.data() + begin;
      std::memset(views, 0, 16);
      store(views, static_cast<int32_t>(end - begin));
      if (end - begin <= 12) {
        if (end > begin) std::memcpy(views + 4, bytes, end - begin);
        continue;
      }
      // View offsets are 32-bit, so longer data becomes several buffers.
      if (sizes.empty() || end - base > uint64_t{INT32_MAX}) {
        base = begin;
        add(b.data.data() + base);
        sizes.push_back(0);
      }
      std::memcpy(views + 4, bytes, 4);
      store(views + 8, static_cast<int32_t>(sizes.size() - 1));
      store(views + 12, static_cast<int32_t>(begin - base));
      sizes.back() = static_cast<int64_t>(end - base);
    }
    int64_t* out = make<int64_t>(sizes.size());
    if (!sizes.empty()) std::memcpy(out, sizes.data(), sizes.size() * 8);
    add(address(reinterpret_cast<const uint8_t*>(out)));
    return Status::ok();
  }

  Status add_lists() {
    const std::vector<int64_t>& ends = column_.ends;
    const size_t n = column_.length_;
    if (!column_.field().is_view) return add_offsets(ends.data(), n + 1);
    NIMBLE_RETURN_IF_ERROR(add_offsets(ends.data(), n));
    std::vector<int64_t> sizes(n);
    for (size_t i = 0; i < n; ++i) sizes[i] = ends[i + 1] - ends[i];
    return add_offsets(sizes.data(), n);
  }

  Status add_values() {
    switch (column_.field().layout) {
      case Layout::kFixed:
      case Layout::kDictionary:
        add(address(column_.value_data()));
        return Status::ok();
      case Layout::kBool:
        add(address(column_.values.data()));
        return Status::ok();
      case Layout::kBytes:
        return add_strings();
      case Layout::kList:
        return add_lists();
      case Layout::kUnion:
        add(address(column_.values.data()));
        if (!column_.field().is_dense_union) return Status::ok();
        return add_narrow(column_.ends.data(), column_.length_);
      default:
        return Status::ok();
    }
  }

  Status add_children() {
    const Field& f = column_.field();
    if (f.layout == Layout::kDictionary) {
      std::shared_ptr<const DictionaryValues> values = column_.dictionary;
      if (lends_ && column_.mapper != nullptr) {
        return ColumnExporter(column_.mapper->values, nullptr)
            .run(&holder_->dictionary);
      }
      // A column without rows has no dictionary yet.
      if (!values) values = std::make_shared<DictionaryValues>(f.dictionary[0]);
      return ColumnExporter(values->values, values).run(&holder_->dictionary);
    }
    if (f.layout == Layout::kRunEnd) NIMBLE_RETURN_IF_ERROR(add_run_ends());
    for (const Column& c : column_.children) {
      ArrowArray child{};
      NIMBLE_RETURN_IF_ERROR(ColumnExporter(c, holder_->owner).run(&child));
      holder_->children.push_back(child);
    }
    return Status::ok();
  }

  Status add_run_ends() {
    Column ends(column_.field().children[0], false);
    const std::vector<int64_t>& from = column_.ends;
    uint8_t* to = ends.extend_values(from.size());
    const uint32_t width = ends.field().width;
    for (size_t i = 0; i < from.size(); ++i, to += width) {
      if (width < 8 && from[i] >= int64_t{1} << (width * 8 - 1)) {
        return Status::invalid_argument(
            "run end " + std::to_string(from[i]) + " does not fit in " +
            ends.field().type_name() + "; read fewer rows at a time");
      }
      std::memcpy(to, &from[i], width);
    }
    ends.add_rows(from.size());
    ArrowArray child{};
    NIMBLE_RETURN_IF_ERROR(std::move(ends).export_array(&child));
    holder_->children.push_back(child);
    return Status::ok();
  }

  const Column& column_;
  const bool lends_;
  std::unique_ptr<Holder> holder_;
};

Status Column::export_array(ArrowArray* out) && {
  return share_array(std::make_shared<const Column>(std::move(*this)), out);
}

Status Column::share_array(const std::shared_ptr<const Column>& column,
                           ArrowArray* out) {
  return ColumnExporter(*column, column).run(out);
}

Status Column::lend_array(ArrowArray* out) const {
  return ColumnExporter(*this, nullptr).run(out);
}

}  // namespace nimble
