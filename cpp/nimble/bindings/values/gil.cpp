#include "nimble/bindings/values/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "nimble/threads/fork_mutex.h"

namespace nimble {
namespace {

// Number of the core's threads that hold the GIL or wait for it.
std::atomic<int64_t> threads_inside{0};
std::atomic<bool> is_closed{false};

}  // namespace

MaybeGil::MaybeGil()
    : is_core_thread_(PyGILState_GetThisThreadState() == nullptr) {
  // In a child of fork(), the other threads do not exist.
  static const ForkMutex at_fork([](bool) { threads_inside = 0; });
  if (is_core_thread_) {
    ++threads_inside;
    if (is_closed) return;
  }
  gil_.emplace();
}

MaybeGil::~MaybeGil() {
  gil_.reset();
  if (is_core_thread_) --threads_inside;
}

void close_interpreter() {
  is_closed = true;
  const WithoutGil nogil;
  while (threads_inside > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace nimble
