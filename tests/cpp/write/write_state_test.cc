// The behaviour of a writer after a failure, at its end, and during a step.
#include "nimble/write/write_state.h"

#include <new>

#include "testing/check.h"

namespace nimble {
namespace {

Status good() { return Status::ok(); }
Status bad() { return Status::io_error("the disk is full"); }

bool says(const Status& status, const char* text) {
  return status.message().find(text) != std::string_view::npos;
}

TEST(WriteState, NothingFollowsAFailure) {
  WriteState state;
  CHECK(state.run(good));
  CHECK(says(state.run(bad), "the disk is full"));
  CHECK(says(state.run(good), "failed before: the disk is full"));
  CHECK(says(state.finish(good), "failed before: the disk is full"));
}

TEST(WriteState, NothingFollowsAnException) {
  WriteState state;
  try {
    (void)state.run([]() -> Status { throw std::bad_alloc(); });
  } catch (const std::bad_alloc&) {
  }
  CHECK(says(state.finish(good), "failed before"));
}

TEST(WriteState, NothingFollowsTheEnd) {
  WriteState state;
  CHECK(state.finish(good));
  CHECK(says(state.run(good), "finished"));
  CHECK(says(state.finish(good), "finished"));
}

TEST(WriteState, AStepInsideAStepIsRefusedAndChangesNothing) {
  WriteState state;
  Status inner, end;
  CHECK(state.run([&] {
    inner = state.run(good);
    end = state.finish(good);
    return Status::ok();
  }));
  CHECK(says(inner, "busy"));
  CHECK(says(end, "busy"));
  CHECK(state.finish(good));
}

}  // namespace
}  // namespace nimble
