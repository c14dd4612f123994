// Keys as text: the values of the key columns joined by ':'. In a value, "\:"
// stands for ':' and "\\" for '\'. The whole value "\N" is null.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimble {

// Splits a key. Returns false if it has an unknown escape, or a '\' at the end.
bool split_key(std::string_view text,
               std::vector<std::optional<std::string>>* parts);
// Appends a value to a key. `is_first` says whether it is the key's first
// value.
void append_key_part(std::string_view value, bool is_first, std::string* out);

}  // namespace nimble
