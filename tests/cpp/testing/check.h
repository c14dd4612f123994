// A small test harness.
//
//   TEST(PrefixEncoding, SeekBeforeFirstKeyReturnsFirst) {
//     CHECK(index.contains(7));          // goes on after a failure
//     CHECK_EQ(index.size(), 3);         // prints both values
//     REQUIRE(result.has_value());       // ends this test on failure
//   }
//
// Every tests/cpp/**/*_test.cc is linked into one program, nimble_tests:
// `--list` prints the names, `Suite` or `Suite.Name` arguments choose tests.
#pragma once

#include <concepts>
#include <cstdio>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nimble::testing {

struct Case {
  const char* suite;
  const char* name;
  void (*run)();
};

// Tests register themselves here before main() starts.
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registration {
  Registration(const char* suite, const char* name, void (*run)()) {
    cases().push_back({suite, name, run});
  }
};

// Thrown by REQUIRE and caught by the runner: the rest of the test is skipped.
struct Abandoned {};

inline int failures = 0;

inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  ++failures;
}

template <class T>
concept Number =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
    !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

// Integers compare by value, regardless of their signedness: `size() == 3`.
template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (Number<A> && Number<B>) {
    return std::cmp_equal(a, b);
  } else {
    return a == b;
  }
}

template <class T>
std::string show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (std::same_as<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (Number<T>) {
    out << +value;  // uint8_t as a number
  } else if constexpr (requires { out << value; }) {
    out.precision(17);
    out << value;
  } else if constexpr (requires {
                         value.begin();
                         value.end();
                         value.size();
                       }) {
    out << "[" << value.size() << ":";
    std::size_t shown = 0;
    for (const auto& item : value) {
      if (++shown > 32) break;
      out << ' ' << show(item);
    }
    out << (value.size() > 32 ? " ...]" : "]");
  } else {
    out << "<" << sizeof(T) << "-byte object>";
  }
  return out.str();
}

template <class A, class B>
void check_equal(const A& a, const B& b, const char* expression,
                 const char* file, int line) {
  if (equal(a, b)) return;
  fail(file, line, std::string(expression) + ": " + show(a) + " != " + show(b));
}

// Runs the tests that the arguments select. Returns the exit status.
int run_tests(int argc, char** argv);

}  // namespace nimble::testing

#define TEST(suite, name)                                                     \
  static void test_##suite##_##name();                                        \
  static const ::nimble::testing::Registration registration_##suite##_##name( \
      #suite, #name, test_##suite##_##name);                                  \
  static void test_##suite##_##name()

#define CHECK(...)                                                            \
  do {                                                                        \
    if (!(__VA_ARGS__))                                                       \
      ::nimble::testing::fail(__FILE__, __LINE__, "CHECK(" #__VA_ARGS__ ")"); \
  } while (false)

#define CHECK_EQ(a, b)                                                 \
  ::nimble::testing::check_equal((a), (b), "CHECK_EQ(" #a ", " #b ")", \
                                 __FILE__, __LINE__)

#define REQUIRE(...)                                        \
  do {                                                      \
    if (!(__VA_ARGS__)) {                                   \
      ::nimble::testing::fail(__FILE__, __LINE__,           \
                              "REQUIRE(" #__VA_ARGS__ ")"); \
      throw ::nimble::testing::Abandoned{};                 \
    }                                                       \
  } while (false)
