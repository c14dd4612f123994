#include "nimble/bindings/write_target.h"

#include <chrono>
#include <vector>

#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/io/owner_process.h"

namespace py = pybind11;

namespace nimble {
namespace {

class PythonSink final : public WritableFile {
 public:
  explicit PythonSink(py::object sink) : sink_(std::move(sink)) {}
  ~PythonSink() override {
    const WithGil gil;
    // Leaks the object in a child of fork(): even freeing it there might end
    // the parent's upload.
    if (!owner_.is_this()) {
      sink_.release();
      return;
    }
    const py::error_scope keep;  // keep a pending Python error
    try {
      if (!committed_ && py::hasattr(sink_, "abort")) sink_.attr("abort")();
    } catch (py::error_already_set& e) {
      e.discard_as_unraisable("nimblepy: discarding an unfinished file");
    }
    sink_ = py::object();
  }

  Status append(ByteSpan bytes) override {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() >= kBufferBytes ? flush() : Status::ok();
  }
  Status sync() override { return flush(); }
  Status commit() override {
    NIMBLE_RETURN_IF_ERROR(flush());
    NIMBLE_RETURN_IF_ERROR(owner_.check());
    const WithGil gil;
    try {
      if (py::hasattr(sink_, "commit")) sink_.attr("commit")();
    } catch (const py::error_already_set& e) {
      return python_failure(e, "the output");
    }
    committed_ = true;
    return Status::ok();
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  Status flush() {
    if (buffer_.empty()) return Status::ok();
    NIMBLE_RETURN_IF_ERROR(owner_.check());
    const WithGil gil;
    try {
      sink_.attr("write")(py::bytes(
          reinterpret_cast<const char*>(buffer_.data()), buffer_.size()));
    } catch (const py::error_already_set& e) {
      return python_failure(e, "the output");
    }
    buffer_.clear();
    return Status::ok();
  }

  const OwnerProcess owner_;
  py::object sink_;
  std::vector<uint8_t> buffer_;
  bool committed_ = false;
};

// Checks Python's signals, but not more often than needed.
class SignalWatch {
 public:
  Status poll() { return Clock::now() < next_look_ ? Status::ok() : look(); }
  // Runs signal handlers if this is the main thread.
  Status look() {
    const WithGil gil;
    if (PyErr_CheckSignals() != 0) {
      const py::error_already_set e;
      return python_failure(e, "interrupted");
    }
    next_look_ = Clock::now() + std::chrono::milliseconds(100);
    return Status::ok();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point next_look_{};
};

class InterruptibleFile final : public WritableFile {
 public:
  InterruptibleFile(std::unique_ptr<WritableFile> file,
                    std::shared_ptr<SignalWatch> signals)
      : file_(std::move(file)), signals_(std::move(signals)) {}

  Status append(ByteSpan bytes) override {
    NIMBLE_RETURN_IF_ERROR(signals_->poll());
    return file_->append(bytes);
  }
  Status commit() override {
    NIMBLE_RETURN_IF_ERROR(signals_->look());
    NIMBLE_RETURN_IF_ERROR(file_->sync());  // may take long
    NIMBLE_RETURN_IF_ERROR(signals_->look());
    return file_->commit();
  }

 private:
  std::unique_ptr<WritableFile> file_;
  std::shared_ptr<SignalWatch> signals_;
};

}  // namespace

WriteTarget open_write_target(const py::object& target) {
  std::unique_ptr<WritableFile> file;
  if (py::isinstance<py::str>(target)) {
    file = unwrap(create_local_file(target.cast<std::string>()));
  } else {
    file = std::make_unique<PythonSink>(target);
  }
  const auto signals = std::make_shared<SignalWatch>();
  return {std::make_unique<InterruptibleFile>(std::move(file), signals),
          [signals] { return signals->poll(); }};
}

}  // namespace nimble
