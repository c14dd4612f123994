// Result<T>: a T, or the Status that explains its absence. Member names follow
// C++23's std::expected.
#pragma once

#include <cassert>
#include <utility>
#include <variant>

#include "nimble/base/status.h"

namespace nimble {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : v_(std::in_place_index<1>, std::move(error)) {
    assert(!std::get<1>(v_).is_ok());
  }

  bool has_value() const { return v_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Status& error() const& { return std::get<1>(v_); }
  Status error() && { return std::get<1>(std::move(v_)); }

 private:
  std::variant<T, Status> v_;
};

}  // namespace nimble
