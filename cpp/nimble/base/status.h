// Status: the outcome of an operation that can fail because of bytes, the disk
// or the caller. The core does not throw for these; only exhausted memory
// throws std::bad_alloc. Bindings convert codes to Python exceptions. An OK
// status is a null pointer, so passing it costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace nimble {

enum class StatusCode : uint8_t {
  kOk,
  kCorrupt,             // file bytes or checksums are inconsistent
  kUnsupportedVersion,  // newer format, or unknown required bit
  kInvalidArgument,     // the request is impossible
  kTooLarge,            // too large for one Arrow array
  kNotFound,            // e.g. no index for these columns
  kIoError,             // an operating system error
  kUnsupported,         // not supported by this version
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
  // errno of a kIoError, else 0.
  int os_error() const { return rep_ ? rep_->os_error : 0; }
  std::string_view message() const {
    return rep_ ? std::string_view(rep_->message) : std::string_view();
  }
  // An object that the caller attached to the failure, such as the exception
  // that a caller's file object raised. The core only carries it. Null if there
  // is no cause.
  const std::shared_ptr<const void>& cause() const {
    static const std::shared_ptr<const void> none;
    return rep_ ? rep_->cause : none;
  }
  Status with_cause(std::shared_ptr<const void> cause) && {
    if (rep_) rep_->cause = std::move(cause);
    return std::move(*this);
  }
  // Returns the same failure with "where: " before the message.
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

// Propagate errors: return the failure from the current function.
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
