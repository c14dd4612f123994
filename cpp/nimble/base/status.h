// Status: the outcome of anything that bytes, the disk or a caller can make
// fail. The core neither throws nor catches; bindings turn kinds into Python
// exceptions. An OK status is one null pointer: passing it costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace nimble {

enum class StatusCode : uint8_t {
  kOk,
  kCorrupt,             // bytes of a file contradict each other or a checksum
  kUnsupportedVersion,  // a newer format, or an unknown must-understand bit
  kInvalidArgument,     // the caller asked for something impossible
  kTooLarge,            // more than one Arrow array holds; fewer rows may do
  kNotFound,            // e.g. no index for these columns
  kIoError,             // the operating system said no
  kUnsupported,         // a type or option this version does not have
  kKeyOrder,            // rows are not in cluster key order
  kDuplicateKey,        // a unique cluster key occurs twice
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, int os_error = 0)
      : rep_(std::make_unique<Rep>(
            Rep{code, os_error, std::move(message), nullptr})) {}

  static Status ok() { return {}; }
  static Status corrupt(std::string m) {
    return {StatusCode::kCorrupt, std::move(m)};
  }
  static Status unsupported_version(std::string m) {
    return {StatusCode::kUnsupportedVersion, std::move(m)};
  }
  static Status invalid_argument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }
  static Status too_large(std::string m) {
    return {StatusCode::kTooLarge, std::move(m)};
  }
  static Status not_found(std::string m) {
    return {StatusCode::kNotFound, std::move(m)};
  }
  static Status unsupported(std::string m) {
    return {StatusCode::kUnsupported, std::move(m)};
  }
  static Status io_error(std::string m, int os_error = 0) {
    return {StatusCode::kIoError, std::move(m), os_error};
  }

  bool is_ok() const { return !rep_; }
  explicit operator bool() const { return is_ok(); }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  // errno of a kIoError, 0 where there is none.
  int os_error() const { return rep_ ? rep_->os_error : 0; }
  std::string_view message() const {
    return rep_ ? std::string_view(rep_->message) : std::string_view();
  }
  // What the layer above wants back with the failure, which the core only
  // carries: the exception that a caller's own file raised. Null where there is
  // none.
  const std::shared_ptr<const void>& cause() const {
    static const std::shared_ptr<const void> none;
    return rep_ ? rep_->cause : none;
  }
  Status with_cause(std::shared_ptr<const void> cause) && {
    if (rep_) rep_->cause = std::move(cause);
    return std::move(*this);
  }
  // The same failure with "where: " in front of the message.
  Status with_context(std::string_view where) && {
    if (rep_) rep_->message = std::string(where) + ": " + rep_->message;
    return std::move(*this);
  }

 private:
  struct Rep {
    StatusCode code;
    int os_error;
    std::string message;
    std::shared_ptr<const void> cause;
  };
  std::unique_ptr<Rep> rep_;
};

}  // namespace nimble

// The two macros of the code base: a failure leaves the function at once.
#define NIMBLE_CONCAT_INNER(a, b) a##b
#define NIMBLE_CONCAT(a, b) NIMBLE_CONCAT_INNER(a, b)
#define NIMBLE_RETURN_IF_ERROR(expr) \
  NIMBLE_RETURN_IMPL(NIMBLE_CONCAT(status_, __COUNTER__), expr)
#define NIMBLE_RETURN_IMPL(tmp, expr)                    \
  do {                                                   \
    if (::nimble::Status tmp = (expr); !tmp) return tmp; \
  } while (0)
#define NIMBLE_ASSIGN_OR_RETURN(declaration, expr) \
  NIMBLE_ASSIGN_IMPL(NIMBLE_CONCAT(result_, __COUNTER__), declaration, expr)
#define NIMBLE_ASSIGN_IMPL(tmp, declaration, expr) \
  auto tmp = (expr);                               \
  if (!tmp) return std::move(tmp).error();         \
  declaration = std::move(tmp).value()
