// Threads that do one piece of work together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace nimble {

inline uint32_t default_threads() {
  return std::max(1u, std::thread::hardware_concurrency());
}

// Threads that are joined when they are destroyed at the latest.
class Threads {
 public:
  Threads() = default;
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Starts up to `n` that run `work`, which must not throw. There are fewer,
  // maybe none, where the system starts no more (a limit of processes or of
  // memory): the caller must be able to do the work alone.
  void start(size_t n, const std::function<void()>& work) {
    threads_.reserve(n);
    try {
      while (threads_.size() < n) threads_.emplace_back(work);
    } catch (const std::system_error&) {
      return;
    }
  }
  bool empty() const { return threads_.empty(); }
  void join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace nimble
