#include "nimble/file/section_fetch.h"

#include <algorithm>

#include "nimble/base/hash.h"

namespace nimble {
namespace {

// One request moves at most this much.
constexpr uint64_t kMaxRequest = uint64_t{16} << 20;

// What the cache holds of a section; null where it holds it as a part of
// something else, whose checksum nobody has verified.
RangeCache::Bytes cached(const FileReader& file, const SectionRef& section) {
  uint64_t begin = 0;
  auto bytes = file.range_cache()->find(section.offset, section.size, &begin);
  const bool same = bytes != nullptr && begin == section.offset &&
                    bytes->size() == section.size;
  return same ? std::move(bytes) : nullptr;
}

struct Request {
  std::vector<uint8_t> bytes;
  uint64_t begin;
  size_t first;  // of the missing sections it serves
};

// Ascending sections joined where they are close.
std::vector<Request> join(std::span<const SectionRef> sections,
                          const std::vector<size_t>& missing, uint64_t gap) {
  std::vector<Request> out;
  uint64_t end = 0;
  for (size_t i = 0; i < missing.size(); ++i) {
    const SectionRef& s = sections[missing[i]];
    if (out.empty() || s.offset < end || s.offset - end > gap ||
        s.offset + s.size - out.back().begin > kMaxRequest) {
      out.push_back({{}, s.offset, i});
    }
    end = s.offset + s.size;
    out.back().bytes.resize(end - out.back().begin);
  }
  return out;
}

Status read_requests(const FileReader& file, std::vector<Request>* requests) {
  std::vector<ReadRequest> reads;
  uint64_t size = 0;
  for (Request& r : *requests) {
    reads.push_back({r.begin, r.bytes.size(), r.bytes.data()});
    size += r.bytes.size();
  }
  NIMBLE_RETURN_IF_ERROR(file.file().read_many(reads));
  file.stats()->add(ReadKind::kIndex, reads.size(), size);
  file.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
  return Status::ok();
}

}  // namespace

Status fetch_sections(const FileReader& file,
                      std::span<const SectionRef> sections,
                      const std::string& what,
                      std::vector<RangeCache::Bytes>* out) {
  out->assign(sections.size(), nullptr);
  std::vector<size_t> missing;
  for (size_t i = 0; i < sections.size(); ++i) {
    (*out)[i] = cached(file, sections[i]);
    if ((*out)[i] == nullptr) missing.push_back(i);
  }
  if (missing.empty()) return Status::ok();
  std::vector<Request> requests =
      join(sections, missing, file.file().coalesce_gap());
  NIMBLE_RETURN_IF_ERROR(read_requests(file, &requests));
  for (size_t r = 0; r < requests.size(); ++r) {
    const size_t last =
        r + 1 < requests.size() ? requests[r + 1].first : missing.size();
    for (size_t m = requests[r].first; m < last; ++m) {
      const SectionRef& s = sections[missing[m]];
      const auto from = requests[r].bytes.begin() +
                        static_cast<ptrdiff_t>(s.offset - requests[r].begin);
      auto bytes = std::make_shared<const std::vector<uint8_t>>(
          from, from + static_cast<ptrdiff_t>(s.size));
      NIMBLE_RETURN_IF_ERROR(file.check_section(s, *bytes, what));
      (*out)[missing[m]] = bytes;
      file.range_cache()->put(s.offset, std::move(bytes));
    }
  }
  return Status::ok();
}

}  // namespace nimble
