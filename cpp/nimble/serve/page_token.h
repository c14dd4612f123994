// PageToken: the position after a page of an ordered read. Clients get it as
// opaque text, and cannot make or change one without the server's secret.
#pragma once

#include <string>
#include <string_view>

#include "nimble/base/result.h"

namespace nimble {

struct PageToken {
  uint64_t request = 0;   // hash of the table and the bounds
  uint64_t snapshot = 0;  // of the page before
  // Number of rows with `key` that were returned, up to the last row.
  uint64_t rows_of_key = 0;
  std::string key;  // text of the last row's cluster key

  // Returns the token as base64url, with a MAC.
  std::string seal(std::string_view secret) const;
  // Fails with kInvalidArgument unless seal() made the text with this secret.
  static Result<PageToken> open(std::string_view text, std::string_view secret);
};

}  // namespace nimble
