#include "nimble/memory/aligned_buffer.h"

#include "testing/check.h"

namespace nimble {
namespace {

bool aligned(const AlignedBuffer& b) {
  return reinterpret_cast<uintptr_t>(b.data()) % AlignedBuffer::kAlignment == 0;
}

TEST(AlignedBuffer, GrowsAndKeepsItsBytes) {
  AlignedBuffer b;
  CHECK_EQ(b.size(), 0);
  CHECK(b.data() == nullptr);
  for (uint32_t i = 0; i < 5000; ++i) b.append(&i, 4);
  CHECK_EQ(b.size(), 20000);
  CHECK(aligned(b));
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < 5000; ++i) wrong += b.as<uint32_t>()[i] != i;
  CHECK_EQ(wrong, 0);
}

TEST(AlignedBuffer, SlackIsWritable) {
  for (const size_t n : {0, 1, 63, 64, 65, 1000, 4096}) {
    AlignedBuffer b(n);
    REQUIRE(b.data() != nullptr);  // an address even for no bytes
    CHECK(aligned(b));
    CHECK(b.capacity() >= n);
    std::memset(b.data(), 0xee, b.capacity() + AlignedBuffer::kSlack);
  }
}

TEST(AlignedBuffer, AppendOfNothingNeedsNoAddress) {
  AlignedBuffer b;
  b.append(nullptr, 0);
  CHECK_EQ(b.size(), 0);
}

TEST(AlignedBuffer, ShrinkingKeepsMemory) {
  AlignedBuffer b(100);
  std::memset(b.data(), 1, 100);
  const uint8_t* at = b.data();
  b.resize(10);
  b.resize(100);
  CHECK(b.data() == at);
  CHECK_EQ(b.data()[99], 1);
  b.clear();
  CHECK_EQ(b.size(), 0);
  CHECK(b.data() == at);
}

TEST(AlignedBuffer, Moves) {
  AlignedBuffer a(8);
  store<uint64_t>(a.data(), 42);
  AlignedBuffer b(std::move(a));
  AlignedBuffer c(3);
  c = std::move(b);
  CHECK_EQ(c.size(), 8);
  CHECK_EQ(load<uint64_t>(c.data()), 42);
}

}  // namespace
}  // namespace nimble
