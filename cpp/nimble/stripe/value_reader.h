// One value of one row.
#pragma once

#include "nimble/encoding/core/values.h"

namespace nimble {

// Where the bytes of one text or binary value are decoded to.
class ValueBytes {
 public:
  Output output() {
    sink_.wide = true;
    return {nullptr, 0, &sink_};
  }
  const uint8_t* data() const { return sink_.data.data(); }
  size_t size() const { return sink_.data.size(); }
  ByteSpan span() const { return sink_.data.span(); }
  void clear() {
    sink_.data.clear();
    sink_.count = 0;
  }

 private:
  BytesSink sink_;
};

}  // namespace nimble
