// Arrow arrays for key tests, made from cells. A cell is a row's raw value
// bytes (little-endian numbers, one byte per bool, the bytes of a string), or
// null.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nimble/types/array_view.h"
#include "testing/check.h"

namespace nimble::testing {

using Cell = std::optional<std::string>;
using Cells = std::vector<Cell>;

template <class T>
std::string raw(T v) {
  return {reinterpret_cast<const char*>(&v), sizeof v};
}
inline std::string raw_wide(int64_t v, size_t width) {
  std::string s(width, v < 0 ? '\xff' : '\0');
  std::memcpy(s.data(), &v, 8);
  return s;
}

class TestArray {
 public:
  // A primitive, text or binary column. Every array begins with junk rows
  // before its offset, like slices do.
  static std::unique_ptr<TestArray> leaf(std::string name, std::string format,
                                         const Cells& cells, int64_t junk = 3) {
    auto out = std::make_unique<TestArray>();
    out->field_.name = std::move(name);
    out->field_.format = std::move(format);
    REQUIRE(out->field_.resolve("test").is_ok());
    Cells all(static_cast<size_t>(junk), cells.empty() ? Cell() : cells[0]);
    all.insert(all.end(), cells.begin(), cells.end());
    out->set_validity(all);
    if (out->field_.layout == Layout::kBytes) {
      out->fill_bytes(all);
    } else if (out->field_.layout == Layout::kBool) {
      out->buffers_.emplace_back(all.size() / 8 + 1);
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] && (*all[i])[0] != 0)
          out->buffers_[1][i / 8] |= static_cast<uint8_t>(1 << (i % 8));
      }
    } else {
      out->buffers_.emplace_back();
      for (const Cell& c : all) {
        const std::string v =
            c.value_or(std::string(out->field_.width, '\xa5'));
        out->buffers_[1].insert(out->buffers_[1].end(), v.begin(), v.end());
      }
      out->buffers_[1].resize(out->buffers_[1].size() + 1);
    }
    out->finish(static_cast<int64_t>(cells.size()), junk);
    return out;
  }

  static std::unique_ptr<TestArray> dictionary(
      std::string name, std::vector<std::optional<int32_t>> codes,
      std::unique_ptr<TestArray> values) {
    Cells cells;
    for (const auto& c : codes) cells.push_back(c ? Cell(raw(*c)) : Cell());
    auto out = leaf(std::move(name), "i", cells);
    out->field_.dictionary.push_back(values->field_);
    out->dictionary_ = std::move(values);
    REQUIRE(out->field_.resolve("test").is_ok());
    out->array_.dictionary = &out->dictionary_->array_;
    return out;
  }

  // Children must have junk + rows rows. `valid` tells which rows are not null.
  static std::unique_ptr<TestArray> structure(
      std::string name, std::vector<std::unique_ptr<TestArray>> children,
      int64_t rows, const std::vector<bool>& valid = {}, int64_t junk = 0) {
    auto out = std::make_unique<TestArray>();
    out->field_.name = std::move(name);
    out->field_.format = "+s";
    Cells marks(static_cast<size_t>(junk), Cell(""));
    for (int64_t i = 0; i < rows; ++i) {
      marks.push_back(valid.empty() || valid[static_cast<size_t>(i)] ? Cell("")
                                                                     : Cell());
    }
    out->set_validity(marks);
    for (auto& c : children) {
      out->field_.children.push_back(c->field_);
      out->child_arrays_.push_back(&c->array_);
    }
    out->children_ = std::move(children);
    REQUIRE(out->field_.resolve("test").is_ok());
    out->finish(rows, junk);
    return out;
  }

  const Field& field() const { return field_; }
  ArrayView view() const {
    auto v = ArrayView::open(field_, array_, "test");
    REQUIRE(v.has_value());
    return *v;
  }

 private:
  void set_validity(const Cells& cells) {
    buffers_.emplace_back(cells.size() / 8 + 1);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i]) {
        buffers_[0][i / 8] |= static_cast<uint8_t>(1 << (i % 8));
      } else {
        ++nulls_;
      }
    }
  }
  void fill_bytes(const Cells& cells) {
    std::vector<uint8_t> offsets, data;
    const auto put = [this, &offsets](int64_t at) {
      const size_t n = field_.wide_offsets ? 8 : 4;
      const auto* p = reinterpret_cast<const uint8_t*>(&at);
      offsets.insert(offsets.end(), p, p + n);
    };
    for (const Cell& c : cells) {
      const std::string s = c.value_or("");
      if (field_.is_view) {
        uint8_t view[16] = {};
        const auto n = static_cast<int32_t>(s.size());
        std::memcpy(view, &n, 4);
        if (n <= 12) {
          std::memcpy(view + 4, s.data(), s.size());
        } else {
          const auto at = static_cast<int32_t>(data.size());
          std::memcpy(view + 4, s.data(), 4);
          std::memcpy(view + 12, &at, 4);
          data.insert(data.end(), s.begin(), s.end());
        }
        offsets.insert(offsets.end(), view, view + 16);
        continue;
      }
      put(static_cast<int64_t>(data.size()));
      data.insert(data.end(), s.begin(), s.end());
    }
    if (!field_.is_view) put(static_cast<int64_t>(data.size()));
    data.push_back(0);
    buffers_.push_back(std::move(offsets));
    buffers_.push_back(std::move(data));
  }
  void finish(int64_t length, int64_t offset) {
    for (const auto& b : buffers_) pointers_.push_back(b.data());
    array_.length = length;
    array_.offset = offset;
    array_.null_count = nulls_ == 0 ? 0 : -1;
    array_.n_buffers = static_cast<int64_t>(pointers_.size());
    array_.buffers = pointers_.data();
    array_.n_children = static_cast<int64_t>(child_arrays_.size());
    array_.children = child_arrays_.data();
  }

  Field field_;
  ArrowArray array_{};
  int64_t nulls_ = 0;
  std::vector<std::vector<uint8_t>> buffers_;
  std::vector<const void*> pointers_;
  std::vector<std::unique_ptr<TestArray>> children_;
  std::vector<ArrowArray*> child_arrays_;
  std::unique_ptr<TestArray> dictionary_;
};

// A batch of columns, each with its own offset, below a new root.
inline std::unique_ptr<TestArray> batch(
    std::vector<std::unique_ptr<TestArray>> columns, size_t rows) {
  return TestArray::structure("", std::move(columns),
                              static_cast<int64_t>(rows));
}

inline std::string key_hex(ByteSpan bytes) {
  std::string out;
  for (const uint8_t b : bytes) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

}  // namespace nimble::testing
