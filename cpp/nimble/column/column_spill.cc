#include "nimble/column/column_spill.h"

namespace nimble {
namespace {

void put(const void* data, size_t size, ByteBuffer* out) {
  out->put<uint64_t>(size);
  if (size > 0) out->put_bytes(data, size);
}

void get(ByteReader* in, AlignedBuffer* out) {
  const ByteSpan bytes = in->get_bytes(in->get<uint64_t>());
  if (!bytes.empty()) out->append(bytes.data(), bytes.size());
}

}  // namespace

void store_column(const Column& c, ByteBuffer* out) {
  out->put<uint64_t>(c.length());
  out->put<uint64_t>(c.null_count());
  out->put<uint64_t>(c.bytes.count);
  put(c.validity.data(), c.validity.size(), out);
  put(c.values.data(), c.values.size(), out);
  put(c.bytes.data.data(), c.bytes.data.size(), out);
  put(c.bytes.offsets.data(), c.bytes.offsets.size(), out);
  put(c.ends.data(), c.ends.size() * sizeof(int64_t), out);
  for (const Column& child : c.children) store_column(child, out);
}

void load_column(ByteReader* in, Column* c) {
  c->clear();
  c->add_rows(in->get<uint64_t>());
  c->add_nulls(in->get<uint64_t>());
  c->bytes.count = in->get<uint64_t>();
  get(in, &c->validity);
  get(in, &c->values);
  get(in, &c->bytes.data);
  get(in, &c->bytes.offsets);
  const ByteSpan ends = in->get_bytes(in->get<uint64_t>());
  c->ends.resize(ends.size() / sizeof(int64_t));
  if (!ends.empty()) std::memcpy(c->ends.data(), ends.data(), ends.size());
  for (Column& child : c->children) load_column(in, &child);
}

}  // namespace nimble
