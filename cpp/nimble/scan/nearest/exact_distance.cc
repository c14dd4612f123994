#include "nimble/scan/nearest/exact_distance.h"

#include <algorithm>
#include <cmath>

#include "nimble/index/vector/vector_math.h"

namespace nimble {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Squares and sums of floats between these limits neither overflow nor lose
// bits.
constexpr double kLeast = 1e-24, kGreatest = 1e30;

// Number of rows that are compared at a time.
constexpr uint64_t kCompared = 32;

bool is_usual(double square) { return square >= kLeast && square <= kGreatest; }

double greatest_of(const std::vector<double>& values) {
  double greatest = 0;
  for (const double x : values) greatest = std::max(greatest, std::fabs(x));
  return greatest;
}

}  // namespace

ExactDistance::ExactDistance(VectorMetric metric, const VectorType& type)
    : metric_(metric),
      type_(type),
      query_(type.dimensions),
      query_floats_(type.dimensions),
      floats_(type.dimensions),
      doubles_(type.dimensions) {}

void ExactDistance::set_query(const double* query) {
  query_.assign(query, query + type_.dimensions);
  // Under cosine the length does not matter. It may be extreme, so it is
  // reduced.
  if (metric_ == VectorMetric::kCosine) {
    const double greatest = greatest_of(query_);
    for (double& x : query_) x /= greatest;
  }
  const double square =
      dot_product(query_.data(), query_.data(), type_.dimensions);
  query_norm_ = std::sqrt(square);
  uses_floats_ =
      !is_wide(type_.element) && (is_usual(square) || greatest_of(query_) == 0);
  if (!uses_floats_) return;
  double rounding = 0;
  for (uint32_t i = 0; i < type_.dimensions; ++i) {
    query_floats_[i] = static_cast<float>(query_[i]);
    const double lost = query_[i] - double{query_floats_[i]};
    rounding += lost * lost;
  }
  query_rounding_ = std::sqrt(rounding);
}

bool ExactDistance::is_within(const uint8_t* row, double limit,
                              double* distance) {
  if (uses_floats_ && limit < kInfinity && lower_bound(row) > limit) {
    return false;
  }
  return compute(row, distance) && *distance <= limit;
}

double ExactDistance::lower_bound(const uint8_t* row) {
  const uint64_t n = type_.dimensions;
  const auto* values = reinterpret_cast<const float*>(row);
  if (type_.element != VectorElement::kFloat ||
      reinterpret_cast<uintptr_t>(row) % sizeof(float) != 0) {
    to_floats(type_.element, row, n, floats_.data());
    values = floats_.data();
  }
  const float* const query = query_floats_.data();
  const double rounding = this->rounding();
  // Comparisons with NaN are false, so is_usual() returns false for numbers
  // that are not finite.
  if (metric_ == VectorMetric::kL2) {
    return lower_bound_of(double{squared_distance(query, values, n)});
  }
  float square = 0;
  const auto product = double{dot_and_norm(query, values, n, &square)};
  if (!is_usual(double{square}) || !std::isfinite(product)) return -kInfinity;
  const double norm = std::sqrt(double{square});
  // The Cauchy-Schwarz inequality bounds the sum of magnitudes.
  const double most = 1.01 * norm;
  const double error = most * (rounding * query_norm_ + query_rounding_);
  if (metric_ == VectorMetric::kDot) return -product - error;
  return 1 - (product + error) / (norm * query_norm_) - rounding;
}

double ExactDistance::rounding() const {
  return (static_cast<double>(type_.dimensions) / 16 + 32) *
         std::ldexp(1.0, -24);
}

double ExactDistance::lower_bound_of(double square) const {
  if (!is_usual(square)) return -kInfinity;
  const double length =
      std::max(std::sqrt(square * (1 - rounding())) - query_rounding_, 0.0);
  return length * length;
}

float ExactDistance::beyond(double limit) const {
  const double length = std::sqrt(limit) + query_rounding_;
  // The factor is greater than the errors of these operations.
  const double square = 1.0001 * length * length / (1 - rounding());
  return static_cast<float>(std::clamp(square, kLeast, kGreatest));
}

void ExactDistance::add_nearest(const uint8_t* rows, uint64_t count,
                                uint32_t part, uint64_t first,
                                NearestRows* nearest) {
  const uint64_t bytes = type_.row_bytes();
  const auto add = [&](uint64_t i) {
    double d;
    if (is_within(rows + i * bytes, nearest->limit(), &d)) {
      nearest->add({d, part, first + i});
    }
  };
  const bool is_plain = type_.element == VectorElement::kFloat &&
                        reinterpret_cast<uintptr_t>(rows) % alignof(float) == 0;
  uint64_t i = 0;
  for (; i < count && !(nearest->limit() < kInfinity); ++i) add(i);
  if (!uses_floats_ || !is_plain || metric_ != VectorMetric::kL2) {
    for (; i < count; ++i) add(i);
    return;
  }
  float squares[kCompared];
  float beyond = this->beyond(nearest->limit());
  for (uint64_t n; i < count; i += n) {
    n = std::min<uint64_t>(count - i, kCompared);
    squared_distances(query_floats_.data(),
                      reinterpret_cast<const float*>(rows + i * bytes),
                      type_.dimensions, n, squares);
    for (uint64_t j = 0; j < n; ++j) {
      // NaN and extreme numbers are compared exactly.
      if (squares[j] > beyond && double{squares[j]} <= kGreatest) continue;
      add(i + j);
      beyond = this->beyond(nearest->limit());
    }
  }
}

bool ExactDistance::compute(const uint8_t* row, double* distance) {
  const uint64_t n = type_.dimensions;
  if (is_wide(type_.element)) {
    to_doubles(type_.element, row, n, doubles_.data());
  } else {
    to_floats(type_.element, row, n, floats_.data());
    for (uint64_t i = 0; i < n; ++i) doubles_[i] = double{floats_[i]};
  }
  for (const double x : doubles_) {
    if (!std::isfinite(x)) return false;
  }
  double d = 0;
  switch (metric_) {
    case VectorMetric::kL2:
      d = squared_distance(query_.data(), doubles_.data(), n);
      break;
    case VectorMetric::kCosine: {
      const double greatest = greatest_of(doubles_);
      if (greatest == 0) return false;
      for (double& x : doubles_) x /= greatest;
      const double norm =
          std::sqrt(dot_product(doubles_.data(), doubles_.data(), n));
      const double product = dot_product(query_.data(), doubles_.data(), n);
      // Rounding must not make the distance of parallel vectors negative.
      d = std::max(1 - product / (norm * query_norm_), 0.0);
      break;
    }
    case VectorMetric::kDot:
      d = -dot_product(query_.data(), doubles_.data(), n);
      break;
  }
  // Finite vectors have a distance, even if it is beyond the greatest double.
  constexpr double kMost = std::numeric_limits<double>::max();
  *distance = std::isnan(d) ? kMost : std::clamp(d, -kMost, kMost);
  return true;
}

}  // namespace nimble
