#include "nimble/open/section_fetch.h"

#include "nimble/base/hash.h"
#include "nimble/open/joined_reads.h"

namespace nimble {
namespace {

// Returns the cached bytes of a section. Returns null if the cache has it only
// as part of a larger range, whose checksum was not verified.
RangeCache::Bytes cached(const OpenFile& file, const SectionRef& section) {
  uint64_t begin = 0;
  auto bytes = file.range_cache()->find(section.offset, section.size, &begin);
  const bool same = bytes != nullptr && begin == section.offset &&
                    bytes->size() == section.size;
  return same ? std::move(bytes) : nullptr;
}

}  // namespace

Status fetch_sections(const OpenFile& file,
                      std::span<const SectionRef> sections,
                      const std::string& what,
                      std::vector<RangeCache::Bytes>* out) {
  out->assign(sections.size(), nullptr);
  std::vector<size_t> missing;
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < sections.size(); ++i) {
    (*out)[i] = cached(file, sections[i]);
    if ((*out)[i] != nullptr) continue;
    missing.push_back(i);
    ranges.push_back(
        {sections[i].offset, sections[i].offset + sections[i].size});
  }
  std::vector<JoinedRead> reads =
      join_ranges(ranges, file.file().coalesce_gap());
  NIMBLE_RETURN_IF_ERROR(
      read_joined(file.file(), file.stats(), ReadKind::kIndex, &reads));
  for (const JoinedRead& r : reads) {
    for (size_t m = r.first; m < r.last; ++m) {
      const SectionRef& s = sections[missing[m]];
      const uint8_t* const from = r.at(s.offset);
      auto bytes =
          std::make_shared<const std::vector<uint8_t>>(from, from + s.size);
      NIMBLE_RETURN_IF_ERROR(file.check_section(s, *bytes, what));
      (*out)[missing[m]] = bytes;
      file.range_cache()->put(s.offset, std::move(bytes));
    }
  }
  return Status::ok();
}

}  // namespace nimble
