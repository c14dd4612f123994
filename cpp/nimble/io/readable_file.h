// ReadableFile: the bytes of a file, readable from any thread.
#pragma once

#include <span>
#include <string>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble {

// A byte range to read, and its destination.
struct ReadRequest {
  uint64_t offset;
  uint64_t size;
  uint8_t* out;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  virtual uint64_t size() const = 0;
  // Reads the whole range. Fails if the file is too short. Thread-safe.
  virtual Status read_at(const ReadRequest& request) const = 0;
  // Reads all ranges in one round. Remote files request them concurrently.
  virtual Status read_many(std::span<const ReadRequest> requests) const {
    for (const ReadRequest& r : requests) NIMBLE_RETURN_IF_ERROR(read_at(r));
    return Status::ok();
  }
  // The whole file in memory, or null. Valid as long as this object.
  virtual const uint8_t* mapped() const { return nullptr; }
  // Starts reading a part of a mapped file into memory, without waiting.
  // Without this, the first access of each page waits, and reads much of the
  // file.
  virtual void will_need(uint64_t offset, uint64_t size) const {
    (void)offset;
    (void)size;
  }
  // A name for messages: a path, or for example "<bytes>".
  virtual const std::string& name() const = 0;
  // Ranges with a smaller gap than this are read as one range.
  virtual uint64_t coalesce_gap() const { return 4096; }
};

}  // namespace nimble
