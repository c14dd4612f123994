// ReadAhead: results of tasks in the order of the tasks, made by threads that
// run ahead of whoever takes them. With one thread, or where the system starts
// none, nothing runs ahead: a task is done when its result is asked for.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "nimble/base/blocking.h"
#include "nimble/base/fork_mutex.h"
#include "nimble/base/threads.h"

namespace nimble {

template <class T>
class ReadAhead {
 public:
  using Task = std::function<T()>;

  // `claim` gives the next task, an empty one at the end. One thread at a time
  // calls it; tasks run side by side, and up to `threads` + 1 results wait.
  ReadAhead(std::function<Task()> claim, uint32_t threads)
      : claim_(std::move(claim)), threads_(threads) {}
  ~ReadAhead() {
    if (is_lost()) {  // nobody to wait for, and what they had is half changed
      reinit_leaking(&slots_);
      reinit_leaking(&workers_);
      reinit_leaking(&ready_);  // destroying one waits for its waiters
      reinit_leaking(&room_);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    workers_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Is this a child of the process whose threads run ahead? There is no next
  // result then.
  bool is_lost() const { return !workers_.empty() && forks_ != fork_count(); }

  // The next result, nothing at the end. What a task throws is thrown here.
  // May wait for other threads: not to be called with the GIL held.
  std::optional<T> next() {
    if (threads_ > 1 && !started_) {
      started_ = true;
      forks_ = fork_count();
      workers_.start(threads_, [this] { work(); });
    }
    if (workers_.empty()) {
      const Task task = claim_();
      if (!task) return std::nullopt;
      return task();
    }
    assert_may_wait();
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] {
      return slots_.empty() ? ended_ : slots_.front()->done;
    });
    if (slots_.empty()) {
      if (failed_) std::rethrow_exception(failed_);
      return std::nullopt;
    }
    const std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    lock.unlock();
    room_.notify_one();
    if (slot->thrown) std::rethrow_exception(slot->thrown);
    return std::move(slot->result);
  }

 private:
  struct Slot {
    bool done = false;
    std::optional<T> result;
    std::exception_ptr thrown;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [this] {
        return stopped_ || ended_ || slots_.size() <= threads_;
      });
      if (stopped_ || ended_) return;
      Slot* slot = nullptr;
      Task task;
      try {
        slots_.push_back(std::make_unique<Slot>());
        slot = slots_.back().get();
        task = claim_();
        if (!task) slots_.pop_back();
      } catch (...) {
        if (slot == nullptr) {
          failed_ = std::current_exception();  // no memory for a slot
        } else {
          slot->thrown = std::current_exception();
          slot->done = true;
        }
      }
      if (!task) {
        ended_ = true;
        break;
      }
      lock.unlock();
      run(task, slot);
      lock.lock();
      slot->done = true;
      ready_.notify_all();
    }
    ready_.notify_all();
    room_.notify_all();
  }

  static void run(const Task& task, Slot* slot) {
    try {
      slot->result = task();
    } catch (...) {
      slot->thrown = std::current_exception();
    }
  }

  std::function<Task()> claim_;
  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable ready_;  // a slot is done, or there are no more
  std::condition_variable room_;   // a slot was taken, or all is over
  std::deque<std::unique_ptr<Slot>> slots_;  // in order of the tasks
  std::exception_ptr failed_;                // why there are no more slots
  bool ended_ = false;
  bool stopped_ = false;
  bool started_ = false;
  Threads workers_;
  uint32_t forks_ = 0;  // when they were started
};

}  // namespace nimble
