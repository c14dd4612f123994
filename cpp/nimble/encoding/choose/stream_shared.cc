#include "nimble/encoding/choose/stream_shared.h"

#include <algorithm>
#include <cmath>

#include "nimble/encoding/core/child.h"

namespace nimble {

const StreamDictionary* dictionary_for(const Values& values,
                                       const EncodeContext& context) {
  const StreamDictionary* shared = context.dictionary;
  return shared != nullptr && !context.random_access_only &&
                 shared->type() == values.type
             ? shared
             : nullptr;
}

// Assumes that each half of a segment adds fewer new values than the half
// before it, by a constant factor. If the second half adds as many values as
// the first, later segments need different values. The first segment then pays
// for its whole dictionary.
double part_of_first(double count, double early) {
  const double factor = std::min(1.0, (count - early) / early);
  double all = 0, more = early;
  for (uint32_t half = 0; half < 2 * kLikelyStripes; ++half) {
    all += more;
    more *= factor;
  }
  return std::min(1.0, all / kLikelyStripes / count);
}

double code_bits(double count) {
  return std::ceil(std::log2(std::max(count, 1.0)));
}

double begun_dictionary_bytes(const DistinctValues& distinct, double stored) {
  const double count = distinct.count();
  const uint32_t rows = distinct.codes().size;
  const double early = count - distinct.first_met_from(rows / 2);
  return rows * code_bits(count) / 8 + stored * part_of_first(count, early);
}

double shared_dictionary_bytes(const DistinctValues& distinct, double stored,
                               const EncodeContext& context) {
  const Values values = distinct.distinct();
  const StreamDictionary* dictionary = dictionary_for(values, context);
  if (dictionary == nullptr || values.size == 0) return kNever;
  const StreamDictionary::ValueCodes value_codes = dictionary->find(values);
  const uint32_t rows = distinct.codes().size;
  const double codes =
      rows * code_bits(double{1} * dictionary->size() + value_codes.missing) /
      8;
  const double added = stored * value_codes.missing / values.size;
  if (value_codes.missing == 0) return codes;
  const double most = context.effort == Effort::kCompact
                          ? kMaxCompactSharedBytes
                          : kMaxBalancedSharedBytes;
  const double all = added / value_codes.missing *
                     (double{1} * dictionary->size() + value_codes.missing);
  if (!context.may_change_shared || !dictionary->has_room_for(value_codes) ||
      all > most) {
    return kNever;
  }
  if (dictionary->size() > 0) return codes + added;
  if (stored <= kInlineBytes) return kNever;
  return begun_dictionary_bytes(distinct, stored);
}

}  // namespace nimble
