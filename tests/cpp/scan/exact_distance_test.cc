#include "nimble/scan/nearest/exact_distance.h"

#include <cmath>
#include <cstring>
#include <random>

#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr uint64_t kMostRows = 100;
constexpr float kInf = std::numeric_limits<float>::infinity();

// Rows around the query, among them rows that floats cannot compare.
std::vector<float> rows_of(const std::vector<double>& query, uint64_t count,
                           std::mt19937_64* random) {
  const float special[] = {0.f,   -0.f,   kInf,   -kInf, std::nanf(""),
                           1e38f, -3e38f, 1e-40f, 1e-30f};
  std::normal_distribution<float> normal;
  std::vector<float> rows;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t kind = (*random)() % 8;
    const float spread = kind == 0 ? 1e-4f : 1;
    const float scale = kind == 1 ? 1e25f : kind == 2 ? 1e-25f : 1;
    for (const double x : query) {
      const float near = static_cast<float>(x) + spread * normal(*random);
      rows.push_back(kind == 3 ? 0 : scale * near);
    }
    if (kind == 4) {
      rows[rows.size() - 1 - (*random)() % query.size()] =
          special[(*random)() % std::size(special)];
    }
    if (kind == 5 && i > 0) {  // equal to the row before
      std::copy_n(rows.end() - static_cast<ptrdiff_t>(2 * query.size()),
                  query.size(),
                  rows.end() - static_cast<ptrdiff_t>(query.size()));
    }
  }
  return rows;
}

// The distance in long doubles. Returns false for rows that are not found.
bool distance_of(VectorMetric metric, const std::vector<double>& query,
                 const float* row, double* out) {
  long double squares = 0, product = 0, row_square = 0, query_square = 0;
  for (size_t i = 0; i < query.size(); ++i) {
    const long double x = row[i], q = query[i];
    if (!std::isfinite(row[i])) return false;
    squares += (x - q) * (x - q);
    product += x * q;
    row_square += x * x;
    query_square += q * q;
  }
  if (metric == VectorMetric::kL2) {
    *out = static_cast<double>(squares);
  } else if (metric == VectorMetric::kDot) {
    *out = static_cast<double>(-product);
  } else {
    if (row_square == 0) return false;
    *out = static_cast<double>(1 - product / std::sqrt(row_square) /
                                       std::sqrt(query_square));
  }
  return true;
}

TEST(ExactDistance, NearestOfManyRowsAreThoseOfTheOracle) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const VectorMetric metric :
       {VectorMetric::kL2, VectorMetric::kCosine, VectorMetric::kDot}) {
    for (const uint32_t n : {1u, 15u, 16u, 33u, 130u}) {
      for (int round = 0; round < 40; ++round) {
        std::vector<double> query(n);
        for (double& x : query) x = normal(random);
        const uint64_t count = random() % kMostRows;
        const std::vector<float> rows = rows_of(query, count, &random);
        std::vector<double> expected;
        for (uint64_t i = 0; i < count; ++i) {
          double d;
          if (distance_of(metric, query, &rows[i * n], &d)) {
            expected.push_back(d);
          }
        }
        const size_t k = 1 + random() % 12;
        std::sort(expected.begin(), expected.end());
        expected.resize(std::min(k, expected.size()));
        // Rows that floats can read in place, and rows that are not aligned.
        for (const size_t shift : {0, 1}) {
          std::vector<uint8_t> bytes(rows.size() * sizeof(float) + shift + 1);
          if (!rows.empty()) {
            std::memcpy(bytes.data() + shift, rows.data(),
                        rows.size() * sizeof(float));
          }
          ExactDistance distance(metric, {VectorElement::kFloat, n});
          distance.set_query(query.data());
          NearestRows nearest(k);
          distance.add_nearest(bytes.data() + shift, count, 3, 1000, &nearest);
          const std::vector<NearRow> found = nearest.take_sorted();
          CHECK_EQ(found.size(), expected.size());
          for (size_t i = 0; i < found.size(); ++i) {
            const double scale = std::max(1.0, std::fabs(expected[i]));
            CHECK(std::fabs(found[i].distance - expected[i]) <= 1e-12 * scale);
            CHECK(found[i].part == 3 && found[i].row >= 1000);
            double own;
            CHECK(distance_of(metric, query, &rows[(found[i].row - 1000) * n],
                              &own));
            CHECK(std::fabs(own - found[i].distance) <= 1e-12 * scale);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nimble::testing
