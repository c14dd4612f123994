// MemoryFile: a file over bytes that it does not own.
#pragma once

#include <memory>

#include "nimble/io/readable_file.h"

namespace nimble {

class MemoryFile final : public ReadableFile {
 public:
  // `owner` keeps `bytes` alive.
  MemoryFile(ByteSpan bytes, std::shared_ptr<const void> owner,
             std::string name = "<bytes>")
      : bytes_(bytes), owner_(std::move(owner)), name_(std::move(name)) {}

  uint64_t size() const override { return bytes_.size(); }
  Status read_at(const ReadRequest& r) const override;
  const uint8_t* mapped() const override { return bytes_.data(); }
  const std::string& name() const override { return name_; }

 private:
  ByteSpan bytes_;
  std::shared_ptr<const void> owner_;
  std::string name_;
};

}  // namespace nimble
