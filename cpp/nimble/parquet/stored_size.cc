#include "nimble/parquet/stored_size.h"

#include <string>

#include "nimble/base/byte_reader.h"

namespace nimble::parquet {
namespace {

// Reads a length. If the nibble is 15, bytes follow that are added to it. The
// first byte other than 255 is the last one.
uint64_t lz4_length(uint64_t nibble, ByteReader* in) {
  uint64_t length = nibble;
  if (nibble < 15) return length;
  for (uint8_t more = 255; more == 255 && in->ok();) {
    more = in->get_u8();
    length += more;
  }
  return length;
}

// The sum of the lengths in an lz4 block: literals and matches alternate.
uint64_t lz4_size(ByteReader* in) {
  uint64_t size = 0;
  while (in->remaining() > 0) {
    const uint8_t token = in->get_u8();
    const uint64_t literals = lz4_length(token >> 4, in);
    in->get_bytes(literals);
    size += literals;
    if (in->remaining() == 0) break;  // the last sequence does not have a match
    in->get_bytes(2);
    size += lz4_length(token & 15, in) + 4;
  }
  return size;
}

}  // namespace

Status check_stored_size(Codec codec, ByteSpan in, uint64_t size) {
  ByteReader reader(in);
  uint64_t stored = size;
  if (codec == Codec::kSnappy) stored = reader.get_varint();
  if (codec == Codec::kLz4Raw) stored = lz4_size(&reader);
  NIMBLE_RETURN_IF_ERROR(reader.status("Parquet page"));
  if (stored != size) {
    return Status::corrupt("Parquet page: it holds " + std::to_string(stored) +
                           " bytes; expected " + std::to_string(size));
  }
  return Status::ok();
}

}  // namespace nimble::parquet
