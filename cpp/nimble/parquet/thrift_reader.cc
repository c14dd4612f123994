#include "nimble/parquet/thrift_reader.h"

namespace nimble {

void ThriftReader::skip(Type type) {
  switch (type) {
    case kTrue:
    case kFalse:
      return;  // the value is in the type
    case kByte:
      reader_.get_u8();
      return;
    case kI16:
    case kI32:
    case kI64:
      reader_.get_varint();
      return;
    case kDouble:
      reader_.get_bytes(8);
      return;
    case kBinary:
      reader_.get_sized();
      return;
    case kUuid:
      reader_.get_bytes(16);
      return;
    case kStruct:
      read_struct([](int64_t, Type) { return false; });
      return;
    case kList:
    case kSet:
      if (++depth_ > kMaxDepth) reader_.fail();
      read_list([this](Type element) { skip_element(element); });
      --depth_;
      return;
    default:  // maps: Parquet's metadata does not use them
      reader_.fail();
  }
}

void ThriftReader::skip_element(Type type) {
  if (type == kTrue || type == kFalse) {
    reader_.get_u8();
  } else {
    skip(type);
  }
}

}  // namespace nimble
