// verify_file: reads and checks everything: all checksums, all values, and
// that indexes say of the rows what the rows say themselves.
#pragma once

#include "nimble/reader/file_reader.h"

namespace nimble {

// kCorrupt names the place and what was expected there.
Status verify_file(const FileReader& file);

}  // namespace nimble
