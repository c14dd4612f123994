#include "nimble/bindings/values/python_file.h"

#include <mutex>

#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/threads/blocking.h"
#include "nimble/threads/fork_mutex.h"

namespace py = pybind11;

namespace nimble {
namespace {

class PythonFile final : public ReadableFile {
 public:
  PythonFile(py::object file, std::string name, uint64_t gap)
      : file_(std::move(file)), name_(std::move(name)), gap_(gap) {
    positioned_ = py::hasattr(file_, "read_at");
    rounds_ = py::hasattr(file_, "read_many");
    if (py::hasattr(file_, "size") && positioned_) {
      size_ = file_.attr("size")().cast<uint64_t>();
    } else {
      file_.attr("seek")(0, 2);
      size_ = file_.attr("tell")().cast<uint64_t>();
    }
  }
  ~PythonFile() override { drop(&file_); }

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  uint64_t coalesce_gap() const override { return gap_; }

  Status read_at(const ReadRequest& r) const override {
    assert_may_wait();
    NIMBLE_RETURN_IF_ERROR(check(r));
    const MaybeGil gil;
    if (!gil) return Status::io_error(name_ + ": the interpreter shuts down");
    try {
      for (uint64_t done = 0; done < r.size;) {
        const uint64_t n =
            read_some(r.offset + done, r.size - done, r.out + done);
        if (n == 0) return ended(r.offset + done);
        done += n;
      }
    } catch (const py::error_already_set& e) {
      return python_failure(e, name_);
    }
    return Status::ok();
  }

  Status read_many(std::span<const ReadRequest> requests) const override {
    if (!rounds_ || requests.empty()) return ReadableFile::read_many(requests);
    assert_may_wait();
    for (const ReadRequest& r : requests) NIMBLE_RETURN_IF_ERROR(check(r));
    const MaybeGil gil;
    if (!gil) return Status::io_error(name_ + ": the interpreter shuts down");
    try {
      py::list ranges;
      for (const ReadRequest& r : requests) {
        ranges.append(py::make_tuple(r.offset, r.size));
      }
      const py::list found(file_.attr("read_many")(ranges));
      if (found.size() != requests.size()) {
        return Status::io_error(name_ + ": read_many gave " +
                                std::to_string(found.size()) + " of " +
                                std::to_string(requests.size()) + " ranges");
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        const ReadRequest& r = requests[i];
        const uint64_t n = copy(found[i], r.size, r.out);
        if (n != r.size) return ended(r.offset + n);
      }
    } catch (const py::error_already_set& e) {
      return python_failure(e, name_);
    }
    return Status::ok();
  }

 private:
  Status check(const ReadRequest& r) const {
    if (in_bounds(r.offset, r.size, size_)) return Status::ok();
    return Status::corrupt(name_ + ": wanted " + std::to_string(r.size) +
                           " bytes at offset " + std::to_string(r.offset) +
                           " of a file of " + std::to_string(size_));
  }
  Status ended(uint64_t at) const {
    return Status::corrupt(name_ + ": ended at byte " + std::to_string(at) +
                           " while being read; it had " +
                           std::to_string(size_) + " when opened");
  }
  // Copies up to `size` bytes of a Python buffer to `out`. Returns their
  // number.
  static uint64_t copy(const py::handle& bytes, uint64_t size, uint8_t* out) {
    Py_buffer view;  // contiguous; other buffers fail
    if (PyObject_GetBuffer(bytes.ptr(), &view, PyBUF_SIMPLE) != 0) {
      throw py::error_already_set();
    }
    const auto n = std::min(size, static_cast<uint64_t>(view.len));
    std::memcpy(out, view.buf, n);
    PyBuffer_Release(&view);
    return n;
  }

  uint64_t read_some(uint64_t offset, uint64_t size, uint8_t* out) const {
    py::object bytes;
    if (positioned_) {
      bytes = file_.attr("read_at")(size, offset);
    } else {
      // Seek and read are two calls, and Python code of another thread could
      // run between them. The lock prevents this. It is acquired without the
      // GIL, because its owner may need the GIL.
      std::unique_lock<ForkMutex> lock(mutex_, std::defer_lock);
      {
        const WithoutGil nogil;
        lock.lock();
      }
      file_.attr("seek")(offset);
      bytes = file_.attr("read")(size);
    }
    return copy(bytes, size, out);
  }

  py::object file_;
  std::string name_;
  uint64_t gap_;
  uint64_t size_ = 0;
  bool positioned_ = false;
  bool rounds_ = false;  // has read_many
  mutable ForkMutex mutex_;
};

}  // namespace

std::shared_ptr<const ReadableFile> open_python_file(const py::object& file,
                                                     std::string name,
                                                     uint64_t coalesce_gap) {
  return std::make_shared<PythonFile>(file, std::move(name), coalesce_gap);
}

std::shared_ptr<const ReadableFile> open_python_buffer(
    const py::object& buffer) {
  struct Held {
    Py_buffer view{};
    ~Held() {
      const WithGil gil;
      if (view.obj != nullptr) PyBuffer_Release(&view);
    }
  };
  auto held = std::make_shared<Held>();
  if (PyObject_GetBuffer(buffer.ptr(), &held->view, PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  const ByteSpan bytes(static_cast<const uint8_t*>(held->view.buf),
                       static_cast<size_t>(held->view.len));
  return std::make_shared<MemoryFile>(bytes, std::move(held));
}

}  // namespace nimble
