#include "nimble/write/stripe_key_encoder.h"

#include <algorithm>

namespace nimble {
namespace {

// Changes a field to the type that a writer's column has in memory: see
// Column::lend_array().
void widen(Field* f) {
  if (f->layout == Layout::kBytes) {
    f->format = f->logical == Logical::kText ? "U" : "Z";
    f->wide_offsets = true;
    f->is_view = false;
  }
  for (Field& c : f->children) widen(&c);
  for (Field& d : f->dictionary) widen(&d);
}

// An Arrow struct of borrowed children. The destructor releases them.
class LentStruct {
 public:
  explicit LentStruct(size_t n) : children_(n), pointers_(n) {}
  ~LentStruct() {
    for (ArrowArray& c : children_) {
      if (c.release != nullptr) c.release(&c);
    }
  }
  ArrowArray* child(size_t i) { return &children_[i]; }
  const ArrowArray& array(uint64_t length) {
    for (size_t i = 0; i < children_.size(); ++i) pointers_[i] = &children_[i];
    array_.length = static_cast<int64_t>(length);
    array_.n_buffers = 1;
    array_.buffers = buffers_;
    array_.n_children = static_cast<int64_t>(children_.size());
    array_.children = pointers_.data();
    return array_;
  }

 private:
  std::vector<ArrowArray> children_;
  std::vector<ArrowArray*> pointers_;
  const void* buffers_[1] = {nullptr};
  ArrowArray array_{};
};

}  // namespace

Result<StripeKeyEncoder> StripeKeyEncoder::create(
    const Field& schema, const std::vector<KeyColumnSpec>& columns) {
  Field root = schema;
  root.children.clear();
  std::vector<size_t> tops;
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumnSpec& c : columns) {
    const auto top = static_cast<size_t>(c.path.front());
    auto place = static_cast<size_t>(std::find(tops.begin(), tops.end(), top) -
                                     tops.begin());
    if (place == tops.size()) {
      tops.push_back(top);
      root.children.push_back(schema.children[top]);
      widen(&root.children.back());
    }
    KeyColumnSpec spec = c;
    spec.path.front() = static_cast<int>(place);
    specs.push_back(std::move(spec));
  }
  NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder, KeyEncoder::create(root, specs));
  return StripeKeyEncoder(std::move(root), std::move(tops), std::move(encoder));
}

Status StripeKeyEncoder::encode(const Column& root, uint64_t begin,
                                uint64_t count, KeyBuffer* out) const {
  LentStruct lent(tops_.size());
  for (size_t i = 0; i < tops_.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(root.children[tops_[i]].lend_array(lent.child(i)));
  }
  NIMBLE_ASSIGN_OR_RETURN(
      const ArrayView view,
      ArrayView::open(root_, lent.array(root.length()), ""));
  return encoder_.encode(view, static_cast<int64_t>(begin),
                         static_cast<int64_t>(count), out);
}

}  // namespace nimble
