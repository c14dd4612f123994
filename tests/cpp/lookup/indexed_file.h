// A file with the sections of one index, for tests of that index.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "nimble/base/hash.h"
#include "nimble/format/constants.h"
#include "nimble/format/footer.h"
#include "nimble/format/postscript.h"
#include "nimble/index/section_sink.h"
#include "nimble/key/key_buffer.h"
#include "reader/columns.h"

namespace nimble::testing {

// The root is not in the footer; tests pass it to the index.
struct IndexedFile {
  Bytes file;
  std::vector<uint8_t> root;
};

inline KeyBuffer keys_of(const std::vector<std::string>& texts) {
  KeyBuffer keys;
  for (const auto& text : texts) keys.push_back(as_bytes(text));
  return keys;
}

// `finish(sink)` writes the sections and returns the root.
template <class Finish>
IndexedFile file_with_index(uint64_t num_rows, Finish&& finish) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(kMagic, kMagic + 8);
  const auto append = [&](ByteSpan part) {
    bytes->insert(bytes->end(), part.begin(), part.end());
  };
  const SectionSink sink = [&](ByteSpan section) -> Result<SectionRef> {
    bytes->resize(round_up(bytes->size(), 8));
    const SectionRef ref{bytes->size(), section.size(), checksum64(section)};
    append(section);
    return ref;
  };
  auto root = finish(sink);
  REQUIRE(root.has_value());
  FileFooter footer;
  footer.num_rows = num_rows;
  footer.schema.format = "+s";
  if (num_rows > 0) footer.groups.push_back({{8, 1, 0}, num_rows});
  bytes->resize(round_up(bytes->size(), 8));
  const std::vector<uint8_t> serialized = footer.serialize();
  Postscript postscript;
  postscript.footer_offset = bytes->size();
  postscript.footer_size = serialized.size();
  postscript.footer_checksum = checksum64(serialized);
  append(serialized);
  append(postscript.serialize());
  return {bytes, *root};
}

}  // namespace nimble::testing
