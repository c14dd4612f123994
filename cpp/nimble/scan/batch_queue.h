// BatchQueue: the batches of a scan, one at a time and in order, from tasks
// that make some each and may run ahead on other threads.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/threads/read_ahead.h"
#include "nimble/types/arrow_c.h"

namespace nimble {

// The result of one task. Owns its arrays until they are taken.
struct Batches {
  Status status;
  std::vector<ArrowArray> arrays;

  Batches() = default;
  Batches(Batches&& o) noexcept;
  Batches& operator=(Batches&& o) noexcept;
  ~Batches();
};

class BatchQueue {
 public:
  using Task = ReadAhead<Batches>::Task;

  // `claim` and `threads` as in ReadAhead.
  BatchQueue(std::function<Task()> claim, uint32_t threads)
      : tasks_(std::move(claim), threads) {}

  // The next batch; `out->release` is null at the end. A task that fails ends
  // the queue, after the batches that it made. May wait for other threads: not
  // to be called with the GIL held.
  Status next(ArrowArray* out);

 private:
  bool ended_ = false;
  Batches ready_;
  size_t next_ready_ = 0;
  ReadAhead<Batches> tasks_;  // last: its threads use the rest
};

}  // namespace nimble
