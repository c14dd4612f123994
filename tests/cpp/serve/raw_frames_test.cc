// Frames of encoded rows: what is written is read, and other bytes are refused.
#include "nimble/serve/batch/raw_frames.h"

#include "testing/check.h"

namespace nimble {
namespace {

RawFrame some_frame(std::string_view body) {
  RawFrame frame;
  frame.is_raw = true;
  frame.footer_checksum = 0x1234567890abcdef;
  frame.file_size = 5000;
  frame.columns = {3, 0};
  frame.rows = {{5, 9}, {9, 12}, {700, 1000}};
  frame.metadata = {{4000, 1000}, {3000, 17}};
  frame.parts = {{10, 3}, {100, body.size() - 3}};
  frame.body = as_bytes(body);
  return frame;
}

TEST(RawFrames, AreReadAsTheyWereWritten) {
  std::string reply;
  some_frame("abcdefgh!").append_to(&reply);
  RawFrame arrow;
  arrow.body = as_bytes("stream");
  arrow.append_to(&reply);
  some_frame("xyz1").append_to(&reply);
  CHECK_EQ(reply.size() % 8, size_t{0});
  const auto frames = RawFrame::parse(as_bytes(reply));
  CHECK(static_cast<bool>(frames));
  CHECK_EQ(frames->size(), size_t{3});
  const RawFrame& first = frames->front();
  const RawFrame expected = some_frame("abcdefgh!");
  CHECK(first.is_raw);
  CHECK_EQ(first.footer_checksum, expected.footer_checksum);
  CHECK_EQ(first.file_size, expected.file_size);
  CHECK(first.columns == expected.columns);
  CHECK(first.rows == expected.rows);
  CHECK_EQ(first.metadata.size(), size_t{2});
  CHECK_EQ(first.metadata[1].offset, uint64_t{3000});
  CHECK_EQ(first.parts[1].size, uint64_t{6});
  CHECK(as_string(first.body) == "abcdefgh!");
  CHECK(!(*frames)[1].is_raw);
  CHECK(as_string((*frames)[1].body) == "stream");
  CHECK(as_string((*frames)[2].body) == "xyz1");
}

TEST(RawFrames, CutAndChangedHeadsAreRefused) {
  std::string reply;
  some_frame("abcdefgh").append_to(&reply);
  const size_t head = reply.size() - 8;
  for (size_t n = 1; n < reply.size(); ++n) {
    CHECK(!RawFrame::parse(as_bytes(std::string_view(reply).substr(0, n))));
  }
  for (size_t i = 0; i < head; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = reply;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      CHECK(!RawFrame::parse(as_bytes(changed)));
    }
  }
}

// Heads with a right checksum, but values that no server sends.
TEST(RawFrames, HeadsOfHostileServersAreRefused) {
  const auto is_refused = [](auto&& change) {
    RawFrame frame = some_frame("abcdefgh");
    change(&frame);
    std::string reply;
    frame.append_to(&reply);
    return !RawFrame::parse(as_bytes(reply));
  };
  CHECK(!is_refused([](RawFrame*) {}));
  CHECK(is_refused([](RawFrame* f) { f->rows = {{9, 5}}; }));
  CHECK(is_refused([](RawFrame* f) { f->rows = {{5, 5}}; }));
  CHECK(is_refused([](RawFrame* f) { f->rows = {{5, 9}, {8, 10}}; }));
  CHECK(is_refused([](RawFrame* f) { f->columns = {UINT32_MAX}; }));
  CHECK(is_refused([](RawFrame* f) { f->metadata = {{4000, 1001}}; }));
  CHECK(is_refused([](RawFrame* f) { f->metadata = {{UINT64_MAX, 2}}; }));
  CHECK(is_refused([](RawFrame* f) { f->parts = {{10, 7}}; }));
  CHECK(is_refused([](RawFrame* f) { f->parts = {{4999, 8}}; }));
  CHECK(is_refused([](RawFrame* f) { f->parts = {{1, UINT64_MAX}, {2, 9}}; }));
  CHECK(is_refused([](RawFrame* f) { f->file_size = 100; }));
}

}  // namespace
}  // namespace nimble
