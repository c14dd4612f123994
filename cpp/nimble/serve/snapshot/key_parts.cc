#include "nimble/serve/snapshot/key_parts.h"

namespace nimble {

bool split_key(std::string_view text,
               std::vector<std::optional<std::string>>* parts) {
  parts->clear();
  std::string part;
  bool is_null = false;
  for (size_t i = 0;; ++i) {
    if (i == text.size() || text[i] == ':') {
      if (is_null) {
        parts->emplace_back(std::nullopt);
      } else {
        parts->emplace_back(part);
      }
      if (i == text.size()) return true;
      part.clear();
      is_null = false;
      continue;
    }
    if (is_null) return false;
    if (text[i] != '\\') {
      part.push_back(text[i]);
      continue;
    }
    if (++i == text.size()) return false;
    if (text[i] == 'N' && part.empty()) {
      is_null = true;
    } else if (text[i] == ':' || text[i] == '\\') {
      part.push_back(text[i]);
    } else {
      return false;
    }
  }
}

void append_key_part(std::string_view value, bool is_first, std::string* out) {
  if (!is_first) out->push_back(':');
  for (const char c : value) {
    if (c == ':' || c == '\\') out->push_back('\\');
    out->push_back(c);
  }
}

}  // namespace nimble
