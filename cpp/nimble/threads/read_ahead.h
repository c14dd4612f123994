// ReadAhead: computes the results of tasks ahead of their consumer and returns
// them in the order of the tasks. The consumer runs a task itself if its result
// is not available, so that threads which the system does not schedule cause no
// delay. With one thread, or if the system starts no threads, nothing is
// computed ahead.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "nimble/threads/blocking.h"
#include "nimble/threads/fork_mutex.h"
#include "nimble/threads/threads.h"

namespace nimble {

template <class T>
class ReadAhead {
 public:
  using Task = std::function<T()>;

  // `claim` returns the next task, or an empty one at the end. It is called by
  // one thread at a time. Tasks run concurrently on up to `threads` threads,
  // including the consumer. Up to twice as many results are kept.
  ReadAhead(std::function<Task()> claim, uint32_t threads)
      : shared_(std::make_shared<Shared>(std::move(claim), threads)),
        threads_(threads) {}
  ~ReadAhead() {
    if (is_lost()) {  // the helpers do not exist here
      reinit_leaking(&shared_);
      return;
    }
    shared_->stop();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Whether this process is a child of the process whose threads compute ahead.
  // next() must not be called then.
  bool is_lost() const { return has_helpers_ && forks_ != fork_count(); }

  // Returns the next result, or nullopt at the end. Rethrows the exceptions of
  // tasks. May wait for other threads.
  // REQUIRES: the GIL is not held; !is_lost().
  std::optional<T> next() {
    if (threads_ > 1 && !started_) {
      started_ = true;
      forks_ = fork_count();
      has_helpers_ = start_threads(threads_ - 1,
                                   [shared = shared_] { shared->help(); }) > 0;
    }
    if (!has_helpers_) {
      const Task task = shared_->claim();
      if (!task) return std::nullopt;
      return task();
    }
    assert_may_wait();
    const std::unique_ptr<Slot> slot = shared_->take();
    if (slot == nullptr) return std::nullopt;
    if (slot->thrown) std::rethrow_exception(slot->thrown);
    return std::move(slot->result);
  }

 private:
  struct Slot {
    bool done = false;
    std::optional<T> result;
    std::exception_ptr thrown;
  };

  // Owned by the helpers as well, because a helper may start or wake up after
  // the consumer has ended.
  struct Shared {
    Shared(std::function<Task()> claim_task, uint32_t num_threads)
        : claim(std::move(claim_task)), threads(num_threads) {}

    std::function<Task()> claim;
    const uint32_t threads;
    std::mutex mutex;
    std::condition_variable ready;  // a task is done, or there are no more
    std::condition_variable room;   // a slot was taken, or all has ended
    std::deque<std::unique_ptr<Slot>> slots;  // in the order of the tasks
    // the error that prevented further slots
    std::exception_ptr failed;
    size_t running = 0;  // number of running tasks
    bool ended = false;
    bool stopped = false;

    void help() {
      std::unique_lock lock(mutex);
      while (true) {
        room.wait(lock, [this] {
          return stopped || ended || slots.size() <= threads;
        });
        if (stopped || ended) return;
        do_task(&lock);
      }
    }

    // Returns the slot of the next task after it is done, or null at the end.
    std::unique_ptr<Slot> take() {
      std::unique_lock lock(mutex);
      while (slots.empty() || !slots.front()->done) {
        if (slots.empty() && ended) {
          if (failed) std::rethrow_exception(failed);
          return nullptr;
        }
        if (!ended && slots.size() < 2 * size_t{threads}) {
          do_task(&lock);
        } else {
          ready.wait(lock);
        }
      }
      std::unique_ptr<Slot> slot = std::move(slots.front());
      slots.pop_front();
      lock.unlock();
      room.notify_one();
      return slot;
    }

    // Prevents further tasks and waits for running tasks.
    void stop() {
      std::unique_lock lock(mutex);
      stopped = true;
      room.notify_all();
      ready.wait(lock, [this] { return running == 0; });
      slots.clear();
      claim = nullptr;
    }

    // Claims the next task and runs it without holding the mutex.
    void do_task(std::unique_lock<std::mutex>* lock) {
      Slot* slot = nullptr;
      Task task;
      try {
        slots.push_back(std::make_unique<Slot>());
        slot = slots.back().get();
        task = claim();
        if (!task) slots.pop_back();
      } catch (...) {
        if (slot == nullptr) {
          failed = std::current_exception();  // no memory for a slot
        } else {
          slot->thrown = std::current_exception();
          slot->done = true;
        }
      }
      if (!task) {
        ended = true;
        ready.notify_all();
        room.notify_all();
        return;
      }
      ++running;
      lock->unlock();
      try {
        slot->result = task();
      } catch (...) {
        slot->thrown = std::current_exception();
      }
      task = nullptr;
      lock->lock();
      --running;
      slot->done = true;
      ready.notify_all();
    }
  };

  std::shared_ptr<Shared> shared_;
  const uint32_t threads_;
  bool started_ = false;
  bool has_helpers_ = false;
  uint32_t forks_ = 0;  // fork_count() when helpers started
};

}  // namespace nimble
