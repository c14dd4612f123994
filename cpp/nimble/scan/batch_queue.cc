#include "nimble/scan/batch_queue.h"

#include <optional>
#include <utility>

namespace nimble {

Batches::Batches(Batches&& o) noexcept
    : status(std::move(o.status)), arrays(std::move(o.arrays)) {
  o.arrays.clear();
}
Batches& Batches::operator=(Batches&& o) noexcept {
  std::swap(status, o.status);
  std::swap(arrays, o.arrays);
  return *this;
}
Batches::~Batches() {
  for (ArrowArray& a : arrays) {
    if (a.release != nullptr) a.release(&a);
  }
}

Status BatchQueue::next(ArrowArray* out) {
  *out = ArrowArray{};
  while (next_ready_ == ready_.arrays.size()) {
    if (ended_) return Status::ok();
    if (!ready_.status) {
      ended_ = true;
      return std::move(ready_.status);
    }
    if (tasks_.is_lost()) {
      return Status::invalid_argument(
          "a scan with threads that began before fork() ends with it in the "
          "child: begin it anew");
    }
    std::optional<Batches> made = tasks_.next();
    ended_ = !made.has_value();
    if (ended_) return Status::ok();
    ready_ = std::move(*made);
    next_ready_ = 0;
  }
  ArrowArray& array = ready_.arrays[next_ready_++];
  *out = array;
  array.release = nullptr;
  return Status::ok();
}

}  // namespace nimble
