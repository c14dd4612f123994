// Streams in canonical order, as docs/format/streams.md has them.
#include "nimble/format/stream_plan.h"

#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::every_field;
using nimble::testing::make_dictionary;
using nimble::testing::make_field;
using nimble::testing::struct_of;

const ValueType kBits = ValueType::boolean();
const ValueType kEnds = ValueType::unsigned_int(8);
using Types = std::vector<ValueType>;

Types types_of(const Field& f) { return StreamPlan(f).streams(); }

TEST(StreamPlan, StreamsOfEachLayout) {
  const Field i32 = make_field("i");
  const ValueType ints = ValueType::signed_int(4);
  CHECK(types_of(make_field("n")).empty());
  CHECK(types_of(i32) == Types({kBits, ints}));
  CHECK(types_of(make_field("b")) == Types({kBits, kBits}));
  CHECK(types_of(make_field("vu")) == Types({kBits, ValueType::bytes()}));
  CHECK(types_of(make_field("w:0")) == Types({kBits}));
  CHECK(types_of(make_field("+s", {})) == Types({kBits}));
  CHECK(types_of(make_field("+l", {i32})) ==
        Types({kBits, kEnds, kBits, ints}));
  CHECK(types_of(make_field("+w:2", {i32})) == Types({kBits, kBits, ints}));
  CHECK(types_of(make_field("+s", {i32, make_field("n")})) ==
        Types({kBits, kBits, ints}));
  // Run ends are a stream of the node itself.
  CHECK(types_of(make_field("+r", {make_field("s"), i32})) ==
        Types({kEnds, kBits, ints}));
  CHECK(types_of(make_field("+us:0", {i32})) ==
        Types({ValueType::unsigned_int(1), kBits, ints}));
  CHECK(types_of(make_field("+ud:0", {i32})) ==
        Types({ValueType::unsigned_int(1), kEnds, kBits, ints}));
  // Dictionary values are a plan of their own.
  CHECK(types_of(make_dictionary("C", make_field("u"))) ==
        Types({kBits, ValueType::unsigned_int(1)}));
}

TEST(StreamPlan, NodesArePreOrder) {
  const Field root = struct_of(
      {make_field("+s", {make_field("i"), make_field("+l", {make_field("u")})}),
       make_field("l")});
  const StreamPlan plan(root);
  const uint32_t parents[] = {0, 0, 1, 1, 3, 0};
  const char* formats[] = {"+s", "+s", "i", "+l", "u", "l"};
  REQUIRE(plan.nodes().size() == 6);
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK_EQ(plan.node(i).parent, parents[i]);
    CHECK_EQ(plan.node(i).field->format, formats[i]);
  }
  CHECK(plan.node(0).children == std::vector<uint32_t>({1, 5}));
  CHECK(plan.node(1).children == std::vector<uint32_t>({2, 3}));
}

TEST(StreamPlan, EveryStreamHasOneOwnerInOrder) {
  const Field root = struct_of(every_field());
  const StreamPlan plan(root);
  uint32_t next = 0;
  for (uint32_t n = 0; n < plan.nodes().size(); ++n) {
    const SchemaNode& node = plan.node(n);
    for (const uint32_t stream : {node.validity, node.values, node.ends}) {
      if (stream == kNoStream) continue;
      CHECK_EQ(stream, next++);
      CHECK_EQ(plan.node_of(stream), n);
    }
    CHECK_EQ(node.validity != kNoStream, node.field->has_validity());
  }
  CHECK_EQ(next, plan.num_streams());
}

}  // namespace
}  // namespace nimble
