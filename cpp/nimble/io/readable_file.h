// ReadableFile: the bytes of a file, readable from any thread.
#pragma once

#include <span>
#include <string>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble {

// One wanted stretch of a file and where it goes.
struct ReadRequest {
  uint64_t offset;
  uint64_t size;
  uint8_t* out;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  virtual uint64_t size() const = 0;
  // Fills all of `request`; a short file is an error. Thread-safe.
  virtual Status read_at(const ReadRequest& request) const = 0;
  // All of them, as one round: remote files issue them together.
  virtual Status read_many(std::span<const ReadRequest> requests) const {
    for (const ReadRequest& r : requests) NIMBLE_RETURN_IF_ERROR(read_at(r));
    return Status::ok();
  }
  // The whole file in memory, or null. Valid as long as this object.
  virtual const uint8_t* mapped() const { return nullptr; }
  // For messages: a path, "<bytes>", ...
  virtual const std::string& name() const = 0;
  // Two wanted ranges closer than this are fetched as one.
  virtual uint64_t coalesce_gap() const { return 4096; }
};

}  // namespace nimble
