#include "nimble/index/vector/clusters.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "nimble/index/vector/vector_math.h"
#include "nimble/threads/parallel.h"

namespace nimble {
namespace {

constexpr size_t kListsPerTask = 16;

// The rows of each list, in order.
struct Members {
  std::vector<uint64_t> begin;  // one element more than there are lists
  std::vector<uint64_t> rows;

  Members(const std::vector<uint32_t>& list_of, uint32_t num_lists)
      : begin(num_lists + 1), rows(list_of.size()) {
    for (const uint32_t list : list_of) ++begin[list + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<uint64_t> next(begin.begin(), begin.end() - 1);
    for (uint64_t i = 0; i < list_of.size(); ++i) rows[next[list_of[i]]++] = i;
  }
  std::span<const uint64_t> of(uint32_t list) const {
    return std::span(rows).subspan(begin[list], begin[list + 1] - begin[list]);
  }
};

// Gives a list without rows half of the largest list, by placing both centroids
// slightly apart.
void split_largest(std::vector<float>* centroids, uint32_t empty, uint64_t n,
                   std::vector<uint64_t>* sizes, RandomStream* random) {
  const auto largest = static_cast<uint64_t>(
      std::max_element(sizes->begin(), sizes->end()) - sizes->begin());
  float* const from = centroids->data() + largest * n;
  float* const to = centroids->data() + uint64_t{empty} * n;
  constexpr float kApart = 1.0f / 1024;
  for (uint64_t j = 0; j < n; ++j) {
    const float by = (random->next() >> 63) != 0 ? kApart : -kApart;
    to[j] = from[j] * (1 + by);
    from[j] *= 1 - by;
  }
  (*sizes)[empty] = (*sizes)[largest] / 2;
  (*sizes)[largest] -= (*sizes)[empty];
}

// Orders centroids by halving them repeatedly. Each half has the centroids that
// are nearer to one of two means.
class NearOrder {
 public:
  NearOrder(const std::vector<float>& centroids, uint64_t n)
      : centroids_(centroids), n_(n), order_(centroids.size() / n) {
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    halve(0, order_.size());
  }
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  const float* at(uint32_t i) const { return &centroids_[uint64_t{i} * n_]; }

  void halve(size_t begin, size_t end) {
    // Runs this short are read together anyway. Cutting in the middle also
    // limits the depth of the recursion.
    if (end - begin < 4) return;
    std::vector<float> a(at(order_[begin]), at(order_[begin]) + n_);
    std::vector<float> b = a;
    float greatest = 0;
    for (size_t i = begin; i < end; ++i) {
      const float d = squared_distance(a.data(), at(order_[i]), n_);
      if (d <= greatest) continue;
      greatest = d;
      b.assign(at(order_[i]), at(order_[i]) + n_);
    }
    if (greatest == 0) return;
    std::vector<std::pair<float, uint32_t>> sides(end - begin);
    for (int round = 0; round < 4; ++round) {
      for (size_t i = begin; i < end; ++i) {
        const float* const c = at(order_[i]);
        sides[i - begin] = {squared_distance(a.data(), c, n_) -
                                squared_distance(b.data(), c, n_),
                            order_[i]};
      }
      set_mean(sides, true, &a);
      set_mean(sides, false, &b);
    }
    std::sort(sides.begin(), sides.end());
    for (size_t i = begin; i < end; ++i) order_[i] = sides[i - begin].second;
    const size_t middle = begin + (end - begin) / 2;
    halve(begin, middle);
    halve(middle, end);
  }
  void set_mean(const std::vector<std::pair<float, uint32_t>>& sides,
                bool of_first, std::vector<float>* out) const {
    std::vector<float> sum(n_);
    uint64_t count = 0;
    for (const auto& [difference, i] : sides) {
      if ((difference < 0) != of_first) continue;
      ++count;
      for (uint64_t j = 0; j < n_; ++j) sum[j] += at(i)[j];
    }
    if (count == 0) return;
    for (float& x : sum) x /= static_cast<float>(count);
    *out = std::move(sum);
  }

  const std::vector<float>& centroids_;
  const uint64_t n_;
  std::vector<uint32_t> order_;
};

}  // namespace

uint64_t RandomStream::next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t RandomStream::below(uint64_t n) { return n == 0 ? 0 : next() % n; }

std::vector<uint64_t> random_numbers(uint64_t total, uint64_t count,
                                     RandomStream* random) {
  std::vector<uint64_t> out;
  count = std::min(count, total);
  // Selection sampling: takes number i with the probability (numbers still
  // wanted) / (numbers left).
  for (uint64_t i = 0; i < total && out.size() < count; ++i) {
    if (random->below(total - i) < count - out.size()) out.push_back(i);
  }
  return out;
}

Result<std::vector<float>> train_centroids(const std::vector<float>& vectors,
                                           const ClusterOptions& options) {
  const uint64_t n = options.dimensions;
  const uint32_t k = options.count;
  const uint64_t rows = vectors.size() / n;
  RandomStream random(1);
  std::vector<float> centroids = options.start;
  centroids.reserve(k * n);
  for (const uint64_t i :
       random_numbers(rows, k - options.start.size() / n, &random)) {
    const auto from = vectors.begin() + static_cast<ptrdiff_t>(i * n);
    centroids.insert(centroids.end(), from, from + static_cast<ptrdiff_t>(n));
  }
  std::vector<uint32_t> list_of(rows);
  for (uint32_t round = 0; round < options.iterations; ++round) {
    if (options.poll) NIMBLE_RETURN_IF_ERROR(options.poll());
    const VectorPanels panels(centroids.data(), k, options.dimensions);
    parallel_for(div_ceil(rows, VectorPanels::kBlockRows), options.threads,
                 [&](size_t b) {
                   const uint64_t begin = b * VectorPanels::kBlockRows;
                   panels.nearest(
                       &vectors[begin * n],
                       std::min(VectorPanels::kBlockRows, rows - begin),
                       &list_of[begin]);
                 });
    const Members members(list_of, k);
    parallel_for(div_ceil(k, kListsPerTask), options.threads, [&](size_t t) {
      const auto end = std::min<size_t>(k, (t + 1) * kListsPerTask);
      for (size_t list = t * kListsPerTask; list < end; ++list) {
        const auto own = members.of(static_cast<uint32_t>(list));
        if (own.empty()) continue;
        float* const to = &centroids[list * n];
        std::fill(to, to + n, 0.0f);
        float total = 0;
        for (const uint64_t row : own) {
          const float* const v = &vectors[row * n];
          const float weight =
              options.weights.empty() ? 1 : options.weights[row];
          for (uint64_t j = 0; j < n; ++j) to[j] += weight * v[j];
          total += weight;
        }
        for (uint64_t j = 0; j < n; ++j) to[j] /= total;
      }
    });
    std::vector<uint64_t> sizes(k);
    for (uint32_t i = 0; i < k; ++i) sizes[i] = members.of(i).size();
    for (uint32_t i = 0; i < k; ++i) {
      if (sizes[i] == 0) split_largest(&centroids, i, n, &sizes, &random);
    }
  }
  const NearOrder near(centroids, n);
  std::vector<float> out(centroids.size());
  for (uint32_t i = 0; i < k; ++i) {
    std::memcpy(&out[i * n], &centroids[uint64_t{near.order()[i]} * n],
                n * sizeof(float));
  }
  return out;
}

}  // namespace nimble
