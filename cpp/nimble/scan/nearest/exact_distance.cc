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
  if (uses_floats_ && limit < kInfinity) {
    const auto* values = reinterpret_cast<const float*>(row);
    if (!is_in_place(row)) {
      to_floats(type_.element, row, type_.dimensions, floats_.data());
      values = floats_.data();
    }
    float product = 0, square = 0;
    sum(values, 1, &product, &square);
    if (is_beyond(product, square, bound_of(limit))) return false;
  }
  return compute(row, distance) && *distance <= limit;
}

bool ExactDistance::is_in_place(const uint8_t* rows) const {
  return type_.element == VectorElement::kFloat &&
         reinterpret_cast<uintptr_t>(rows) % alignof(float) == 0;
}

double ExactDistance::rounding() const {
  return (static_cast<double>(type_.dimensions) / 16 + 32) *
         std::ldexp(1.0, -24);
}

ExactDistance::Bound ExactDistance::bound_of(double limit) const {
  Bound out;
  if (metric_ == VectorMetric::kL2) {
    const double length = std::sqrt(limit) + query_rounding_;
    // The factor is greater than the errors of these operations.
    const double square = 1.0001 * length * length / (1 - rounding());
    out.square = static_cast<float>(std::clamp(square, kLeast, kGreatest));
    return out;
  }
  // The Cauchy-Schwarz inequality bounds the sum of magnitudes. The factor is
  // greater than the error of the row's length.
  const double error = 1.01 * (rounding() * query_norm_ + query_rounding_);
  if (metric_ == VectorMetric::kDot) {
    out.offset = -limit;
    out.slope = -error;
  } else {
    out.slope = (1 - rounding() - limit) * query_norm_ - error;
  }
  return out;
}

void ExactDistance::sum(const float* rows, uint64_t count, float* products,
                        float* squares) const {
  const float* const query = query_floats_.data();
  if (metric_ == VectorMetric::kL2) {
    squared_distances(query, rows, type_.dimensions, count, squares);
  } else {
    dots_and_norms(query, rows, type_.dimensions, count, products, squares);
  }
}

bool ExactDistance::is_beyond(float product, float square,
                              const Bound& bound) const {
  // Comparisons with NaN are false.
  if (metric_ == VectorMetric::kL2) {
    return square > bound.square && double{square} <= kGreatest;
  }
  return is_usual(double{square}) &&
         double{product} <
             bound.offset + bound.slope * std::sqrt(double{square});
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
  uint64_t i = 0;
  for (; i < count && !(nearest->limit() < kInfinity); ++i) add(i);
  if (!uses_floats_ || !is_in_place(rows)) {
    for (; i < count; ++i) add(i);
    return;
  }
  float products[kCompared] = {}, squares[kCompared];
  Bound bound = bound_of(nearest->limit());
  for (uint64_t n; i < count; i += n) {
    n = std::min<uint64_t>(count - i, kCompared);
    sum(reinterpret_cast<const float*>(rows + i * bytes), n, products, squares);
    for (uint64_t j = 0; j < n; ++j) {
      if (is_beyond(products[j], squares[j], bound)) continue;
      add(i + j);
      bound = bound_of(nearest->limit());
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
  double d = 0;
  switch (metric_) {
    case VectorMetric::kL2:
      d = squared_distance(query_.data(), doubles_.data(), n);
      break;
    case VectorMetric::kCosine: {
      // Squares of floats neither overflow nor vanish as doubles.
      if (is_wide(type_.element)) {
        const double greatest = greatest_of(doubles_);
        if (greatest == 0) return false;
        for (double& x : doubles_) x /= greatest;
      }
      const double square = dot_product(doubles_.data(), doubles_.data(), n);
      if (square == 0) return false;
      const double product = dot_product(query_.data(), doubles_.data(), n);
      // Rounding must not make the distance of parallel vectors negative.
      d = 1 - product / (std::sqrt(square) * query_norm_);
      if (d < 0) d = 0;
      break;
    }
    case VectorMetric::kDot:
      d = -dot_product(query_.data(), doubles_.data(), n);
      break;
  }
  if (!std::isfinite(d)) {
    for (const double x : doubles_) {
      if (!std::isfinite(x)) return false;
    }
  }
  // Finite vectors have a distance, even if it is beyond the greatest double.
  constexpr double kMost = std::numeric_limits<double>::max();
  *distance = std::isnan(d) ? kMost : std::clamp(d, -kMost, kMost);
  return true;
}

}  // namespace nimble
