// WriteState: the states of an object that writes a file in steps.
//
//   open --step--> busy --> open | failed
//   open --finish--> busy --> finished | failed
//
// After a step has failed, the file must not be published, because only a part
// of the step's rows may have been added. All further steps fail. If a step
// begins during another step, on another thread or from a callback, it fails
// and changes nothing. Thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "nimble/io/owner_process.h"

namespace nimble {

class WriteState {
 public:
  // Runs `step`, which returns a Status. An exception counts as a failure.
  template <class Step>
  Status run(Step&& step) {
    return run_to(kOpen, step);
  }
  // Runs the last step.
  template <class Step>
  Status finish(Step&& step) {
    return run_to(kFinished, step);
  }

 private:
  enum State : uint8_t { kOpen, kBusy, kFailed, kFinished };

  struct Leaving {
    std::atomic<State>* state;
    State next = kFailed;
    ~Leaving() { state->store(next); }
  };

  template <class Step>
  Status run_to(State next, Step& step) {
    NIMBLE_RETURN_IF_ERROR(owner_.check());
    State state = kOpen;
    if (!state_.compare_exchange_strong(state, kBusy)) return refusal(state);
    Leaving leaving{&state_};
    Status status = step();
    if (status) {
      leaving.next = next;
    } else {
      reason_ = status.message();
    }
    return status;
  }

  Status refusal(State state) const {
    switch (state) {
      case kBusy:
        return Status::invalid_argument(
            "this writer is busy: another thread or a callback uses it");
      case kFinished:
        return Status::invalid_argument("this writer has finished its file");
      default:
        return Status::invalid_argument(
            "this writer has failed before" +
            (reason_.empty() ? std::string() : ": " + reason_));
    }
  }

  const OwnerProcess owner_;
  std::atomic<State> state_ = kOpen;
  std::string reason_;  // set once, when a step fails
};

}  // namespace nimble
