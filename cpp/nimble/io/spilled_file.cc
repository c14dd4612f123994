#include "nimble/io/spilled_file.h"

#include "nimble/base/byte_buffer.h"

namespace nimble {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

class SpillTarget final : public WritableFile {
 public:
  explicit SpillTarget(std::shared_ptr<SpillFile> file)
      : file_(std::move(file)) {}

  Status append(ByteSpan bytes) override {
    if (buffer_.size() + bytes.size() > kBufferBytes) {
      NIMBLE_RETURN_IF_ERROR(commit());
      if (bytes.size() >= kBufferBytes) return file_->append(bytes);
    }
    buffer_.put_bytes(bytes);
    return Status::ok();
  }
  Status commit() override {
    Status status = file_->append(buffer_.span());
    buffer_.clear();
    return status;
  }

 private:
  std::shared_ptr<SpillFile> file_;
  ByteBuffer buffer_;
};

class SpillSource final : public ReadableFile {
 public:
  explicit SpillSource(std::shared_ptr<const SpillFile> file)
      : file_(std::move(file)) {}

  uint64_t size() const override { return file_->size(); }
  const std::string& name() const override { return name_; }
  Status read_at(const ReadRequest& r) const override {
    if (!in_bounds(r.offset, r.size, size())) {
      return Status::corrupt(name_ + ": wanted " + std::to_string(r.size) +
                             " bytes at offset " + std::to_string(r.offset) +
                             " of " + std::to_string(size()));
    }
    return file_->read_at(r.offset, r.out, r.size);
  }

 private:
  std::shared_ptr<const SpillFile> file_;
  std::string name_ = "<spilled rows>";
};

}  // namespace

std::unique_ptr<WritableFile> spill_target(std::shared_ptr<SpillFile> file) {
  return std::make_unique<SpillTarget>(std::move(file));
}

std::shared_ptr<const ReadableFile> spill_source(
    std::shared_ptr<const SpillFile> file) {
  return std::make_shared<SpillSource>(std::move(file));
}

}  // namespace nimble
