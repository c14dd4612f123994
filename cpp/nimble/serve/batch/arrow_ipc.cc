#include "nimble/serve/batch/arrow_ipc.h"

#include <charconv>
#include <limits>

#include "arrow_ipc_generated.h"
#include "nimble/key/decimal_text.h"

namespace nimble {
namespace {

using IpcBuilder = flatbuffers::FlatBufferBuilder;
constexpr int16_t kVersion5 = 4;
// ARROW_FLAG_MAP_KEYS_SORTED of the C data interface.
constexpr int64_t kMapKeysSorted = 4;
constexpr uint32_t kContinues = 0xffffffff;
// In the body, buffers begin at multiples of this number.
constexpr size_t kAlignment = 8;

size_t padded(size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

Status refused(const Field& field) {
  return Status::unsupported("column '" + field.name + "' (" +
                             field.type_name() +
                             ") cannot be sent as Arrow; ask AS RESP");
}

int16_t unit_number(char unit) {
  constexpr std::string_view kUnits = "smun";
  const size_t at = kUnits.find(unit);
  return static_cast<int16_t>(at == std::string_view::npos ? 0 : at);
}

using TypeOffset = std::pair<ipc::Type, flatbuffers::Offset<void>>;

// Converts a format string of the Arrow C data interface to a type.
Result<TypeOffset> put_type(IpcBuilder* b, const Field& field) {
  const std::string& f = field.format;
  const auto bits = static_cast<int32_t>(field.width * 8);
  const auto made = [](ipc::Type type, auto offset) {
    return TypeOffset(type, offset.Union());
  };
  switch (field.layout) {
    case Layout::kNull:
      return made(ipc::Type::NullType, ipc::CreateNullType(*b));
    case Layout::kBool:
      return made(ipc::Type::BoolType, ipc::CreateBoolType(*b));
    case Layout::kBytes: {
      const bool is_text = field.logical == Logical::kText;
      if (field.wide_offsets || field.is_view) {
        return is_text ? made(ipc::Type::LargeTextType,
                              ipc::CreateLargeTextType(*b))
                       : made(ipc::Type::LargeBinaryType,
                              ipc::CreateLargeBinaryType(*b));
      }
      return is_text ? made(ipc::Type::TextType, ipc::CreateTextType(*b))
                     : made(ipc::Type::BinaryType, ipc::CreateBinaryType(*b));
    }
    case Layout::kList:
      if (field.is_view) return refused(field);
      if (field.is_map) {
        const bool is_sorted = (field.flags & kMapKeysSorted) != 0;
        return made(ipc::Type::MapType, ipc::CreateMapType(*b, is_sorted));
      }
      if (field.wide_offsets) {
        return made(ipc::Type::LargeListType, ipc::CreateLargeListType(*b));
      }
      return made(ipc::Type::ListType, ipc::CreateListType(*b));
    case Layout::kFixedList:
      return made(ipc::Type::FixedListType,
                  ipc::CreateFixedListType(*b, field.list_size));
    case Layout::kStruct:
      return made(ipc::Type::StructType, ipc::CreateStructType(*b));
    case Layout::kFixed:
      break;
    default:
      return refused(field);
  }
  switch (field.logical) {
    case Logical::kInt:
      return made(ipc::Type::IntType,
                  ipc::CreateIntType(*b, bits, field.is_signed));
    case Logical::kFloat:
      return made(ipc::Type::FloatType,
                  ipc::CreateFloatType(
                      *b, static_cast<int16_t>(field.width == 2   ? 0
                                               : field.width == 4 ? 1
                                                                  : 2)));
    case Logical::kDecimal: {
      int32_t precision = 0;  // "d:precision,scale"
      std::from_chars(f.data() + 2, f.data() + f.size(), precision);
      return made(
          ipc::Type::DecimalType,
          ipc::CreateDecimalType(*b, precision, decimal_scale(f), bits));
    }
    case Logical::kDate:
      return made(ipc::Type::DateType,
                  ipc::CreateDateType(
                      *b, static_cast<int16_t>(field.width == 8 ? 1 : 0)));
    case Logical::kTime:
      return made(ipc::Type::TimeType,
                  ipc::CreateTimeType(*b, unit_number(f[2]), bits));
    case Logical::kTimestamp: {
      flatbuffers::Offset<flatbuffers::String> zone;
      if (f.size() > 4) zone = b->CreateString(f.substr(4));
      return made(ipc::Type::TimestampType,
                  ipc::CreateTimestampType(*b, unit_number(f[2]), zone));
    }
    case Logical::kDuration:
      return made(ipc::Type::DurationType,
                  ipc::CreateDurationType(*b, unit_number(f[2])));
    case Logical::kInterval: {
      const int16_t unit = f[2] == 'M' ? 0 : f[2] == 'D' ? 1 : 2;
      return made(ipc::Type::IntervalType, ipc::CreateIntervalType(*b, unit));
    }
    case Logical::kFixedBinary:
      return made(
          ipc::Type::FixedBinaryType,
          ipc::CreateFixedBinaryType(*b, static_cast<int32_t>(field.width)));
    default:
      return refused(field);
  }
}

Result<flatbuffers::Offset<ipc::SchemaField>> put_field(IpcBuilder* b,
                                                        const Field& field) {
  std::vector<flatbuffers::Offset<ipc::SchemaField>> children;
  for (const Field& child : field.children) {
    NIMBLE_ASSIGN_OR_RETURN(const auto offset, put_field(b, child));
    children.push_back(offset);
  }
  std::vector<flatbuffers::Offset<ipc::KeyValue>> metadata;
  for (const auto& [key, value] : field.metadata) {
    metadata.push_back(
        ipc::CreateKeyValue(*b, b->CreateString(key), b->CreateString(value)));
  }
  NIMBLE_ASSIGN_OR_RETURN(const TypeOffset type, put_type(b, field));
  const auto name = b->CreateString(field.name);
  const auto all_children = b->CreateVector(children);
  const auto all_metadata = b->CreateVector(metadata);
  return ipc::CreateSchemaField(*b, name, field.nullable(), type.first,
                                type.second, 0, all_children, all_metadata);
}

void append_padding(size_t from, size_t to, std::string* out) {
  out->append(to - from, '\0');
}

// Appends a message: a marker, the size of the metadata, and the metadata.
void append_message(IpcBuilder* b, ipc::MessageHeader type,
                    flatbuffers::Offset<void> header, size_t body,
                    std::string* out) {
  b->Finish(ipc::CreateMessage(*b, kVersion5, type, header,
                               static_cast<int64_t>(body)));
  const size_t size = padded(b->GetSize());
  const auto put = [&](uint32_t v) {
    char bytes[4];
    std::memcpy(bytes, &v, 4);
    out->append(bytes, 4);
  };
  put(kContinues);
  put(static_cast<uint32_t>(size));
  out->append(reinterpret_cast<const char*>(b->GetBufferPointer()),
              b->GetSize());
  append_padding(b->GetSize(), size, out);
}

// Collects the nodes and buffers of a batch.
class BatchBuffers {
 public:
  Status add(const Column& column) {
    const Field& f = column.field();
    const uint64_t n = column.length();
    const uint64_t nulls = f.layout == Layout::kNull ? n : column.null_count();
    nodes.emplace_back(static_cast<int64_t>(n), static_cast<int64_t>(nulls));
    if (f.has_validity()) {
      if (nulls > 0) {
        add_bits(column.validity.data(), n);
      } else {
        add_buffer(nullptr, 0);
      }
    }
    switch (f.layout) {
      case Layout::kFixed:
        add_buffer(column.value_data(), n * f.width);
        break;
      case Layout::kBool:
        add_bits(column.value_data(), n);
        break;
      case Layout::kBytes:
        NIMBLE_RETURN_IF_ERROR(add_bytes(column));
        break;
      case Layout::kList:
        NIMBLE_RETURN_IF_ERROR(add_ends(column));
        break;
      default:
        break;
    }
    for (const Column& child : column.children) {
      NIMBLE_RETURN_IF_ERROR(add(child));
    }
    return Status::ok();
  }
  void append_body(std::string* out) const {
    for (const auto& [data, size, last_bits] : parts_) {
      if (size > 0) out->append(static_cast<const char*>(data), size);
      // The bits after the last row may belong to other rows.
      if (last_bits > 0) {
        const auto last = static_cast<uint8_t>(out->back());
        out->back() = static_cast<char>(last & ((1u << last_bits) - 1));
      }
      append_padding(size, padded(size), out);
    }
  }

  size_t body = 0;
  std::vector<ipc::FieldNode> nodes;
  std::vector<ipc::Buffer> buffers;

 private:
  void add_buffer(const void* data, size_t size) {
    buffers.emplace_back(static_cast<int64_t>(body),
                         static_cast<int64_t>(size));
    parts_.push_back({data, size});
    body += padded(size);
  }
  void add_bits(const void* data, uint64_t count) {
    add_buffer(data, (count + 7) / 8);
    parts_.back().last_bits = static_cast<unsigned>(count % 8);
  }
  // Adds values as 32-bit offsets. Fails if a value does not fit.
  template <class T>
  Status add_narrow(const Field& field, const T* from, size_t count) {
    auto& to = made_.emplace_back(std::make_unique<int32_t[]>(count));
    if (static_cast<int64_t>(from[count - 1]) >
        std::numeric_limits<int32_t>::max()) {
      return Status::too_large("column '" + field.name +
                               "': more than 2 GiB in one batch; ask for fewer "
                               "rows");
    }
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<int32_t>(from[i]);
    add_buffer(to.get(), count * 4);
    return Status::ok();
  }
  Status add_bytes(const Column& column) {
    const Field& f = column.field();
    const BytesSink& bytes = column.bytes;
    const bool is_wide = f.wide_offsets || f.is_view;
    const size_t width = is_wide ? 8 : 4;
    if (bytes.count == 0) {
      add_buffer(kZero, width);
    } else if (bytes.wide == is_wide) {
      add_buffer(bytes.offsets.data(), (bytes.count + 1) * width);
    } else {  // wide columns with narrow types
      NIMBLE_RETURN_IF_ERROR(
          add_narrow(f, bytes.offsets.as<int64_t>(), bytes.count + 1));
    }
    if (!is_wide &&
        bytes.data.size() > size_t{std::numeric_limits<int32_t>::max()}) {
      return Status::too_large("column '" + f.name +
                               "': more than 2 GiB in one batch; ask for fewer "
                               "rows");
    }
    add_buffer(bytes.data.data(), bytes.data.size());
    return Status::ok();
  }
  Status add_ends(const Column& column) {
    const size_t count = column.length() + 1;
    if (!column.field().wide_offsets) {
      return add_narrow(column.field(), column.ends.data(), count);
    }
    add_buffer(column.ends.data(), count * 8);
    return Status::ok();
  }

  static constexpr char kZero[8] = {};
  struct Part {
    const void* data;
    size_t size;
    unsigned last_bits = 0;  // valid bits of the last byte; 0: all
  };
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<int32_t[]>> made_;
};

}  // namespace

Status IpcWriter::write_schema(const Field& root) {
  IpcBuilder b;
  std::vector<flatbuffers::Offset<ipc::SchemaField>> fields;
  for (const Field& child : root.children) {
    NIMBLE_ASSIGN_OR_RETURN(const auto offset, put_field(&b, child));
    fields.push_back(offset);
  }
  const auto all = b.CreateVector(fields);
  const auto schema = ipc::CreateSchema(b, 0, all, 0);
  append_message(&b, ipc::MessageHeader::Schema, schema.Union(), 0, out_);
  return Status::ok();
}

Status IpcWriter::write_batch(std::span<const Column* const> columns,
                              uint64_t rows) {
  BatchBuffers batch;
  for (const Column* column : columns) {
    NIMBLE_RETURN_IF_ERROR(batch.add(*column));
  }
  IpcBuilder b;
  const auto nodes = b.CreateVectorOfStructs(batch.nodes);
  const auto buffers = b.CreateVectorOfStructs(batch.buffers);
  const auto record =
      ipc::CreateRecordBatch(b, static_cast<int64_t>(rows), nodes, buffers);
  append_message(&b, ipc::MessageHeader::RecordBatch, record.Union(),
                 batch.body, out_);
  batch.append_body(out_);
  return Status::ok();
}

void IpcWriter::end() {
  const char marker[8] = {'\xff', '\xff', '\xff', '\xff', 0, 0, 0, 0};
  out_->append(marker, sizeof marker);
}

}  // namespace nimble
