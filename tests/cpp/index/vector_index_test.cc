#include <cmath>
#include <random>

#include "nimble/base/hash.h"
#include "nimble/index/vector/code_sums.h"
#include "nimble/index/vector/rotation.h"
#include "nimble/index/vector/vector_codes.h"
#include "nimble/index/vector/vector_index_writer.h"
#include "nimble/index/vector/vector_math.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

TEST(VectorIndex, AllVersionsOfSumsAreIdentical) {
  std::mt19937_64 random(1);
  for (const uint32_t padded : {64u, 128u, 192u, 768u, 2048u, 2112u, 8192u}) {
    const uint64_t blocks = 3;
    std::vector<uint8_t> codes(blocks * padded / 8 * 32),
        table(padded / 4 * 16);
    for (uint8_t& c : codes) c = static_cast<uint8_t>(random());
    // The greatest values find sums that overflow.
    for (uint8_t& t : table) t = padded > 2000 ? 127 : random() % 128;
    std::vector<uint32_t> expected(blocks * 32);
    for (size_t i = 0; i < expected.size(); ++i) {
      for (uint32_t g = 0; g < padded / 8; ++g) {
        const uint8_t c = codes[(i / 32 * (padded / 8) + g) * 32 + i % 32];
        expected[i] += table[32 * g + (c & 15)] + table[32 * g + 16 + (c >> 4)];
      }
    }
    CHECK(!sum_codes_versions().empty());
    for (const NamedSumCodes& version : sum_codes_versions()) {
      std::vector<uint32_t> sums(blocks * 32, 7);
      version.function(codes.data(), blocks, padded, table.data(), sums.data());
      CHECK(sums == expected);
    }
  }
}

TEST(VectorIndex, RotationKeepsDistances) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  for (const uint32_t n : {64u, 128u, 192u, 320u, 768u, 1536u}) {
    std::vector<float> a(n), b(n);
    for (float& x : a) x = normal(random);
    for (float& x : b) x = normal(random);
    const float before = squared_distance(a.data(), b.data(), n);
    const Rotation rotation(n);
    rotation.apply(a.data());
    rotation.apply(b.data());
    const float after = squared_distance(a.data(), b.data(), n);
    CHECK(std::fabs(before - after) < 1e-3f * before);
    // A single number is spread over all dimensions.
    std::vector<float> one(n);
    one[0] = 1;
    rotation.apply(one.data());
    for (const float x : one) CHECK(std::fabs(x) < 0.75f);
  }
}

// The mean error of estimates of a query's distances to rows around a centroid,
// all moved by `shift`.
double error_of_estimates(float shift, uint32_t levels) {
  constexpr uint32_t kDimensions = 256;
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> centroid(kDimensions), query(kDimensions);
  for (float& x : centroid) x = shift + normal(random);
  for (float& x : query) x = shift + normal(random);
  QueryCode code;
  code.set(query.data(), kDimensions, levels);
  float half = 0;
  for (const float x : query) half += x / 2;
  const float to_centroid =
      squared_distance(query.data(), centroid.data(), kDimensions);
  double error = 0;
  for (uint32_t lane = 0; lane < kVectorBlock; ++lane) {
    std::vector<float> row = centroid;
    for (float& x : row) x += 0.5f * normal(random);
    std::vector<uint8_t> block(kDimensions / 8 * kVectorBlock);
    const CodeNumbers numbers =
        encode_residual(VectorMetric::kL2, row.data(), centroid.data(),
                        kDimensions, lane, block.data());
    uint32_t sum = 0;
    for (uint32_t level = 0; level < levels; ++level) {
      uint32_t sums[kVectorBlock];
      sum_codes(block.data(), 1, kDimensions, code.table(level), sums);
      sum = 128 * sum + sums[lane];
    }
    const float s = code.table_scale() * static_cast<float>(sum) +
                    code.table_offset() - half;
    const float estimate = to_centroid + numbers.offset - 2 * numbers.scale * s;
    const float exact = squared_distance(query.data(), row.data(), kDimensions);
    error += std::fabs(estimate - exact) / exact;
  }
  return error / kVectorBlock;
}

TEST(VectorIndex, EstimatesAreNearTheDistances) {
  CHECK(error_of_estimates(0, 1) < 0.05);
  CHECK(error_of_estimates(0, 2) < 0.05);
}

TEST(VectorIndex, TwoLevelsOfTablesEstimateFarFromTheOrigin) {
  CHECK(error_of_estimates(1000, 1) > 0.15);
  CHECK(error_of_estimates(1000, 2) < 0.06);
}

TEST(VectorIndex, ProductsWithTheLeastCodeFitAnInteger) {
  // Codes of a damaged directory may be -128.
  const std::vector<float> query(kMaxVectorDimensions, -1.0f);
  const std::vector<int8_t> code(kMaxVectorDimensions, -128);
  QueryCode q;
  q.set(query.data(), kMaxVectorDimensions);
  const float product =
      -q.centroid_distance(VectorMetric::kDot, code.data(), 1, 0);
  CHECK(std::fabs(product / (128.0f * kMaxVectorDimensions) - 1) < 0.01f);
}

std::vector<uint8_t> built(uint32_t threads, VectorRoot* root,
                           uint8_t mask = 255) {
  constexpr uint32_t kDimensions = 512;
  constexpr uint64_t kRows = 2200;
  VectorType type;
  type.element = VectorElement::kInt8;
  type.dimensions = kDimensions;
  VectorIndexOptions options;
  options.threads = threads;
  options.memory_bytes = uint64_t{1} << 20;  // several passes, and spilling
  auto writer = VectorIndexWriter::create(type, options);
  CHECK(writer.has_value());
  std::mt19937_64 random(4);
  std::vector<uint8_t> row(kDimensions);
  for (uint64_t i = 0; i < kRows; ++i) {
    for (uint8_t& x : row) x = static_cast<uint8_t>(random()) & mask;
    CHECK((*writer)->add(i % 100 == 7 ? nullptr : row.data()).is_ok());
  }
  std::vector<uint8_t> file;
  auto made = (*writer)->finish([&](ByteSpan bytes) -> Result<SectionRef> {
    const SectionRef ref{file.size(), bytes.size(), checksum64(bytes)};
    file.insert(file.end(), bytes.begin(), bytes.end());
    return ref;
  });
  CHECK(made.has_value());
  auto parsed = VectorRoot::parse(*made, file.size(), kRows);
  CHECK(parsed.has_value());
  *root = *parsed;
  file.insert(file.end(), made->begin(), made->end());
  return file;
}

TEST(VectorIndex, BytesDoNotDependOnThreads) {
  VectorRoot root;
  const std::vector<uint8_t> one = built(1, &root);
  CHECK_EQ(root.num_rows, 2178u);
  CHECK_EQ(root.left_out, 22u);
  CHECK_EQ(root.num_lists, 68u);
  CHECK(!root.curve10.empty());
  CHECK(root.curve10.back().recall > 0.95f);
  CHECK(one == built(2, &root));
  CHECK(one == built(8, &root));
}

TEST(VectorIndex, DamagedRootsAndDirectoriesAreRefusedOrHarmless) {
  VectorRoot root;
  const std::vector<uint8_t> file = built(2, &root);
  const std::vector<uint8_t> bytes = root.serialize();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t bit : {1, 16, 128}) {
      std::vector<uint8_t> bad = bytes;
      bad[i] ^= bit;
      const auto parsed = VectorRoot::parse(bad, file.size(), 2200);
      if (!parsed) continue;
      CHECK(parsed->num_rows <= 2200);
      CHECK(parsed->lists_offset + parsed->lists_bytes <= file.size());
    }
  }
  const ByteSpan all(file);
  const ByteSpan directory =
      all.subspan(root.directory.offset, root.directory.size);
  CHECK(ListDirectory::parse(directory, root).has_value());
  CHECK(!ListDirectory::parse(directory.first(20), root).has_value());
  std::vector<uint8_t> bad(directory.begin(), directory.end());
  bad[8 * root.num_lists] ^= 1;  // rows of the first list
  CHECK(!ListDirectory::parse(bad, root).has_value());
}

TEST(VectorIndex, TheMetricOfAnUnknownIndexIsKnown) {
  VectorRoot root;
  root.metric = VectorMetric::kDot;
  root.dimensions = 3;
  root.padded = 64;
  root.bits = 4;
  const auto parsed = VectorRoot::parse(root.serialize(), 0, 0);
  CHECK(parsed.error().code() == StatusCode::kUnsupported);
  CHECK(*VectorRoot::parse_metric(root.serialize()) == VectorMetric::kDot);
}

TEST(VectorIndex, SizesOfListsThatWrapAreRefused) {
  VectorRoot root;
  root.dimensions = root.padded = kMaxVectorDimensions;
  root.num_lists = 3;
  root.num_rows = 1;
  root.row_width = 8;
  root.lists_bytes = 1000;
  std::vector<uint8_t> bytes(ListDirectory::size_of(root));
  for (size_t i = 24; i < 36; ++i) bytes[i] = 255;  // rows of the lists
  CHECK(!ListDirectory::parse(bytes, root).has_value());
}

TEST(VectorIndex, ACenterFarFromTheOriginIsSubtracted) {
  VectorRoot root;
  built(1, &root);
  CHECK(!root.has_center());
  const std::vector<uint8_t> file = built(1, &root, 7);  // 0 to 7
  CHECK(!root.has_center());
  CHECK(file == built(8, &root, 7));
  const auto directory = [&](const std::vector<uint8_t>& all) {
    return ByteSpan(all).subspan(root.directory.offset, root.directory.size);
  };
  CHECK(ListDirectory::parse(directory(file), root)->center == nullptr);
  root.rotation = kCenteredAndRotated;
  CHECK(!ListDirectory::parse(directory(file), root).has_value());
}

struct Trained {
  VectorRoot root;
  std::vector<uint8_t> file;  // without the root
  uint64_t pairs = 0;
};

// An index of `count` rows of clusters.
Trained trained(VectorMetric metric, uint64_t seed, uint64_t count,
                const KnownCentroids& known, uint32_t threads) {
  constexpr uint32_t kDimensions = 60;
  VectorIndexOptions options;
  options.metric = metric;
  options.known = known;
  options.threads = threads;
  auto writer =
      VectorIndexWriter::create({VectorElement::kFloat, kDimensions}, options);
  CHECK(writer.has_value());
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> topics(50 * kDimensions);
  for (float& x : topics) x = 3 * normal(random) + 1;
  random.seed(seed);
  std::vector<float> row(kDimensions);
  for (uint64_t i = 0; i < count; ++i) {
    const float* const topic = &topics[random() % 50 * kDimensions];
    for (uint32_t j = 0; j < kDimensions; ++j) {
      row[j] = topic[j] + normal(random);
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(row.data());
    CHECK((*writer)->add(bytes).is_ok());
  }
  Trained out;
  auto root = (*writer)->finish([&](ByteSpan bytes) -> Result<SectionRef> {
    const SectionRef ref{out.file.size(), bytes.size(), checksum64(bytes)};
    out.file.insert(out.file.end(), bytes.begin(), bytes.end());
    return ref;
  });
  CHECK(root.has_value());
  auto parsed = VectorRoot::parse(*root, out.file.size(), count);
  CHECK(parsed.has_value());
  out.root = *parsed;
  out.pairs = (*writer)->pairs_trained();
  return out;
}

void append_centroids(const Trained& index, KnownCentroids* out) {
  const VectorRoot& root = index.root;
  const auto directory = ListDirectory::parse(
      ByteSpan(index.file).subspan(root.directory.offset, root.directory.size),
      root);
  CHECK(directory.has_value());
  for (uint32_t i = 0; i < root.num_lists; ++i) {
    if (directory->rows_of(i) == 0) continue;
    for (uint32_t j = 0; j < root.padded; ++j) {
      out->centroids.push_back(
          directory->scale(i) *
          static_cast<float>(directory->codes[i * root.padded + j]));
    }
    out->rows.push_back(static_cast<float>(directory->rows_of(i)));
  }
}

// The part of the rows that a search for a recall of 0.95 looks at.
float rows_for_95(const VectorRoot& root) {
  for (const CurvePoint& point : root.curve10) {
    if (point.recall >= 0.95f) return point.rows;
  }
  return 1;
}

TEST(VectorIndex, TrainingFromKnownCentroidsComparesLessForTheSameRecall) {
  for (const VectorMetric metric :
       {VectorMetric::kL2, VectorMetric::kCosine, VectorMetric::kDot}) {
    KnownCentroids known;
    for (const uint64_t seed : {1, 2, 3}) {
      append_centroids(trained(metric, seed, 2000, {}, 1), &known);
    }
    const Trained scratch = trained(metric, 4, 6000, {}, 1);
    const Trained started = trained(metric, 4, 6000, known, 1);
    CHECK_EQ(started.root.num_lists, scratch.root.num_lists);
    CHECK(10 * started.pairs < 4 * scratch.pairs);
    CHECK(rows_for_95(started.root) < 1.2f * rows_for_95(scratch.root) + .002f);
    CHECK(started.file == trained(metric, 4, 6000, known, 3).file);
    // Fewer centroids than lists, which stand for a part of the rows.
    KnownCentroids few = known;
    few.rows.resize(40);
    few.centroids.resize(40 * uint64_t{scratch.root.padded});
    const Trained partly = trained(metric, 4, 6000, few, 1);
    CHECK_EQ(partly.root.num_lists, scratch.root.num_lists);
    CHECK(partly.pairs < scratch.pairs);
    CHECK(rows_for_95(partly.root) < 1.3f * rows_for_95(scratch.root) + .002f);
  }
}

TEST(VectorIndex, KnownCentroidsOfOtherDimensionsAreRefused) {
  VectorIndexOptions options;
  options.known.centroids.resize(64);
  options.known.rows = {1};
  CHECK(VectorIndexWriter::create({VectorElement::kFloat, 60}, options)
            .has_value());
  CHECK(!VectorIndexWriter::create({VectorElement::kFloat, 65}, options)
             .has_value());
}

}  // namespace
}  // namespace nimble::testing
