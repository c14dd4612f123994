// Runs code in a forked child.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "testing/check.h"

namespace nimble::testing {

// ThreadSanitizer aborts children of multi-threaded processes.
#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

// Returns the result of f() in a child, which must end within 20 s.
template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    ::_exit(f());
  }
  int status = 0;
  CHECK_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace nimble::testing
