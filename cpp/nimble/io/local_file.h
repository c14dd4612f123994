// LocalFile: a file of the operating system, through pread or mapped.
#pragma once

#include <memory>

#include "nimble/io/readable_file.h"

namespace nimble {

class LocalFile final : public ReadableFile {
 public:
  // With `map`, maps the file if the system allows it, and then closes the
  // descriptor. Otherwise (address space limits, unusual file systems) reads
  // use pread.
  static Result<std::unique_ptr<LocalFile>> open(const std::string& path,
                                                 bool map);
  ~LocalFile() override;

  uint64_t size() const override { return size_; }
  Status read_at(const ReadRequest& r) const override;
  const uint8_t* mapped() const override { return map_; }
  void will_need(uint64_t offset, uint64_t size) const override;
  const std::string& name() const override { return path_; }

 private:
  LocalFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_;  // -1 if the file is mapped
  uint64_t size_;
  const uint8_t* map_ = nullptr;
};

}  // namespace nimble
