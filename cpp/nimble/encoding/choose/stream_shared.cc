#include "nimble/encoding/choose/stream_shared.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nimble/encoding/core/child.h"

namespace nimble {
namespace {

// Of a dictionary that is as large as the values it was made of, half is for
// later segments; of one that grew as much in the second half of the rows as in
// the first, they will need other values.
double own_part(const DistinctValues& distinct, uint32_t rows) {
  const double late = distinct.first_met_from(rows / 2);
  return 0.5 + 0.5 * std::min(1.0, late / (distinct.count() / 2.0));
}

}  // namespace

double code_bits(double count) {
  return std::ceil(std::log2(std::max(count, 1.0)));
}

double shared_dictionary_bytes(const DistinctValues& distinct, double stored,
                               const EncodeContext& context) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const StreamDictionary* dictionary = context.dictionary;
  if (dictionary == nullptr || context.random_access_only) return kNever;
  const Values values = distinct.distinct();
  const StreamDictionary::Found found = dictionary->find(values);
  const uint64_t most = context.effort == Effort::kCompact
                            ? StreamDictionary::kMaxBytes
                            : StreamDictionary::kMaxBytes / 2;
  if (found.missing > 0 &&
      (!context.may_change_shared || !dictionary->has_room_for(found, most))) {
    return kNever;
  }
  const uint32_t rows = distinct.codes().size;
  const double codes =
      rows * code_bits(double{1} * dictionary->size() + found.missing) / 8;
  if (dictionary->size() == 0) {
    return stored <= kInlineDictionaryBytes
               ? kNever
               : codes + stored * own_part(distinct, rows);
  }
  return codes + stored * found.missing / values.size;
}

}  // namespace nimble
