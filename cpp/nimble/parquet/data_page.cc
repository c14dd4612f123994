#include "nimble/parquet/data_page.h"

#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/base/byte_reader.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "nimble/encoding/zstd/zstd_codec.h"
#include "nimble/parquet/stored_size.h"

namespace nimble::parquet {
namespace {

// Maximum number of entries in a page of a repeated column, because the first
// entry of each row is stored.
constexpr uint64_t kMaxRepeatedEntries = 1u << 22;

// The largest factor by which a codec can expand data.
uint64_t max_ratio(Codec codec) {
  switch (codec) {
    case Codec::kUncompressed:
      return 1;
    case Codec::kSnappy:
      return 32;
    case Codec::kLz4Raw:
      return 256;
    case Codec::kGzip:
      return 1032;
    case Codec::kZstd:
      return kMaxZstdRatio;
    default:
      return 0;
  }
}

Status decompress_to(Codec codec, ByteSpan in, uint64_t size,
                     const Decompress& decompress, uint8_t* out) {
  if (size == 0) return Status::ok();
  if (codec == Codec::kUncompressed) {
    if (in.size() != size) {
      return Status::corrupt("Parquet page: " + std::to_string(in.size()) +
                             " bytes; expected " + std::to_string(size));
    }
    std::memcpy(out, in.data(), size);
    return Status::ok();
  }
  if (codec == Codec::kZstd) return zstd_decompress(in, out, size);
  NIMBLE_RETURN_IF_ERROR(check_stored_size(codec, in, size));
  if (!decompress) {
    return Status::unsupported("Parquet page: unsupported codec " +
                               std::to_string(static_cast<int>(codec)));
  }
  return decompress(codec, in, out, size);
}

// Fails unless `stored` bytes can expand to `size` bytes.
Status check_size(Codec codec, uint64_t stored, uint64_t size) {
  const uint64_t ratio = max_ratio(codec);
  if (ratio == 0) {
    return Status::unsupported("Parquet page: unsupported codec " +
                               std::to_string(static_cast<int>(codec)));
  }
  if (size / ratio > stored + 64) {
    return Status::corrupt("Parquet page: " + std::to_string(stored) +
                           " bytes cannot expand to " + std::to_string(size) +
                           " with codec " +
                           std::to_string(static_cast<int>(codec)));
  }
  return Status::ok();
}

// Parses the header and returns the body, after verifying its checksum.
Result<ByteSpan> body_of(ByteSpan bytes, PageHeader* header) {
  NIMBLE_ASSIGN_OR_RETURN(*header, PageHeader::parse(bytes));
  const ByteSpan rest = bytes.subspan(header->header_bytes);
  const auto size = static_cast<uint64_t>(header->compressed_size);
  if (size > rest.size()) {
    return Status::corrupt("Parquet page of " + std::to_string(size) +
                           " bytes is cut short after " +
                           std::to_string(rest.size()));
  }
  const ByteSpan body = rest.first(size);
  if (header->has_crc && page_crc(body) != header->crc) {
    return Status::corrupt("Parquet page: the checksum of its " +
                           std::to_string(size) + " bytes does not match");
  }
  return body;
}

void convert(const uint8_t* stored, uint32_t width, Conversion conversion,
             uint8_t* out, uint32_t out_width) {
  if (conversion == Conversion::kBigEndian) {
    const uint8_t sign = (stored[0] & 0x80) != 0 ? 0xff : 0;
    for (uint32_t i = 0; i < out_width; ++i) {
      out[i] = i < width ? stored[width - 1 - i] : sign;
    }
    return;
  }
  std::memcpy(out, stored, std::min(width, out_width));
  if (out_width > width) {
    const uint8_t sign = (stored[width - 1] & 0x80) != 0 ? 0xff : 0;
    std::memset(out + width, sign, out_width - width);
  }
}

Status bad_code() {
  return Status::corrupt("Parquet page: a code outside the dictionary");
}

}  // namespace

// Opens the parts of a data page.
struct PageOpener {
  const LeafPlan& leaf;
  const PageHeader& header;
  DataPage* page;

  uint64_t entries() const { return static_cast<uint64_t>(header.num_values); }

  // `repetition` and `definition` do not include their lengths.
  Status open_levels(ByteSpan repetition, ByteSpan definition) const {
    if (leaf.max_repetition > 0) {
      if (entries() > kMaxRepeatedEntries) {
        return Status::unsupported(
            "Parquet page: " + std::to_string(entries()) +
            " entries of lists; at most " +
            std::to_string(kMaxRepeatedEntries) + " are supported");
      }
      NIMBLE_ASSIGN_OR_RETURN(
          page->repetition_,
          LevelRuns::parse(repetition, bit_width_of(leaf.max_repetition),
                           entries(), 0));
    }
    if (leaf.max_definition > 0) {
      NIMBLE_ASSIGN_OR_RETURN(
          page->definition_,
          LevelRuns::parse(definition, bit_width_of(leaf.max_definition),
                           entries(), leaf.max_definition));
    }
    return Status::ok();
  }

  Status open_rows(uint64_t expected) const {
    uint64_t rows = entries();
    if (leaf.max_repetition > 0) {
      rows = page->repetition_.num_counted();
      page->row_starts_.reserve(rows);
      LevelRuns::Cursor levels(page->repetition_);
      for (uint64_t i = 0; i < entries(); ++i) {
        if (levels.value_at(i) == 0) {
          page->row_starts_.push_back(static_cast<uint32_t>(i));
        }
      }
      if (entries() > 0 &&
          (page->row_starts_.empty() || page->row_starts_[0] != 0)) {
        return Status::unsupported(
            "Parquet page: it begins in the middle of a row");
      }
    }
    if (rows != expected) {
      return Status::corrupt("Parquet page: " + std::to_string(rows) +
                             " rows; expected " + std::to_string(expected));
    }
    return Status::ok();
  }

  Status open_values(ByteSpan bytes,
                     std::shared_ptr<const PageValues> dictionary) const {
    const uint64_t count =
        leaf.max_definition > 0 ? page->definition_.num_counted() : entries();
    NIMBLE_ASSIGN_OR_RETURN(
        page->values_,
        PageValues::open(static_cast<PageEncoding>(header.encoding),
                         leaf.values, bytes, count, std::move(dictionary)));
    return Status::ok();
  }
};

Result<std::shared_ptr<const DataPage>> DataPage::open(
    ByteSpan bytes, const LeafPlan& leaf, Codec codec, uint64_t expected,
    std::shared_ptr<const PageValues> dictionary,
    const Decompress& decompress) {
  PageHeader header;
  NIMBLE_ASSIGN_OR_RETURN(const ByteSpan body, body_of(bytes, &header));
  auto page = std::make_shared<DataPage>();
  const PageOpener opener{leaf, header, page.get()};
  const auto size = static_cast<uint64_t>(header.uncompressed_size);
  NIMBLE_RETURN_IF_ERROR(check_size(codec, body.size(), size));
  ByteSpan repetition, definition, values;
  if (header.kind == PageHeader::kDataV2) {
    const uint64_t levels = static_cast<uint64_t>(header.repetition_bytes) +
                            static_cast<uint64_t>(header.definition_bytes);
    if (levels > body.size() || levels > size) {
      return Status::corrupt("Parquet page: levels of " +
                             std::to_string(levels) + " bytes in a page of " +
                             std::to_string(body.size()));
    }
    page->body_.resize(size);
    if (levels > 0) std::memcpy(page->body_.data(), body.data(), levels);
    NIMBLE_RETURN_IF_ERROR(
        decompress_to(header.is_compressed ? codec : Codec::kUncompressed,
                      body.subspan(levels), size - levels, decompress,
                      page->body_.data() + levels));
    const ByteSpan all = page->body_.span();
    const auto repetition_bytes = static_cast<size_t>(header.repetition_bytes);
    repetition = all.first(repetition_bytes);
    definition = all.subspan(repetition_bytes, levels - repetition_bytes);
    values = all.subspan(levels);
  } else if (header.kind == PageHeader::kData) {
    page->body_.resize(size);
    NIMBLE_RETURN_IF_ERROR(
        decompress_to(codec, body, size, decompress, page->body_.data()));
    ByteReader in(page->body_.span());
    const auto take = [&in](uint8_t max, int32_t encoding) -> ByteSpan {
      if (max == 0) return {};
      if (static_cast<PageEncoding>(encoding) != PageEncoding::kRle) in.fail();
      return in.get_bytes(in.get<uint32_t>());
    };
    const bool is_old =
        (leaf.max_repetition > 0 && header.repetition_encoding == 4) ||
        (leaf.max_definition > 0 && header.definition_encoding == 4);
    if (is_old) {
      return Status::unsupported(
          "Parquet page: bit-packed levels are not supported");
    }
    repetition = take(leaf.max_repetition, header.repetition_encoding);
    definition = take(leaf.max_definition, header.definition_encoding);
    values = in.get_bytes(in.remaining());
    NIMBLE_RETURN_IF_ERROR(in.status("Parquet page"));
  } else {
    return Status::corrupt("Parquet page of kind " +
                           std::to_string(header.kind) +
                           "; expected a data page");
  }
  NIMBLE_RETURN_IF_ERROR(opener.open_levels(repetition, definition));
  NIMBLE_RETURN_IF_ERROR(opener.open_rows(expected));
  NIMBLE_RETURN_IF_ERROR(opener.open_values(values, std::move(dictionary)));
  return std::shared_ptr<const DataPage>(std::move(page));
}

Status DataPage::read(std::span<const uint32_t> rows, const LeafPlan& leaf,
                      Column* out, LeafLevels* levels) const {
  // For each entry that has a slot in the array: the position of its value, or
  // kNull.
  constexpr uint64_t kNull = UINT64_MAX;
  std::vector<uint64_t> slots;
  slots.reserve(rows.size());
  uint64_t num_nulls = 0;
  LevelRuns::Cursor definition(definition_);
  LevelRuns::Cursor repetition(repetition_);
  const auto add_entry = [&](uint64_t entry) {
    LevelRuns::Found found{0, entry};
    if (leaf.max_definition > 0) found = definition.find(entry);
    if (levels != nullptr) {
      levels->definition.push_back(static_cast<uint8_t>(found.value));
      if (leaf.max_repetition > 0) {
        levels->repetition.push_back(
            static_cast<uint8_t>(repetition.value_at(entry)));
      }
    }
    if (found.value < leaf.slot_at) return;
    const bool is_valid = found.value == leaf.max_definition;
    slots.push_back(is_valid ? found.rank : kNull);
    num_nulls += is_valid ? 0 : 1;
  };
  for (const uint32_t row : rows) {
    if (leaf.max_repetition == 0) {
      add_entry(row);
      continue;
    }
    const uint64_t end = row + 1 < row_starts_.size() ? row_starts_[row + 1]
                                                      : repetition_.size();
    for (uint64_t e = row_starts_[row]; e < end; ++e) add_entry(e);
  }

  const uint64_t n = slots.size();
  const uint64_t first = out->length();
  if (num_nulls > 0) {
    out->ensure_validity();
    out->add_nulls(num_nulls);
  }
  if (out->validity.size() > 0) {
    out->validity.resize((first + n) / 8 + 1);
    for (uint64_t i = 0; i < n; ++i) {
      put_bit(out->validity.data(), first + i, slots[i] != kNull);
    }
  }
  PageValues::Cursor values(values_);
  if (leaf.conversion == Conversion::kBytes) {
    out->bytes.reserve_values(n);
    const uint64_t at = out->bytes.add_values(n);
    const size_t limit =
        out->bytes.wide ? size_t{INT64_MAX} : size_t{INT32_MAX};
    for (uint64_t i = 0; i < n; ++i) {
      ByteSpan value;
      if (slots[i] != kNull && !values.get_bytes(slots[i], &value)) {
        return bad_code();
      }
      if (value.size() > limit - out->bytes.data.size()) {
        return Status::too_large("more than 2 GiB of " +
                                 out->field().type_name() +
                                 " in one array; read fewer rows at a time");
      }
      out->bytes.data.append(value.data(), value.size());
      out->bytes.set_end(at + i, out->bytes.data.size());
    }
  } else if (leaf.conversion == Conversion::kBits) {
    uint8_t* bits = out->extend_bits(n);
    for (uint64_t i = 0; i < n; ++i) {
      put_bit(bits, first + i, slots[i] != kNull && values.get_bool(slots[i]));
    }
  } else {
    const uint32_t width = out->field().width;
    const uint32_t stored = leaf.values.width;
    uint8_t* to = out->extend_values(n);
    const bool is_plain =
        leaf.conversion != Conversion::kBigEndian && stored == width;
    std::vector<uint8_t> value(is_plain ? 0 : stored);
    for (uint64_t i = 0; i < n; ++i, to += width) {
      if (slots[i] == kNull) {
        std::memset(to, 0, width);
      } else if (is_plain) {
        if (!values.get_fixed(slots[i], to)) return bad_code();
      } else {
        if (!values.get_fixed(slots[i], value.data())) return bad_code();
        convert(value.data(), stored, leaf.conversion, to, width);
      }
    }
  }
  out->add_rows(n);
  return Status::ok();
}

Result<std::shared_ptr<const Dictionary>> Dictionary::open(
    ByteSpan bytes, const LeafPlan& leaf, Codec codec,
    const Decompress& decompress) {
  PageHeader header;
  NIMBLE_ASSIGN_OR_RETURN(const ByteSpan body, body_of(bytes, &header));
  if (header.kind != PageHeader::kDictionary) {
    return Status::corrupt("Parquet page of kind " +
                           std::to_string(header.kind) +
                           "; expected a dictionary page");
  }
  const auto encoding = static_cast<PageEncoding>(header.encoding);
  if (encoding != PageEncoding::kPlain &&
      encoding != PageEncoding::kPlainDictionary) {
    return Status::unsupported(
        "Parquet dictionary page: unsupported encoding " +
        std::to_string(header.encoding));
  }
  const auto size = static_cast<uint64_t>(header.uncompressed_size);
  NIMBLE_RETURN_IF_ERROR(check_size(codec, body.size(), size));
  auto out = std::make_shared<Dictionary>();
  out->body.resize(size);
  NIMBLE_RETURN_IF_ERROR(
      decompress_to(codec, body, size, decompress, out->body.data()));
  NIMBLE_ASSIGN_OR_RETURN(
      out->values,
      PageValues::open(PageEncoding::kPlain, leaf.values, out->body.span(),
                       static_cast<uint64_t>(header.num_values), nullptr));
  return std::shared_ptr<const Dictionary>(std::move(out));
}

}  // namespace nimble::parquet
