// MemoryWatch: asks the system whether it has memory left before more is
// taken. Systems that give out more memory than they have end whoever uses it,
// and a file of a few KB may stand for billions of rows, which are decoded into
// many small buffers as well as into one large.
#pragma once

#include <cstddef>

namespace nimble {

class MemoryWatch {
 public:
  using Available = size_t (*)();
  // A look at the system costs some 50 us; this much takes far longer to fill.
  static constexpr size_t kStep = size_t{256} << 20;
  // Left for everything else that grows meanwhile.
  static constexpr size_t kReserve = size_t{64} << 20;

  explicit MemoryWatch(Available available) : available_(available) {}

  // May so many bytes be taken? Looks before each that is large, and once a
  // step of smaller ones. Not thread-safe.
  bool may_take(size_t size) {
    if (size < kStep && size <= allowed_) {
      allowed_ -= size;
      return true;
    }
    const size_t there = available_();
    if (there < kReserve || there - kReserve < size) return false;
    const size_t left = there - kReserve - size;
    allowed_ = left < kStep ? left : kStep;
    return true;
  }

 private:
  const Available available_;
  size_t allowed_ = 0;
};

}  // namespace nimble
