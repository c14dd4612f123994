#include "nimble/scan/nearest/exact_distance.h"

#include <algorithm>
#include <cmath>

#include "nimble/index/vector/vector_math.h"

namespace nimble {
namespace {

// Rounding must not make the distance of parallel vectors negative.
double cosine_distance(double product, double norms) {
  return std::max(1 - product / norms, 0.0);
}

// Squares and sums of floats between these are exact enough.
constexpr double kLeast = 1e-24, kGreatest = 1e30;

bool is_usual(double square) { return square >= kLeast && square <= kGreatest; }

}  // namespace

ExactDistance::ExactDistance(VectorMetric metric, const VectorType& type,
                             const double* query)
    : metric_(metric),
      type_(type),
      query_(query, query + type.dimensions),
      query_floats_(type.dimensions),
      floats_(type.dimensions),
      doubles_(type.dimensions) {
  // Under cosine the length does not matter, and may be extreme.
  if (metric == VectorMetric::kCosine) {
    double greatest = 0;
    for (const double x : query_) greatest = std::max(greatest, std::fabs(x));
    for (double& x : query_) x /= greatest;
  }
  const double square =
      dot_product(query_.data(), query_.data(), type.dimensions);
  query_norm_ = std::sqrt(square);
  for (uint32_t i = 0; i < type.dimensions; ++i) {
    query_floats_[i] = static_cast<float>(query_[i]);
  }
  uses_floats_ = type.element != VectorElement::kDouble &&
                 (is_usual(square) || square == 0);
}

double ExactDistance::of(const uint8_t* row) {
  if (!uses_floats_) return precise(row);
  const uint64_t n = type_.dimensions;
  const auto* values = reinterpret_cast<const float*>(row);
  if (type_.element != VectorElement::kFloat ||
      reinterpret_cast<uintptr_t>(row) % sizeof(float) != 0) {
    to_floats(type_.element, row, n, floats_.data());
    values = floats_.data();
  }
  const float* const query = query_floats_.data();
  // A comparison with NaN is false, so numbers that are not finite are
  // computed again.
  switch (metric_) {
    case VectorMetric::kL2: {
      const auto d = double{squared_distance(query, values, n)};
      return is_usual(d) ? d : precise(row);
    }
    case VectorMetric::kCosine: {
      float norm = 0;
      const auto product = double{dot_and_norm(query, values, n, &norm)};
      if (!is_usual(double{norm})) return precise(row);
      return cosine_distance(product, std::sqrt(double{norm}) * query_norm_);
    }
    case VectorMetric::kDot:
      break;
  }
  const auto product = double{dot_product(query, values, n)};
  return is_usual(product * product) ? -product : precise(row);
}

double ExactDistance::precise(const uint8_t* row) {
  const uint64_t n = type_.dimensions;
  to_doubles(type_.element, row, n, doubles_.data());
  bool is_zero = true;
  for (const double x : doubles_) {
    if (!std::isfinite(x)) return kNone;
    is_zero = is_zero && x == 0;
  }
  double d = 0;
  switch (metric_) {
    case VectorMetric::kL2:
      d = squared_distance(query_.data(), doubles_.data(), n);
      break;
    case VectorMetric::kCosine: {
      if (is_zero) return kNone;
      double greatest = 0;
      for (const double x : doubles_) {
        greatest = std::max(greatest, std::fabs(x));
      }
      for (double& x : doubles_) x /= greatest;
      const double norm =
          std::sqrt(dot_product(doubles_.data(), doubles_.data(), n));
      const double product = dot_product(query_.data(), doubles_.data(), n);
      d = cosine_distance(product, norm * query_norm_);
      break;
    }
    case VectorMetric::kDot:
      d = -dot_product(query_.data(), doubles_.data(), n);
      break;
  }
  // Finite vectors have a distance, even if it is beyond the greatest double.
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::isnan(d) ? kMost : std::clamp(d, -kMost, kMost);
}

}  // namespace nimble
